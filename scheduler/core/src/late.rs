//! What nodes were given of a job and have no longer, although nobody had decided it: a node that was only slow, or out of
//! reach, may still report it (R9), and so may one that gave it back: which dispatch it speaks of is not known here. What a
//! node was never given it cannot report.

use std::collections::BTreeMap;

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use crate::queues::Coverage;
use crate::runs::Runs;

/// Pieces that are remembered of one node; what it lost beyond them is computed again.
const PIECES_MAX: usize = 4 * NODE_TASKS_MAX as usize;
/// Forgotten nodes of which is remembered what they lost.
const FORGOTTEN_MAX: usize = 64;
/// With fewer pieces nobody looks which of them are still open.
const PIECES_FEW: usize = 64;

/// What nodes may still report of a job.
#[derive(Debug, Default)]
pub(crate) struct Late {
    nodes: BTreeMap<NodeId, Lost>,
    /// Those of them that are forgotten, the last one at the end.
    forgotten: Vec<NodeId>,
}

/// Units that were lost.
#[derive(Debug)]
struct Lost {
    units: Runs<()>,
    /// With so many pieces those are dropped that were decided since.
    prune_at: usize,
}

impl Default for Lost {
    fn default() -> Self {
        Self { units: Runs::default(), prune_at: PIECES_FEW }
    }
}

impl Lost {
    fn add(&mut self, at: Interval, coverage: &Coverage) {
        self.units.insert(at, ());
        if self.units.len() < self.prune_at {
            return;
        }
        self.prune(coverage);
    }

    /// What was decided goes; false where nothing is left. Where too many are open the last ones go as well: to look at all of
    /// them each time would cost more than they are worth.
    fn prune(&mut self, coverage: &Coverage) -> bool {
        let mut open = Runs::default();
        let pieces = self.units.intervals().into_iter().flat_map(|at| coverage.open_in(at));
        pieces.take(PIECES_MAX / 2).for_each(|at| open.insert(at, ()));
        *self = Self { prune_at: PIECES_FEW.max(2 * open.len()), units: open };
        !self.units.is_empty()
    }
}

impl Late {
    /// A node lost `at` and may still report it.
    pub(crate) fn add(&mut self, node: NodeId, at: Interval, coverage: &Coverage) {
        self.comes_back(node);
        self.nodes.entry(node).or_default().add(at, coverage);
    }

    /// What of `at` a node lost and may still report.
    pub(crate) fn within(&self, node: NodeId, at: Interval) -> Vec<Interval> {
        self.nodes.get(&node).map_or_else(Vec::new, |lost| lost.units.within(at))
    }

    /// The interval around `at` that a node lost and may still report.
    pub(crate) fn holding(&self, node: NodeId, at: Interval) -> Option<Interval> {
        self.nodes.get(&node).and_then(|lost| lost.units.holding(at))
    }

    /// A node is not trusted: it may report nothing any more of what it lost.
    pub(crate) fn distrust(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// A node is not known any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        // Most have lost nothing of a job.
        if !self.nodes.contains_key(&node) {
            return;
        }
        self.comes_back(node);
        self.forgotten.push(node);
        if self.forgotten.len() > FORGOTTEN_MAX {
            self.nodes.remove(&self.forgotten.remove(0));
        }
    }

    /// The node may be one that was forgotten.
    pub(crate) fn comes_back(&mut self, node: NodeId) {
        self.forgotten.retain(|known| *known != node);
    }

    /// The job has ended: what was decided by then is no longer of interest.
    pub(crate) fn end(&mut self, coverage: &Coverage) {
        self.nodes.retain(|_, lost| lost.prune(coverage));
        self.forgotten.retain(|node| self.nodes.contains_key(node));
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, JobId};

    use super::*;
    use crate::queues::{Class, JobUnits, Queues};

    #[test]
    fn what_is_decided_since_leaves_and_the_rest_is_bounded() {
        let node = NodeId(3);
        let (mut queues, mut units) = (Queues::new(Attempt(1)), JobUnits::new(JobId(1), 1_000_000));
        queues.cut_as_before(&mut units, 1_000_000, false);
        let mut late = Late::default();
        for lo in (0..200_000).step_by(2) {
            late.add(node, Interval::one(lo), units.coverage());
        }
        let all = Interval::new(0, 1_000_000);
        let kept = late.within(node, all).len();
        assert!((PIECES_MAX / 2..PIECES_MAX).contains(&kept), "{kept}");
        queues.decide(&mut units, Interval::new(0, 999_000), Class::Done);
        for lo in 999_000..1_000_000 {
            (0..20).for_each(|_| late.add(node, Interval::one(lo), units.coverage()));
        }
        for lo in (500_000..600_000).step_by(2) {
            late.add(node, Interval::one(lo), units.coverage());
        }
        let open: Vec<Interval> = late.within(node, all).into_iter().filter(|at| at.hi > 999_000).collect();
        assert_eq!(open, [Interval::new(999_000, 1_000_000)]);
        assert!(late.within(node, all).len() < PIECES_FEW, "what was decided has left");
        late.add(NodeId(4), Interval::one(999_700), units.coverage());
        late.distrust(NodeId(4));
        assert!(late.within(NodeId(4), Interval::one(999_700)).is_empty());
        let open = Interval::new(999_000, 1_000_000);
        late.forget(node);
        assert_eq!(late.within(node, open), [open], "it comes back, and may report it");
        late.comes_back(node);
        for other in 100..=100 + FORGOTTEN_MAX as u32 {
            late.add(NodeId(other), open, units.coverage());
            late.forget(NodeId(other));
        }
        assert_eq!(late.within(NodeId(100), open), [], "too many are forgotten");
        assert_eq!(late.within(node, open), [open], "it is none of them any more");
    }
}
