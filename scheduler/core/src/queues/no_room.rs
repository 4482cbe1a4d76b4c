//! Units whose files nodes have no room for, and how many of them each node said so of.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{Attempt, NodeId};
use starfarm_protocol::interval::Interval;

use crate::per_unit::PerUnit;

/// The units, and who said so in which attempt: each node once of each.
#[derive(Debug, Default)]
pub(crate) struct NoRoom {
    said: PerUnit<(Attempt, NodeId)>,
    /// Of how many units; no node of none.
    by_node: BTreeMap<NodeId, usize>,
}

impl NoRoom {
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Some node said so of this unit.
    pub(crate) fn has(&self, unit: u128) -> bool {
        self.said.has(unit)
    }

    /// Who said so of this unit.
    pub(crate) fn of(&self, unit: u128) -> impl Iterator<Item = (Attempt, NodeId)> + '_ {
        self.said.of(unit)
    }

    /// The units of an interval, in order.
    pub(crate) fn units(&self, at: Interval) -> impl Iterator<Item = u128> + '_ {
        self.said.units(at)
    }

    /// Of how many units that node said so.
    pub(crate) fn said_by(&self, id: NodeId) -> usize {
        self.by_node.get(&id).copied().unwrap_or(0)
    }

    /// Node `id` says so of `unit` in `attempt`: that takes the place of what it said before.
    pub(super) fn say(&mut self, unit: u128, attempt: Attempt, id: NodeId) {
        let before: Vec<_> = self.said.of(unit).filter(|said| said.1 == id).collect();
        for said in before {
            self.said.retract(unit, said);
            forget(&mut self.by_node, said.1);
        }
        self.said.insert(unit, (attempt, id));
        *self.by_node.entry(id).or_default() += 1;
    }

    /// Nobody said so of [lo, hi) any more.
    pub(super) fn remove(&mut self, at: Interval) {
        self.said.take(at, |(_, id)| forget(&mut self.by_node, id));
    }

    /// Nor did node `id` of any.
    pub(crate) fn retain_nodes(&mut self, stays: impl Fn(NodeId) -> bool) {
        self.said.retain(|said| stays(said.1));
        self.by_node.retain(|&id, _| stays(id));
    }

    /// The counts are those of what was said.
    pub(crate) fn is_counted(&self) -> bool {
        let mut count: BTreeMap<NodeId, usize> = BTreeMap::new();
        self.said.iter().for_each(|(_, (_, id))| *count.entry(id).or_default() += 1);
        count == self.by_node
    }
}

fn forget(by_node: &mut BTreeMap<NodeId, usize>, id: NodeId) {
    let left = by_node.get_mut(&id).expect("who said so is counted");
    *left -= 1;
    if *left == 0 {
        by_node.remove(&id);
    }
}
