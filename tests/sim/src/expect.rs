//! What a scenario expects to come out of it.

use serde::Deserialize;

/// Where the law of sizes must hold: target / 3 < duration < 3 x target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// Tasks that started before do not count.
    pub from_s: f64,
    /// Tasks that started after do not count.
    pub to_s: f64,
    /// Tasks on a worker younger than this do not count.
    #[serde(default)]
    pub settle_s: f64,
}

/// What must come out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// All jobs have ended by then.
    pub end_by_s: Option<f64>,
    /// States of the jobs at the end, in the core's words; finished if absent.
    pub jobs: Option<Vec<String>>,
    /// Offers that workers may refuse because their queues are full.
    pub refused_offers_max: Option<u64>,
    /// Units that may be counted as computed more than once.
    pub duplicate_units_max: Option<u64>,
    /// Copies of tasks that are given to idle nodes, at least.
    pub copies_min: Option<u64>,
    /// Parts of whole-task runs that did not come to their end and count, at least.
    pub parts_min: Option<u64>,
    /// Runs that are told to hang, at least.
    pub hangs_min: Option<u64>,
    /// Starts of the scheduler beside the first, at least.
    pub restarts_min: Option<u64>,
    /// Schedulers that learnt that they are superseded, at least; none may where absent.
    pub superseded_min: Option<u64>,
    /// Stalls of the scheduler that it notices, at least.
    pub stalls_min: Option<u64>,
    /// Inputs of the largest batch, at least.
    pub batch_min: Option<usize>,
    /// Datagrams that come in a session after it was replaced, at least.
    pub late_min: Option<u64>,
    /// Tasks that nodes refuse, at least and at most.
    pub refusals: Option<[u64; 2]>,
    /// Nodes that were quarantined at some time, and nobody else was.
    pub named: Option<Vec<String>>,
    /// Share of the slots' time that is spent computing, at least.
    pub utilisation_min: Option<f64>,
    /// Verdicts on how many nodes are up at given times.
    #[serde(default)]
    pub up: Vec<Up>,
    /// Verdicts on how many units of a job nodes have at given times.
    #[serde(default)]
    pub out: Vec<Out>,
}

/// How many units of a job nodes have in a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Out {
    /// Which job, counted from 1.
    pub job: usize,
    /// From then.
    pub from_s: f64,
    /// To then.
    pub to_s: f64,
    /// Units, at least.
    pub min: u64,
    /// Units, at most.
    pub max: u64,
}

/// How many nodes are up in a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Up {
    /// From then.
    pub from_s: f64,
    /// To then.
    pub to_s: f64,
    /// Nodes, at least.
    pub min: usize,
    /// Nodes, at most.
    pub max: usize,
}
