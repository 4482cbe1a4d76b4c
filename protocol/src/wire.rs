//! The messages between scheduler and worker, and their bytes. A datagram, once opened, is a sequence of
//! messages: `kind u8, length u16, body`. All numbers are little endian. Kinds are append-only; a reader
//! skips a kind that it does not know. Every message is repeatable: hearing it twice changes nothing.
//!
//! | kind | name | from | repeated until |
//! | --- | --- | --- | --- |
//! | 1 | hello | worker | a welcome is heard |
//! | 2 | task ack | worker | offers stop coming |
//! | 3 | results | worker | a result ack |
//! | 4 | feedback | worker | never: it carries totals |
//! | 5 | heartbeat | worker | every period |
//! | 6 | bye | worker | never: silence says the same later |
//! | 7 | facts | worker | every minute |
//! | 8 | load | worker | every heartbeat |
//! | 9 | ages | worker | with the results that it tells of |
//! | 10 | able | worker | every heartbeat, once it was said |
//! | 11 | time left | worker | every heartbeat of a worker that has a deadline |
//! | 12 | has | worker | welcomes come: it goes with each hello |
//! | 13 | devices | worker | every heartbeat: one for each kind of device |
//! | 14 | slot kind | both | the offers or the heartbeat behind it |
//! | 15 | card | worker | every heartbeat: one for each card of the machine |
//! | 33 | welcome | scheduler | hellos stop coming |
//! | 34 | offers | scheduler | a task ack |
//! | 35 | result ack | scheduler | results stop coming |
//! | 36 | heartbeat answer | scheduler | every heartbeat |
//! | 37 | revoke | scheduler | heartbeats stop listing the job |
//! | 38 | pace | scheduler | hellos stop coming: it goes with each welcome |
//! | 39 | needs | scheduler | the offers behind it |
//! | 40 | doorbell | scheduler | the worker has heard its orders: it goes with each heartbeat answer |
//!
//! Kinds 64 to 66 are no messages but what carries them: see [`crate::path`].
//!
//! What lives elsewhere: the seal around a datagram (`seal`), who may send what (the cores).

mod cards;
mod devices;
mod facts;
mod read;
mod results;
mod write;

pub use cards::{Card, CardFigures};
pub use devices::Devices;
pub use facts::{AGE_BYTES, FACT_BYTES_MAX, Facts, LOAD_SLOTS_MAX, Load, TimeLeft};
pub use read::{Ages, Message, Offers, Ranges, Results, is_of_boot, messages};
pub use results::{CommandUnit, FailReason, Files, HitEntry, Outputs, Stream};
pub use write::Packer;

pub use crate::bytes::Malformed;
use crate::bytes::{Reader, fields, items};
use crate::devices::SlotKind;
use crate::field::Field;
use crate::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};
use crate::interval::Interval;
use crate::limits::{PLAIN_BYTES_MAX, RESULT_BODY_BYTES_MAX, RUNNING_MAX};
use crate::resources::{Resource, Resources};
use crate::seal::EpochProof;
use crate::word::words;

/// Bytes before each message: kind and length.
pub const MESSAGE_HEAD_BYTES: usize = 3;
/// Bytes of a results message before its first entry: job and specification hash.
pub const RESULT_HEAD_BYTES: usize = 8 + 32;
/// Bytes of a result entry without its body.
pub const RESULT_ENTRY_BYTES: usize = 8 + 8 + 16 + 8 + 8 + 1 + 2;
const _: () = assert!(
    MESSAGE_HEAD_BYTES + RESULT_HEAD_BYTES + RESULT_ENTRY_BYTES + RESULT_BODY_BYTES_MAX <= PLAIN_BYTES_MAX,
    "one result with the longest body fits into one datagram"
);
/// Bytes of an offers message before its first entry: job, specification hash, first attempt.
pub const OFFER_HEAD_BYTES: usize = 8 + 32 + 8;
/// Bytes of an offer entry: first unit and number of units.
pub const OFFER_ENTRY_BYTES: usize = 16 + 8;
/// Most bytes of a needs message: its job, and a number and an amount for each resource.
const NEEDS_BYTES_MAX: usize = 8 + Resource::ALL.len() * (1 + 8);
/// Bytes of a slot kind message.
const SLOT_KIND_BYTES: usize = MESSAGE_HEAD_BYTES + 1;
/// Bytes of a held interval in a heartbeat.
pub const HELD_BYTES: usize = 8 + 16 + 8;

/// A unit that a message names as running.
const RUNNING_BYTES: usize = 8 + 16;

/// In the place of units that died running: it is known that none did. No job has this number.
pub const NOTHING_RAN: (JobId, u128) = (JobId(0), 0);

/// First words of a worker in a new session.
#[derive(Clone, PartialEq, Debug)]
pub struct Hello {
    /// Version of the messages that the worker speaks.
    pub version: u16,
    /// The worker's incarnation.
    pub boot: Boot,
    /// Compute units of the worker.
    pub slots: u16,
    /// Tasks that its queue holds.
    pub queue_tasks_max: u32,
    /// Datagrams that its receive buffer holds.
    pub receive_datagrams_max: u16,
    /// Highest incarnation of the scheduler that welcomed this worker; 0 where none did. A scheduler of a
    /// lower one was started from an old copy of its state, or is a sleeper that wakes up.
    pub known_epoch: Epoch,
    /// The proof that came with that welcome: without it the number is only a claim.
    pub known_proof: EpochProof,
    /// Units that were running when the previous incarnation died without a word, or [`NOTHING_RAN`] alone. Empty where the
    /// worker does not know.
    pub died_running: Vec<(JobId, u128)>,
}

/// The scheduler's answer to a hello.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Welcome {
    /// Whose workers we are.
    pub farm: FarmId,
    /// The scheduler's incarnation.
    pub epoch: Epoch,
    /// How often a heartbeat is wanted, in milliseconds.
    pub heartbeat_ms: u32,
    /// Result datagrams that may be unacknowledged at one time.
    pub credit: u16,
    /// Version of the messages that the scheduler speaks; another one than the hello's ends the talk.
    pub version: u16,
    /// The scheduler's own seal on farm and epoch. Nobody else can check it or make one; the worker shows it
    /// to later incarnations.
    pub proof: EpochProof,
}

/// What a worker must know of the farm's settings beside the heartbeat. It stands behind each welcome; a worker that
/// hears none goes by the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// An idle worker that heard nothing for this long takes it that the network is cut, in milliseconds.
    pub idle_ms: u32,
    /// Longest pause between two tries to reach the scheduler again, in milliseconds.
    pub reconnect_ms: u32,
    /// The farm's period, in milliseconds: a worker that tells people of itself does so once in it.
    pub period_ms: u32,
}

/// What a run of a job takes of its worker. It stands directly before the offers of that job; offers without it take one
/// slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// The job.
    pub job: JobId,
    /// What each run takes, a slot at least.
    pub run: Resources,
}

/// One task, offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The job.
    pub job: JobId,
    /// BLAKE3 of the job's specification, by which it is fetched.
    pub spec: ContentHash,
    /// Number of this dispatch, unique within the epoch.
    pub attempt: Attempt,
    /// First unit.
    pub lo: u128,
    /// Number of units, 1 or more; `lo + units` does not overflow.
    pub units: u64,
}

impl Offer {
    /// End of the interval, exclusive.
    pub fn hi(&self) -> u128 {
        self.lo.checked_add(u128::from(self.units)).expect("the codec lets no other interval in")
    }
}

words! {
    /// What became of an interval of a task.
    Outcome {
        /// Computed; the body says what was found.
        Done = 0 => "done",
        /// Not computed, given back: revoked, or the worker leaves.
        Returned = 1 => "returned",
        /// The worker cannot run this job; the body is a sentence that says why.
        Refused = 2 => "refused",
    }
}

/// One result. Its identity is (job, specification, lo, units); `attempt` is a diagnostic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResultEntry<'a> {
    /// The job.
    pub job: JobId,
    /// BLAKE3 of the job's specification.
    pub spec: ContentHash,
    /// Number of this result within the worker's incarnation; what is acknowledged.
    pub sequence: u64,
    /// The dispatch that it answers; where several are given back together, the latest of them.
    pub attempt: Attempt,
    /// First unit.
    pub lo: u128,
    /// Number of units, 1 or more.
    pub units: u64,
    /// Computing time, in microseconds.
    pub duration_us: u64,
    /// What became of the units.
    pub outcome: Outcome,
    /// Hits of a search ([`HitEntry`]), outputs of a command ([`CommandUnit`]), or a sentence.
    pub body: &'a [u8],
}

impl ResultEntry<'_> {
    /// The units that it is about.
    pub fn at(&self) -> Interval {
        Interval::from_units(self.lo, self.units)
    }
}

/// Running totals of a worker's requests; the scheduler acts on what they grew by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Feedback {
    /// Times that the queue ran nearly empty.
    pub speed_ups: u32,
    /// Times that the queue ran nearly full.
    pub slow_downs: u32,
}

/// Units that a worker holds: queued, running, or computed and not yet acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// First unit.
    pub lo: u128,
    /// Number of units.
    pub units: u64,
}

impl Held {
    /// The units that it holds.
    pub fn at(&self) -> Interval {
        Interval::from_units(self.lo, self.units)
    }
}

/// A worker lives, and this is what it holds. A long list goes in several parts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Heartbeat {
    /// Counts heartbeats; all parts of one have the same number.
    pub number: u32,
    /// This part, from 0.
    pub part: u16,
    /// Number of parts, 1 or more.
    pub parts: u16,
    /// Tasks waiting in the worker's queue.
    pub queued_tasks: u32,
    /// The worker drains: it wants no more tasks.
    pub draining: bool,
    /// Units running at this moment, for blame if the worker dies.
    pub running: Vec<(JobId, u128)>,
    /// What it holds, neighbours joined.
    pub held: Vec<Held>,
}

/// The scheduler heard a heartbeat.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeartbeatAnswer {
    /// Which one.
    pub number: u32,
    /// Result datagrams that may be unacknowledged at one time.
    pub credit: u16,
    /// The scheduler's incarnation.
    pub epoch: Epoch,
}

/// There are orders for the worker, which it hears over a stream: see [`crate::orders`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doorbell {
    /// The number of its newest orders.
    pub newest: u64,
}

words! {
    /// How a worker ends what it has of a job.
    Cancel {
        /// Give back what waits; stop what runs at a unit's end.
        Graceful = 0 => "graceful",
        /// Give back what waits; end what runs now.
        Forced = 1 => "forced",
    }
}

/// A job's tasks are not wanted at this worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revoke {
    /// The job.
    pub job: JobId,
    /// How.
    pub cancel: Cancel,
    /// Only attempts below this number; a later offer of the same job is wanted again.
    pub before: Attempt,
}

fields! { Field:
    Hello {
        version, boot, slots, queue_tasks_max, receive_datagrams_max, known_epoch, known_proof, died_running
    }
    Welcome { farm, epoch, heartbeat_ms, credit, version, proof }
    Pace { idle_ms, reconnect_ms, period_ms }
    Feedback { speed_ups, slow_downs }
    Held { job, lo, units }
    Heartbeat { number, part, parts, queued_tasks, draining, running, held }
    HeartbeatAnswer { number, credit, epoch }
    Doorbell { newest }
    Revoke { job, cancel, before }
    Needs { job, run }
}

items! { Field:
    Outcome: |outcome, out| out.push(*outcome as u8), |rest| Self::from_number(rest.u8()?).ok_or(Malformed);
    Cancel: |cancel, out| out.push(*cancel as u8), |rest| Self::from_number(rest.u8()?).ok_or(Malformed);
    // The last in their message: the number of each, and how much.
    Resources: |all, out| all.amounts().for_each(|(of, amount)| (of as u8, amount).put(out)), |rest| {
        let rows: Vec<(u8, u64)> = Field::read_all(rest)?;
        rows.into_iter().try_fold(Resources::NONE, |all, (number, amount)| {
            Resource::from_number(number).map(|of| all.with(of, amount)).ok_or(Malformed)
        })
    };
    // The last in its message.
    Vec<Held>: |held, out| held.iter().for_each(|held| held.put(out)), |rest| Held::read_all(rest);
}

/// Units that run, with their number; those beyond [`RUNNING_MAX`] are left out.
impl Field for Vec<(JobId, u128)> {
    fn put(&self, out: &mut Vec<u8>) {
        let units = &self[..self.len().min(RUNNING_MAX)];
        out.push(units.len() as u8);
        units.iter().for_each(|unit| unit.put(out));
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        (0..rest.u8()?).map(|_| Field::read(rest)).collect()
    }
}

#[cfg(test)]
mod tests;
