//! What a simulated tree is like, and what happened to it.

use starfarm_overlay_core::pipe::LOOK_US;

pub(super) const SECOND_US: u64 = 1_000_000;

/// A tree to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct TreeModel {
    /// Nodes that are there at first; half as many may join. At least 1.
    pub nodes: u32,
    /// Nodes on each machine, at least 1.
    pub per_host: u32,
    /// Children of a post; at least 2.
    pub fanout: u32,
    /// Faults come for so long.
    pub faults_s: u64,
    /// Mean time between two, in microseconds.
    pub fault_every_us: u64,
    /// How often links are looked after, in microseconds: 250 000 in earnest; more where there are very many.
    pub look_us: u64,
}

impl Default for TreeModel {
    fn default() -> Self {
        Self {
            nodes: 12,
            per_host: 1,
            fanout: 3,
            faults_s: 60,
            fault_every_us: 2 * SECOND_US,
            look_us: LOOK_US,
        }
    }
}

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeTally {
    /// Events, and all of them as one number.
    pub events: u64,
    /// See [`TreeTally::events`].
    pub log: u64,
    /// Faults.
    pub faults: u64,
    /// Links that came up, and callers that got none.
    pub links: u64,
    /// See [`TreeTally::links`].
    pub refused: u64,
    /// Times that a post was taken in by another than it should be.
    pub adopted: u64,
    /// Messages that were taken.
    pub taken: u64,
    /// Posts in trees of jobs' own at the end.
    pub own: u64,
    /// Processes at the end, and levels.
    pub posts: u64,
    /// See [`TreeTally::posts`].
    pub depth: u64,
    /// Agents that nobody wanted any more, and that had said all they knew when they ended.
    pub closed: u64,
    /// Messages that agents still there have dropped.
    pub dropped: u64,
}
