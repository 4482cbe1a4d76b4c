//! What is true of every job whatever its kind: its state, how its tasks are sized, what it is told to do
//! when units fail. Shared by the scheduler, its journal and whoever reads that.

use crate::ids::{ContentHash, JobId, NodeId};
pub use crate::spec::{Body, WorkFacts};
use crate::wire::FailReason;

/// State of a job. The words are the same in JSON, tables and docs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum JobState {
    /// Waits in jq; no task was ever given out, or it was switched away from.
    Queued = 0,
    /// Tasks of it are given out.
    Running = 1,
    /// Gives out nothing until it is resumed.
    Paused = 2,
    /// Ended, no unit failed; what was not wanted any more is abandoned.
    Finished = 3,
    /// Ended, and units failed.
    Failed = 4,
    /// Ended by command.
    Cancelled = 5,
}

impl JobState {
    /// All states, in the order of their numbers.
    pub const ALL: [JobState; 6] = [
        JobState::Queued,
        JobState::Running,
        JobState::Paused,
        JobState::Finished,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Finished => "finished",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// The job is over.
    pub fn ended(self) -> bool {
        matches!(self, JobState::Finished | JobState::Failed | JobState::Cancelled)
    }
}

/// How large a job's tasks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizing {
    /// As large as takes this long on the slot, in microseconds.
    TargetUs(u64),
    /// This many units, whatever it takes.
    Units(u64),
}

/// How many failed units a job bears before it pauses and waits for a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MaxFailures {
    /// It pauses when all of its first 20 decided units, or more than half of 100 or more, failed.
    #[default]
    Usual,
    /// It pauses at so many, 1 or more.
    Units(u64),
    /// It never pauses.
    Never,
}

/// A job as it was submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct JobFacts {
    /// Its number.
    pub job: JobId,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Its units, 1 or more.
    pub units: u128,
    /// What the work is.
    pub work: WorkFacts,
    /// How large its tasks are.
    pub sizing: Sizing,
    /// What it bears.
    pub max_failures: MaxFailures,
    /// Near its end idle nodes get copies of what others still compute.
    pub speculative: bool,
    /// When, on the farm's clock: microseconds since 1970 by the clock of the scheduler's start.
    pub at_us: u64,
}

/// Why a unit failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedUnit {
    /// Reason.
    pub reason: FailReason,
    /// Exit code or signal number, where there is one.
    pub code: Option<i32>,
    /// The node that ran it last; none for poison.
    pub node: Option<NodeId>,
}

/// Whether a job may be called so: one line of text, not empty.
pub fn is_job_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains(char::is_control)
}
