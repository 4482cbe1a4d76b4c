//! One enum of what can happen on a farm, and its one-line text.

use std::fmt;

use starfarm_protocol::ids::{Boot, JobId};

/// Something happened. Nodes go by name, jobs by number.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A worker said hello.
    NodeJoined {
        /// Node.
        node: String,
        /// Incarnation.
        boot: Boot,
        /// Its slots.
        slots: u16,
    },
    /// A node was not heard for a while; it gets no new tasks.
    NodeSuspect {
        /// Node.
        node: String,
    },
    /// A node was not heard for long; its tasks went back to gq.
    NodeLost {
        /// Node.
        node: String,
        /// Tasks that went back.
        tasks: usize,
    },
    /// A suspect or lost node is heard again.
    NodeBack {
        /// Node.
        node: String,
    },
    /// A node takes no new tasks, by command or because its worker stops.
    NodeDraining {
        /// Node.
        node: String,
    },
    /// A worker said goodbye.
    NodeLeft {
        /// Node.
        node: String,
    },
    /// A node cannot run a job.
    NodeRefused {
        /// Node.
        node: String,
        /// Job.
        job: JobId,
        /// Why, in the worker's words.
        why: String,
    },
    /// A node speaks another version of the protocol.
    VersionSkew {
        /// Node.
        node: String,
        /// Its version.
        version: u16,
    },
    /// A job came into jq.
    JobSubmitted {
        /// Job.
        job: JobId,
        /// Its units.
        units: u128,
    },
    /// A job changed its state.
    JobState {
        /// Job.
        job: JobId,
        /// The state's word.
        state: &'static str,
    },
    /// Tasks were offered again because no acknowledgement came.
    OffersRepeated {
        /// Node.
        node: String,
        /// Tasks.
        tasks: usize,
    },
    /// A task that its node no longer lists went back to gq.
    TaskExpired {
        /// Job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Node.
        node: String,
    },
    /// A target was found.
    Hit {
        /// Job.
        job: JobId,
        /// Unit.
        unit: u128,
        /// Index of the target.
        target: u32,
    },
    /// An idle node got a copy of what another still computes.
    TaskCopied {
        /// Job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Node that got it.
        node: String,
    },
    /// A node fails what others pass: it gets a task now and then.
    NodeQuarantined {
        /// Node.
        node: String,
        /// What it did.
        why: String,
    },
    /// A result says something else than what was counted; its node is not trusted any more.
    Conflict {
        /// Job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Node whose result came second.
        node: String,
    },
    /// A worker knows of a later incarnation of the scheduler.
    Superseded {
        /// Node.
        node: String,
        /// The later epoch.
        epoch: u64,
    },
    /// A unit failed for good.
    UnitFailed {
        /// Job.
        job: JobId,
        /// Unit.
        unit: u128,
        /// exit, signal, timeout or poison.
        reason: &'static str,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::NodeJoined { node, boot, slots } => {
                write!(f, "node {node} joined: {slots} slots, boot {:016x}", boot.0)
            }
            Event::NodeSuspect { node } => write!(f, "node {node} suspect: no heartbeat"),
            Event::NodeLost { node, tasks } => write!(f, "node {node} lost: {tasks} tasks back to gq"),
            Event::NodeBack { node } => write!(f, "node {node} is back"),
            Event::NodeDraining { node } => write!(f, "node {node} draining"),
            Event::NodeLeft { node } => write!(f, "node {node} left"),
            Event::NodeRefused { node, job, why } => write!(f, "node {node} refused job {}: {why}", job.0),
            Event::VersionSkew { node, version } => {
                write!(f, "node {node} speaks protocol version {version}: update the older side")
            }
            Event::JobSubmitted { job, units } => write!(f, "job {} submitted: {units} units", job.0),
            Event::JobState { job, state } => write!(f, "job {} {state}", job.0),
            Event::OffersRepeated { node, tasks } => write!(f, "offered {tasks} tasks again to node {node}"),
            Event::TaskExpired { job, lo, hi, node } => {
                write!(f, "task [{lo}, {hi}) of job {} expired on node {node}", job.0)
            }
            Event::Hit { job, unit, target } => {
                write!(f, "hit in job {}: unit {unit}, target {target}", job.0)
            }
            Event::TaskCopied { job, lo, hi, node } => {
                write!(f, "copy of [{lo}, {hi}) of job {} to node {node}", job.0)
            }
            Event::NodeQuarantined { node, why } => write!(f, "node {node} quarantined: {why}"),
            Event::Conflict { job, lo, hi, node } => {
                write!(f, "conflict in job {}: node {node} says other things of [{lo}, {hi})", job.0)
            }
            Event::Superseded { node, epoch } => {
                write!(f, "node {node} knows epoch {epoch} of this farm: a later scheduler was started")
            }
            Event::UnitFailed { job, unit, reason } => {
                write!(f, "unit {unit} of job {} failed: {reason}", job.0)
            }
        }
    }
}
