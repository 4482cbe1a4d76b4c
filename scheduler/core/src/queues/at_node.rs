//! What is at a node, in all and at each kind of its slots.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::{Queues, Task, TaskId};
use crate::limits::WHOLE;
use crate::seat::Seat;

impl Queues {
    /// The tasks that a node has, in no order.
    pub(crate) fn tasks_at(&self, node: NodeId) -> impl Iterator<Item = &Task> + Clone {
        self.nodes.of(node).tasks.iter().map(|&id| self.dq.at(id))
    }

    /// As [`Queues::tasks_at`], by id.
    pub(crate) fn ids_at(&self, node: NodeId) -> &[TaskId] {
        &self.nodes.of(node).tasks
    }

    /// How many tasks slots of one kind have, those that heartbeats hide among them.
    pub(crate) fn held(&self, seat: Seat) -> usize {
        let tally = self.nodes.of(seat.node).tallies.of(seat.kind);
        tally.tasks + tally.hidden
    }

    /// How many of them dq knows.
    pub(crate) fn count_at(&self, seat: Seat) -> usize {
        self.nodes.of(seat.node).tallies.of(seat.kind).tasks
    }

    /// Which slots of a node have that unit; its cores where it has it no more.
    pub(crate) fn seat_with(&self, node: NodeId, job: JobId, unit: u128) -> Seat {
        let copies = self.dq.copies_in(job, Interval::one(unit)).into_iter().map(|id| self.dq.at(id));
        let mut having = self.dq.holding(job, unit).map(|(_, task)| task).into_iter().chain(copies);
        having.find(|task| task.node == node).map_or(Seat::cores(node), Task::seat)
    }

    /// As [`Queues::held`], of all slots of a node.
    pub(crate) fn held_by(&self, node: NodeId) -> usize {
        let list = self.nodes.of(node);
        list.tasks.len() + list.tallies.hidden()
    }

    /// As [`Queues::held`], where pieces of tasks count as what they are.
    pub(crate) fn held_whole(&self, seat: Seat) -> usize {
        let tally = self.nodes.of(seat.node).tallies.of(seat.kind);
        tally.weight.div_ceil(WHOLE) as usize + tally.hidden
    }

    /// A node has more tasks than dq knows of.
    pub(crate) fn hides_tasks(&self, node: NodeId) -> bool {
        self.nodes.of(node).tallies.hidden() > 0
    }

    /// A node said all that it holds, `tasks` of them at slots of one kind by its own count. Where ranges that these were
    /// found to hold are among them, those hide some of these tasks.
    pub(crate) fn count_hidden(&mut self, seat: Seat, tasks: usize) {
        let found = self.tasks_at(seat.node).any(|task| task.is_found() && task.kind == seat.kind);
        let tally = self.nodes.of_mut(seat.node).tallies.of_mut(seat.kind);
        tally.hidden = if found { tasks.saturating_sub(tally.tasks) } else { 0 };
    }

    /// When a node was given a task last.
    pub(crate) fn given_us(&self, node: NodeId) -> u64 {
        self.nodes.of(node).given_us
    }
}
