//! What one node has: its tasks of dq, which of them are not sent yet, and which offers it has not acknowledged.

use std::collections::VecDeque;

use starfarm_protocol::ids::{Attempt, NodeId};

use super::task::{NOBODY, TaskId};
use crate::by_node::ByNode;

/// An offer under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offered {
    pub(crate) attempt: Attempt,
    pub(crate) task: TaskId,
    pub(crate) sent_us: u64,
    pub(crate) repeated: bool,
}

/// The tasks of a node.
#[derive(Debug, Default)]
pub(super) struct NodeList {
    /// Tasks of dq that it has, in no order; dq knows the place of each.
    pub(super) tasks: Vec<TaskId>,
    /// The sum of their weights.
    pub(super) weight: u64,
    /// NodeQueue: given to it, not yet sent.
    pub(super) unsent: VecDeque<(TaskId, Attempt)>,
    /// Offers that it has not acknowledged, by attempt.
    pub(super) offered: VecDeque<Offered>,
    /// When the latest of the offers left that it has acknowledged.
    pub(super) landed_sent_us: u64,
    /// Tasks that it has beyond `tasks`. Heartbeats join neighbours: what a node was found to hold after our start
    /// is one task here and may be many there.
    pub(super) hidden: usize,
    /// When it was given a task last.
    pub(super) given_us: u64,
}

/// Of a node that never had a task.
static NOTHING: NodeList = NodeList {
    tasks: Vec::new(),
    weight: 0,
    unsent: VecDeque::new(),
    offered: VecDeque::new(),
    landed_sent_us: 0,
    hidden: 0,
    given_us: 0,
};

impl NodeList {
    /// Nothing is on its way to the node any more, and what it said of its own count is over.
    pub(super) fn silence(&mut self) {
        self.unsent.clear();
        self.offered.clear();
        self.hidden = 0;
    }
}

/// The lists of all nodes. One that never had a task has none.
#[derive(Debug, Default)]
pub(super) struct NodeLists(ByNode<NodeList>);

impl NodeLists {
    pub(super) fn of(&self, id: NodeId) -> &NodeList {
        self.0.get(id).unwrap_or(&NOTHING)
    }

    pub(super) fn of_mut(&mut self, id: NodeId) -> &mut NodeList {
        assert!(id != NOBODY, "nobody has no list");
        self.0.get_or_insert_with(id, NodeList::default)
    }

    pub(super) fn forget(&mut self, id: NodeId) {
        if let Some(list) = self.0.remove(id) {
            assert!(list.tasks.is_empty(), "what a node has goes back before it is forgotten");
            assert!(list.unsent.is_empty() && list.offered.is_empty(), "and nothing is on its way to it");
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeList)> {
        self.0.iter()
    }
}
