//! What must be durable before anybody is told: the state's changes, as values. In this version the
//! checkpoint thread keeps them in memory; the journal will hold the same records.

use starfarm_protocol::ids::{Attempt, ContentHash, JobId};
use starfarm_protocol::wire::CommandUnit;

use crate::job::JobState;
use crate::task::NodeId;

/// A change.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A job was submitted.
    Submitted {
        /// Its number.
        job: JobId,
        /// BLAKE3 of its specification.
        spec: ContentHash,
    },
    /// A job's state changed by a command or by its end.
    State(JobId, JobState),
    /// Units are done; hits and interval are one record (R3).
    Done {
        /// The job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Who computed them.
        node: NodeId,
        /// Hits among them: unit and target.
        hits: Vec<(u128, u32)>,
    },
    /// Units of a command ran to their end, with what they wrote. Only units counted by this very result.
    Ran {
        /// The job.
        job: JobId,
        /// The dispatch that counted.
        attempt: Attempt,
        /// Who computed them.
        node: NodeId,
        /// Unit and outcome.
        units: Vec<(u128, CommandUnit)>,
    },
    /// A unit failed for good without a result: poison.
    Poison(JobId, u128),
}
