//! The worker itself: what each event does to it, in the order a task lives. What is true stands in rooms with private
//! state, which assert that it holds together: `tasks` what waits and runs, `outbox` what is computed, `link` and
//! `scheduler` whom it works for, `riders` what is to be said.

use starfarm_protocol::devices::{DeviceState, SlotKind};
use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::limits::{PROTOCOL_VERSION, RESULT_BODY_BYTES_MAX};
use starfarm_protocol::resources::{GPUS_MAX, Resource, Resources};
use starfarm_protocol::wire::{
    Cancel, Card, CardFigures, Heartbeat, HeartbeatAnswer, Held, Message, Needs, Outcome, Pace, Packer,
    Ranges, Revoke, Welcome, messages,
};

use crate::drain::Drain;
use crate::held;
use crate::leave::{Leave, Why};
use crate::link::Link;
use crate::outbox::{Kept, Outbox};
use crate::riders::Riders;
use crate::scheduler::Scheduler;
use crate::tasks::{Started, Tasks};
use crate::types::{Config, Counters, Deed, Part, Task};

/// What a datagram says of the messages behind that.
#[derive(Default)]
struct Before {
    /// What runs of a job take.
    needs: Option<Needs>,
    /// Which slots the next offers are for.
    kind: SlotKind,
}

/// One computing node. `now_us` never goes backwards.
#[derive(Clone, Debug)]
pub struct Worker {
    pub(crate) config: Config,
    pub(crate) scheduler: Scheduler,
    pub(crate) link: Link,
    pub(crate) tasks: Tasks,
    pub(crate) outbox: Outbox,
    pub(crate) riders: Riders,
    /// How many devices of each kind could be used, and how busy each was, as was said last.
    pub(crate) said: (Vec<u16>, Vec<u16>),
    pub(crate) leave: Leave,
    pub(crate) drain: Option<Drain>,
    pub(crate) counters: Counters,
    /// How cards do, as the rim said last.
    cards: Vec<Card>,
}

impl Worker {
    /// A worker that holds nothing and wants a handshake at once.
    pub fn new(config: Config, now_us: u64) -> Self {
        Self {
            scheduler: Scheduler::new(config.farm, config.known),
            link: Link::new(config.heartbeat_us, config.seed, now_us),
            tasks: Tasks::new(config.has(), &config.devices, now_us),
            outbox: Outbox::new(),
            riders: Riders::new(1 + config.devices.len()),
            said: Default::default(),
            leave: Leave::new(config.limits, now_us),
            drain: None,
            counters: Counters::default(),
            cards: Vec::new(),
            config,
        }
    }

    /// A session is up, the first or a new one beside a silent one. The hello leaves at once, then a
    /// heartbeat; everything unacknowledged is sent anew after the welcome.
    pub fn on_session(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        self.link.on_session(now_us);
        self.on_tick(now_us, deeds);
    }

    /// Somebody who need not be the scheduler says that it does not know the present session: a handshake is
    /// due now, if none came of such a hint within the last second. The session goes on meanwhile.
    pub fn on_no_session(&mut self, now_us: u64) {
        self.link.on_no_session(now_us);
    }

    /// One opened datagram, and the scheduler's incarnation that the session it came by was made with. What
    /// breaks the rules is counted and dropped, and so is everything of an incarnation that is not the one
    /// believed, but for its welcome.
    pub fn on_datagram(&mut self, plain: &[u8], epoch: Epoch, now_us: u64, deeds: &mut Vec<Deed>) {
        let (mut heard, mut before) = (false, Before::default());
        for message in messages(plain) {
            match message {
                Ok(Message::Welcome(welcome)) => heard |= self.on_welcome(&welcome, now_us, deeds),
                Ok(_) if self.scheduler.is_older(epoch) => self.counters.older_epochs += 1,
                Ok(message) => {
                    heard = true;
                    self.on_message(message, &mut before, epoch, now_us, deeds);
                }
                Err(_) => self.counters.malformed += 1,
            }
        }
        if heard {
            self.link.on_heard(now_us);
        }
        self.settle(now_us, deeds);
    }

    /// `before`: what was said in the same datagram of the messages behind it.
    fn on_message(
        &mut self,
        message: Message<'_>,
        before: &mut Before,
        epoch: Epoch,
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        // Before the welcome it is not known whose words these are: another start may have the same number.
        let believed = epoch == self.scheduler.epoch() && self.link.is_welcomed();
        match message {
            Message::Offers(offers) => {
                let kind = std::mem::take(&mut before.kind);
                for offer in offers {
                    match offer {
                        // They come again.
                        Ok(_) if !believed => self.counters.refused_offers += 1,
                        Ok(offer) => {
                            let needs = before.needs.filter(|needs| needs.job == offer.job);
                            let run = needs.map_or(Resources::ONE_SLOT, |needs| needs.run);
                            self.on_offer(offer, (run, kind), now_us);
                        }
                        Err(_) => self.counters.malformed += 1,
                    }
                }
            }
            Message::ResultAck(credit, ranges) if believed => self.on_result_ack(credit, ranges, now_us),
            Message::HeartbeatAnswer(answer) if believed => self.on_heartbeat_answer(&answer, now_us),
            Message::Revoke(revoke) if believed => self.on_revoke(&revoke, now_us, deeds),
            Message::Needs(said) => before.needs = Some(said),
            Message::SlotKind(said) => before.kind = said,
            Message::Pace(pace) if believed => self.link.pace = pace,
            Message::Doorbell(bell) if believed => self.link.newest_orders = bell.newest,
            Message::ResultAck(..)
            | Message::HeartbeatAnswer(_)
            | Message::Revoke(_)
            | Message::Pace(_)
            | Message::Doorbell(_) => {}
            // Words of a worker, which a scheduler has no business saying. Welcomes are taken before.
            Message::Hello(_)
            | Message::TaskAck(_)
            | Message::Results(_)
            | Message::Feedback(_)
            | Message::Heartbeat(_)
            | Message::Bye
            | Message::Facts(_)
            | Message::Load(_)
            | Message::Ages(_)
            | Message::Able(_)
            | Message::TimeLeft(_)
            | Message::Has(_)
            | Message::Devices(_)
            | Message::Card(_)
            | Message::Welcome(_) => self.counters.malformed += 1,
        }
    }

    /// True where the welcome is one to believe.
    fn on_welcome(&mut self, welcome: &Welcome, now_us: u64, deeds: &mut Vec<Deed>) -> bool {
        if let Err(words) = self.scheduler.judge(welcome) {
            self.counters.older_epochs += 1;
            deeds.extend(words.map(Deed::Say));
            // What is late from a session before the present one ends no trust in the present one.
            if !self.link.is_welcomed() {
                self.link.on_refused(now_us);
            }
            return false;
        }
        if welcome.version != PROTOCOL_VERSION {
            deeds.push(Deed::Refused(format!(
                "the scheduler speaks version {} of the protocol, this worker version {PROTOCOL_VERSION}; \
                 install the same release of starfarm on both",
                welcome.version
            )));
            return true;
        }
        // What comes late, after the session was given up, could not be answered. The next session brings another one.
        if !self.link.has_session() {
            return false;
        }
        let renewed = welcome.epoch != self.scheduler.epoch();
        if renewed {
            // Another incarnation numbers its attempts anew, and may name no pace.
            self.link.pace = Pace::DEFAULT;
            self.link.newest_orders = 0;
            deeds.extend(self.scheduler.believe(welcome).map(Deed::Remember));
            self.riders.forget_attempts();
        }
        self.outbox.set_credit(welcome.credit);
        if self.link.on_welcome(welcome.heartbeat_ms, now_us) || renewed {
            self.outbox.rewind();
            self.riders.tell_facts_soon(now_us);
        }
        true
    }

    fn on_offer(&mut self, task: Task, (run, kind): (Resources, SlotKind), now_us: u64) {
        let has_kind = self.tasks.has_kind(kind);
        let full = has_kind && self.tasks.queue(kind).len() >= self.config.queue_tasks_max as usize;
        if full && !self.riders.has_heard(task.attempt) {
            self.counters.refused_offers += 1;
        } else if !self.riders.hear(task.attempt, now_us) {
            self.counters.repeated_offers += 1;
        } else if self.drain.is_some() && !self.tasks.has(&task) {
            self.return_unrun(task, now_us);
        } else if !has_kind {
            // It was for the devices of an incarnation before.
            self.return_unrun(task, now_us);
        } else if let Some(why) = self.tasks.slots().why_never(run).filter(|_| !kind.is_device()) {
            // The scheduler thought that there is more here.
            self.leave_unrun(task, Outcome::Refused, why.into_bytes(), now_us);
        } else if self.tasks.take(task, (run, kind), self.scheduler.epoch()) {
            self.riders.asks(kind).fed();
        } else {
            // The scheduler thought it lost and gives it out anew: it is the same work. What was computed
            // and is not acknowledged yet is another matter, for the unit may have failed and be retried.
            self.counters.repeated_offers += 1;
        }
    }

    fn on_revoke(&mut self, revoke: &Revoke, now_us: u64, deeds: &mut Vec<Deed>) {
        let &Revoke { job, cancel, before } = revoke;
        let current = self.scheduler.epoch();
        // Numbers of another epoch say nothing; such tasks are older than any revocation of this one.
        let gone = |its_job: JobId, attempt: Attempt, epoch: Epoch| {
            its_job == job && (epoch != current || attempt < before)
        };
        self.withdraw(cancel, gone, now_us, deeds);
    }

    /// What waits is reported as returned, what runs is let go of.
    fn withdraw(
        &mut self,
        cancel: Cancel,
        gone: impl Fn(JobId, Attempt, Epoch) -> bool,
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        self.tasks.take_back(&gone).into_iter().for_each(|task| self.return_unrun(task, now_us));
        let told = self.tasks.let_go(cancel, gone).into_iter();
        deeds.extend(told.map(|(slot, job)| Deed::Cancel { slot, job, how: cancel }));
    }

    fn return_unrun(&mut self, task: Task, now_us: u64) {
        self.leave_unrun(task, Outcome::Returned, Vec::new(), now_us);
    }

    fn leave_unrun(&mut self, task: Task, outcome: Outcome, body: Vec<u8>, now_us: u64) {
        let (Task { job, spec, attempt, lo, units }, duration_us) = (task, 0);
        let part = Part { job, spec, attempt, lo, units, duration_us, outcome, body };
        self.outbox.push(Kept { part, ended_us: Some(now_us) });
    }

    fn on_result_ack(&mut self, credit: u16, ranges: Ranges<'_>, now_us: u64) {
        self.outbox.set_credit(credit);
        for (first, last) in ranges {
            self.outbox.acknowledge(first, last, now_us);
        }
    }

    fn on_heartbeat_answer(&mut self, answer: &HeartbeatAnswer, now_us: u64) {
        if self.scheduler.is_older(answer.epoch) {
            self.counters.older_epochs += 1;
            return;
        }
        self.outbox.set_credit(answer.credit);
        if self.link.is_welcomed() && answer.epoch != self.scheduler.epoch() {
            self.link.unwelcome(now_us);
        }
    }

    /// Some units of a running task are done. The result leaves at one of the next ticks.
    pub fn on_part(&mut self, slot: u16, part: Part, now_us: u64, _deeds: &mut Vec<Deed>) {
        if part.body.len() <= RESULT_BODY_BYTES_MAX && self.tasks.advance(slot, &part) {
            self.outbox.push(Kept { part, ended_us: Some(now_us) });
        } else {
            self.counters.stray_parts += 1;
        }
    }

    /// A task left its slot. What no part reported goes back.
    pub fn on_task_end(&mut self, slot: u16, attempt: Attempt, now_us: u64, deeds: &mut Vec<Deed>) {
        let Some(ended) = self.tasks.end(slot, attempt, now_us) else {
            self.counters.stray_parts += 1;
            return;
        };
        if ended.rest() > 0 {
            self.return_unrun(Task { lo: ended.next, units: ended.rest(), ..ended.task }, now_us);
        }
        self.settle(now_us, deeds);
    }

    /// How often it became possible again to fetch specifications: jobs that were refused for want of them can be run
    /// now, and heartbeats say so.
    pub fn on_bulk_opened(&mut self, times: u32) {
        self.riders.able_again(times);
    }

    /// No slot runs a unit but those that [`Worker::on_running`] names next.
    pub fn on_none_running(&mut self) {
        self.tasks.slots_mut().unname_units();
    }

    /// A slot begins a unit; heartbeats name it, so that a unit which kills its worker can be blamed.
    pub fn on_running(&mut self, slot: u16, job: JobId, unit: u128) {
        self.tasks.slots_mut().name_unit(slot, job, unit);
    }

    /// How the cards of the machine do.
    pub fn on_cards(&mut self, cards: Vec<CardFigures>) {
        let count = cards.len().min(GPUS_MAX as usize) as u16;
        self.cards = (0..count).zip(cards).map(|(number, figures)| Card { number, count, figures }).collect();
    }

    /// The device of a slot does otherwise than before: the driver compiles for it, it failed, it can be used again.
    pub fn on_device(&mut self, slot: u16, state: DeviceState, now_us: u64, deeds: &mut Vec<Deed>) {
        self.tasks.slots_mut().set_device(slot, state);
        self.settle(now_us, deeds);
    }

    /// The person or the operating system asks us to leave: what waits goes back, what runs stops at the
    /// end of its unit, and [`Deed::Drained`] follows once the results are acknowledged, or a few seconds
    /// after the last unit's end if they are not.
    pub fn drain(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        if self.drain.is_some() {
            return;
        }
        self.drain = Some(Drain::default());
        self.withdraw(Cancel::Graceful, |_, _, _| true, now_us, deeds);
        self.link.beat_soon(now_us);
        self.on_tick(now_us, deeds);
    }

    /// Leaves by itself, where it is time: what waits goes back first, later what still runs is ended, and at the deadline
    /// it goes whatever is left.
    fn leave(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        self.note_idle(now_us);
        if self.drain.is_none()
            && let Some(why) = self.leave.drains(now_us)
        {
            deeds.push(Deed::Say(match why {
                Why::Deadline => {
                    "draining: the deadline is near; what waits goes back, running units may end".to_owned()
                }
                Why::Idle => "draining: there was nothing to run for as long as --idle-exit says".to_owned(),
            }));
            self.drain(now_us, deeds);
        }
        if self.drain.is_some() && self.leave.ends(now_us) {
            self.withdraw(Cancel::Forced, |_, _, _| true, now_us, deeds);
        }
    }

    fn note_idle(&mut self, now_us: u64) {
        self.leave.look(self.tasks.is_idle() && self.outbox.is_empty(), now_us);
    }

    /// Does what is due. Call it when [`Worker::next_deadline`] is not after `now_us`.
    pub fn on_tick(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        self.leave(now_us, deeds);
        if self.link.handshake_due(now_us) {
            self.counters.handshakes += 1;
            deeds.push(Deed::Handshake);
        }
        if self.link.has_session() {
            self.send_due(now_us, deeds);
        }
        self.finish_drain(now_us, deeds);
        assert!(self.next_deadline() > now_us, "a tick does all that is due, or the rim turns for ever");
    }

    /// After an event: idle slots start what waits, and the queues' lengths are judged.
    fn settle(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        while let Some(Started { slot, tasks, cards }) = self.tasks.start(now_us) {
            assert!(!tasks.is_empty(), "a slot is started for a task");
            deeds.push(Deed::Start { slot, tasks, cards });
        }
        // What waits for devices of which none can be used: others have it sooner.
        self.tasks.take_stranded().into_iter().for_each(|task| self.return_unrun(task, now_us));
        self.weigh_queues(now_us);
        self.note_idle(now_us);
    }

    /// What is due leaves, and with it all that rides on datagrams. The totals of the feedback go with each
    /// heartbeat, so that a lost one does no harm.
    fn send_due(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        let mut packer = Packer::new();
        if self.link.is_welcomed() {
            self.outbox.send(now_us, &mut packer);
        }
        if self.link.hello_due(now_us) {
            packer.hello(&self.config.hello(self.tasks.slots().cores(), self.scheduler.known()));
            packer.has(&self.config.has().with(Resource::Slots, 0));
        }
        let beat = self.link.heartbeat_due(now_us, self.tasks.is_idle());
        if beat {
            self.weigh_queues(now_us);
        }
        if beat || self.riders.deadline() <= now_us || !packer.is_empty() {
            self.riders.pack(&mut packer, beat);
        }
        let load = beat.then(|| {
            let (load, of_devices) = self.tasks.slots_mut().load(now_us);
            self.said.1 = of_devices;
            load
        });
        let usable = self.tasks.usable();
        if beat || !packer.is_empty() && self.said.0 != usable {
            let said =
                self.tasks.devices(&self.config.devices, &self.said.1, |kind| self.riders.feedback(kind));
            said.iter().for_each(|devices| packer.devices(devices));
            self.said.0 = usable;
        }
        if let Some(load) = load.filter(|_| self.link.is_welcomed()) {
            packer.load(&load);
            self.cards.iter().for_each(|card| packer.card(card));
            self.riders.pack_machine(self.config.facts.as_ref(), &mut packer, now_us);
        }
        if beat {
            let left = self.leave.time_left(self.drain.is_some(), now_us);
            left.iter().for_each(|left| packer.time_left(left));
            let by_devices: Vec<_> = self.tasks.kinds().map(|kind| (kind, self.held_by(kind))).collect();
            packer.heartbeat_of(&self.heartbeat(), &by_devices);
        }
        deeds.extend(packer.finish().into_iter().map(Deed::Send));
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            number: self.link.number,
            queued_tasks: self.tasks.queue(SlotKind::CORES).len() as u32,
            draining: self.drain.is_some(),
            running: self.tasks.slots().running_units().collect(),
            held: self.held(),
            ..Heartbeat::default()
        }
    }

    /// What devices of a kind hold, neighbours joined: waiting, or running and not reported.
    pub fn held_by(&self, kind: SlotKind) -> Vec<Held> {
        held::join(self.tasks.held(kind).collect())
    }

    /// What the cores hold, neighbours joined, and all that is computed and not acknowledged.
    pub fn held(&self) -> Vec<Held> {
        let computed = self.outbox.iter().map(|kept| &kept.part);
        let computed = computed.filter(|part| part.outcome != Outcome::Returned);
        let computed = computed.map(|part| Held { job: part.job, lo: part.lo, units: part.units });
        held::join(self.tasks.held(SlotKind::CORES).chain(computed).collect())
    }

    fn weigh_queues(&mut self, now_us: u64) {
        if self.drain.is_none() && self.link.is_welcomed() {
            for kind in std::iter::once(SlotKind::CORES).chain(self.tasks.kinds()) {
                let (queue, slots) = (self.tasks.queue(kind), self.tasks.slots().usable(kind));
                self.riders.asks(kind).weigh(queue, self.config.queue_tasks_max, slots, now_us);
            }
        }
    }

    fn finish_drain(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        let (idle, acknowledged) = (self.tasks.slots().all_idle(), self.outbox.is_empty());
        let late = self.leave.is_over(now_us);
        let is_over = |drain: &mut Drain| (idle || late) && drain.is_over(acknowledged, late, now_us);
        if !self.drain.as_mut().is_some_and(is_over) {
            return;
        }
        if self.link.has_session() {
            let mut packer = Packer::new();
            self.riders.pack(&mut packer, false);
            packer.bye();
            deeds.extend(packer.finish().into_iter().map(Deed::Send));
        }
        deeds.push(Deed::Drained);
    }

    /// When [`Worker::on_tick`] has something to do, in the clock of `now_us`; it may lie in the past.
    pub fn next_deadline(&self) -> u64 {
        let mut at = self.link.deadline();
        if self.link.has_session() {
            at = at.min(self.riders.deadline());
        }
        if self.link.is_welcomed() {
            at = at.min(self.outbox.deadline());
        }
        if self.drain.is_none_or(|drain| !drain.is_done()) {
            at = at.min(self.leave.next_us(self.drain.is_some()).unwrap_or(u64::MAX));
        }
        let drain = self.drain.filter(|_| self.tasks.slots().all_idle());
        drain.and_then(|drain| drain.deadline(self.outbox.is_empty())).map_or(at, |end| at.min(end))
    }
}
