//! gq: tasks that were decomposed and wait for a node. Per job they lie in unit order, so the lowest unit
//! goes out first and the done set stays whole. Tasks of one job never overlap.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;

/// The global queue.
#[derive(Debug, Default)]
pub(crate) struct GlobalQueue {
    jobs: BTreeMap<JobId, JobQueue>,
    tasks: usize,
}

#[derive(Debug, Default)]
struct JobQueue {
    tasks: BTreeMap<u128, u128>,
    units: u128,
}

impl GlobalQueue {
    /// Tasks of all jobs.
    pub(crate) fn len(&self) -> usize {
        self.tasks
    }

    /// Tasks of `job` that wait.
    pub(crate) fn tasks(&self, job: JobId) -> usize {
        self.jobs.get(&job).map_or(0, |queue| queue.tasks.len())
    }

    /// Units of `job` that wait.
    pub(crate) fn units(&self, job: JobId) -> u128 {
        self.jobs.get(&job).map_or(0, |queue| queue.units)
    }

    /// The intervals of `job`, in order.
    pub(crate) fn intervals(&self, job: JobId) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.jobs.get(&job).into_iter().flat_map(|queue| queue.tasks.iter().map(|(&lo, &hi)| (lo, hi)))
    }

    /// A task [lo, hi) of `job` waits from now on.
    pub(crate) fn put(&mut self, job: JobId, lo: u128, hi: u128) {
        debug_assert!(lo < hi);
        let queue = self.jobs.entry(job).or_default();
        queue.tasks.insert(lo, hi);
        queue.units += hi - lo;
        self.tasks += 1;
    }

    /// Takes the first task of `job` whose first unit is `wanted`; of one with more than `units_max` units
    /// only the first `units`.
    pub(crate) fn take(
        &mut self,
        job: JobId,
        (units, units_max): (u128, u128),
        mut wanted: impl FnMut(u128) -> bool,
    ) -> Option<(u128, u128)> {
        let queue = self.jobs.get_mut(&job)?;
        let (&lo, &hi) = queue.tasks.iter().find(|&(&lo, _)| wanted(lo))?;
        queue.tasks.remove(&lo);
        let end = if hi - lo > units_max { lo + units } else { hi };
        if end < hi {
            queue.tasks.insert(end, hi);
        } else {
            self.tasks -= 1;
        }
        queue.units -= end - lo;
        Some((lo, end))
    }

    /// Takes [lo, hi) out of the tasks that it overlaps; what is left of them waits on.
    pub(crate) fn remove(&mut self, job: JobId, lo: u128, hi: u128) {
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
    }

    /// All tasks of `job` are dropped.
    pub(crate) fn clear(&mut self, job: JobId) {
        if let Some(queue) = self.jobs.remove(&job) {
            self.tasks -= queue.tasks.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_splits_what_is_too_large_and_removing_leaves_the_rest() {
        let (mut gq, job) = (GlobalQueue::default(), JobId(1));
        gq.put(job, 0, 10);
        gq.put(job, 10, 12);
        gq.put(job, 20, 30);
        assert_eq!(gq.take(job, (4, 8), |_| true), Some((0, 4)));
        assert_eq!(gq.take(job, (4, 8), |_| true), Some((4, 10)));
        assert_eq!(gq.take(job, (20, 20), |lo| lo > 10), Some((20, 30)));
        gq.put(job, 20, 30);
        gq.remove(job, 11, 22);
        assert_eq!(gq.intervals(job).collect::<Vec<_>>(), [(10, 11), (22, 30)]);
        gq.remove(job, 24, 25);
        assert_eq!(gq.intervals(job).collect::<Vec<_>>(), [(10, 11), (22, 24), (25, 30)]);
        assert_eq!((gq.len(), gq.units(job)), (3, 8));
        gq.clear(job);
        assert!(gq.len() == 0 && gq.take(job, (1, 1), |_| true).is_none());
    }
}
