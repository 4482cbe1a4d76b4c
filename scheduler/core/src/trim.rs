//! Trims: a task that lasts far longer than it should, while others idle and nothing else waits for them, gives back what
//! its node has not begun. A node that tells of a speed which it does not have, or has no more, keeps no job's end to
//! itself, nor does one that asks for work and computes none. Copies are another means to that (`copies`), for jobs that
//! allow them: what has a copy is not trimmed.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::Per;
use starfarm_protocol::limits::RUNNING_MAX;
use starfarm_protocol::wire::Cancel;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::health::Shirk;
use crate::job::{Job, Sizing};
use crate::limits::{COPY_GAIN, COPY_GAIN_US, HUNGRY_LOOKS, TRIM_TARGETS, TRIMS_MAX};
use crate::nodes::Reach;
use crate::queues::{State, Task, TaskId};
use crate::seat::Seat;

/// A task that lasts far longer than it should.
#[derive(Clone, Copy)]
struct Overdue {
    job: JobId,
    /// What its rest will take as it goes, in microseconds.
    left_us: f64,
    /// Its node was asked for what it has not begun as often as it is, and had time after that.
    kept: bool,
}

impl Farm {
    /// Takes back from node `id` what it has not begun of a job, where some task of that lasts far too long there and idle
    /// nodes would do it sooner: it is asked, and where it does not heed that, others get it all the same.
    pub(crate) fn trim(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        if self.nodes.hungry_from(NodeId(0), Reach::Slots).is_none() {
            return;
        }
        let overdue: Vec<(TaskId, Overdue)> = self
            .queues
            .ids_at(id)
            .iter()
            .filter_map(|&task_id| Some((task_id, self.overdue(self.queues.task(task_id), now_us)?)))
            .collect();
        let asked = overdue.iter().map(|(_, of)| of).find(|of| !of.kept);
        if let Some(&Overdue { job, left_us, .. }) = asked
            && self.idles_for(job, id, left_us, now_us)
        {
            self.queues.trimmed(id, job);
            self.revoke_from(id, self.so_far(job, Cancel::Graceful));
        }
        let kept = overdue.iter().map(|(_, of)| of).find(|of| of.kept);
        if let Some(&Overdue { job, left_us, .. }) = kept
            && self.idles_for(job, id, left_us, now_us)
        {
            let of_job = overdue.iter().filter(|(_, of)| of.kept && of.job == job).map(|(task, _)| *task);
            self.take_kept(id, job, &of_job.collect::<Vec<_>>(), now_us, deeds);
        }
    }

    /// A task that lasts far longer than it should, and is not one unit that runs: that cannot be shared.
    fn overdue(&self, task: &Task, now_us: u64) -> Option<Overdue> {
        let is_held = matches!(task.state, State::Held { .. }) && !task.copy;
        if !is_held || task.trims > TRIMS_MAX {
            return None;
        }
        let job = self.jobs.unfinished(task.job)?;
        if !self.jobs.gives_out(job) || job.pending() > 0 {
            return None;
        }
        let may_run = self.may_run(task);
        // Units that are computed together are one run, which may know how to stop.
        let is_one_run = task.left < 2 || (job.facts.work.per == Per::Task && task.trims == TRIMS_MAX);
        if is_one_run && may_run {
            return None;
        }
        // Nobody may know what its units take, but not even the first was begun.
        let should_us = should_take_us(job, task).or_else(|| (!may_run).then(|| job.target_us()))?;
        let age_us = now_us.saturating_sub(task.since_us);
        let times =
            if may_run { TRIM_TARGETS << task.trims } else { TRIM_TARGETS * u64::from(task.trims + 1) };
        let long_us = should_us.saturating_mul(times);
        if age_us < long_us || !self.queues.copies_in(task.job, task.at).is_empty() {
            return None;
        }
        let done = task.at.units().saturating_sub(task.left).max(1);
        let left_us = age_us as f64 * task.left as f64 / done as f64;
        Some(Overdue { job: task.job, left_us, kept: task.trims == TRIMS_MAX })
    }

    /// Units of a task that its node says to run.
    fn runs_in(&self, task: &Task) -> impl DoubleEndedIterator<Item = u128> {
        let (from, to) = ((task.job, task.at.lo), (task.job, task.at.hi));
        self.nodes.at(task.node).runs.range(from..to).map(|((_, unit), _)| *unit)
    }

    /// The node of a task runs a unit of it, as far as it says: a heartbeat does not name all that many slots run.
    fn may_run(&self, task: &Task) -> bool {
        let node = self.nodes.at(task.node);
        let names_all = node.running.len() < RUNNING_MAX;
        let has_more = self.queues.held(task.seat()) > usize::from(node.slots_of(task.kind));
        self.runs_in(task).next().is_some() || !(names_all || has_more)
    }

    /// Node `id` goes on listing what it was asked for, and does not say that it runs it: it keeps these tasks from the job.
    /// All but what it runs goes to others; if it computes it all the same, it may still report it.
    fn take_kept(&mut self, id: NodeId, job_id: JobId, tasks: &[TaskId], now_us: u64, deeds: &mut Deeds) {
        let mut kept = 0;
        for &task_id in tasks {
            let task = self.queues.task(task_id).clone();
            let runs: Vec<u128> = self.runs_in(&task).collect();
            if runs.is_empty() && self.may_run(&task) {
                continue;
            }
            let (mut hi, mut pieces) = (task.at.hi, Vec::new());
            for unit in runs.into_iter().rev() {
                pieces.push(Interval::new(unit + 1, hi));
                hi = unit;
            }
            pieces.push(Interval::new(task.at.lo, hi));
            // From the end on: what is left before a piece keeps the task's id.
            for at in pieces.into_iter().filter(|at| !at.is_empty()) {
                self.may_report_later(id, job_id, at);
                self.give_back(task_id, at, now_us);
                self.jobs.at_mut(job_id).returned_by(id, at, now_us);
            }
            kept += 1;
        }
        if kept > 0 {
            self.shirks(id, Shirk::Keeps(kept), deeds, now_us);
        }
    }

    /// A node other than `id` idles that would do a unit of the job well before the rest there is done.
    fn idles_for(&self, job_id: JobId, id: NodeId, left_us: f64, now_us: u64) -> bool {
        let job = self.jobs.at(job_id);
        let hungry = |from: NodeId| self.nodes.hungry_from(NodeId(from.0.saturating_add(1)), Reach::Slots);
        let all =
            std::iter::successors(self.nodes.hungry_from(NodeId(0), Reach::Slots), |from| hungry(*from));
        all.take(HUNGRY_LOOKS).any(|other| {
            let idles = |seat: Seat| {
                let rate = job.rate_on(seat);
                let unit_us = if rate > 0.0 { 1e6 / rate } else { 0.0 };
                job.could_run_at(seat, &self.nodes)
                    && self.has_slots(job, seat)
                    && self.has_time(job, seat, 1, now_us)
                    && COPY_GAIN * unit_us + COPY_GAIN_US < left_us
            };
            let may = other != id && self.may_hold(job, other) && self.nodes.at(other).health().takes_tasks();
            may && self.nodes.seats(other).any(idles)
        })
    }
}

/// What a task should take, by its job's target or, where its user named the units, by what others took; none where nobody
/// knows.
fn should_take_us(job: &Job, task: &Task) -> Option<u64> {
    match job.facts.sizing {
        Sizing::TargetUs(_) => job.task_us(task.seat()),
        Sizing::Units(_) if job.rates.mean(task.kind) > 0.0 => {
            let took_us = task.at.units() as f64 * 1e6 / job.rates.mean(task.kind);
            Some((took_us as u64).max(job.target_us()))
        }
        Sizing::Units(_) => None,
    }
}
