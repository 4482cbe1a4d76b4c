//! Who may compute what one node computed and another is to compute again: the others first, and that node itself where
//! nobody else does in time, or a job would never end.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use crate::farm::Farm;
use crate::job::Job;
use crate::limits::{CHECK_OTHERS_TIMES, CHECK_PATIENCE_US};
use crate::queues::Task;

impl Farm {
    /// What of `at` waits, and is computed a second time, waits for another node than the one that was first, if there is one.
    /// Where the others had it, and did not get on with it, anybody may.
    pub(crate) fn wait_for_others(&mut self, job_id: JobId, at: Interval, now_us: u64) {
        let job = self.jobs.at(job_id);
        for (at, first) in job.checks.within(at) {
            if now_us < first.since_us + CHECK_OTHERS_TIMES * job.check_patience_us()
                && self.others_could(first.node, job)
            {
                self.queues.set_apart(&job.units, at, first.node, now_us);
            }
        }
    }

    /// Other nodes than `id` could run the job.
    pub(crate) fn others_could(&self, id: NodeId, job: &Job) -> bool {
        let could = self.nodes.is_live(id) && job.could_run(id, &self.nodes);
        job.able_nodes(&self.nodes) > usize::from(could)
    }

    /// Node `id` may have a copy of a task, which `is_late` by now or is not. Where it computed a part of that, and another is
    /// to do so again, the others come first.
    pub(crate) fn may_copy(&self, id: NodeId, task: &Task, is_late: bool, now_us: u64) -> bool {
        let job = self.jobs.at(task.job);
        let others_us = CHECK_OTHERS_TIMES * job.check_patience_us();
        let may = |since_us: u64| is_late && now_us >= since_us + others_us;
        let mut checked = job.checks.within(task.at);
        task.node != id
            && self.may_hold(job, id)
            && checked.all(|(_, first)| first.node != id || may(first.since_us))
    }
}

impl Job {
    /// What another node is to compute again goes to the same one after this: by then each of the others has ended a task.
    pub(crate) fn check_patience_us(&self) -> u64 {
        CHECK_PATIENCE_US.max(2 * self.target_us())
    }
}
