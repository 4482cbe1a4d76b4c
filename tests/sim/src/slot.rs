//! A slot of a simulated machine: what it runs, and what it reports when. Time is given, chance too; a unit
//! takes its job's time divided by the slot's speed, more or less by noise.

use std::collections::VecDeque;

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::wire::{Cancel, FailReason, Outcome};
use starfarm_worker_core::{Part, Task};

use crate::how::{How, divides};
use crate::job::Job;
use crate::plan::us;
use crate::random::Random;
use crate::scenario::WorkModel;
use crate::together::{End, Together};

/// A command's units are reported together until this has passed.
const COMMAND_FLUSH_US: u64 = 100_000;
/// A body is reported before it could outgrow its limit: longest record of a simulated unit.
const UNIT_BYTES: usize = 32;

/// A unit that takes so many times what others take is ended, where the job wants that: as in the worker.
const HANG_TIMES: u64 = 30;

/// What a slot tells its worker.
#[derive(Debug)]
pub(crate) enum Report {
    /// A unit begins.
    Running(JobId, u128),
    /// Units are done.
    Part(Part),
    /// A task has left the slot.
    End(Attempt),
    /// A task is over: all of it ran here without a break. For the law of sizes.
    Whole(Lasted),
    /// The unit killed the worker.
    Died,
}

/// How long a whole task took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasted {
    pub(crate) job: JobId,
    pub(crate) attempt: Attempt,
    pub(crate) started_us: u64,
    pub(crate) computed_us: u64,
}

/// What a slot works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) now_us: u64,
    pub(crate) jobs: &'a mut [Job],
    pub(crate) random: &'a mut Random,
    pub(crate) speed: f64,
    pub(crate) noise: f64,
    /// Every unit of a command fails.
    pub(crate) sick: bool,
    /// Every second unit of a command is given back.
    pub(crate) gives_back: bool,
    /// There is no room for the files of every so manieth unit of a command; 0 for none.
    pub(crate) no_room_every: u64,
    /// Jobs that cannot be run here.
    pub(crate) refuses: &'a [u64],
}

impl Surroundings<'_> {
    fn job(&mut self, id: JobId) -> &mut Job {
        &mut self.jobs[id.0 as usize - 1]
    }
}

#[derive(Debug)]
struct Run {
    task: Task,
    /// First unit that was not computed.
    next: u128,
    /// Units and time of the step under way.
    units: u64,
    from_us: u64,
    until_us: u64,
    /// The step hangs, and is ended as a time-out.
    ended_late: bool,
    /// It hangs, and a thread that computes hears nobody.
    deaf: bool,
    /// One program computes all units of the task: how that goes.
    together: Option<Together>,
    /// Units of a command that are computed and not reported.
    waiting: u64,
    waiting_us: u64,
    waiting_since_us: u64,
    body: Vec<u8>,
    started_us: u64,
    computed_us: u64,
}

impl Run {
    /// The share of the step under way that has passed.
    fn share(&self, now_us: u64) -> f64 {
        let (planned_us, spent_us) = (self.until_us - self.from_us, now_us - self.from_us);
        spent_us as f64 / planned_us.max(1) as f64
    }
}

/// A slot.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    bundle: VecDeque<Task>,
    run: Option<Run>,
    cancelled: Vec<JobId>,
    /// Number of the step under way; an event of another one is void.
    pub(crate) step: u32,
    /// Computing time so far.
    pub(crate) busy_us: u64,
}

impl Slot {
    /// When the step under way ends; none where it hangs for good.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.run.as_ref().map(|run| run.until_us).filter(|&until_us| until_us < u64::MAX)
    }

    /// Job and unit under way.
    pub(crate) fn unit(&self) -> Option<(JobId, u128)> {
        self.run.as_ref().map(|run| (run.task.job, run.next))
    }

    /// Runs tasks one after another.
    pub(crate) fn start(&mut self, tasks: Vec<Task>, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        self.bundle.extend(tasks);
        self.begin(around, out);
    }

    /// Begins the next task of the bundle, if there is one.
    fn begin(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        self.run = None;
        self.step = self.step.wrapping_add(1);
        while let Some(task) = self.bundle.pop_front() {
            if self.cancelled.contains(&task.job) {
                out.push(Report::End(task.attempt));
                continue;
            }
            if around.refuses.contains(&task.job.0) {
                let Task { job, spec, attempt, lo, units } = task;
                let (duration_us, outcome, body) =
                    (0, Outcome::Refused, b"it lacks what that needs".to_vec());
                out.push(Report::Part(Part { job, spec, attempt, lo, units, duration_us, outcome, body }));
                out.push(Report::End(attempt));
                continue;
            }
            self.run = Some(Run {
                task,
                next: task.lo,
                units: 0,
                from_us: around.now_us,
                until_us: around.now_us,
                ended_late: false,
                deaf: false,
                together: None,
                waiting: 0,
                waiting_us: 0,
                waiting_since_us: around.now_us,
                body: Vec::new(),
                started_us: around.now_us,
                computed_us: 0,
            });
            return self.plan(around, out);
        }
        self.cancelled.clear();
    }

    /// Plans the next step of the running task.
    fn plan(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        self.step = self.step.wrapping_add(1);
        let left = (run.task.hi() - run.next) as u64;
        let model = &around.job(run.task.job).model;
        let (work, part_s, unit_us) = (model.work, model.part_s, model.unit_us);
        let (is_together, start_s) = (model.together.is_some(), model.together.map_or(0.0, |it| it.start_s));
        if around.gives_back && work == WorkModel::Command && !is_together && run.next % 2 == 1 {
            return self.give_one_back(around, out);
        }
        let unit_us = unit_us / around.speed;
        run.together = around.jobs[run.task.job.0 as usize - 1].begin_together(
            Interval::new(run.next, run.task.hi()),
            around.sick,
            around.random,
        );
        run.units = match (work, part_s) {
            (WorkModel::Command, _) => run.together.as_ref().map_or(1, Together::begins),
            (WorkModel::Search, Some(part_s)) => ((part_s * 1e6 / unit_us) as u64).clamp(1, left),
            _ => left,
        };
        let mean_us = unit_us * run.units as f64 + start_s * 1e6 / around.speed;
        let noise = around.noise;
        let lasts_us = (mean_us * around.random.about_one(noise)) as u64;
        (run.from_us, run.until_us) = (around.now_us, around.now_us + lasts_us);
        if run.next == run.task.lo || work == WorkModel::Command {
            out.push(Report::Running(run.task.job, run.next));
        }
    }

    /// The next unit goes back, and the slot goes on behind it.
    fn give_one_back(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        Self::flush(run, around.now_us, out);
        let Task { job, spec, attempt, .. } = run.task;
        let (duration_us, outcome, body) = (0, Outcome::Returned, Vec::new());
        out.push(Report::Part(Part {
            job,
            spec,
            attempt,
            lo: run.next,
            units: 1,
            duration_us,
            outcome,
            body,
        }));
        run.next += 1;
        if run.next == run.task.hi() { self.end(around, out) } else { self.plan(around, out) }
    }

    /// The machine becomes slower by a factor, or faster: so does the step under way.
    pub(crate) fn stretch(&mut self, now_us: u64, factor: f64) {
        if let Some(run) = &mut self.run {
            let left_us = run.until_us.saturating_sub(now_us) as f64 * factor;
            run.until_us = now_us + left_us as u64;
            self.step = self.step.wrapping_add(1);
        }
    }

    /// The step under way stands still. A worker ends a program where its job has a `hang_s`; else it goes on when the
    /// machine does.
    pub(crate) fn hang(&mut self, now_us: u64, lasts_us: Option<u64>, jobs: &[Job]) {
        let Some(run) = &mut self.run else { return };
        let goes_on_us = lasts_us.map_or(u64::MAX, |lasts_us| run.until_us.max(now_us) + lasts_us);
        let model = &jobs[run.task.job.0 as usize - 1].model;
        let (now_share, units) = (run.share(now_us), run.together.map_or(1, |_| run.task.units));
        run.together.iter_mut().for_each(|together| together.hangs(now_share));
        let far_us = HANG_TIMES * model.unit_us as u64 * units;
        let ends_us = model.hang_s.map_or(u64::MAX, |hang_s| run.from_us + us(hang_s).max(far_us));
        run.ended_late = ends_us < goes_on_us;
        run.deaf = model.work != WorkModel::Command;
        run.until_us = goes_on_us.min(ends_us);
        self.step = self.step.wrapping_add(1);
    }

    /// The step under way has ended.
    pub(crate) fn step_ends(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        if let Some(together) = run.together {
            return self.run_ends(together, around, out);
        }
        if around.job(run.task.job).is_poison(run.next) {
            out.push(Report::Died);
            return;
        }
        run.deaf = false;
        let units = run.units;
        self.computed(units, around, out);
        let Some(run) = &self.run else { return };
        if run.next == run.task.hi() {
            out.push(Report::Whole(Lasted {
                job: run.task.job,
                attempt: run.task.attempt,
                started_us: run.started_us,
                computed_us: run.computed_us,
            }));
            self.end(around, out);
        } else if self.cancelled.contains(&run.task.job) {
            self.end(around, out);
        } else {
            self.plan(around, out);
        }
    }

    /// A run over a task comes to its end, is ended as one that hangs, or tells of a first unit after it was asked to stop.
    fn run_ends(&mut self, together: Together, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        let Task { job, lo, units, attempt, .. } = run.task;
        let hung = run.ended_late;
        if together.asked && !hung {
            let done = together.told(run.share(around.now_us)).max(1);
            return self.stopped(done, around, out);
        }
        if together.end == End::Dies && !hung {
            out.push(Report::Died);
            return;
        }
        let (done, failed) = together.ends(units, hung);
        if !hung && failed.is_some() {
            around.job(job).failed_at(lo + u128::from(together.begins()) - 1);
        }
        self.told((done, failed), around, out);
        let Some(run) = &self.run else { return };
        if failed.is_none() {
            let (started_us, computed_us) = (run.started_us, run.computed_us);
            out.push(Report::Whole(Lasted { job, attempt, started_us, computed_us }));
        }
        self.end(around, out);
    }

    /// A run over a task is stopped: its first units, so many, count.
    fn stopped(&mut self, done: u64, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        self.told((done, None), around, out);
        self.end(around, out);
    }

    /// What is known of a run over a task when it is over: so many of its units are done, and the others have failed or go
    /// back.
    fn told(
        &mut self,
        ended: (u64, Option<FailReason>),
        around: &mut Surroundings<'_>,
        out: &mut Vec<Report>,
    ) {
        let Some(run) = &mut self.run else { return };
        let Task { job, spec, attempt, lo, .. } = run.task;
        let lasted_us = around.now_us.min(run.until_us) - run.from_us;
        self.busy_us += lasted_us;
        run.computed_us += lasted_us;
        let results = around.job(job).ran_together(Interval::new(lo, run.task.hi()), ended, lasted_us);
        let mut duration_us = lasted_us;
        for (lo, units, body) in results {
            let outcome = Outcome::Done;
            out.push(Report::Part(Part { job, spec, attempt, lo, units, duration_us, outcome, body }));
            duration_us = 0;
        }
    }

    /// `units` of the step under way are computed.
    fn computed(&mut self, units: u64, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        let now_us = around.now_us;
        // What a pause takes is the machine's time, not the program's.
        let lasted_us = now_us.min(run.until_us) - run.from_us;
        self.busy_us += lasted_us;
        run.computed_us += lasted_us;
        let work = around.job(run.task.job).model.work;
        if work == WorkModel::Command {
            let how = How {
                sick: around.sick,
                hung: std::mem::take(&mut run.ended_late),
                has_room: !divides(around.no_room_every, run.next),
            };
            around.job(run.task.job).run_unit(run.next, lasted_us, how, &mut run.body);
            run.waiting += 1;
            run.waiting_us += lasted_us;
        } else {
            // Nothing looks for hits in a job that does nothing: it has none.
            run.body = around.job(run.task.job).scan(run.next, units);
            run.waiting = units;
            run.waiting_us = lasted_us;
        }
        run.next += u128::from(units);
        let full = run.body.len() + UNIT_BYTES > RESULT_BODY_BYTES_MAX;
        let old = now_us >= run.waiting_since_us + COMMAND_FLUSH_US;
        if full || old || work != WorkModel::Command {
            Self::flush(run, now_us, out);
        }
    }

    fn flush(run: &mut Run, now_us: u64, out: &mut Vec<Report>) {
        if run.waiting > 0 {
            out.push(Report::Part(Part {
                job: run.task.job,
                spec: run.task.spec,
                attempt: run.task.attempt,
                lo: run.next - u128::from(run.waiting),
                units: run.waiting,
                duration_us: run.waiting_us,
                outcome: Outcome::Done,
                body: std::mem::take(&mut run.body),
            }));
        }
        (run.waiting, run.waiting_us, run.waiting_since_us) = (0, 0, now_us);
    }

    fn end(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<Report>) {
        let Some(run) = &mut self.run else { return };
        Self::flush(run, around.now_us, out);
        out.push(Report::End(run.task.attempt));
        self.begin(around, out);
    }

    /// The worker lets go of a job.
    pub(crate) fn let_go(
        &mut self,
        job: JobId,
        cancel: Cancel,
        around: &mut Surroundings<'_>,
        out: &mut Vec<Report>,
    ) {
        self.cancelled.push(job);
        let Some(run) = self.run.as_ref().filter(|run| run.task.job == job) else { return };
        if let Some(together) = run.together {
            return self.let_run_go(together, cancel, around, out);
        }
        let work = around.job(job).model.work;
        if work == WorkModel::Command {
            // A running program ends by itself, or is ended and counts for nothing.
            if cancel == Cancel::Forced {
                self.end(around, out);
            }
            return;
        }
        if run.deaf {
            return;
        }
        let units = ((run.units as f64 * run.share(around.now_us)) as u64).min(run.units);
        if units > 0 {
            self.computed(units, around, out);
        }
        self.end(around, out);
    }

    /// A run over a task is to stop: by force at once, else as soon as it tells that some of it counts.
    fn let_run_go(
        &mut self,
        together: Together,
        cancel: Cancel,
        around: &mut Surroundings<'_>,
        out: &mut Vec<Report>,
    ) {
        let Some(run) = &mut self.run else { return };
        let told = together.told(run.share(around.now_us));
        if cancel == Cancel::Forced || told > 0 {
            return self.stopped(told, around, out);
        }
        if together.will_tell() && !together.asked {
            let unit_us = (run.until_us - run.from_us).div_ceil(together.begins());
            run.until_us = (run.from_us + unit_us).max(around.now_us + 1);
            run.together.iter_mut().for_each(|together| together.asked = true);
            self.step = self.step.wrapping_add(1);
        }
    }
}
