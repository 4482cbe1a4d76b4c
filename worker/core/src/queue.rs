//! Tasks that wait for a slot, and what is known of their jobs' pace: enough to tell how long the queue will last and which
//! tasks are so short that a slot should get several.
//!
//! First in, first out. Where the first one does not fit into what is free, others may pass it, and never delay it: all that
//! have passed it, and it itself, fit together into what the worker has. So it starts once all is over that ran when it
//! became the first, whatever comes behind it.

use std::collections::{BTreeMap, VecDeque};

use starfarm_protocol::ids::{Epoch, JobId};
use starfarm_protocol::resources::{Resource, Resources};

use crate::free::{First, Free};
use crate::types::Task;

/// Tasks that go to a slot together take about this long by what was measured.
const BUNDLE_US: u64 = 2_000;
/// Most tasks in a bundle, however short they are: the slot's reports stay in one batch.
const BUNDLE_TASKS_MAX: usize = 256;
const PS_PER_US: u128 = 1_000_000;
/// Jobs whose pace is remembered although nothing of them waits.
const PACES_MAX: usize = 64;

/// A waiting task and the incarnation of the scheduler that offered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) task: Task,
    /// What a run of it takes of the worker.
    pub(crate) run: Resources,
    pub(crate) epoch: Epoch,
}

/// What there is for the next bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    /// What is free now.
    pub(crate) free: &'a Free,
    /// What may pass the first that waits, if that does not fit.
    pub(crate) passing: Resources,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Smoothed computing time of a unit, in picoseconds, since a card tries many candidates in a nanosecond;
    /// `None` before the first.
    unit_ps: Option<u64>,
    waiting_units: u128,
    /// What its runs take.
    run: Resources,
}

impl Pace {
    fn task_us(&self, units: u64) -> Option<u64> {
        let sum_us = |ps| u128::from(ps) * u128::from(units) / PS_PER_US;
        self.unit_ps.map(|ps: u64| u64::try_from(sum_us(ps)).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Slots that all of them take.
    slots: u64,
    /// Counts the tasks that were first.
    first: u64,
    paces: BTreeMap<JobId, Pace>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.waiting.iter().map(|waiting| &waiting.task)
    }

    /// Slots that the waiting tasks take.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// The number of the task that has waited longest, and what its run takes.
    pub(crate) fn first(&self) -> Option<(u64, Resources)> {
        self.waiting.front().map(|waiting| (self.first, waiting.run))
    }

    pub(crate) fn push(&mut self, task: Task, run: Resources, epoch: Epoch) {
        assert!(task.units > 0, "a task without units is malformed, and is not offered to the core");
        self.waiting.push_back(Waiting { task, run, epoch });
        self.slots += run.of(Resource::Slots);
        let pace = self.pace_of(task.job);
        pace.waiting_units += u128::from(task.units);
        pace.run = run;
        self.check();
    }

    /// Where the next bundle begins: at the first task, or at one that may pass it.
    fn next_place(&self, room: Room<'_>) -> Option<usize> {
        let first = self.waiting.front()?;
        if room.free.fits(first.run, First::Is) {
            return Some(0);
        }
        let passed = First::Passed(self.first);
        let may_pass = |run: Resources| room.passing.fits(run) && room.free.fits(run, passed);
        // Few jobs have tasks here, and a job many.
        let any = self.paces.values().any(|pace| pace.waiting_units > 0 && may_pass(pace.run));
        any.then(|| self.waiting.iter().position(|waiting| may_pass(waiting.run))).flatten()
    }

    /// Takes what the next idle slot should run, if anything that waits fits.
    pub(crate) fn take(&mut self, room: Room<'_>) -> Vec<Waiting> {
        let Some(at) = self.next_place(room) else { return Vec::new() };
        let run = self.waiting[at].run;
        let share =
            self.waiting.len().div_ceil(room.free.amounts().times(run).max(1) as usize).min(BUNDLE_TASKS_MAX);
        let mut bundle = Vec::new();
        let mut sum_us = 0_u64;
        while bundle.len() < share {
            let Some(&next) = self.waiting.get(at) else { break };
            // A slot lets go of a job as a whole, so a bundle is of one job.
            if bundle
                .first()
                .is_some_and(|first: &Waiting| (first.task.job, first.run) != (next.task.job, next.run))
            {
                break;
            }
            let estimate = self.paces.get(&next.task.job).and_then(|pace| pace.task_us(next.task.units));
            sum_us = sum_us.saturating_add(estimate.unwrap_or(BUNDLE_US));
            if !bundle.is_empty() && sum_us > BUNDLE_US {
                break;
            }
            self.waiting.remove(at);
            self.forget_waiting(&next);
            bundle.push(next);
        }
        self.first += u64::from(at == 0);
        self.check();
        bundle
    }

    /// A task that waits was offered again under another number: it goes by that from now on.
    pub(crate) fn renumber(&mut self, task: &Task, epoch: Epoch) {
        let same =
            |w: &&mut Waiting| (w.task.job, w.task.lo, w.task.units) == (task.job, task.lo, task.units);
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            (waiting.task, waiting.epoch) = (*task, epoch);
        }
    }

    pub(crate) fn revoke(&mut self, mut gone: impl FnMut(&Waiting) -> bool) -> Vec<Task> {
        let (mut out, mut is_first, mut first_goes) = (Vec::new(), true, false);
        self.waiting.retain(|waiting| {
            let go = gone(waiting);
            first_goes |= std::mem::take(&mut is_first) && go;
            if go {
                out.push(*waiting);
            }
            !go
        });
        self.first += u64::from(first_goes);
        out.iter().for_each(|waiting| self.forget_waiting(waiting));
        self.check();
        out.into_iter().map(|waiting| waiting.task).collect()
    }

    pub(crate) fn learn(&mut self, job: JobId, units: u64, duration_us: u64) {
        let sample = u128::from(duration_us) * PS_PER_US / u128::from(units.max(1));
        let sample = u64::try_from(sample).unwrap_or(u64::MAX);
        let pace = self.pace_of(job);
        pace.unit_ps = Some(match pace.unit_ps {
            None => sample,
            Some(mean) => mean - mean / 8 + sample / 8,
        });
    }

    /// How long the waiting tasks would take on `slots` slots, in microseconds; unmeasured jobs count as 0.
    pub(crate) fn lasts_us(&self, slots: u16) -> u64 {
        let total: u128 = self
            .paces
            .values()
            .map(|pace| {
                let units = pace.waiting_units.saturating_mul(pace.run.of(Resource::Slots).into());
                u128::from(pace.unit_ps.unwrap_or(0)).saturating_mul(units) / PS_PER_US
            })
            .fold(0, u128::saturating_add);
        u64::try_from(total / u128::from(slots.max(1))).unwrap_or(u64::MAX)
    }

    fn pace_of(&mut self, job: JobId) -> &mut Pace {
        if self.paces.len() >= PACES_MAX && !self.paces.contains_key(&job) {
            // Job numbers grow, so the lowest idle one is the oldest.
            let oldest = self.paces.iter().find(|(_, pace)| pace.waiting_units == 0).map(|(&job, _)| job);
            oldest.map(|job| self.paces.remove(&job));
        }
        let pace = Pace { unit_ps: None, waiting_units: 0, run: Resources::ONE_SLOT };
        self.paces.entry(job).or_insert(pace)
    }

    fn forget_waiting(&mut self, Waiting { task, run, .. }: &Waiting) {
        let slots = self.slots.checked_sub(run.of(Resource::Slots));
        self.slots = slots.expect("no more slots are waited for than tasks came");
        let pace = self.paces.get_mut(&task.job).expect("a job of which something waits has a pace");
        let units = pace.waiting_units.checked_sub(u128::from(task.units));
        pace.waiting_units = units.expect("no more units leave the queue than came");
    }

    /// The sums of the jobs are those of the queue.
    fn check(&self) {
        let of_jobs = || self.paces.values().map(|pace| pace.waiting_units).sum::<u128>();
        let waiting = || self.iter().map(|task| u128::from(task.units)).sum::<u128>();
        assert!(!self.waiting.is_empty() || of_jobs() == 0, "an empty queue has no units");
        debug_assert_eq!(of_jobs(), waiting(), "units of jobs are units of tasks that wait");
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, ContentHash};

    use super::*;

    fn queue(tasks: u64) -> Queue {
        let mut queue = Queue::default();
        for n in 0..tasks {
            let spec = ContentHash([0; 32]);
            let task = Task { job: JobId(1), spec, attempt: Attempt(n), lo: u128::from(n) * 10, units: 10 };
            queue.push(task, Resources::ONE_SLOT, Epoch(1));
        }
        queue
    }

    /// Takes where so many slots are idle, and nothing may pass.
    fn take(waiting: &mut Queue, slots: u16) -> usize {
        let free = Free::new(Resources::new(slots, 0));
        waiting.take(Room { free: &free, passing: Resources::NONE }).len()
    }

    #[test]
    fn unmeasured_and_long_tasks_go_one_by_one_short_ones_in_bundles() {
        let mut waiting = queue(100);
        assert_eq!(take(&mut waiting, 1), 1);
        waiting.learn(JobId(1), 10, 1_000_000);
        assert_eq!(take(&mut waiting, 1), 1);
        let mut waiting = queue(100);
        waiting.learn(JobId(1), 10, 500);
        assert_eq!(take(&mut waiting, 1), 4, "four times 500 us make 2 ms");
        waiting.learn(JobId(1), 10, 0);
        assert_eq!(take(&mut waiting, 50), 2, "fifty idle slots share what is left");
    }

    #[test]
    fn the_queue_knows_how_long_it_lasts() {
        let mut waiting = queue(100);
        assert_eq!(waiting.lasts_us(2), 0);
        waiting.learn(JobId(1), 1, 1_000_000);
        assert_eq!(waiting.lasts_us(2), 500_000_000);
        waiting.revoke(|w| w.task.attempt.0 >= 50);
        assert_eq!((waiting.len(), waiting.lasts_us(1)), (50, 500_000_000));
        while !waiting.is_empty() {
            take(&mut waiting, 1);
        }
        assert_eq!(waiting.lasts_us(1), 0);
    }

    #[test]
    fn paces_of_old_jobs_are_forgotten() {
        let mut waiting = queue(1);
        (2..1000).for_each(|job| waiting.learn(JobId(job), 1, 1));
        assert_eq!(waiting.paces.len(), PACES_MAX);
        assert!(waiting.paces.contains_key(&JobId(1)), "something of it waits");
    }
}
