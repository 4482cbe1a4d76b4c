//! An agent's graph, as people and programs see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The stages, edges and timers of an agent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GraphInfo {
    /// Stages, by number.
    pub stages: Vec<StageInfo>,
    /// Edges, by the stage that they lead from.
    pub edges: Vec<EdgeInfo>,
    /// Timers, by name.
    pub timers: Vec<GraphTimer>,
    /// What the agent's stages have lost or refused, since its start.
    #[serde(default)]
    pub losses: GraphLosses,
}

/// What an agent's stages have lost or refused, since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GraphLosses {
    /// Values that a stage could not take: no numbers where it computes with them, or more than it remembers.
    pub not_taken: u64,
    /// Orders of stages that could not be carried out.
    pub refused: u64,
    /// Values that a message had no room for.
    pub left_out: u64,
    /// Messages that would have passed too many stages.
    pub too_far: u64,
    /// Messages that there was no room or no time for.
    pub cut_off: u64,
}

/// A stage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageInfo {
    /// No other one of this agent ever has its number.
    pub number: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The settings that it was told, and took: the newest value of each.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// An edge, from an output of a stage to an input of another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EdgeInfo {
    /// The number of the stage that it leads from.
    pub from: u64,
    /// The output.
    pub output: String,
    /// The number of the stage that it leads to.
    pub to: u64,
    /// The input.
    pub input: String,
}

/// A timer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GraphTimer {
    /// Its name.
    pub name: String,
    /// Its period; null where it fires once.
    pub period_seconds: Option<f64>,
    /// The numbers of the stages that it fires for.
    pub subscribers: Vec<u64>,
}
