//! Slots that hang on nodes that live. Heartbeats name the unit that each slot runs; one that is named for far longer
//! than such a task takes is told of, once. What its node lists does not go back to gq: the next node with room gets a
//! copy where the job allows copies, and a worker ends a program itself where the job has `hang_seconds`.

use starfarm_events::Event;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use crate::agenda::Hung;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Sizing;
use crate::limits::{HANG_MIN_US, HANG_UNKNOWN_US, HUNG_LOOKS, LAMBDA};
use crate::node::Run;
use crate::queues::{Class, Task};
use crate::seat::Seat;

/// What such a task takes, and how long a run of it must last to be told to hang, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Usual {
    /// 0 where nobody knows.
    pub(crate) takes_us: u64,
    told_after_us: u64,
}

impl Farm {
    /// Node `id` said what its slots run.
    pub(crate) fn note_runs(&mut self, id: NodeId, running: &[(JobId, u128)], now_us: u64) {
        let is_one =
            |(job, unit): &&(JobId, u128)| self.jobs.get(*job).is_some_and(|job| *unit < job.facts.units);
        let running: Vec<(JobId, u128)> = running.iter().filter(is_one).copied().collect();
        let node = self.nodes.at_mut(id);
        let before = std::mem::take(&mut node.runs);
        // What it made may wait for room on the scheduler's disk.
        let waits = |job: JobId| self.jobs.get(job).is_some_and(|job| self.jobs.lacks_room(job));
        let run = |unit: &(JobId, u128)| {
            let known = before.get(unit).filter(|_| !waits(unit.0));
            known.copied().unwrap_or(Run { since_us: now_us, told: false })
        };
        node.runs = running.iter().map(|unit| (*unit, run(unit))).collect();
        node.running = running;
    }

    /// Tells of what node `id` has run for too long.
    pub(crate) fn tell_hangs(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let long = |run: &Run| !run.told && now_us.saturating_sub(run.since_us) >= HANG_MIN_US;
        let runs = self.nodes.at(id).runs.iter().filter(|(_, run)| long(run));
        let long: Vec<(JobId, u128)> = runs.map(|(&unit, _)| unit).collect();
        for (job, unit) in long {
            // A node may go on with what is no task of it any more.
            let Some(usual) = self.usual(id, job, unit) else { continue };
            let node = self.nodes.at_mut(id);
            let run = node.runs.get_mut(&(job, unit)).expect("it was found above");
            let for_us = now_us.saturating_sub(run.since_us);
            let known = self.jobs.at_mut(job);
            // Where nobody knows how long its units take, one that is told of stands for all.
            if for_us < usual.told_after_us || usual.takes_us == 0 && known.hang_told {
                continue;
            }
            (run.told, known.hang_told) = (true, true);
            let (node, usual_us) = (node.name.clone(), usual.takes_us);
            deeds.event(Event::RunHangs { node, job, unit, for_us, usual_us });
            if known.facts.speculative {
                self.agenda.hung.push_back(Hung { job, unit, node: id });
                self.work_came();
            }
        }
    }

    /// Gives node `id` copies of what hangs elsewhere, as far as it has room, before anything that waits.
    pub(crate) fn copy_hung(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let mut place = 0;
        while place < self.agenda.hung.len().min(HUNG_LOOKS) {
            let hung = self.agenda.hung[place];
            let Some(at) = self.hung_interval(hung) else {
                self.agenda.hung.remove(place);
                continue;
            };
            let job = self.jobs.at(hung.job);
            let task = self.queues.holding(hung.job, at.lo).expect("what is out is in a task");
            let takes = self.nodes.at(id).health().takes_tasks()
                && self.jobs.gives_out(job)
                && self.may_copy(id, task, true, now_us);
            let room = |seat: Seat| {
                let ideal = self.ideal(job, seat);
                job.could_run_at(seat, &self.nodes)
                    && self.has_time(job, seat, at.units(), now_us)
                    && self.room(job, seat, &ideal, NODE_TASKS_MAX as usize, now_us) > 0
            };
            let seat = self.nodes.seats(id).filter(|_| takes).find(|seat| room(*seat));
            if let Some(seat) = seat {
                // Looked at again: there may be more of it behind what is done.
                self.copy_to(seat, hung.job, at, now_us, deeds);
            } else {
                place += 1;
            }
        }
    }

    /// What of the task of a unit that hangs is out from there on, side by side, and has no copy; none where it goes on, or its
    /// node has it no more.
    fn hung_interval(&self, Hung { job: job_id, unit, node: id }: Hung) -> Option<Interval> {
        let job = self.jobs.unfinished(job_id)?;
        self.nodes.get(id)?.runs.get(&(job_id, unit)).filter(|run| run.told)?;
        let task = self.queues.holding(job_id, unit).filter(|task| task.node == id)?;
        // Neighbours that a heartbeat joined are many tasks.
        let units = u128::from(self.ideal(job, task.seat()).units);
        let hi = if task.is_found() { task.at.hi.min(unit + units) } else { task.at.hi };
        let mut lo = unit;
        while lo < hi {
            let out = job.units.coverage().first_in(Interval::new(lo, hi), Class::Out)?;
            if self.queues.copies_in(job_id, out).is_empty() {
                return Some(out);
            }
            lo = out.hi;
        }
        None
    }

    /// How long the task of that unit takes on node `id` by what was learnt; none where the node has no such task.
    pub(crate) fn usual(&self, id: NodeId, job_id: JobId, unit: u128) -> Option<Usual> {
        let job = self.jobs.get(job_id)?;
        let task: &Task = self.queues.tasks_at(id).find(|task| task.has(job_id, unit))?;
        let (seat, rate) = (task.seat(), job.rate_on(task.seat()));
        let all = task.at.units() as f64;
        let units = match job.facts.sizing {
            // Neighbours that a heartbeat joined are many tasks.
            Sizing::TargetUs(target_us) if task.is_found() => {
                all.min(job.units_within(seat, job.task_us(seat).unwrap_or(target_us))).max(1.0)
            }
            Sizing::Units(units) => all.min(units as f64),
            Sizing::TargetUs(_) => all,
        };
        let takes_us = match rate > 0.0 {
            true => job.takes_us(seat, units) as u64,
            // Its first units may take hours each.
            false if job.facts.work.programs => 0,
            // The first tasks are far smaller than what takes the target time.
            false => job.target_us(),
        };
        // So many times what such a task takes: a run that lasts longer hangs, as far as one can tell.
        let times = LAMBDA * self.config.settings.retry_targets;
        let told_after_us = if takes_us == 0 { HANG_UNKNOWN_US } else { takes_us.saturating_mul(times) };
        Some(Usual { takes_us, told_after_us })
    }
}
