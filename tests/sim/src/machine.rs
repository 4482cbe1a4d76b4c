//! A simulated machine: one worker with the real core, its slots, and what happens to the process. What the
//! worker wants done is done by the simulation (`at_worker`).

use std::collections::BTreeMap;

use starfarm_protocol::ids::{Boot, Epoch, FarmId, JobId};
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::settings::Settings;
use starfarm_worker_core::{Config, Known, Limits, Worker};

use crate::agenda::{Session, What};
use crate::devices;
use crate::plan::us;
use crate::random::Random;
use crate::scenario::Group;
use crate::slot::Slot;

/// The farm that all machines belong to.
pub(crate) const FARM: FarmId = FarmId([7; 16]);

/// Sessions that a worker can still open datagrams of.
const SESSIONS_KEPT: usize = 3;

/// State of the worker's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Process {
    /// It runs.
    Up,
    /// It is stopped; what comes waits in `late`.
    Paused,
    /// There is none.
    Down,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) group: Group,
    pub(crate) speed: f64,
    pub(crate) random: Random,
    pub(crate) process: Process,
    pub(crate) worker: Worker,
    /// Counts incarnations of the worker.
    pub(crate) life: u32,
    /// The sessions that open, and the epochs of their schedulers. The newest is last: it is the one to send with.
    pub(crate) sessions: Vec<(Session, Epoch)>,
    /// Responses to handshakes up to this one are not waited for any more.
    pub(crate) answered: u32,
    /// It computes slowly until it has booted.
    pub(crate) booting: bool,
    /// It can run what it refused.
    pub(crate) able: bool,
    /// What its clock is ahead of the simulation's.
    pub(crate) ahead_us: u64,
    pub(crate) slots: Vec<Slot>,
    /// The cards that each slot was given last.
    pub(crate) cards: BTreeMap<u16, Vec<u16>>,
    /// What came while it was paused, and how many datagrams are among it.
    pub(crate) late: Vec<What>,
    pub(crate) late_datagrams: u32,
    /// The earliest tick in the agenda.
    pub(crate) tick_us: u64,
    /// Ticks since the clock last moved on: a worker that spins is broken.
    pub(crate) spins: u32,
    /// Computed results that a worker which left could not deliver.
    pub(crate) spool: Vec<u8>,
    /// What its slots ran when the process died.
    pub(crate) died_running: Vec<(JobId, u128)>,
    /// The newest incarnation of the scheduler that it believed.
    pub(crate) known: Known,
    /// It left by order; a new worker starts so long after.
    pub(crate) returns_us: Option<u64>,
    pub(crate) booted_us: u64,
    pub(crate) up_us: u64,
    /// Computing time of slots of earlier incarnations.
    pub(crate) busy_us: u64,
    pub(crate) totals: MachineTotals,
}

/// Counters over all incarnations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineTotals {
    pub(crate) refused_offers: u64,
    pub(crate) resent: u64,
    pub(crate) handshakes: u64,
    pub(crate) malformed: u64,
    pub(crate) stray_parts: u64,
    /// Slot time that was there for work.
    pub(crate) available_us: u64,
}

impl Machine {
    pub(crate) fn new(group: &Group, mut random: Random) -> Self {
        let speed = group.speed * random.about_one(group.speed_spread);
        Self {
            speed,
            process: Process::Down,
            worker: Worker::new(config(group, 0, 0, Vec::new(), Known::NONE), 0),
            life: 0,
            sessions: Vec::new(),
            answered: 0,
            booting: false,
            able: false,
            ahead_us: 0,
            slots: Vec::new(),
            cards: BTreeMap::new(),
            late: Vec::new(),
            late_datagrams: 0,
            tick_us: u64::MAX,
            spins: 0,
            spool: Vec::new(),
            died_running: Vec::new(),
            known: Known::NONE,
            returns_us: None,
            booted_us: 0,
            up_us: 0,
            busy_us: 0,
            totals: MachineTotals::default(),
            group: group.clone(),
            random,
        }
    }

    /// A new incarnation of the worker starts.
    pub(crate) fn boot(&mut self, now_us: u64) {
        self.life += 1;
        let (boot, seed) = (self.random.draw() | 1, self.random.draw());
        let died_running = std::mem::take(&mut self.died_running);
        self.sessions.clear();
        let mut config = config(&self.group, boot, seed, died_running, self.known);
        let clock_us = self.clock_us(now_us);
        config.limits.deadline_us = self.group.deadline_s.map(|after_s| clock_us + us(after_s));
        self.worker = Worker::new(config, clock_us);
        if !self.spool.is_empty() {
            let spool = std::mem::take(&mut self.spool);
            self.worker.restore(&spool).expect("the spool is as the core wrote it");
        }
        self.slots = (0..self.group.all_slots()).map(|_| Slot::default()).collect();
        self.late.clear();
        self.late_datagrams = 0;
        self.returns_us = self.group.again_s.map(us);
        (self.booted_us, self.up_us, self.tick_us) = (now_us, now_us, u64::MAX);
        self.process = Process::Up;
    }

    /// What a run takes there that takes `needs` of the cores: on a device that is the device's card.
    pub(crate) fn takes(&self, slot: u16, needs: Resources) -> Resources {
        match self.group.device(slot) {
            Some(_) => Resources::NONE.with(Resource::Gpus, self.card_of(slot).map_or(0, |_| GPU_PARTS)),
            None => needs,
        }
    }

    /// The card that a device is.
    pub(crate) fn card_of(&self, slot: u16) -> Option<u16> {
        let place = slot.checked_sub(self.group.slots)?;
        let alike = devices::alike(&self.group.devices, self.group.gpus);
        let cards = alike.into_iter().flat_map(|alike| alike.cards);
        cards.into_iter().nth(place.into())?
    }

    /// The time on its own clock.
    pub(crate) fn clock_us(&self, now_us: u64) -> u64 {
        now_us + self.ahead_us
    }

    /// When its worker wants a tick, on the simulation's clock.
    pub(crate) fn deadline_us(&self) -> u64 {
        match self.worker.next_deadline() {
            u64::MAX => u64::MAX,
            at_us => at_us.saturating_sub(self.ahead_us),
        }
    }

    /// It has a new session, after so many handshakes. The ones before stay for a while.
    pub(crate) fn has_session(&mut self, session: Session, epoch: Epoch, shaken: u32) {
        self.answered = shaken;
        self.sessions.push((session, epoch));
        if self.sessions.len() > SESSIONS_KEPT {
            self.sessions.remove(0);
        }
    }

    /// The worker's process ends. What its slots ran is found in a file by the next one.
    pub(crate) fn die(&mut self, now_us: u64) {
        self.account(now_us);
        let counters = self.worker.counters();
        self.totals.refused_offers += counters.refused_offers;
        self.totals.resent += counters.resent;
        self.totals.handshakes += counters.handshakes;
        self.totals.malformed += counters.malformed;
        self.totals.stray_parts += counters.stray_parts;
        self.busy_us += self.slots.iter().map(|slot| slot.busy_us).sum::<u64>();
        self.process = Process::Down;
        self.life += 1;
        self.died_running = self.slots.iter().filter_map(Slot::unit).collect();
    }

    /// Adds the slots' time since the last look.
    pub(crate) fn account(&mut self, now_us: u64) {
        if self.process == Process::Up {
            self.totals.available_us += (now_us - self.up_us) * u64::from(self.group.all_slots());
        }
        self.up_us = now_us;
    }
}

fn config(group: &Group, boot: u64, seed: u64, died_running: Vec<(JobId, u128)>, known: Known) -> Config {
    Config {
        devices: devices::alike(&group.devices, group.gpus),
        boot: Boot(boot),
        slots: group.slots,
        memory_bytes: group.memory,
        gpus: group.gpus,
        queue_tasks_max: group.queue_tasks_max,
        receive_datagrams_max: group.receive_datagrams,
        heartbeat_us: Settings::DEFAULT.heartbeat_us,
        seed,
        died_running,
        farm: FARM,
        known,
        facts: None,
        limits: Limits::default(),
    }
}
