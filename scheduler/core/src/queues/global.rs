//! gq: tasks that were decomposed and wait for a node. Per job they lie in unit order, so the lowest unit
//! goes out first and the done set stays whole. Tasks of one job never overlap. What comes back joins its neighbours,
//! but for units that failed or that workers died of: each of these waits alone.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::interval::Interval;

/// The global queue.
#[derive(Debug, Default)]
pub(crate) struct GlobalQueue {
    jobs: BTreeMap<JobId, JobQueue>,
    tasks: usize,
    /// Tasks that nodes looked at since the start.
    pub(crate) looks: u64,
}

#[derive(Debug, Default)]
struct JobQueue {
    tasks: BTreeMap<u128, u128>,
    /// Units that failed, and others that are to take nothing with them.
    alone: BTreeSet<u128>,
    /// Units that workers died of.
    deadly: BTreeSet<u128>,
    units: u128,
}

impl JobQueue {
    fn len(&self) -> usize {
        self.tasks.len() + self.alone.len() + self.deadly.len()
    }
}

/// How large a task may be that is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Units of one that is cut.
    pub(crate) units: u128,
    /// One of up to so many units is taken whole.
    pub(crate) whole: u128,
}

/// Why a unit waits alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alone {
    /// It failed.
    Failed,
    /// Workers died of it.
    Deadly,
}

/// So many of each kind a node looks at for one that it should have: what is behind them has its turn when these have
/// waited long enough to go to any node.
const LOOKS: usize = 64;

impl GlobalQueue {
    /// Tasks of all jobs.
    pub(crate) fn len(&self) -> usize {
        self.tasks
    }

    /// Tasks of `job` that wait.
    pub(crate) fn tasks(&self, job: JobId) -> usize {
        self.jobs.get(&job).map_or(0, JobQueue::len)
    }

    /// Units of `job` that wait.
    pub(crate) fn units(&self, job: JobId) -> u128 {
        self.jobs.get(&job).map_or(0, |queue| queue.units)
    }

    /// The intervals of `job`, in order.
    pub(crate) fn intervals(&self, job: JobId) -> Vec<Interval> {
        let Some(queue) = self.jobs.get(&job) else { return Vec::new() };
        let alone = queue.alone.iter().chain(&queue.deadly).map(|&unit| Interval::one(unit));
        let mut all: Vec<_> =
            queue.tasks.iter().map(|(&lo, &hi)| Interval::new(lo, hi)).chain(alone).collect();
        all.sort_unstable();
        all
    }

    /// A task [lo, hi) of `job` waits from now on, as it was cut.
    pub(crate) fn put(&mut self, job: JobId, at: Interval) {
        assert!(!at.is_empty(), "a task has units");
        let queue = self.jobs.entry(job).or_default();
        queue.tasks.insert(at.lo, at.hi);
        queue.units += at.units();
        self.tasks += 1;
    }

    /// `unit` waits alone.
    pub(crate) fn put_alone(&mut self, job: JobId, unit: u128, why: Alone) {
        let queue = self.jobs.entry(job).or_default();
        let is_new = match why {
            Alone::Failed => queue.alone.insert(unit),
            Alone::Deadly => queue.deadly.insert(unit),
        };
        assert!(is_new, "unit {unit} waits once");
        queue.units += 1;
        self.tasks += 1;
    }

    /// [lo, hi) came back: it waits as part of what lies beside it. What is given out of that is cut anew.
    pub(crate) fn put_back(&mut self, job: JobId, Interval { mut lo, mut hi }: Interval) {
        assert!(lo < hi, "what comes back has units");
        let queue = self.jobs.entry(job).or_default();
        queue.units += hi - lo;
        self.tasks += 1;
        if let Some(end) = queue.tasks.remove(&hi) {
            hi = end;
            self.tasks -= 1;
        }
        if let Some((&before, &end)) = queue.tasks.range(..lo).next_back()
            && end >= lo
        {
            assert!(end == lo, "what comes back was not here");
            lo = before;
            self.tasks -= 1;
        }
        queue.tasks.insert(lo, hi);
    }

    /// Takes the first task of `job` whose first unit is `wanted`, or the first units of one that is too large. Units that workers died of are among them only where `deadly`.
    pub(crate) fn take(
        &mut self,
        job: JobId,
        size: Size,
        deadly: bool,
        mut wanted: impl FnMut(u128) -> bool,
    ) -> Option<Interval> {
        assert!(
            0 < size.units && size.units <= size.whole,
            "a task has units, and none is cut off a whole one"
        );
        let queue = self.jobs.get_mut(&job)?;
        let mut wanted = |unit| {
            self.looks += 1;
            wanted(unit)
        };
        let task = queue.tasks.iter().take(LOOKS).find(|&(&lo, _)| wanted(lo)).map(|(&lo, &hi)| (lo, hi));
        let before = task.map_or(u128::MAX, |(lo, _)| lo);
        let alone = queue.alone.range(..before).take(LOOKS).copied().find(|&unit| wanted(unit));
        let before = alone.unwrap_or(before);
        let deaths = if deadly { LOOKS } else { 0 };
        let deadly = queue.deadly.range(..before).take(deaths).copied().find(|&unit| wanted(unit));
        if let Some(unit) = deadly.or(alone) {
            let _ = queue.deadly.remove(&unit) || queue.alone.remove(&unit);
            self.tasks -= 1;
            queue.units -= 1;
            return Some(Interval::one(unit));
        }
        let (lo, hi) = task?;
        // As a rule it is the first: that needs no search.
        match queue.tasks.first_entry().filter(|first| *first.key() == lo) {
            Some(first) => first.remove(),
            None => queue.tasks.remove(&lo).expect("it was found just now"),
        };
        let end = if hi - lo > size.whole { lo + size.units } else { hi };
        if end < hi {
            queue.tasks.insert(end, hi);
        } else {
            self.tasks -= 1;
        }
        queue.units -= end - lo;
        Some(Interval::new(lo, end))
    }

    /// Takes [lo, hi) out of the tasks that it overlaps; what is left of them waits on.
    pub(crate) fn remove(&mut self, job: JobId, Interval { lo, hi }: Interval) {
        let Some(queue) = self.jobs.get_mut(&job) else { return };
        let start = queue.tasks.range(..=lo).next_back().map_or(lo, |(&at, _)| at);
        let hit: Vec<_> = queue.tasks.range(start..hi).map(|(&l, &h)| (l, h)).filter(|t| t.1 > lo).collect();
        for (task_lo, task_hi) in hit {
            queue.tasks.remove(&task_lo);
            self.tasks -= 1;
            queue.units -= task_hi.min(hi) - task_lo.max(lo);
            for (l, h) in [(task_lo, lo), (hi, task_hi)] {
                if l < h {
                    queue.tasks.insert(l, h);
                    self.tasks += 1;
                }
            }
        }
        for alone in [&mut queue.alone, &mut queue.deadly] {
            while let Some(&unit) = alone.range(lo..hi).next() {
                alone.remove(&unit);
                self.tasks -= 1;
                queue.units -= 1;
            }
        }
    }

    /// All tasks of `job` are dropped.
    pub(crate) fn clear(&mut self, job: JobId) {
        if let Some(queue) = self.jobs.remove(&job) {
            self.tasks -= queue.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lo: u128, hi: u128) -> Interval {
        Interval::new(lo, hi)
    }

    fn size(units: u128, whole: u128) -> Size {
        Size { units, whole }
    }

    #[test]
    fn taking_splits_what_is_too_large_and_removing_leaves_the_rest() {
        let (mut gq, job) = (GlobalQueue::default(), JobId(1));
        gq.put(job, at(0, 10));
        gq.put(job, at(10, 12));
        gq.put(job, at(20, 30));
        assert_eq!(gq.take(job, size(4, 8), true, |_| true), Some(at(0, 4)));
        assert_eq!(gq.take(job, size(4, 8), true, |_| true), Some(at(4, 10)));
        assert_eq!(gq.take(job, size(20, 20), true, |lo| lo > 10), Some(at(20, 30)));
        gq.put(job, at(20, 30));
        gq.remove(job, at(11, 22));
        assert_eq!(gq.intervals(job), [at(10, 11), at(22, 30)]);
        gq.remove(job, at(24, 25));
        assert_eq!(gq.intervals(job), [at(10, 11), at(22, 24), at(25, 30)]);
        assert_eq!((gq.len(), gq.units(job)), (3, 8));
        gq.clear(job);
        assert!(gq.len() == 0 && gq.take(job, size(1, 1), true, |_| true).is_none());
    }

    #[test]
    fn what_comes_back_joins_its_neighbours_but_for_what_waits_alone() {
        let (mut gq, job) = (GlobalQueue::default(), JobId(1));
        gq.put_back(job, at(0, 10));
        gq.put_back(job, at(20, 30));
        gq.put_back(job, at(10, 20));
        gq.put_alone(job, 30, Alone::Failed);
        gq.put_back(job, at(31, 40));
        gq.put_back(job, at(50, 60));
        gq.put_alone(job, 49, Alone::Deadly);
        gq.put_back(job, at(40, 49));
        let waiting = [at(0, 30), at(30, 31), at(31, 49), at(49, 50), at(50, 60)];
        assert_eq!(gq.intervals(job), waiting);
        assert_eq!((gq.len(), gq.units(job)), (5, 60));
        // A unit that was alone and came back otherwise is as others are.
        gq.remove(job, at(30, 31));
        gq.put_back(job, at(30, 31));
        assert_eq!(gq.intervals(job)[0], at(0, 49));
        assert_eq!((gq.len(), gq.units(job)), (3, 60));
    }

    #[test]
    fn what_goes_to_others_first_is_not_looked_through_to_its_end() {
        let (mut gq, job) = (GlobalQueue::default(), JobId(1));
        for unit in 0..1_000 {
            gq.put_alone(job, 2 * unit, Alone::Deadly);
            gq.put_alone(job, 2 * unit + 1, Alone::Failed);
        }
        gq.put_back(job, at(5_000, 5_010));
        let mut looks = 0;
        let mut not_alone = |unit| {
            looks += 1;
            unit >= 5_000
        };
        assert_eq!(gq.take(job, size(10, 19), true, &mut not_alone), Some(at(5_000, 5_010)));
        assert_eq!(gq.take(job, size(10, 19), true, &mut not_alone), None);
        assert!(looks <= 4 * LOOKS + 1, "{looks} looks");
        assert_eq!(
            gq.take(job, size(10, 19), false, |_| true),
            Some(at(1, 2)),
            "a node has one that is deadly"
        );
        assert_eq!(gq.take(job, size(10, 19), true, |_| true), Some(at(0, 1)));
        assert_eq!((gq.len(), gq.units(job)), (1_998, 1_998));
    }
}
