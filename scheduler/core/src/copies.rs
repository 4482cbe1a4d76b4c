//! The end of a job: an idle node gets a copy of the oldest task that others still compute, if it would be
//! done with it sooner. The first result counts, whoever it comes from (R2); the other one is let go. A
//! copy's units are out by the account of the first dispatch.

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{Letting, Withdraw};

use crate::coverage::Class;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Job;
use crate::limits::{COPY_GAIN, COPY_GAIN_US, COPY_TASKS_MAX};
use crate::task::{NOBODY, NodeId, State, Task};

impl Farm {
    /// Gives node `id` a copy if it idles.
    pub(crate) fn speculate(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get(&id) else { return };
        if !node.live() || !node.greeted || node.tasks.len() >= usize::from(node.slots) {
            return;
        }
        // What it still runs although others were faster takes up its slots as well: a copy would wait there.
        let its = |&&(job, unit): &&(JobId, u128)| {
            let holds = |task: &Task| task.job == job && (task.lo..task.hi).contains(&unit);
            node.tasks.iter().any(|&task| self.dq.peek(task).is_some_and(holds))
        };
        let vain = node.running.iter().filter(|unit| !its(unit)).count();
        if node.tasks.len() + vain >= usize::from(node.slots) {
            return;
        }
        let wants = |job: &&Job| {
            job.facts.speculative
                && self.gives_out(job)
                && job.pending() == 0
                && job.coverage.count(Class::Out) > 0
                && !job.refused_by.contains_key(&id)
        };
        let Some(job) = self.jq.iter().filter_map(|id| self.jobs.get(id)).find(wants) else { return };
        let job_id = job.facts.job;
        if self.dq.count_of_job(job_id) > COPY_TASKS_MAX {
            return;
        }
        let mut copied = Vec::new();
        for copy in self.dq.copies(job_id) {
            let copy = self.dq.at(copy);
            copied.push((copy.lo, copy.hi));
        }
        let mut oldest: Option<(u64, u128, u128)> = None;
        for task_id in self.dq.of_job(job_id) {
            let task = self.dq.at(task_id);
            let has_copy = copied.iter().any(|&(lo, hi)| lo < task.hi && task.lo < hi);
            if has_copy || task.node == id || task.node == NOBODY {
                continue;
            }
            let slow = self.nodes.get(&task.node).is_none_or(|node| !node.live());
            if !slow && !gains(job, task, id, now_us) {
                continue;
            }
            if oldest.is_none_or(|(since_us, ..)| task.since_us < since_us)
                && let Some((lo, hi)) = job.coverage.bounds_in(task.lo, task.hi, Class::Out)
            {
                oldest = Some((task.since_us, lo, hi));
            }
        }
        if let Some((_, lo, hi)) = oldest {
            self.put_copy(id, job_id, (lo, hi), now_us, deeds);
        }
    }

    fn put_copy(
        &mut self,
        id: NodeId,
        job_id: JobId,
        (lo, hi): (u128, u128),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let attempt = self.new_attempt();
        let (Some(node), Some(job)) = (self.nodes.get_mut(&id), self.jobs.get_mut(&job_id)) else { return };
        let held = Task::held(id, job_id, (lo, hi), now_us, node.tasks.len() as u32);
        let task_id = self.dq.put(Task { attempt, state: State::Assigned, copy: true, ..held });
        node.tasks.push(task_id);
        node.queue.push_back((task_id, attempt));
        node.given_us = now_us;
        job.totals.dispatched += 1;
        self.watched.dispatched += 1;
        job.totals.copies += 1;
        deeds.event(Event::TaskCopied { job: job_id, lo, hi, node: node.name.clone() });
    }

    /// Units of [lo, hi) are decided: copies of which nothing is out any more are let go, and so is who
    /// computed the same first.
    pub(crate) fn drop_copies(&mut self, job_id: JobId, lo: u128, hi: u128, owners: &[NodeId]) {
        let mut idle: Vec<NodeId> = Vec::new();
        for copy in self.dq.copies(job_id) {
            let (copy_lo, copy_hi, node) = {
                let task = self.dq.at(copy);
                (task.lo, task.hi, task.node)
            };
            let Some(job) = self.jobs.get(&job_id) else { return };
            if copy_lo < hi && lo < copy_hi && job.coverage.count_in(copy_lo, copy_hi, Class::Out) == 0 {
                self.take_from_node(copy);
                idle.push(node);
                idle.extend_from_slice(owners);
            }
        }
        idle.sort_unstable();
        idle.dedup();
        for id in idle {
            self.let_go_of(id, job_id);
        }
    }

    /// Node `id` need not go on with what it still computes of a job, if nothing of that is wanted from it.
    fn let_go_of(&mut self, id: NodeId, job_id: JobId) {
        let before = Attempt(self.next_attempt);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if !node.tasks.iter().any(|&task| self.dq.at(task).job == job_id) {
            node.to_tell.withdraws.push(Withdraw { job: job_id, letting: Letting::Kill, before });
            self.mark(id);
        }
    }

    /// A node gives a copy back, or no longer lists it: the first dispatch goes on alone.
    pub(crate) fn forget_copies(&mut self, id: NodeId, job_id: JobId, (lo, hi): (u128, u128), upto: Attempt) {
        for copy in self.dq.copies(job_id) {
            let task = self.dq.at(copy);
            if task.node == id && task.attempt <= upto && task.lo < hi && lo < task.hi {
                self.take_from_node(copy);
            }
        }
    }
}

/// Node `id` would be done with `task` well before the node that has it.
fn gains(job: &Job, task: &Task, id: NodeId, now_us: u64) -> bool {
    let rate = |id: NodeId| job.rates.get(&id).map_or(job.mean_rate, |rate| rate.units_per_s);
    let takes_us = |id: NodeId| {
        let rate = rate(id);
        if rate > 0.0 { task.left as f64 * 1e6 / rate } else { job.target_us() as f64 }
    };
    let age_us = now_us.saturating_sub(task.since_us) as f64;
    let left_us = takes_us(task.node) - age_us;
    let late = age_us > COPY_GAIN * takes_us(task.node) + COPY_GAIN_US;
    late || left_us > COPY_GAIN * takes_us(id) + COPY_GAIN_US
}
