//! A log drawn over time: what a page or a terminal shows of it.

use serde::Serialize;

use super::bins::Axis;
use super::jobs::JobLine;
use super::marks::Mark;
use super::node::NodeLine;
use super::runs::Runs;

/// Coarser than this, runs of results are no picture any more.
const GRAIN_US_MAX: u64 = 1 << 45;

/// The run of one scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct EpochLine {
    /// Its number.
    pub epoch: u64,
    /// When it began.
    pub from_us: u64,
    /// When it was heard last.
    pub to_us: u64,
}

/// Figures of all nodes, also of those that have no row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Totals {
    /// Nodes.
    pub nodes: u64,
    /// The most of them that were up at once.
    pub nodes_up: u64,
    /// Their slots.
    pub slots: u64,
    /// Results, without those that gave units back.
    pub results: u64,
    /// Tasks that went back to gq, as the farm counts them.
    pub resent: u64,
}

/// A log over time. Times are microseconds of the farm's clock. As JSON it is all but what is drawn bin by bin.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The farm, as hexadecimal digits.
    pub farm: String,
    /// The scheduler that wrote the log.
    pub program: String,
    /// Begin of what is drawn.
    pub from_us: u64,
    /// Its end.
    pub to_us: u64,
    /// The log was read to its proper end, and nothing is missing.
    pub complete: bool,
    /// What a reader of the report should know.
    pub notes: Vec<String>,
    /// Runs of schedulers.
    pub epochs: Vec<EpochLine>,
    /// Jobs, in the order of their numbers in runs of results.
    pub jobs: Vec<JobLine>,
    /// Nodes, by name.
    pub nodes: Vec<NodeLine>,
    /// Jobs that have no line.
    pub jobs_left_out: u64,
    /// Nodes that have no line.
    pub nodes_left_out: u64,
    /// Figures of all nodes.
    pub totals: Totals,
    /// What happened.
    pub marks: Vec<Mark>,
    /// How many more things happened.
    pub marks_left_out: u64,
    /// The bins.
    #[serde(skip)]
    pub axis: Axis,
    /// How many of them are in use.
    #[serde(skip)]
    pub bins: usize,
    /// Resolution of runs of results.
    #[serde(skip)]
    pub grain_us: u64,
    /// Series by name, a value for each bin.
    #[serde(skip)]
    pub series: Vec<(&'static str, Vec<f32>)>,
}

impl Report {
    /// A series by its name.
    pub fn series(&self, name: &str) -> &[f32] {
        self.series.iter().find(|(one, _)| *one == name).map_or(&[], |(_, values)| values)
    }
}

/// Bytes of packed runs of all these nodes.
pub(crate) fn run_bytes(nodes: &[NodeLine]) -> usize {
    nodes.iter().map(|node| node.runs.len()).sum()
}

/// Makes grains of runs longer; in the end none is left.
pub(crate) fn coarsen(nodes: &mut [NodeLine], grain_us: &mut u64) {
    const FACTOR: u64 = 4;
    if *grain_us >= GRAIN_US_MAX {
        return nodes.iter_mut().for_each(|node| node.runs = Runs::default());
    }
    *grain_us *= FACTOR;
    nodes.iter_mut().for_each(|node| node.runs.coarsen(FACTOR as i64));
}
