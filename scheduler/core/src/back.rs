//! What leaves its node: tasks whose node is lost, gone or another one now go back to gq, those of a job that has ended
//! leave dq. A loss is taken back at once, node by node; all else a turn takes back so many tasks of, and leaves the
//! rest to the next turns. Until then a task that goes back belongs to nobody and its units are out, and one of an
//! ended job stays where it is, its units abandoned.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::Revoke;

use crate::farm::Farm;
use crate::queues::{Task, TaskId};

impl Farm {
    /// The units of `at` that a task in dq still has out go back to gq; it leaves dq with its last one. What another node
    /// was to compute again still waits for another.
    pub(crate) fn give_back(&mut self, id: TaskId, at: Interval, now_us: u64) {
        let job_id = self.queues.task(id).job;
        let Some(job) = self.jobs.unfinished_mut(job_id) else {
            // Nothing of it is wanted any more, and a deleted job left it behind.
            self.queues.drop(id);
            return;
        };
        let pieces = self.queues.give_back(&mut job.units, id, at) as u64;
        if pieces > 0 {
            job.totals.resent += pieces;
            self.telemetry.totals.resent += pieces;
            self.wait_for_others(job_id, at, now_us);
            self.work_came();
        }
    }

    /// There is more to take back.
    pub(crate) fn takes_more_back(&self) -> bool {
        self.queues.has_back() || !(self.agenda.ended.is_empty() && self.agenda.hellos.is_empty())
    }

    /// Takes back a turn's worth of what waits for that.
    pub(crate) fn unwind(&mut self, now_us: u64) {
        while !self.agenda.is_full(self.config.tasks_a_turn) {
            if let Some(id) = self.queues.next_back() {
                self.agenda.taken += 1;
                self.give_back(id, self.queues.task(id).at, now_us);
            } else if let Some(&revoke) = self.agenda.ended.front() {
                self.agenda.taken += 1;
                if !self.let_one_go(revoke) {
                    self.agenda.ended.pop_front();
                }
            } else {
                break;
            }
        }
        self.agenda.taken = 0;
        self.forgive_renewed();
    }

    /// The tasks of an ended job leave dq at once: it is to go on.
    pub(crate) fn unwind_job(&mut self, job: JobId) {
        if let Some(at) = self.agenda.ended.iter().position(|revoke| revoke.job == job) {
            let revoke = self.agenda.ended.remove(at).expect("its place was found just now");
            while self.let_one_go(revoke) {}
            assert!(self.queues.any_of(job).is_none(), "all of its tasks have left");
        }
    }

    /// A task of an ended job leaves dq; false where it has none.
    fn let_one_go(&mut self, revoke: Revoke) -> bool {
        let Some(id) = self.queues.any_of(revoke.job) else { return false };
        let task = self.queues.drop(id);
        self.may_report_later(task.node, task.job, task.at);
        self.revoke_from(task.node, revoke);
        true
    }

    /// What nodes lacked, or gave back, is held against them no longer. Once a turn for all of them: it goes through
    /// all jobs.
    fn forgive_renewed(&mut self) {
        let renewed = std::mem::take(&mut self.agenda.renewed);
        if renewed.is_empty() {
            return;
        }
        for job in self.jobs.iter_mut() {
            job.refused_by.retain(|seat, _| !renewed.contains_key(&seat.node));
            let is_another = |id: NodeId| renewed.get(&id) == Some(&true);
            job.returned.retain(|_, back| !is_another(back.node));
            job.units.roomless.retain_nodes(|id| !is_another(id));
        }
    }

    /// A silent node is lost: everything that it has goes back to gq, and is remembered in case it comes back.
    pub(crate) fn take_all_back(&mut self, id: NodeId, now_us: u64) {
        self.nodes.at_mut(id).silence();
        let tasks = self.queues.silence(id);
        self.agenda.taken += tasks.len() as u64;
        for task_id in tasks {
            let &Task { job, at, left, copy, .. } = self.queues.task(task_id);
            self.may_report_later(id, job, at);
            self.give_back(task_id, at, now_us);
            if !copy {
                let node = self.nodes.at_mut(id);
                node.taken.push((job, at));
                node.units_taken += left;
            }
        }
    }

    /// An incarnation of a node is gone for good: nobody has its tasks any more. What it computed of them may come with the
    /// next one.
    pub(crate) fn orphan_all(&mut self, id: NodeId) {
        self.nodes.at_mut(id).silence();
        let tasks: Vec<_> = self.queues.tasks_at(id).map(|task| (task.job, task.at)).collect();
        tasks.into_iter().for_each(|(job, at)| self.may_report_later(id, job, at));
        // That is a small part of what it costs to take them back.
        self.agenda.taken += 1 + self.queues.orphan(id) as u64 / 8;
    }

    /// What nobody said to hold after the scheduler's start goes to gq.
    pub(crate) fn release_leases(&mut self, now_us: u64) {
        for id in self.queues.of_nobody() {
            self.give_back(id, self.queues.task(id).at, now_us);
        }
        assert!(self.queues.of_nobody().is_empty(), "what nobody has went back");
    }
}
