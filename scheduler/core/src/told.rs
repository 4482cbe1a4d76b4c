//! What was told to whoever watches, so that only what changed is told again; and counters that only watching needs.

use std::collections::BTreeMap;

use starfarm_events::{IdleReason, NodeState};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::limits::SEAL_BYTES;
use starfarm_protocol::reason::QuarantineReason;

/// What was told of a node last.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) state: Option<NodeState>,
    pub(crate) why: Option<QuarantineReason>,
    pub(crate) doing: Doing,
    pub(crate) load: Option<(u64, u64, u64, [Vec<u64>; 2])>,
}

/// What a node does, as far as pictures show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Doing {
    /// It is not there, or nobody was told of it yet.
    #[default]
    Away,
    Busy,
    Idle(IdleReason),
}

impl Doing {
    /// Why it has nothing to do, if so.
    pub(crate) fn idle(self) -> Option<IdleReason> {
        match self {
            Doing::Idle(reason) => Some(reason),
            Doing::Busy | Doing::Away => None,
        }
    }
}

/// What went over the network in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Datagrams.
    pub(crate) datagrams: u64,
    /// Bytes in these, seal included, IP and UDP headers not.
    pub(crate) bytes: u64,
}

impl Traffic {
    /// A datagram of so many bytes, before it is sealed.
    pub(crate) fn add(&mut self, plain_bytes: usize) {
        self.datagrams += 1;
        self.bytes += (plain_bytes + SEAL_BYTES) as u64;
    }
}

/// What became of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verdict {
    /// Every unit of it counts.
    Counted,
    /// Some of its units had been counted before; the others count now (R2).
    CountedPartly,
    /// Every unit of it had been counted before.
    Duplicate,
    /// Units were given back.
    Returned,
    /// The node cannot run the job.
    Refused,
    /// No such job: deleted, or of a scheduler before this one.
    UnknownJob,
    /// The job's number is right, its specification is another.
    OtherSpecification,
    /// The units were never given to the node.
    NeverGiven,
    /// The body is not what this kind of work answers with, or names an output that is not stored.
    Malformed,
    /// It says what is not so.
    False,
    /// Its node is not trusted.
    Distrusted,
}

impl Verdict {
    /// How many there are.
    pub(crate) const KINDS: usize = Verdict::Distrusted as usize + 1;
}

/// How often each verdict was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdicts([u64; Verdict::KINDS]);

impl Verdicts {
    /// How often `verdict` was given.
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }
}

/// Counters of the farm, since its scheduler's start.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Totals {
    /// Tasks, or pieces of one, that went back to gq.
    pub(crate) resent: u64,
    /// Offers repeated.
    pub(crate) offers_repeated: u64,
    /// Tasks cut from a job's space.
    pub(crate) decomposed: u64,
    /// Units in these.
    pub(crate) decomposed_units: u128,
    /// Speed-ups and slow-downs of the running period and of the one before.
    pub(crate) feedback: [(u64, u64); 2],
}

/// Figures of the farm that nothing is decided by.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) totals: Totals,
    pub(crate) verdicts: Verdicts,
    /// Speed-ups and slow-downs since the start.
    pub(crate) feedback: (u64, u64),
    /// Datagrams dropped and refused since the start, as the rim says.
    pub(crate) datagrams: (u64, u64),
    /// Datagrams of workers and to them since the start, in and out.
    pub(crate) traffic: [Traffic; 2],
    /// A period is over: the farm's figures are to be told at the end of the turn.
    pub(crate) is_due: bool,
    /// Periods since the start.
    pub(crate) periods: u64,
    /// Units in each class, as told last.
    pub(crate) jobs: BTreeMap<JobId, [u128; 5]>,
    /// Jobs whose units wait while a node idles: since when, and whether that was told.
    pub(crate) still: BTreeMap<JobId, (u64, bool)>,
    /// Nodes that turns looked at since the start.
    pub(crate) looks: u64,
}

/// To a thousandth: more digits would only make the log longer.
pub(crate) fn rounded(power: f64) -> f64 {
    (power * 1e3).round() / 1e3
}
