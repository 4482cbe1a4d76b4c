//! What the monitor knows of what a job or a node uses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// What figures of a job's usage are over.
    #[derive(Default)]
    UsageSpan {
        /// A minute of its life.
        #[default]
        Minute => "minute",
        /// All of its life, as far as this scheduler has heard of it: it has ended.
        Life => "life",
    }
}

/// A figure over many.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The greatest.
    pub max: f64,
    /// All together.
    pub sum: f64,
}

/// What the units of a job that run use, each figure by unit; null where nothing is known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobUsage {
    /// Processor cores.
    pub cpu_cores: Option<Spread>,
    /// Memory, in bytes.
    pub memory_bytes: Option<Spread>,
    /// Load of cards: 1 is a whole one.
    pub gpu: Option<Spread>,
    /// Memory of cards in use, in bytes.
    #[serde(default)]
    pub gpu_memory_bytes: Option<Spread>,
    /// Read and written, in bytes a second.
    pub io_bytes_per_s: Option<Spread>,
    /// Figures that programs give, by their names.
    #[serde(default)]
    pub named: BTreeMap<String, Spread>,
    /// Units that the figures are of.
    pub units: u64,
    /// Nodes that the figures are from.
    pub from: u64,
    /// Nodes that run the job, as far as they were heard.
    pub of: u64,
    /// Seconds since the oldest of the figures was measured.
    pub age_seconds: f64,
}

/// What the units of a job have used since the scheduler first heard of them; null where nothing is known.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobTotalUsage {
    /// Seconds in which something was heard of it: what the means are over.
    pub seconds: f64,
    /// Processor time of all its units, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Processor cores: the least, mean and greatest of a unit, and the mean of all together.
    pub cpu_cores: Option<Spread>,
    /// Memory, in bytes: the same.
    pub memory_bytes: Option<Spread>,
    /// The most memory that all units had at once, in bytes.
    pub memory_bytes_max: Option<f64>,
    /// Load of cards: the same.
    pub gpu: Option<Spread>,
    /// Read and written, in bytes a second: the same.
    pub io_bytes_per_s: Option<Spread>,
    /// Units that were seen at once, at most.
    pub units: u64,
    /// Nodes that the figures are from, at most at once.
    pub from: u64,
    /// Nodes that ran it, at most at once, as far as they were heard.
    pub of: u64,
}

/// What a job or a node used of late, a figure a step, the oldest first; null where nothing was known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct UsageLine {
    /// Seconds between two figures.
    pub step_seconds: f64,
    /// Processor cores of all units, or of the machine.
    pub cpu_cores: Vec<Option<f64>>,
    /// Memory of all units, or of the machine, in bytes.
    pub memory_bytes: Vec<Option<f64>>,
}

/// What a node's machine uses; null where nothing is known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Processor cores.
    pub cpu_cores: Option<f64>,
    /// Memory, in bytes.
    pub memory_bytes: Option<f64>,
    /// Load of cards: 1 is a whole one.
    pub gpu: Option<f64>,
    /// Memory of cards in use, in bytes.
    #[serde(default)]
    pub gpu_memory_bytes: Option<f64>,
    /// Read from and written to disks, in bytes a second.
    pub io_bytes_per_s: Option<f64>,
    /// Received from the network, in bytes a second.
    pub received_bytes_per_s: Option<f64>,
    /// Sent to the network, in bytes a second.
    pub sent_bytes_per_s: Option<f64>,
    /// Figures that services give, by their names.
    #[serde(default)]
    pub named: BTreeMap<String, f64>,
    /// Seconds since it was measured.
    pub age_seconds: f64,
}
