//! Why something waits, idles or got this size: a question about one job or node, and the scheduler's answer in
//! plain sentences, with the numbers that decided.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::units::Units;

/// What is to be explained.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// The job of this number.
    Job(JobId),
    /// The node of this name.
    Node(String),
}

/// Why a job or a node is as it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// `job 3` or `node lab-7`.
    pub subject: String,
    /// The answer, in one sentence.
    pub verdict: String,
    /// All that plays a part, what matters most first.
    pub reasons: Vec<Reason>,
    /// Size of the next task, for each node of the job or each job of the node.
    pub sizes: Vec<SizeInfo>,
    /// What else is true of it.
    pub facts: Vec<Fact>,
}

/// Something that plays a part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// A word for it, always the same: `paused`, `behind`, `refused` ...
    pub code: String,
    /// A sentence with its numbers, and the command that helps, where one does.
    pub text: String,
}

/// Something that is true.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, always the same.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
}

/// The size of the next task of a job on a node, and what it was chosen from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SizeInfo {
    /// The job.
    pub job: JobId,
    /// The node.
    pub node: String,
    /// Units of the task.
    pub units: Units,
    /// What decided: `fixed`, `first`, `target`, `growth` or `tail`.
    pub rule: String,
    /// Measured units per second of a slot there, or the mean of the other nodes; 0 where nothing was measured.
    pub units_per_s: f64,
    /// That speed was measured on this node.
    pub measured: bool,
    /// Computing time that a task should take; none with fixed units.
    pub target_seconds: Option<f64>,
    /// Units that take so long at that speed; none where there is no speed or no target.
    pub target_units: Option<Units>,
    /// Sizes grow by steps: no larger than this yet; likewise.
    pub growth_units_max: Option<Units>,
    /// Near the end tasks shrink: no larger than this; none with fixed units.
    pub tail_units_max: Option<Units>,
    /// A task that lies in gq already is given whole up to this size, else cut.
    pub units_max: Units,
}
