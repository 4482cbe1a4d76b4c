//! Second dispatches. At the end of a job an idle node gets a copy of the oldest task that others still compute, if it would be
//! done with it sooner. The first result counts, whoever it comes from (R2); the other one is let go. A
//! copy's units are out by the account of the first dispatch. What hangs is copied earlier: see `hang`.

use std::collections::VecDeque;

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{Cancel, Revoke};

use crate::coverage::Class;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::hang::Hung;
use crate::job::Job;
use crate::limits::{COPY_GAIN, COPY_GAIN_US, COPY_TASKS_MAX};
use crate::task::{NOBODY, NodeId, State, Task, TaskId};

/// What idle nodes may get copies of, as it was found last. To find it takes a walk through all that is out, so it is
/// found for all of them together.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    found_us: u64,
    /// What dq had counted then.
    changes: u64,
    /// It holds until then at least, whatever changes.
    rest_us: u64,
    /// Walks through all that is out of a job, since the start.
    pub(crate) walks: u64,
    jobs: Vec<(JobId, Option<Vec<Candidate>>)>,
    /// What hangs and has no copy yet.
    pub(crate) hung: VecDeque<Hung>,
}

/// A task that has no copy.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    task: TaskId,
    attempt: Attempt,
    node: NodeId,
    since_us: u64,
    /// Units per second above which a slot would be done with it well before the node that has it.
    faster_than: f64,
}

impl Farm {
    /// Gives node `id` a copy if it idles.
    pub(crate) fn speculate(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get(&id) else { return };
        if !node.live() || !node.greeted || node.tasks.len() >= usize::from(node.slots) {
            return;
        }
        self.renew_copying(now_us);
        let mut jobs = std::mem::take(&mut self.copying.jobs);
        let may = |job: &Job| ends(job) && self.gives_out(job) && !job.refused_by.contains_key(&id);
        if let Some((job_id, found)) = jobs.iter_mut().find(|(job, _)| self.jobs.get(job).is_some_and(may)) {
            let walks = &mut self.copying.walks;
            *walks += u64::from(found.is_none());
            let found = found.get_or_insert_with(|| self.candidates(*job_id, now_us));
            let (job, node) = (&self.jobs[&*job_id], &self.nodes[&id]);
            let rate = job.rates.get(&id).map_or(job.mean_rate, |rate| rate.units_per_s);
            let fits = |of: &Candidate| of.faster_than < rate && of.node != id;
            // What it still runs although others were faster takes up its slots as well: a copy would wait there.
            let its = |&&(job, unit): &&(JobId, u128)| {
                let holds = |task: &Task| task.job == job && (task.lo..task.hi).contains(&unit);
                node.tasks.iter().any(|&task| self.dq.peek(task).is_some_and(holds))
            };
            if let Some(at) = found.iter().position(fits) {
                let vain = node.running.iter().filter(|unit| !its(unit)).count();
                if node.tasks.len() + vain < usize::from(node.slots) {
                    let Candidate { task, attempt, .. } = found.remove(at);
                    self.put_copy_of((task, attempt), id, *job_id, now_us, deeds);
                }
            }
        }
        self.copying.jobs = jobs;
    }

    /// Jobs whose tasks may be copied, in their order. With few tasks out they are found anew whenever time has passed
    /// or anything has changed, with many after a rest that keeps the cost small.
    fn renew_copying(&mut self, now_us: u64) {
        const FREE_TASKS: usize = 64;
        const REST_US_A_TASK: u64 = 10;
        let changes = self.dq.changes();
        let Copying { found_us, changes: before, rest_us, walks, .. } = self.copying;
        if now_us < rest_us || (now_us, changes) == (found_us, before) {
            return;
        }
        let jobs = self.jq.iter().filter(|id| ends(&self.jobs[id])).map(|&id| (id, None));
        let jobs: Vec<(JobId, Option<Vec<Candidate>>)> = jobs.collect();
        let tasks = jobs.first().map_or(0, |(id, _)| self.dq.count_of_job(*id)) + self.jq.len();
        let rest_us = now_us + REST_US_A_TASK * tasks.saturating_sub(FREE_TASKS) as u64;
        let hung = std::mem::take(&mut self.copying.hung);
        self.copying = Copying { found_us: now_us, changes, rest_us, walks, jobs, hung };
    }

    /// Tasks of a job that has all its units out, the oldest first; none where there are so many that its end is not
    /// near.
    fn candidates(&self, job_id: JobId, now_us: u64) -> Vec<Candidate> {
        if self.dq.count_of_job(job_id) > COPY_TASKS_MAX {
            return Vec::new();
        }
        let job = &self.jobs[&job_id];
        let candidate = |id: TaskId| {
            let task = self.dq.peek(id).expect("the id is held by a task in dq");
            let free = task.node != NOBODY && self.dq.copies_in(job_id, task.lo, task.hi).is_empty();
            let slow = || self.nodes.get(&task.node).is_none_or(|node| !node.live());
            let faster_than = || if slow() { Some(-1.0) } else { gains_above(job, task, now_us) };
            let faster_than = if free { faster_than()? } else { return None };
            let Task { attempt, node, since_us, .. } = *task;
            Some(Candidate { task: id, attempt, node, since_us, faster_than })
        };
        let mut found: Vec<Candidate> = self.dq.of_job(job_id).into_iter().filter_map(candidate).collect();
        found.sort_by_key(|of| of.since_us);
        found
    }

    /// Node `id` gets a copy of what is out of a task, if it is there yet.
    fn put_copy_of(
        &mut self,
        (task, attempt): (TaskId, Attempt),
        id: NodeId,
        job_id: JobId,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let Some(&mut Task { lo, hi, .. }) = self.dq.get(task, attempt) else { return };
        if let Some(interval) = self.jobs[&job_id].coverage.bounds_in(lo, hi, Class::Out) {
            self.put_copy(id, job_id, interval, now_us, deeds);
        }
    }

    pub(crate) fn put_copy(
        &mut self,
        id: NodeId,
        job_id: JobId,
        (lo, hi): (u128, u128),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let attempt = self.new_attempt();
        let (Some(node), Some(job)) = (self.nodes.get_mut(&id), self.jobs.get_mut(&job_id)) else { return };
        let held = Task::held(id, job_id, (lo, hi), now_us);
        let copy = Task { attempt, state: State::Assigned, copy: true, ..held };
        let task_id = self.dq.put_at(copy, &mut node.tasks);
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
        for copy in self.dq.copies_in(job_id, lo, hi) {
            let (copy_lo, copy_hi, node) = {
                let task = self.dq.at(copy);
                (task.lo, task.hi, task.node)
            };
            let Some(job) = self.jobs.get(&job_id) else { return };
            if job.coverage.count_in(copy_lo, copy_hi, Class::Out) == 0 {
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
            node.to_tell.withdraws.push(Revoke { job: job_id, cancel: Cancel::Forced, before });
            self.mark(id);
        }
    }

    /// A node gives a copy back, or no longer lists it: the first dispatch goes on alone.
    pub(crate) fn forget_copies(&mut self, id: NodeId, job_id: JobId, (lo, hi): (u128, u128), upto: Attempt) {
        for copy in self.dq.copies_in(job_id, lo, hi) {
            let task = self.dq.at(copy);
            if task.node == id && task.attempt <= upto {
                self.take_from_node(copy);
            }
        }
    }
}

/// All that is left of the job is out, and idle nodes may get copies of it.
fn ends(job: &Job) -> bool {
    job.facts.speculative && job.active() && job.pending() == 0 && job.coverage.count(Class::Out) > 0
}

/// Units per second of a slot that would be done with `task` well before the node that has it; less than any slot has
/// where that node is late already, none where nobody would be.
fn gains_above(job: &Job, task: &Task, now_us: u64) -> Option<f64> {
    let rate = job.rates.get(&task.node).map_or(job.mean_rate, |rate| rate.units_per_s);
    let takes_us = if rate > 0.0 { task.left as f64 * 1e6 / rate } else { job.target_us() as f64 };
    let age_us = now_us.saturating_sub(task.since_us) as f64;
    if age_us > COPY_GAIN * takes_us + COPY_GAIN_US {
        return Some(-1.0);
    }
    let spare_us = takes_us - age_us - COPY_GAIN_US;
    (spare_us > 0.0).then(|| COPY_GAIN * task.left as f64 * 1e6 / spare_us)
}
