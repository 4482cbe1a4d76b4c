//! What goes into the core and comes out of it, as plain data.

use starfarm_protocol::devices::DeviceFacts;
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::seal::EpochProof;
use starfarm_protocol::wire::{Cancel, Facts, Hello, Load, Offer, Outcome};

/// What a worker is told once, at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// This incarnation, random.
    pub boot: Boot,
    /// Cores that run units, 1 or more.
    pub slots: u16,
    /// Bytes of memory that running units may claim.
    pub memory_bytes: u64,
    /// Cards that running units may have.
    pub gpus: u16,
    /// Devices beside the cores, kind by kind.
    pub devices: Vec<AlikeDevices>,
    /// Tasks that may wait for each kind of slots; further offers are not acknowledged, so the scheduler keeps them.
    pub queue_tasks_max: u32,
    /// Datagrams that the receive buffer holds; the scheduler sends no longer burst.
    pub receive_datagrams_max: u16,
    /// Heartbeat period in microseconds until the scheduler's welcome names another.
    pub heartbeat_us: u64,
    /// Seed of the jitter, so that workers that lost the same scheduler do not knock in step.
    pub seed: u64,
    /// Units that were running when the previous incarnation died, as the hello has them.
    pub died_running: Vec<(JobId, u128)>,
    /// The farm of the join file: no other one is worked for.
    pub farm: FarmId,
    /// The newest incarnation of the scheduler that an earlier incarnation of this worker believed.
    pub known: Known,
    /// What the machine is, for people; none where nobody wants to know.
    pub facts: Option<Facts>,
    /// When it leaves by itself.
    pub limits: Limits,
}

/// Devices that are alike. Each is a slot; they are numbered behind those of the cores, kind by kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlikeDevices {
    /// What each of them is.
    pub facts: DeviceFacts,
    /// Which of the worker's cards each of them is; none where it is no card that programs may have.
    pub cards: Vec<Option<u16>>,
}

/// When a worker leaves by itself, as a batch system wants it. By default it never does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// It is gone by then, in the clock of `now_us`.
    pub deadline_us: Option<u64>,
    /// It leaves when it has had nothing to run and nothing unacknowledged for so many microseconds.
    pub idle_exit_us: Option<u64>,
}

impl Config {
    /// What running units may take together.
    pub(crate) fn has(&self) -> Resources {
        Resources::new(self.slots, self.memory_bytes).with(Resource::Gpus, u64::from(self.gpus) * GPU_PARTS)
    }

    pub(crate) fn hello(&self, slots: u16, known: Known) -> Hello {
        Hello {
            version: PROTOCOL_VERSION,
            boot: self.boot,
            slots,
            queue_tasks_max: self.queue_tasks_max,
            receive_datagrams_max: self.receive_datagrams_max,
            known_epoch: known.epoch,
            known_proof: known.proof,
            died_running: self.died_running.clone(),
        }
    }
}

/// How a worker does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// Tasks that wait.
    pub queued_tasks: usize,
    /// Tasks on slots.
    pub running_tasks: usize,
    /// Results, of any outcome, that are not acknowledged.
    pub unacknowledged_results: usize,
    /// How busy the slots were, and for how long none of them has run anything.
    pub load: Load,
}

/// The newest incarnation of the scheduler that a worker has believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its number; 0 before the first.
    pub epoch: Epoch,
    /// What it gave as a proof of itself. Only the scheduler can check it.
    pub proof: EpochProof,
}

impl Known {
    /// No scheduler was ever heard.
    pub const NONE: Self = Self { epoch: Epoch(0), proof: [0; 16] };
}

/// What the rim has to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Deed {
    /// Send one datagram, not yet sealed, over the newest session.
    Send(Vec<u8>),
    /// Run these tasks one after another on that slot, which is idle. Several come only when earlier tasks
    /// of their jobs were so short that together they take about 2 ms.
    Start {
        /// Which slot, counted from 0.
        slot: u16,
        /// One task or more.
        tasks: Vec<Task>,
        /// The numbers of the cards that they have, one after another.
        cards: Vec<u16>,
    },
    /// Stop what the slot runs of this job: at the next unit's end, or now.
    Cancel {
        /// Which slot.
        slot: u16,
        /// Of which job.
        job: JobId,
        /// How.
        how: Cancel,
    },
    /// Make a new session; [`crate::Worker::on_session`] says that it is up.
    Handshake,
    /// The scheduler will not work with us; the sentence is for the person.
    Refused(String),
    /// Keep this for the next incarnation of this worker, before anything else is done.
    Remember(Known),
    /// Something that a person should hear of; the worker goes on.
    Say(String),
    /// Nothing is left to do after a drain. What is unacknowledged by now belongs into the spool.
    Drained,
}

/// An interval of a job's units, to run: what was offered.
pub type Task = Offer;

/// Some units of a running task, done or refused. Parts of a task come in unit order, without a gap.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The job.
    pub job: JobId,
    /// BLAKE3 of the job's specification.
    pub spec: ContentHash,
    /// The attempt as the task named it.
    pub attempt: Attempt,
    /// First unit.
    pub lo: u128,
    /// Number of units, 1 or more.
    pub units: u64,
    /// Computing time of these units, in microseconds.
    pub duration_us: u64,
    /// What became of them.
    pub outcome: Outcome,
    /// See [`starfarm_protocol::wire`]; at most `RESULT_BODY_BYTES_MAX` bytes.
    pub body: Vec<u8>,
}

/// Things that went another way than usual, counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Datagrams that broke the rules of the wire.
    pub malformed: u64,
    /// Offers heard again while known or held: acknowledged, not run.
    pub repeated_offers: u64,
    /// Offers dropped because the queue was full, or before a welcome.
    pub refused_offers: u64,
    /// Result datagrams sent again.
    pub resent: u64,
    /// Parts from a slot that fit no running task; a bug of the rim.
    pub stray_parts: u64,
    /// New sessions asked for.
    pub handshakes: u64,
    /// Messages of an incarnation of the scheduler that is older than the one known: nothing came of them.
    pub older_epochs: u64,
}
