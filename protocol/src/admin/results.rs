//! What came of a job's units.

use serde::{Deserialize, Serialize};

use super::output::{OutputInfo, OutputLoss};
use crate::units::Units;
use crate::wire::FailReason;

/// A page of results. `more` tells whether another page follows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResultsPage {
    /// Hits of a search, by unit.
    pub hits: Vec<HitInfo>,
    /// Units that failed for good, by unit.
    pub failed: Vec<FailedInfo>,
    /// What units of a command wrote, in the order in which they came in.
    pub outputs: Vec<OutputInfo>,
    /// So many more outputs, or pieces of the file with an unknown number of them, should be here and are damaged.
    #[serde(default)]
    pub outputs_damaged: u64,
    /// Units of a command that are done, so that their outputs must be among those of all pages.
    #[serde(default)]
    pub outputs_of_done: u64,
    /// Another page follows.
    pub more: bool,
}

/// Units of a command that ran to their end, and whose outputs cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostOutputs {
    /// First unit.
    pub lo: Units,
    /// End, exclusive.
    pub hi: Units,
    /// What is wrong with them.
    pub what: OutputLoss,
    /// They are of runs before the ones that count.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub superseded: bool,
}

/// A hit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HitInfo {
    /// Which.
    pub unit: Units,
    /// The candidate; U+FFFD stands for what is not UTF-8.
    pub value: String,
    /// The candidate's bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value_hex: Option<String>,
    /// The digest that it has.
    pub target: String,
}

/// A unit that failed for good.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedInfo {
    /// Which.
    pub unit: Units,
    /// Why.
    pub reason: FailReason,
    /// The exit code; none where it has none.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<i32>,
    /// The node that ran it last; none for poison, and where that node was forgotten long ago.
    pub node: Option<String>,
}
