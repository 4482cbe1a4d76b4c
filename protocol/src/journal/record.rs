//! Records: every change of the farm that must outlive its scheduler, as a value and as bytes. Applied in
//! order they give the farm again; the same records, applied by nobody's code but its own, are what an audit
//! goes by. Kinds are append-only. Kinds from 64 on are for checkpoints first of all: they save time, and
//! nothing that counts is lost without them.

use serde::{Deserialize, Serialize};

use crate::ids::{Attempt, Boot, Epoch, JobId, NodeId};
use crate::job::{FailedUnit, JobFacts, JobState};
use crate::reason::HoldReason;
use crate::units::decimal;
use crate::wire::CommandUnit;
use crate::word::words;

/// A change.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// Kind 1. A scheduler starts; before this is durable it sends nothing.
    Epoch {
        /// Its number.
        epoch: Epoch,
        /// When, in microseconds since 1970.
        at_us: u64,
    },
    /// Kind 2. A job was submitted. It stands at the tail of jq.
    Submitted(JobFacts),
    /// Kind 3. A job that has not ended changes its state.
    State {
        /// Which.
        job: JobId,
        /// Queued, running or paused.
        state: JobState,
        /// Why; none where a person did it. The record holds the words.
        why: Option<HoldReason>,
    },
    /// Kind 4. A job takes another place in jq.
    Moved {
        /// Which.
        job: JobId,
        /// 0 is the head.
        place: u32,
    },
    /// Kind 5. Units below the mark may be at nodes from now on.
    Leased {
        /// Of which job.
        job: JobId,
        /// The mark; it only grows.
        mark: u128,
    },
    /// Kind 6. Units are done; hits and intervals are one record (R3).
    Done {
        /// The job.
        job: JobId,
        /// Who computed them.
        node: NodeId,
        /// Intervals that this result is the first to decide; empty for a late hit (R9).
        pieces: Vec<(u128, u128)>,
        /// Hits: unit and target.
        hits: Vec<(u128, u32)>,
    },
    /// Kind 7. Units of a command ran to their end and are decided: done, or failed for good.
    Ran {
        /// The job.
        job: JobId,
        /// The dispatch that counted.
        attempt: Attempt,
        /// Who ran them.
        node: NodeId,
        /// Unit and outcome.
        units: Vec<(u128, CommandUnit)>,
    },
    /// Kind 8. A unit failed and is tried again: one of its retries is spent.
    Tried {
        /// The job.
        job: JobId,
        /// The unit.
        unit: u128,
        /// The dispatch.
        attempt: Attempt,
        /// Where.
        node: NodeId,
    },
    /// Kind 9. A worker died while it ran a unit.
    Died {
        /// The job.
        job: JobId,
        /// The unit.
        unit: u128,
        /// The node.
        node: NodeId,
        /// Its incarnation.
        boot: Boot,
    },
    /// Kind 10. An incarnation that was thought dead is not: no unit is to blame.
    Pardoned {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        boot: Boot,
    },
    /// Kind 11. A unit failed for good without a result of its own: poison.
    Failed {
        /// The job.
        job: JobId,
        /// The unit.
        unit: u128,
        /// Why.
        failed: FailedUnit,
    },
    /// Kind 12. Units that had failed are wanted again.
    Retried {
        /// The job; it may have ended, and has not any more.
        job: JobId,
        /// The units.
        units: Vec<(u128, u128)>,
    },
    /// Kind 13. A job ends: what its scheduler says of it, for the certificate.
    Ended(Ended),
    /// Kind 14. An ended job is forgotten.
    Deleted {
        /// Which.
        job: JobId,
    },
    /// Kind 15. A node joins with a new incarnation.
    Node {
        /// Its index.
        node: NodeId,
        /// Its name.
        name: String,
        /// The incarnation.
        boot: Boot,
    },
    /// Kind 16. Something else about a node.
    Mark {
        /// Which.
        node: NodeId,
        /// What.
        mark: NodeMark,
    },
    /// Kind 17. Two nodes say different things of the same units.
    Conflict {
        /// The job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Whose result differs from what was counted.
        node: NodeId,
    },
    /// Kind 64, in checkpoints. What a node did in its last periods.
    Rating {
        /// The node.
        node: NodeId,
        /// When it joined, on the farm's clock.
        started_us: u64,
        /// Number of the last period.
        period: u64,
        /// Standard tasks a period, in a ring.
        periods: Vec<f32>,
    },
    /// Kind 65, in checkpoints. Measured speeds of a job.
    Rates {
        /// The job.
        job: JobId,
        /// Units per second of a slot, mean of all.
        mean: f64,
        /// Node, units per second of one of its slots, units of its largest task.
        nodes: Vec<(NodeId, f64, u64)>,
    },
    /// Kind 66. Counters of a job: in checkpoints, and now and then in between.
    Totals {
        /// The job.
        job: JobId,
        /// In the order of their declaration: see [`JobTotals`].
        totals: JobTotals,
    },
    /// Kind 67, in checkpoints. Numbers up to these were given.
    Given {
        /// Jobs.
        job: JobId,
        /// Nodes; `u32::MAX` for none.
        node: NodeId,
    },
    /// Kind 68, in checkpoints, and behind each record of a join. What is shown of a node until it is heard again.
    Joined {
        /// The node.
        node: NodeId,
        /// Its slots.
        slots: u16,
        /// When it joined, on the farm's clock.
        at_us: u64,
    },
    /// Kind 69, in checkpoints, and at a start with others than before. Settings that the next start must know, which
    /// may have others: before the first such record they are the defaults.
    Periods {
        /// A node unheard for this long gives its tasks back, in microseconds. Workers keep to the pace of before until
        /// they are welcomed anew, so the next start waits for them as long.
        lost_us: u64,
        /// The period of the ratings, in microseconds.
        period_us: u64,
    },
    /// Kind 70, in checkpoints. Units that failed for good, all alike.
    FailedAlike {
        /// The job.
        job: JobId,
        /// The units.
        units: Vec<(u128, u128)>,
        /// Why each of them.
        failed: FailedUnit,
    },
}

/// The end of a job as its scheduler sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    /// Which.
    pub job: JobId,
    /// Finished, failed or cancelled.
    pub state: JobState,
    /// Units done by then.
    pub done: u128,
    /// Units failed by then.
    pub failed: u128,
    /// Units that nobody wants any more. Late results of these still count.
    pub abandoned: Vec<(u128, u128)>,
    /// Counters by then.
    pub totals: JobTotals,
}

/// Counters of a job: in its records, in its certificate, and under these names in JSON. Times are on the farm's clock:
/// microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobTotals {
    /// Tasks cut from the space.
    #[serde(rename = "tasks_decomposed")]
    pub decomposed: u64,
    /// Units in these.
    #[serde(rename = "units_decomposed", with = "decimal")]
    pub decomposed_units: u128,
    /// Tasks given out, again or for the first time, copies too.
    #[serde(rename = "tasks_dispatched")]
    pub dispatched: u64,
    /// Units of results that were counted before.
    #[serde(rename = "units_duplicate", with = "decimal")]
    pub duplicate_units: u128,
    /// Tasks that went back to gq.
    #[serde(rename = "tasks_resent")]
    pub resent: u64,
    /// Copies of tasks given to idle nodes near the end.
    #[serde(rename = "tasks_copied")]
    pub copies: u64,
    /// Results that differ from what was counted.
    #[serde(rename = "results_conflicting")]
    pub conflicts: u64,
    /// When it was submitted.
    pub submitted_us: u64,
    /// When its first task was given out.
    pub started_us: Option<u64>,
    /// When it ended.
    pub ended_us: Option<u64>,
}

words! {
    /// What else befell a node.
    NodeMark {
        /// It was silent for too long: it holds nothing that counts.
        Gone = 0 => "gone",
        /// It was heard again.
        Back = 1 => "back",
        /// A person drains it.
        Drained = 2 => "drained",
        /// A person trusts it and gives it tasks again.
        Resumed = 3 => "resumed",
        /// A person took it off the list.
        Forgotten = 4 => "forgotten",
        /// Its results are not trusted: a conflict.
        Distrusted = 5 => "distrusted",
        /// It said goodbye.
        Left = 6 => "left",
        /// Its key was revoked: it holds nothing that counts either.
        Revoked = 7 => "revoked",
    }
}

/// Attribution of units in a checkpoint: who computed them stands in the journal and the ledger.
pub const NOBODY: NodeId = NodeId(u32::MAX);
