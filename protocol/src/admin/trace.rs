//! What programs of units tell one by one, as people follow it.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::units::Units;

/// What a program has told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceLine {
    /// Counts from 1 at the scheduler's start.
    pub number: u64,
    /// When its node heard it, in microseconds of the farm's clock: since 1970.
    pub at_us: u64,
    /// The node; none where it is not known any more.
    pub node: Option<String>,
    /// The program's job.
    pub job: Option<JobId>,
    /// The unit, or the first of those that the program computes; none where the process that told it had ended already.
    pub unit: Option<Units>,
    /// What it told.
    pub text: String,
    /// So many of this node were lost right before it.
    pub lost: u64,
}

/// Some of what programs have told, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TracePage {
    /// What was asked for of it.
    pub lines: Vec<TraceLine>,
    /// So many behind the one that was asked for are not kept any more.
    pub missed: u64,
    /// The number up to which all was looked at: what is behind it is to be asked for next.
    pub last: u64,
    /// There is more behind it.
    pub more: bool,
}
