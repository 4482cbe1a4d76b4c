//! How a command does not fit the state of things: a value, which whoever asked turns into words.

use starfarm_events::NodeState;
use starfarm_protocol::ids::JobId;

use crate::job::JobState;
#[cfg(doc)]
use crate::limits::JOBS_MAX;

/// How a command does not fit the state of things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// A job to submit has no unit.
    NoUnit,
    /// The farm knows [`JOBS_MAX`] jobs.
    TooManyJobs,
    /// Trust checks of a job that is no search.
    NoSearch,
    /// What is planted in a search is no answer, or leaves it nothing to look for.
    Planted,
    /// The job to delete has not ended.
    NotEnded,
    /// The job to change has ended so.
    Ended(JobState),
    /// The job to retry has ended so, by more than its failed units.
    EndedForGood(JobState),
    /// The job to retry has no failed unit.
    NoFailedUnit,
    /// The job whose lost outputs are wanted is no job of programs.
    NoOutputs,
    /// No output of the job is lost.
    NoLostOutput,
    /// The job to resume is not paused.
    NotPaused,
    /// The job to switch to is paused.
    Paused,
    /// The job to switch to waits for this one.
    Waits(JobId),
    /// The job to submit is to start after this one, which there is not.
    NoSuchJob(JobId),
    /// The job to submit is to start after this one, which has not ended well.
    AfterFailed(JobId, JobState),
    /// The results of the job to delete are to be merged before this one starts.
    Awaited(JobId),
    /// The node to resume is draining since its worker stops.
    WorkerStops,
    /// The results of the node to forget are not trusted, and its key can join again.
    NotTrusted,
    /// The node to forget is not lost but in this state.
    NotLost(NodeState),
}
