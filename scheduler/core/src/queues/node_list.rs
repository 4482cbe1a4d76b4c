//! What one node has: its tasks of dq, which of them are not sent yet, and which offers it has not acknowledged.

use std::collections::VecDeque;

use starfarm_protocol::devices::SlotKind;
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
    /// The same, summed up by the kind of slots that they are for.
    pub(super) tallies: Tallies,
    /// NodeQueue: given to it, not yet sent.
    pub(super) unsent: VecDeque<(TaskId, Attempt)>,
    /// Offers that it has not acknowledged, by attempt.
    pub(super) offered: VecDeque<Offered>,
    /// When the latest of the offers left that it has acknowledged.
    pub(super) landed_sent_us: u64,
    /// When it was given a task last.
    pub(super) given_us: u64,
}

/// What slots of one kind have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// Tasks of dq.
    pub(super) tasks: usize,
    /// The sum of their weights.
    pub(super) weight: u64,
    /// Tasks beyond these. Heartbeats join neighbours: what a node was found to hold after our start is one task here
    /// and may be many there.
    pub(super) hidden: usize,
}

impl Tally {
    const NONE: Self = Self { tasks: 0, weight: 0, hidden: 0 };

    /// A task came.
    pub(super) fn came(&mut self, weight: u16) {
        (self.tasks, self.weight) = (self.tasks + 1, self.weight + u64::from(weight));
    }

    /// A task went.
    pub(super) fn went(&mut self, weight: u16) {
        self.tasks = self.tasks.checked_sub(1).expect("each task was counted as it came");
        self.weight = self.weight.checked_sub(weight.into()).expect("the sum has each task's weight");
    }
}

/// The tallies of all kinds of slots of a node. Most nodes have cores alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    cores: Tally,
    /// By the kind's number, less one.
    devices: Vec<Tally>,
}

impl Tallies {
    pub(super) fn of(&self, kind: SlotKind) -> Tally {
        match kind.0.checked_sub(1) {
            None => self.cores,
            Some(place) => self.devices.get(usize::from(place)).copied().unwrap_or_default(),
        }
    }

    pub(super) fn of_mut(&mut self, kind: SlotKind) -> &mut Tally {
        let Some(place) = kind.0.checked_sub(1).map(usize::from) else { return &mut self.cores };
        if self.devices.len() <= place {
            self.devices.resize(place + 1, Tally::NONE);
        }
        &mut self.devices[place]
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Tally> {
        std::iter::once(&mut self.cores).chain(&mut self.devices)
    }

    /// Tasks that dq does not know.
    pub(super) fn hidden(&self) -> usize {
        self.cores.hidden + self.devices.iter().map(|tally| tally.hidden).sum::<usize>()
    }
}

/// Of a node that never had a task.
static NOTHING: NodeList = NodeList {
    tasks: Vec::new(),
    tallies: Tallies { cores: Tally::NONE, devices: Vec::new() },
    unsent: VecDeque::new(),
    offered: VecDeque::new(),
    landed_sent_us: 0,
    given_us: 0,
};

impl NodeList {
    /// Nothing is on its way to the node any more, and what it said of its own count is over.
    pub(super) fn silence(&mut self) {
        self.unsent.clear();
        self.offered.clear();
        self.tallies.all_mut().for_each(|tally| tally.hidden = 0);
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
