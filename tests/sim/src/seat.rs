//! A scheduler in the simulated world: its core, its disk, its clock, its buffer. There may be two of them,
//! of which one counts; the other was started by mistake.

use std::collections::{BTreeSet, VecDeque};

use starfarm_protocol::ids::{Epoch, JobId};
use starfarm_protocol::seal::{EpochProofs, Secret, StaticKey};
use starfarm_scheduler_core::limits::HITS_KEPT;
use starfarm_scheduler_core::{Beat, Config, Deeds, Farm, HitsKept};

use crate::agenda::{Batch, Incarnation, MachineId, Session};
use crate::disk::Disk;
use crate::machine::FARM;
use crate::plan::Order;
use crate::scenario::Scenario;
use crate::sessions::Sessions;

/// Unix time at which the simulated world begins, in microseconds: the farm's clock is large.
pub(crate) const BEGINNING_US: u64 = 1_700_000_000_000_000;

/// What the dispatcher hears, in the order of `threads::Input`.
#[derive(Debug)]
pub(crate) enum Input {
    /// The first datagram of a session has come, which is behind this.
    Session(MachineId),
    /// That session is the one to send with.
    Peer(MachineId, Session),
    Datagram(MachineId, Vec<u8>),
    /// A user asks.
    Ask(Order),
    /// A program has named units.
    Named(Batch),
    /// Nobody else hears it.
    Doubt(MachineId),
}

/// A scheduler's process.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) incarnation: Incarnation,
    pub(crate) epoch: Epoch,
    /// It runs.
    pub(crate) up: bool,
    /// It is the one whose journal counts.
    pub(crate) rightful: bool,
    pub(crate) farm: Farm,
    /// What its clock is ahead of the simulation's.
    pub(crate) ahead_us: u64,
    /// Its disk, where the scenario needs one.
    pub(crate) disk: Option<Disk>,
    pub(crate) deeds: Deeds,
    /// A commit is under way.
    pub(crate) committing: bool,
    /// Last record seen.
    pub(crate) recorded: u64,
    /// Intervals of records that are not durable yet: sequence, job, interval.
    pub(crate) settling: VecDeque<(u64, usize, (u128, u128))>,
    /// Up to there records are durable.
    pub(crate) durable: u64,
    /// It is busy with the datagrams in its buffer until then.
    pub(crate) busy_until_us: u64,
    /// It does nothing until then.
    pub(crate) stalled_until_us: u64,
    /// Each machine's sessions, as the result thread knows them.
    pub(crate) sessions: Vec<Sessions>,
    /// What the sender sends each machine's datagrams with.
    pub(crate) peers: Vec<Session>,
    /// What the dispatcher has not heard yet.
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) beat: Beat,
    /// Jobs whose programs have been asked for units.
    pub(crate) naming: BTreeSet<JobId>,
    /// The turn under way ends then.
    pub(crate) turning_until_us: u64,
    /// Datagrams in the receive buffer.
    pub(crate) buffered: u32,
    pub(crate) tick_us: u64,
    pub(crate) ticked_us: u64,
    pub(crate) spins: u32,
    pub(crate) turns: u64,
    /// When it asks next whether something stands still.
    pub(crate) asks_us: u64,
}

impl Seat {
    /// Which start it is.
    pub(crate) fn number(&self) -> (Incarnation, Epoch) {
        (self.incarnation, self.epoch)
    }

    pub(crate) fn new(
        farm: Farm,
        (incarnation, epoch): (Incarnation, Epoch),
        (now_us, ahead_us): (u64, u64),
        machines: usize,
    ) -> Self {
        let beat = Beat::new(&farm, now_us + ahead_us);
        let recorded = farm.last_sequence();
        Self {
            incarnation,
            epoch,
            up: true,
            rightful: true,
            farm,
            ahead_us,
            disk: None,
            deeds: Deeds::default(),
            committing: false,
            recorded,
            settling: VecDeque::new(),
            durable: recorded,
            busy_until_us: 0,
            stalled_until_us: 0,
            sessions: vec![Sessions::default(); machines],
            peers: vec![Session::default(); machines],
            inbox: VecDeque::new(),
            beat,
            naming: BTreeSet::new(),
            turning_until_us: 0,
            buffered: 0,
            tick_us: u64::MAX,
            ticked_us: 0,
            spins: 0,
            turns: 0,
            asks_us: 0,
        }
    }
}

/// What the core is told at its start.
pub(crate) fn config(scenario: &Scenario, (incarnation, epoch): (Incarnation, Epoch)) -> Config {
    let (model, key) = (&scenario.farm, StaticKey::from_secret(Secret([7; 32])));
    // Two starts of one epoch are told apart.
    let nonce = u64::from(incarnation.0).to_le_bytes();
    Config {
        settings: scenario.settings,
        receive_datagrams: model.receive_datagrams,
        tasks_a_turn: model.tasks_a_turn,
        hits_kept: model.hits_kept.map_or(HITS_KEPT, |running| HitsKept { running, ended: running / 4 }),
        watch: scenario.log.is_some(),
        evidence: scenario.truth.clone(),
        proofs: model.proofs.then(|| EpochProofs::new(&key, FARM, nonce)),
        ..Config::new(FARM, epoch)
    }
}
