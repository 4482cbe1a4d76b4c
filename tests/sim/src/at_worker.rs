//! A worker's end: what reaches it, what its core wants done, what its slots report.

use starfarm_protocol::devices::DeviceState;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::wire::{Heartbeat, Held, Message, Outcome, Packer, messages};
use starfarm_worker_core::{Deed, Task};

use crate::agenda::{MachineId, Parcel, Session, What};
use crate::machine::Process;
use crate::network::Way;
use crate::plan::us;
use crate::random::Chance;
use crate::sim::{SPINS_MAX, Sim};
use crate::slot::{Report, Slot, Surroundings};
use crate::violation::{Broken, rule};
use crate::wicked;

impl Sim {
    /// Keeps an event of a paused worker for later. True where it is not to happen now.
    fn held_up(&mut self, machine: MachineId, what: What) -> bool {
        let m = &mut self.machines[machine as usize];
        if m.process == Process::Paused {
            m.late.push(what);
        }
        m.process != Process::Up
    }

    pub(crate) fn deliver(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        if m.process == Process::Paused {
            if m.late_datagrams < u32::from(m.group.receive_datagrams) {
                m.late_datagrams += 1;
                m.late.push(What::Deliver(machine, parcel));
            } else {
                self.agenda.take(parcel);
                self.tally.overflowed[1] += 1;
            }
            return Ok(());
        }
        let letter = self.agenda.take(parcel);
        let m = &mut self.machines[machine as usize];
        let session = m.sessions.iter().find(|(session, _)| *session == letter.session);
        let Some(&(_, epoch)) = session.filter(|_| m.process == Process::Up) else { return Ok(()) };
        // What an older scheduler says must have no effect.
        let counts = epoch >= m.known.epoch;
        self.tally.arrived += 1;
        let clock_us = m.clock_us(self.now_us);
        let Some(bytes) = self.opened(machine, Way::Up, letter.session, letter.bytes, clock_us) else {
            return Ok(());
        };
        let m = &mut self.machines[machine as usize];
        let mut deeds = std::mem::take(&mut self.deeds);
        let welcomed = m.worker.is_welcomed();
        let unacknowledged = m.worker.unacknowledged_results();
        m.worker.on_datagram(&bytes, epoch, clock_us, &mut deeds);
        let renewed = !welcomed && m.worker.is_welcomed();
        if counts {
            self.wiretap.on_worker_hears(machine, &bytes, renewed);
        } else {
            let left = m.worker.unacknowledged_results();
            rule(
                left == unacknowledged && deeds_are_harmless(&deeds),
                "an older scheduler has no say",
                || format!("node {machine}: {unacknowledged} results, then {left}; {deeds:?}"),
            )?;
        }
        let queued = m.worker.queued_tasks();
        rule(queued <= m.group.queue_tasks_max as usize, "a worker's queue is bounded", || {
            format!("node {machine}: {queued} tasks")
        })?;
        self.settle(machine, deeds)
    }

    /// A response to a handshake, as `Sessions::hear_response` of the worker takes it: it sends with the new session at
    /// once. The scheduler goes on with the one before until the first datagram of this one opens there.
    pub(crate) fn session(&mut self, machine: MachineId, session: Session) -> Result<(), Broken> {
        let m = &self.machines[machine as usize];
        if m.life != session.life || self.held_up(machine, What::Session(machine, session)) {
            return Ok(());
        }
        if self.scenario.farm.turn_us == 0 {
            self.at_seat(session.incarnation, |sim| sim.session_at_once(machine, session))?;
        } else if session.number <= self.machines[machine as usize].answered {
            return Ok(());
        }
        let mut deeds = std::mem::take(&mut self.deeds);
        let m = &mut self.machines[machine as usize];
        m.has_session(session, self.epochs[session.incarnation.0 as usize], self.shaken);
        self.paths.session(machine);
        let m = &mut self.machines[machine as usize];
        m.worker.on_session(m.clock_us(self.now_us), &mut deeds);
        self.settle(machine, deeds)
    }

    /// Somebody who need not be the scheduler does not know the session.
    pub(crate) fn hint(&mut self, machine: MachineId, about: Session) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        let doubted = m.sessions.last().is_some_and(|(session, _)| *session == about);
        if !doubted || m.process != Process::Up {
            return Ok(());
        }
        m.worker.on_no_session(m.clock_us(self.now_us));
        self.settle(machine, Vec::new())
    }

    pub(crate) fn worker_tick(&mut self, machine: MachineId) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        if m.tick_us > self.now_us && m.process == Process::Up {
            return Ok(());
        }
        if self.held_up(machine, What::WorkerTick(machine)) {
            return Ok(());
        }
        let m = &mut self.machines[machine as usize];
        m.tick_us = u64::MAX;
        let deeds = std::mem::take(&mut self.deeds);
        self.settle(machine, deeds)
    }

    pub(crate) fn step(&mut self, machine: MachineId, slot: u16, step: u32) -> Result<(), Broken> {
        if self.held_up(machine, What::Step(machine, slot, step)) {
            return Ok(());
        }
        if self.machines[machine as usize].slots[usize::from(slot)].step != step {
            return Ok(());
        }
        let mut deeds = std::mem::take(&mut self.deeds);
        let died =
            self.on_slot(machine, slot, &mut deeds, |slot, around, out| slot.step_ends(around, out))?;
        if died {
            deeds.clear();
            self.deeds = deeds;
            self.crash(machine, Some(POISONED_US));
            return Ok(());
        }
        self.settle(machine, deeds)
    }

    /// Ends a batch of events at a worker: does what its core wants until it wants nothing more.
    pub(crate) fn settle(&mut self, machine: MachineId, mut deeds: Vec<Deed>) -> Result<(), Broken> {
        let mut todo = Vec::new();
        let m = &mut self.machines[machine as usize];
        if m.deadline_us() <= self.now_us {
            m.worker.on_tick(m.clock_us(self.now_us), &mut deeds);
        }
        while !deeds.is_empty() {
            std::mem::swap(&mut todo, &mut deeds);
            for deed in todo.drain(..) {
                self.perform(machine, deed, &mut deeds)?;
            }
            let m = &mut self.machines[machine as usize];
            if m.process != Process::Up {
                break;
            }
            if m.deadline_us() <= self.now_us {
                m.worker.on_tick(m.clock_us(self.now_us), &mut deeds);
            }
        }
        deeds.clear();
        self.deeds = deeds;
        let m = &mut self.machines[machine as usize];
        if m.process != Process::Up {
            return Ok(());
        }
        let wanted_us = m.deadline_us();
        m.spins = if wanted_us <= self.now_us { m.spins + 1 } else { 0 };
        rule(m.spins < SPINS_MAX, "a worker does not spin", || format!("node {machine}"))?;
        let at_us = wanted_us.max(self.now_us + 1);
        if at_us < m.tick_us {
            m.tick_us = at_us;
            self.agenda.at(at_us, What::WorkerTick(machine));
        }
        Ok(())
    }

    fn perform(&mut self, machine: MachineId, deed: Deed, deeds: &mut Vec<Deed>) -> Result<(), Broken> {
        match deed {
            Deed::Send(bytes) => {
                self.wiretap.on_worker_sends(machine, &bytes, &self.jobs)?;
                let m = &self.machines[machine as usize];
                if let Some(&(session, _)) = m.sessions.last() {
                    let (beats, mut more) = (has_heartbeat(&bytes), Vec::new());
                    if beats && m.group.names_unknown_jobs {
                        more = unknown_jobs(self.now_us);
                    } else if beats && m.group.reports_others {
                        more = wicked::of_others(
                            (machine, &mut self.wiretap),
                            &self.jobs,
                            self.now_us,
                            &mut self.fate,
                        );
                    }
                    for bytes in std::iter::once(bytes).chain(more) {
                        self.send(machine, Way::Up, session, bytes);
                    }
                }
            }
            Deed::Start { slot, tasks, cards } => self.start(machine, slot, (tasks, cards), deeds)?,
            Deed::Cancel { slot, job, how } => {
                self.on_slot(machine, slot, deeds, |s, around, out| s.let_go(job, how, around, out))?;
            }
            Deed::Handshake => self.shake_hands(machine),
            Deed::Remember(known) => self.machines[machine as usize].known = known,
            Deed::Say(words) => {
                let leaves = self.machines[machine as usize].group.deadline_s.is_some();
                rule(leaves || self.plan.needs_disk, "one scheduler is known to all", || words)?;
            }
            Deed::Refused(why) => return Err(("the scheduler works with its workers", why)),
            Deed::Drained => self.left(machine),
        }
        Ok(())
    }

    fn start(
        &mut self,
        machine: MachineId,
        slot: u16,
        (tasks, cards): (Vec<Task>, Vec<u16>),
        deeds: &mut Vec<Deed>,
    ) -> Result<(), Broken> {
        for task in &tasks {
            self.wiretap.on_start(machine, task.attempt.0)?;
        }
        rule(
            self.machines[machine as usize].slots[usize::from(slot)].unit().is_none(),
            "a slot starts when it is idle",
            || format!("slot {slot} of node {machine}"),
        )?;
        let m = &self.machines[machine as usize];
        let needs = |id: JobId| self.jobs[id.0 as usize - 1].needs();
        let running = (0..).zip(&m.slots).filter_map(|(at, slot)| Some((at, slot.unit()?.0)));
        let running = running.map(|(at, job)| m.takes(at, needs(job)));
        let taken = running.fold(m.takes(slot, needs(tasks[0].job)), Resources::plus);
        let gpus = u64::from(m.group.gpus) * GPU_PARTS;
        let has = Resources::new(m.group.slots, m.group.memory).with(Resource::Gpus, gpus);
        rule(has.fits(taken), "what runs at one time fits into its machine", || {
            format!("{taken:?} of {has:?} of node {machine}")
        })?;
        let m = &mut self.machines[machine as usize];
        let own = m.card_of(slot);
        m.cards.insert(slot, own.map_or(cards, |card| vec![card]));
        for card in 0..m.group.gpus {
            let has = |slot: u16| m.cards.get(&slot).is_some_and(|cards| cards.contains(&card));
            let job = |at: usize| {
                if at == usize::from(slot) { Some(tasks[0].job) } else { Some(m.slots[at].unit()?.0) }
            };
            let on_it = (0..m.slots.len()).filter(|at| has(*at as u16)).filter_map(|at| Some((at, job(at)?)));
            let parts =
                |(at, job): (usize, JobId)| m.takes(at as u16, needs(job)).of(Resource::Gpus).min(GPU_PARTS);
            let parts: u64 = on_it.map(parts).sum();
            rule(parts <= GPU_PARTS, "a card is given as often as it can be", || {
                format!("card {card} of node {machine}")
            })?;
        }
        if let Some(device) = m.group.device(slot).cloned()
            && m.random.happens(Chance::new(device.fails))
        {
            let (sick_us, now_us, life) = (us(device.sick_s), m.clock_us(self.now_us), m.life);
            m.worker.on_device(slot, DeviceState::Sick, now_us, deeds);
            tasks.iter().for_each(|task| m.worker.on_task_end(slot, task.attempt, now_us, deeds));
            self.agenda.at(self.now_us + sick_us, What::DeviceBack(machine, life, slot));
            return Ok(());
        }
        self.on_slot(machine, slot, deeds, |slot, around, out| slot.start(tasks, around, out)).map(|_| ())
    }

    /// A device that was sick is tried again.
    pub(crate) fn device_back(&mut self, machine: MachineId, life: u32, slot: u16) -> Result<(), Broken> {
        if self.held_up(machine, What::DeviceBack(machine, life, slot)) {
            return Ok(());
        }
        let mut deeds = std::mem::take(&mut self.deeds);
        let m = &mut self.machines[machine as usize];
        if m.life == life {
            m.worker.on_device(slot, DeviceState::Ready, m.clock_us(self.now_us), &mut deeds);
        }
        self.settle(machine, deeds)
    }

    /// Something happens to a slot: its reports go to the worker. True where the worker died of it.
    fn on_slot(
        &mut self,
        machine: MachineId,
        slot: u16,
        deeds: &mut Vec<Deed>,
        act: impl FnOnce(&mut Slot, &mut Surroundings<'_>, &mut Vec<Report>),
    ) -> Result<bool, Broken> {
        let m = &mut self.machines[machine as usize];
        let ours = &mut m.slots[usize::from(slot)];
        let before = ours.step;
        let mut reports = std::mem::take(&mut self.reports);
        let mut around = Surroundings {
            now_us: self.now_us,
            jobs: &mut self.jobs,
            random: &mut m.random,
            speed: m.speed * m.group.device(slot).map_or(1.0, |device| device.speed),
            noise: m.group.noise,
            sick: m.group.sick,
            gives_back: m.group.gives_back,
            no_room_every: m.group.no_room_every,
            refuses: if m.able { &[] } else { &m.group.refuses },
        };
        act(ours, &mut around, &mut reports);
        let (step, due_us) = (ours.step, ours.due_us());
        if step != before
            && let Some(due_us) = due_us
        {
            self.agenda.at(due_us, What::Step(machine, slot, step));
        }
        let mut died = false;
        for report in reports.drain(..) {
            match report {
                Report::Running(job, unit) => m.worker.on_running(slot, job, unit),
                Report::Part(mut part) => {
                    let job = &self.jobs[part.job.0 as usize - 1];
                    wicked::twist(&mut part, &m.group, job, &mut m.random);
                    if m.group.lies_of_speed {
                        part.duration_us = part.duration_us.min(1);
                    }
                    self.tally.refusals += u64::from(part.outcome == Outcome::Refused);
                    m.worker.on_part(slot, part, self.now_us + m.ahead_us, deeds);
                }
                Report::End(attempt) => m.worker.on_task_end(slot, attempt, self.now_us + m.ahead_us, deeds),
                Report::Whole(lasted) => {
                    if let Some(law) = &self.scenario.law {
                        let fresh = self.wiretap.is_fresh(lasted.attempt.0);
                        let job = &self.jobs[lasted.job.0 as usize - 1];
                        self.tally.sizes.add(law, &lasted, job, m.booted_us, fresh);
                    }
                }
                Report::Died => died = true,
            }
        }
        self.reports = reports;
        Ok(died)
    }

    /// A handshake takes a datagram each way, and a scheduler that is awake.
    pub(crate) fn shake_hands(&mut self, machine: MachineId) {
        let there = self.network.fate(machine, Way::Up)[0];
        let back = self.network.fate(machine, Way::Down)[0];
        let Some(incarnation) = self.reached(machine) else { return };
        let asleep = incarnation == self.farm.incarnation && self.now_us < self.farm.stalled_until_us;
        if let (Some(there_us), Some(back_us), false) = (there, back, asleep) {
            self.shaken += 1;
            let life = self.machines[machine as usize].life;
            let session = Session { number: self.shaken, life, incarnation };
            if self.scenario.farm.turn_us == 0 {
                self.agenda.at(self.now_us + there_us + back_us, What::Session(machine, session));
            } else {
                self.agenda.at(self.now_us + there_us, What::Knock(machine, session, back_us));
            }
        }
    }

    /// The worker's process dies without a word.
    pub(crate) fn crash(&mut self, machine: MachineId, down_us: Option<u64>) {
        if self.machines[machine as usize].process != Process::Down {
            self.end_process(machine);
            self.wake_in(machine, down_us);
        }
    }

    fn end_process(&mut self, machine: MachineId) {
        let m = &mut self.machines[machine as usize];
        m.die(self.now_us);
        for what in std::mem::take(&mut m.late) {
            if let What::Deliver(_, parcel) = what {
                self.agenda.take(parcel);
            }
        }
    }

    pub(crate) fn wake_in(&mut self, machine: MachineId, after_us: Option<u64>) {
        if let Some(after_us) = after_us {
            let life = self.machines[machine as usize].life;
            self.agenda.at(self.now_us.saturating_add(after_us), What::Wake(machine, life));
        }
    }

    /// The worker has drained: it keeps what nobody acknowledged, and ends.
    fn left(&mut self, machine: MachineId) {
        let m = &mut self.machines[machine as usize];
        m.spool = m.worker.unacknowledged();
        let returns_us = m.returns_us;
        self.end_process(machine);
        self.machines[machine as usize].died_running.clear();
        self.wake_in(machine, returns_us);
    }
}

fn has_heartbeat(bytes: &[u8]) -> bool {
    messages(bytes).any(|message| matches!(message, Ok(Message::Heartbeat(_))))
}

/// A heartbeat that lists a thousand jobs which nobody ever named.
fn unknown_jobs(now_us: u64) -> Vec<Vec<u8>> {
    let held =
        (now_us..now_us + 1_000).map(|job| Held { job: JobId(1_000_000 + job), lo: 0, units: 1 }).collect();
    let mut packer = Packer::new();
    packer.heartbeat(&Heartbeat { held, ..Heartbeat::default() });
    packer.finish()
}

/// Nothing is started, stopped or remembered.
fn deeds_are_harmless(deeds: &[Deed]) -> bool {
    !deeds.iter().any(|deed| matches!(deed, Deed::Start { .. } | Deed::Cancel { .. } | Deed::Remember(_)))
}

/// A worker that a unit killed starts anew after this.
const POISONED_US: u64 = 500_000;
