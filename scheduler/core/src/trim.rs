//! Trims: a task that lasts far longer than it should, while others idle and nothing else waits for them, gives back what
//! its node has not begun. A node that tells of a speed which it does not have, or has no more, keeps no job's end to
//! itself. Copies are another means to that (`copies`), for jobs that allow them: what has a copy is not trimmed.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::wire::Cancel;

use crate::farm::Farm;
use crate::job::{Job, Sizing};
use crate::limits::{COPY_GAIN, COPY_GAIN_US, HUNGRY_LOOKS, TRIM_TARGETS, TRIMS_MAX};
use crate::nodes::Reach;
use crate::queues::{State, Task};

impl Farm {
    /// Takes back from node `id` what it has not begun of a job, where some task of that lasts far too long there and idle
    /// nodes would do it sooner.
    pub(crate) fn trim(&mut self, id: NodeId, now_us: u64) {
        if self.nodes.hungry_from(NodeId(0), Reach::Slots).is_none() {
            return;
        }
        let overdue = self.queues.tasks_at(id).find_map(|task| self.overdue(task, now_us));
        let Some((job, left_us)) = overdue else { return };
        if self.idles_for(job, id, left_us) {
            self.queues.trimmed(id, job);
            self.revoke_from(id, self.so_far(job, Cancel::Graceful));
        }
    }

    /// The job of a task that lasts far longer than it should, and what its rest will take as it goes, in microseconds.
    fn overdue(&self, task: &Task, now_us: u64) -> Option<(JobId, f64)> {
        let is_held = matches!(task.state, State::Held { .. }) && !task.copy;
        // One unit cannot be shared, and a node that did not heed the first word may not have heard it.
        if !is_held || task.left < 2 || task.trims >= TRIMS_MAX {
            return None;
        }
        let job = self.jobs.unfinished(task.job)?;
        if !self.jobs.gives_out(job) || job.pending() > 0 {
            return None;
        }
        let should_us = should_take_us(job, task)?;
        let age_us = now_us.saturating_sub(task.since_us);
        let long_us = should_us.saturating_mul(TRIM_TARGETS << task.trims);
        if age_us < long_us || !self.queues.copies_in(task.job, task.at).is_empty() {
            return None;
        }
        let done = task.at.units().saturating_sub(task.left).max(1);
        Some((task.job, age_us as f64 * task.left as f64 / done as f64))
    }

    /// A node other than `id` idles that would do a unit of the job well before the rest there is done.
    fn idles_for(&self, job_id: JobId, id: NodeId, left_us: f64) -> bool {
        let job = self.jobs.at(job_id);
        let hungry = |from: NodeId| self.nodes.hungry_from(NodeId(from.0.saturating_add(1)), Reach::Slots);
        let all =
            std::iter::successors(self.nodes.hungry_from(NodeId(0), Reach::Slots), |from| hungry(*from));
        all.take(HUNGRY_LOOKS).any(|other| {
            let (node, rate) = (self.nodes.at(other), job.rate_on(other));
            let unit_us = if rate > 0.0 { 1e6 / rate } else { 0.0 };
            let idles = self.queues.held(other) < usize::from(node.slots()) && node.health().takes_tasks();
            let may = other != id && !job.refused_by.contains_key(&other);
            may && idles && COPY_GAIN * unit_us + COPY_GAIN_US < left_us
        })
    }
}

/// What a task should take, by its job's target or, where its user named the units, by what others took; none where nobody
/// knows.
fn should_take_us(job: &Job, task: &Task) -> Option<u64> {
    match job.facts.sizing {
        Sizing::TargetUs(target_us) => Some(target_us),
        Sizing::Units(_) if job.mean_rate > 0.0 => {
            let took_us = task.at.units() as f64 * 1e6 / job.mean_rate;
            Some((took_us as u64).max(job.target_us()))
        }
        Sizing::Units(_) => None,
    }
}
