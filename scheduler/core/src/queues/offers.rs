//! What is sent to nodes, and what they say that they hold: tasks that are at a node change between assigned, offered and
//! held, and what belonged to nobody is found at one.

use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::coverage::Class;
use super::node_list::Offered;
use super::task::{NOBODY, State, Task, TaskId};
use super::units::JobUnits;
use super::{OUT, PENDING, Queues};
use crate::seat::Seat;

impl Queues {
    /// How many tasks may be offered to a node of which `room` offers may be under way.
    pub(crate) fn sendable(&self, node: NodeId, room: usize) -> usize {
        let list = self.nodes.of(node);
        list.unsent.len().min(room.saturating_sub(list.offered.len()))
    }

    /// A node has tasks that are not sent.
    pub(crate) fn has_unsent(&self, node: NodeId) -> bool {
        !self.nodes.of(node).unsent.is_empty()
    }

    /// The next `tasks` of a node's queue are offered to it: `offer` gets each.
    pub(crate) fn offer(&mut self, node: NodeId, tasks: usize, now_us: u64, mut offer: impl FnMut(&Task)) {
        let list = self.nodes.of_mut(node);
        for (id, attempt) in list.unsent.drain(..tasks) {
            let Some(task) = self.dq.get(id, attempt) else { continue };
            assert!(task.state == State::Assigned, "what is in a node queue was not offered");
            let before =
                list.offered.back().is_none_or(|last| last.attempt < attempt && last.sent_us <= now_us);
            assert!(before, "offers go out in the order of their attempts");
            task.state = State::Offered;
            offer(task);
            list.offered.push_back(Offered { attempt, task: id, sent_us: now_us, repeated: false });
        }
    }

    /// A node has acknowledged its offers of attempts `first` to `last`: `landed` gets each.
    pub(crate) fn acknowledge(
        &mut self,
        node: NodeId,
        (first, last): (Attempt, Attempt),
        now_us: u64,
        mut landed: impl FnMut(&Offered),
    ) {
        let list = self.nodes.of_mut(node);
        let start = list.offered.partition_point(|of| of.attempt < first);
        let end = list.offered.partition_point(|of| of.attempt <= last).max(start);
        for offered in list.offered.drain(start..end) {
            list.landed_sent_us = list.landed_sent_us.max(offered.sent_us);
            assert!(offered.sent_us <= now_us, "time does not go back");
            landed(&offered);
            if let Some(task) = self.dq.get(offered.task, offered.attempt) {
                assert!(matches!(task.state, State::Offered | State::Held { .. }), "an offer left");
                task.state = State::Held { seen_us: now_us };
            }
        }
    }

    /// When the first of the offers under way to a node left.
    pub(crate) fn oldest_offer_us(&self, node: NodeId) -> Option<u64> {
        self.nodes.of(node).offered.front().map(|first| first.sent_us)
    }

    /// Offers to a node go out again that have waited for `rto_us`, if later ones have overtaken them. Where none has,
    /// they may be waiting at a busy worker, so only the first `alone` go to ask. `offer` gets each; how many.
    pub(crate) fn repeat(
        &mut self,
        node: NodeId,
        rto_us: u64,
        alone: usize,
        now_us: u64,
        mut offer: impl FnMut(&Task),
    ) -> usize {
        let list = self.nodes.of_mut(node);
        let mut repeated = 0;
        list.offered.retain_mut(|offered| {
            let Some(task) = self.dq.get(offered.task, offered.attempt) else { return false };
            assert!(matches!(task.state, State::Offered | State::Held { .. }), "an offer left");
            let overtaken = offered.sent_us < list.landed_sent_us;
            if now_us >= offered.sent_us + rto_us && (overtaken || repeated < alone) {
                (offered.sent_us, offered.repeated) = (now_us, true);
                offer(task);
                repeated += 1;
            }
            true
        });
        repeated
    }

    /// A heartbeat of `node` lists `at`: what of that it has does not age. True where one of these tasks was given out
    /// before the attempt `before`.
    pub(crate) fn seen(
        &mut self,
        node: NodeId,
        job: JobId,
        at: Interval,
        before: Option<Attempt>,
        now_us: u64,
    ) -> bool {
        let mut is_old = false;
        for id in self.of_node_in(node, job, at) {
            let task = self.dq.at_mut(id);
            if let State::Held { seen_us } = &mut task.state {
                *seen_us = now_us;
            }
            is_old |= before.is_some_and(|before| task.attempt < before);
        }
        is_old
    }

    /// The tasks of `job` that `node` has and that overlap `at`, in order, copies left aside. A node may name a whole
    /// space, and others have most of that.
    pub(crate) fn of_node_in(&self, node: NodeId, job: JobId, at: Interval) -> Vec<TaskId> {
        let its = &self.nodes.of(node).tasks;
        let few = self.dq.overlapping_some(job, at, its.len() + 1);
        let ids = if few.len() > its.len() {
            self.dq.walks(its.len());
            its.to_vec()
        } else {
            few
        };
        let is_one = |id: &TaskId| {
            let task = self.dq.at(*id);
            task.node == node && !task.copy && task.overlaps(job, at)
        };
        let mut found: Vec<TaskId> = ids.into_iter().filter(is_one).collect();
        found.sort_unstable_by_key(|id| self.dq.at(*id).at.lo);
        found
    }

    /// As [`Queues::seen`] for copies.
    pub(crate) fn copies_seen(&mut self, node: NodeId, job: JobId, at: Interval, now_us: u64) {
        for id in self.dq.copies_in(job, at) {
            let task = self.dq.at_mut(id);
            if let (true, State::Held { seen_us }) = (task.node == node, &mut task.state) {
                *seen_us = now_us;
            }
        }
    }

    /// Units of `at` that wait in gq are at `seat`, whose node was only thought lost.
    pub(crate) fn adopt(&mut self, job: &mut JobUnits, seat: Seat, at: Interval, now_us: u64) {
        let mut pieces = Vec::new();
        job.coverage.change(at, PENDING, Class::Out, &mut pieces);
        for piece in pieces {
            let gone = self.gq.remove(job.job, piece.at);
            assert!(gone == piece.at.units(), "gq has what is pending");
            self.enter(Task::found(seat, job.job, piece.at, now_us));
        }
    }

    /// What of `at` was leased by an earlier scheduler and belongs to nobody is at `seat`, up to `most` units. How many
    /// these were.
    pub(crate) fn claim(
        &mut self,
        job: &mut JobUnits,
        seat: Seat,
        at: Interval,
        most: u128,
        now_us: u64,
    ) -> u128 {
        let mut claimed = 0;
        for id in self.dq.overlapping(job.job, at) {
            let task = self.dq.at(id);
            if task.node != NOBODY || task.state == State::Back || claimed == most {
                continue;
            }
            let mut pieces = Vec::new();
            let mut at = at.within(task.at);
            at.hi = at.hi.min(at.lo.saturating_add(most - claimed));
            job.coverage.change(at, OUT, Class::Pending, &mut pieces);
            if pieces.is_empty() {
                continue;
            }
            self.cut_out(job, id, at);
            for piece in pieces {
                claimed += piece.at.units();
                job.coverage.change(piece.at, PENDING, Class::Out, &mut Vec::new());
                self.enter(Task::found(seat, job.job, piece.at, now_us));
            }
        }
        assert!(claimed <= most, "no more is claimed than may be");
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::Size;

    /// It looked at each task of the job, for each interval of each heartbeat.
    #[test]
    fn a_node_that_lists_a_whole_space_has_its_own_tasks_looked_at() {
        let (mut queues, mut job) = (Queues::new(Attempt(1)), JobUnits::new(JobId(1), 10_000));
        queues.cut(&mut job, (10..=10_000).step_by(10));
        for task in 0..1_000 {
            queues.take(JobId(1), Size { units: 10, whole: 10 }, true, |unit| unit).unwrap();
            queues.give(&mut job, Seat::cores(NodeId(u32::from(task % 500 == 7))), 10, 5);
        }
        let node = NodeId(1);
        queues.offer(node, 2, 6, |_| {});
        queues.acknowledge(node, (Attempt(0), Attempt(u64::MAX)), 7, |_| {});
        let before = queues.walked();
        assert!(queues.seen(node, JobId(1), Interval::new(0, 10_000), Some(Attempt(9)), 8));
        assert!(queues.walked() - before <= 5, "{}", queues.walked() - before);
        let held = |state| matches!(state, State::Held { seen_us: 8 });
        assert_eq!(queues.tasks().filter(|task| held(task.state)).count(), 2);
        assert!(queues.tasks_at(node).all(|task| held(task.state)));
    }
}
