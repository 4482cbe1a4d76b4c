//! Second dispatches. At the end of a job an idle node gets a copy of the oldest task that others still compute, if it
//! would be done with it sooner. The first result counts, whoever it comes from (R2); the other one is let go. A copy's
//! units are out by the account of the first dispatch. What hangs is copied earlier: see `hang`.

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::Cancel;

use crate::agenda::{Candidate, Copying};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Job;
use crate::limits::{COPY_GAIN, COPY_GAIN_US, COPY_TASKS_MAX};
use crate::queues::{Class, NOBODY, Task, TaskId};
use crate::seat::Seat;

impl Farm {
    /// Gives slots of node `id` that idle a copy, of each kind one.
    pub(crate) fn speculate(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        self.speculate_at(Seat::cores(id), now_us, deeds);
        for at in 0..self.nodes.at(id).all_devices().len() {
            let kind = self.nodes.at(id).all_devices()[at].kind();
            self.speculate_at(Seat::new(id, kind), now_us, deeds);
        }
    }

    fn speculate_at(&mut self, seat: Seat, now_us: u64, deeds: &mut Deeds) {
        let (id, node) = (seat.node, self.nodes.at(seat.node));
        let (slots, tasks) = (usize::from(node.slots_of(seat.kind)), self.queues.count_at(seat));
        if !node.health().takes_tasks() || tasks >= slots || self.idle_slots(seat) == 0 {
            return;
        }
        self.renew_copying(now_us);
        let mut jobs = std::mem::take(&mut self.agenda.copying.jobs);
        let may = |job: &Job| {
            let could = job.could_run_at(seat, &self.nodes) && self.has_slots(job, seat);
            ends(job) && self.jobs.gives_out(job) && could
        };
        if let Some((job_id, found)) = jobs.iter_mut().find(|(job, _)| self.jobs.get(*job).is_some_and(may)) {
            self.agenda.walks += u64::from(found.is_none());
            let found = found.get_or_insert_with(|| self.candidates(*job_id, now_us));
            let (rate, node) = (self.jobs.at(*job_id).rate_on(seat), self.nodes.at(id));
            let may_have = |of: &Candidate| {
                let task = self.queues.dispatch(of.task, of.attempt);
                task.is_some_and(|task| {
                    self.may_copy(id, task, of.faster_than < 0.0, now_us)
                        && self.has_time(self.jobs.at(task.job), seat, task.left, now_us)
                })
            };
            let fits = |of: &Candidate| of.faster_than < rate && may_have(of);
            // What it still runs although others were faster takes up its slots as well: a copy would wait there.
            let its =
                |&&(job, unit): &&(JobId, u128)| self.queues.tasks_at(id).any(|task| task.has(job, unit));
            if let Some(at) = found.iter().position(fits) {
                let runs = |unit: &&(JobId, u128)| !seat.kind.is_device() && !its(unit);
                let vain = node.running.iter().filter(runs).count();
                if tasks + vain < slots {
                    let of = found.remove(at);
                    self.copy_candidate(of, seat, *job_id, now_us, deeds);
                }
            }
        }
        self.agenda.copying.jobs = jobs;
    }

    /// Jobs whose tasks may be copied, in their order. With few tasks out they are found anew whenever time has passed
    /// or anything has changed, with many after a rest that keeps the cost small.
    fn renew_copying(&mut self, now_us: u64) {
        const FREE_TASKS: usize = 64;
        const REST_US_A_TASK: u64 = 10;
        let changes = self.queues.changes();
        let known = &self.agenda.copying;
        if now_us < known.rest_us || (now_us, changes) == (known.found_us, known.changes) {
            return;
        }
        let jobs: Vec<_> =
            self.jobs.queued().filter(|job| ends(job)).map(|job| (job.facts.job, None)).collect();
        let tasks = jobs.first().map_or(0, |(id, _)| self.queues.out_of(*id)) + self.jobs.queue_len();
        let rest_us = now_us + REST_US_A_TASK * tasks.saturating_sub(FREE_TASKS) as u64;
        self.agenda.copying = Copying { found_us: now_us, changes, rest_us, jobs };
    }

    /// Tasks of a job that has all its units out, the oldest first; none where there are so many that its end is not
    /// near.
    fn candidates(&self, job_id: JobId, now_us: u64) -> Vec<Candidate> {
        if self.queues.out_of(job_id) > COPY_TASKS_MAX {
            return Vec::new();
        }
        let job = self.jobs.at(job_id);
        let candidate = |(id, task): (TaskId, &Task)| {
            if task.node == NOBODY || !self.queues.copies_in(job_id, task.at).is_empty() {
                return None;
            }
            let is_live = self.nodes.is_live(task.node);
            let faster_than = if is_live { gains_above(job, task, now_us)? } else { -1.0 };
            let Task { attempt, since_us, .. } = *task;
            Some(Candidate { task: id, attempt, since_us, faster_than })
        };
        let mut found: Vec<Candidate> = self.queues.of_job(job_id).filter_map(candidate).collect();
        found.sort_by_key(|of| of.since_us);
        found
    }

    /// `seat` gets a copy of what is out of a task, if it is there yet. Units that are done in its midst end it: units that
    /// are computed together count together or not at all.
    fn copy_candidate(&mut self, of: Candidate, seat: Seat, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let Some(at) = self.queues.dispatch(of.task, of.attempt).map(|task| task.at) else { return };
        // Since it was found it may have been copied as one that hangs.
        if self.queues.copies_in(job_id, at).is_empty()
            && let Some(at) = self.jobs.at(job_id).units.coverage().first_in(at, Class::Out)
        {
            self.copy_to(seat, job_id, at, now_us, deeds);
        }
    }

    /// `seat` gets a copy of `at`.
    pub(crate) fn copy_to(
        &mut self,
        seat: Seat,
        job_id: JobId,
        at: Interval,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let original = self.queues.holding(job_id, at.lo);
        let id = seat.node;
        assert!(original.is_some_and(|task| task.node != id), "a copy has an original, at another node");
        let job = self.jobs.at_mut(job_id);
        self.queues.give_copy(&mut job.units, seat, at, now_us);
        job.totals.dispatched += 1;
        job.totals.copies += 1;
        let node = self.nodes.at(id).name.clone();
        deeds.event(Event::TaskCopied { job: job_id, lo: at.lo, hi: at.hi, node });
    }

    /// Units of `at` are decided: copies of which nothing is out any more are let go, and so is who computed the same
    /// first.
    pub(crate) fn drop_copies(&mut self, job_id: JobId, at: Interval, owners: &[NodeId]) {
        let mut idle: Vec<NodeId> = Vec::new();
        for id in self.queues.copies_in(job_id, at) {
            let Task { at, node, .. } = *self.queues.task(id);
            if !self.jobs.at(job_id).units.coverage().has_in(at, Class::Out) {
                self.may_report_later(node, job_id, at);
                self.queues.drop(id);
                idle.push(node);
                idle.extend_from_slice(owners);
            }
        }
        idle.sort_unstable();
        idle.dedup();
        // None of them need go on with what it still computes of the job, if nothing of that is wanted from it.
        for id in idle {
            self.nodes.mark(id);
            if !self.queues.tasks_at(id).any(|task| task.job == job_id) {
                self.revoke_from(id, self.so_far(job_id, Cancel::Forced));
            }
        }
    }

    /// A node gives a copy back, or no longer lists it: the first dispatch goes on alone.
    pub(crate) fn forget_copies(&mut self, id: NodeId, job_id: JobId, at: Interval, upto: Attempt) {
        for copy in self.queues.copies_in(job_id, at) {
            let task = self.queues.task(copy);
            if task.node == id && task.attempt <= upto {
                // What it did of it may be on its way.
                self.may_report_later(id, job_id, task.at);
                self.queues.drop(copy);
            }
        }
    }
}

/// All that is left of the job is out, and idle nodes may get copies of it.
fn ends(job: &Job) -> bool {
    let out = job.units.coverage().count(Class::Out);
    job.facts.speculative && job.active() && job.pending() == 0 && out > 0
}

/// Units per second of a slot that would be done with `task` well before the node that has it; less than any slot has
/// where that node is late already, none where nobody would be.
fn gains_above(job: &Job, task: &Task, now_us: u64) -> Option<f64> {
    let rate = job.rate_on(task.seat());
    let takes_us = if rate > 0.0 { task.left as f64 * 1e6 / rate } else { job.target_us() as f64 };
    let age_us = now_us.saturating_sub(task.since_us) as f64;
    if age_us > COPY_GAIN * takes_us + COPY_GAIN_US {
        return Some(-1.0);
    }
    let spare_us = takes_us - age_us - COPY_GAIN_US;
    (spare_us > 0.0).then(|| COPY_GAIN * task.left as f64 * 1e6 / spare_us)
}
