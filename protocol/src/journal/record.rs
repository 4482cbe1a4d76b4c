//! Records: every change of the farm that must outlive its scheduler, as a value and as bytes. Applied in
//! order they give the farm again; the same records, applied by nobody's code but its own, are what an audit
//! goes by. Kinds are append-only. Kinds from 64 to 72 are for checkpoints first of all: they save time, and
//! nothing that counts is lost without them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::devices::SlotKind;
use crate::ids::{Attempt, Boot, ContentHash, Epoch, JobId, NodeId};
use crate::job::{FailedUnit, JobFacts, JobState};
use crate::reason::{Distrust, HoldReason};
use crate::terms::{Limit, Terms};
use crate::trust::{Share, Untrue};
use crate::units::decimal;
use crate::wire::CommandUnit;
use crate::word::words;

/// A change. Where a record names a job, a unit or a node, it is the one that the change is about.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "a record's own lines say what its fields are")]
pub enum Record {
    /// Kind 1. The scheduler of this epoch starts, at so many microseconds since 1970; before this is durable it sends
    /// nothing.
    Epoch { epoch: Epoch, at_us: u64 },
    /// Kind 2. A job was submitted. It stands at the tail of jq.
    Submitted(JobFacts),
    /// Kind 3. A job that has not ended is queued, running or paused from now on. `why`: none where a person did it. The
    /// record holds the words.
    State { job: JobId, state: JobState, why: Option<HoldReason> },
    /// Kind 4. A job takes another place in jq; 0 is the head.
    Moved { job: JobId, place: u32 },
    /// Kind 5. Units below the mark may be at nodes from now on; it only grows.
    Leased { job: JobId, mark: u128 },
    /// Kind 6. Units are done, computed by `node`; hits and intervals are one record (R3). `pieces` are the intervals that
    /// this result is the first to decide, none for a late hit (R9); a hit is a unit and a target.
    Done { job: JobId, node: NodeId, pieces: Vec<(u128, u128)>, hits: Vec<(u128, u32)> },
    /// Kind 7. Units of a command ran to their end on `node` and are decided: done, or failed for good; each outcome is of
    /// so many units as it says, from its unit on. `attempt` is the dispatch that counted.
    Ran { job: JobId, attempt: Attempt, node: NodeId, units: Vec<(u128, CommandUnit)> },
    /// Kind 8. A unit failed on `node` in this dispatch and is tried again: one of its retries is spent.
    Tried { job: JobId, unit: u128, attempt: Attempt, node: NodeId },
    /// Kind 9. This incarnation of a worker died while it ran a unit.
    Died { job: JobId, unit: u128, node: NodeId, boot: Boot },
    /// Kind 10. An incarnation that was thought dead is not: no unit is to blame.
    Pardoned { node: NodeId, boot: Boot },
    /// Kind 11. A unit failed for good without a result of its own: poison.
    Failed { job: JobId, unit: u128, failed: FailedUnit },
    /// Kind 12. Units that had failed are wanted again. The job may have ended, and has not any more.
    Retried { job: JobId, units: Vec<(u128, u128)> },
    /// Kind 13. A job ends: what its scheduler says of it, for the certificate.
    Ended(Ended),
    /// Kind 14. An ended job is forgotten.
    Deleted { job: JobId },
    /// Kind 15. A node joins with a new incarnation.
    Node { node: NodeId, name: String, boot: Boot },
    /// Kind 16. Something else about a node.
    Mark { node: NodeId, mark: NodeMark },
    /// Kind 17. Two nodes say different things of the units from `lo` up to `hi`; the result of `node` differs from what
    /// was counted.
    Conflict { job: JobId, lo: u128, hi: u128, node: NodeId },
    /// Kind 18. These units, which are done or failed, are wanted again: the outputs of a command are lost, or their node is
    /// not trusted, or they are checked. The job may have ended, and has not any more.
    Rerun { job: JobId, units: Vec<(u128, u128)> },
    /// Kind 19. The job that is submitted next asks for trust checks. Each planted answer is a unit and a target.
    Trust { job: JobId, check: Share, planted: Vec<(u128, u32)> },
    /// Kind 20. So many more units of a job were computed by a second node with the same result.
    Checked { job: JobId, units: u128 },
    /// Kind 21. A result for a job was untrue.
    Untrue { job: JobId, untrue: Untrue },
    /// Kind 22. A node, whose results are not trusted since, computed so many units of a job that had ended before.
    Doubtful { job: JobId, node: NodeId, units: u128 },
    /// Kind 23. A job that has not ended has another limit from now on. It decides no unit.
    Limited { job: JobId, limit: Limit },
    /// Kind 64, in checkpoints. What a node did in its last periods: standard tasks a period, in a ring, and the number of
    /// the last one. It joined at `started_us` on the farm's clock.
    Rating { node: NodeId, started_us: u64, period: u64, periods: Vec<f32> },
    /// Kind 65, in checkpoints. Measured speeds of a job in units per second of a slot: the mean of all, and for each node
    /// its own and the units of its largest task.
    Rates { job: JobId, mean: f64, nodes: Vec<(NodeId, f64, u64)> },
    /// Kind 66. Counters of a job: in checkpoints, and now and then in between.
    Totals { job: JobId, totals: JobTotals },
    /// Kind 67, in checkpoints. Numbers of jobs and nodes up to these were given; `u32::MAX`: no node's.
    Given { job: JobId, node: NodeId },
    /// Kind 68, in checkpoints, and behind each record of a join. What is shown of a node until it is heard again: its
    /// slots, and when it joined on the farm's clock.
    Joined { node: NodeId, slots: u16, at_us: u64 },
    /// Kind 69, in checkpoints, and at a start with others than before. Settings that the next start must know, which
    /// may have others: before the first such record they are the defaults. A node unheard for `lost_us` gives its tasks
    /// back; workers keep to the pace of before until they are welcomed anew, so the next start waits for them as long.
    /// `period_us` is the period of the ratings.
    Periods { lost_us: u64, period_us: u64 },
    /// Kind 70, in checkpoints. Units that failed for good, all alike.
    FailedAlike { job: JobId, units: Vec<(u128, u128)>, failed: FailedUnit },
    /// Kind 71, in checkpoints, behind the hits of a job that are in it: it has `count` in all. Those up to `floor`, a unit
    /// and a target, are not here one by one. What is found in the units `again`, which were done before, is not counted
    /// once more. `targets`, as intervals, were hit by one or another; there are none since kind 72 says it.
    HitsPaged {
        job: JobId,
        floor: (u128, u32),
        count: u64,
        targets: Vec<(u128, u128)>,
        again: Vec<(u128, u128)>,
    },
    /// Kind 72, in checkpoints, behind kind 71 of a search that stops with all targets: those that were hit. Target
    /// 8 (`from` + i) + k is bit k of byte i.
    TargetsHit { job: JobId, from: u32, bits: Box<[u8]> },
    /// Kind 73. The job that is submitted next has these terms.
    Linked { job: JobId, terms: Terms },
    /// Kind 74. A job whose units a program names has those of `chunks` behind the ones that it had. `state` is the program's
    /// own, as JSON: a program that starts anew goes on from there. `end`: no more units follow.
    Grown { job: JobId, chunks: Vec<GrownChunk>, state: String, end: bool },
    /// Kind 75, in checkpoints. As kind 65, of the devices of nodes: the mean of all, and for each kind of device of a node
    /// its own. No kind is 0, which are the cores.
    DeviceRates { job: JobId, mean: f64, seats: Vec<(NodeId, SlotKind, f64, u64)> },
}

/// Units that a program named, side by side, and the content that has their values: a line of JSON each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrownChunk {
    /// BLAKE3 of the content.
    pub hash: ContentHash,
    /// Units in it, 1 or more.
    pub units: u64,
    /// What one of them costs beside the others, as the program says, in millionths: 1 or more, and a million where it says
    /// nothing.
    pub cost: u64,
}

impl Record {
    /// What this record decides; none where it decides nothing.
    pub fn decided(&self) -> Option<Decided<'_>> {
        let decided = |by, units| Some(Decided { by, units });
        match self {
            Record::Done { node, pieces, .. } => {
                decided(Some(*node).filter(|node| *node != NOBODY), pieces.into())
            }
            Record::Ran { node, units, .. } => {
                let end = |unit: u128, outcome: &CommandUnit| unit.saturating_add(outcome.units.into());
                decided(Some(*node), units.iter().map(|(unit, of)| (*unit, end(*unit, of))).collect())
            }
            Record::Failed { unit, failed, .. } => decided(failed.node, vec![(*unit, unit + 1)].into()),
            Record::FailedAlike { units, failed, .. } => decided(failed.node, units.into()),
            _ => None,
        }
    }
}

/// Units of a job that are done, or failed for good, from this record on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decided<'a> {
    /// Who computed them: none for poison, which no node computed, and in a checkpoint, which does not say.
    pub by: Option<NodeId>,
    /// As intervals.
    pub units: Cow<'a, [(u128, u128)]>,
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
        /// Its results are not trusted: it reported a hit that is none.
        FalseHit = 8 => "false_hit",
        /// Its results are not trusted: it reported units as done without a hit that is among them.
        MissedHit = 9 => "missed_hit",
    }
}

impl NodeMark {
    /// Why the node's results are not trusted from there on, if that is what it says.
    pub fn distrust(self) -> Option<Distrust> {
        match self {
            Self::Distrusted => Some(Distrust::Differs),
            Self::FalseHit => Some(Distrust::FalseHit),
            Self::MissedHit => Some(Distrust::MissedHit),
            _ => None,
        }
    }
}

impl From<Distrust> for NodeMark {
    fn from(why: Distrust) -> Self {
        match why {
            Distrust::Differs => Self::Distrusted,
            Distrust::FalseHit => Self::FalseHit,
            Distrust::MissedHit => Self::MissedHit,
        }
    }
}

/// Attribution of units in a checkpoint: who computed them stands in the journal and the ledger.
pub const NOBODY: NodeId = NodeId(u32::MAX);
