//! gq: tasks that were decomposed and wait for a node. Per job they lie in unit order, so the lowest unit
//! goes out first and the done set stays whole. Tasks of one job never overlap. Tasks that were cut side by side are one
//! row, and none costs anything until it is taken. What comes back joins its neighbours, but for units that failed or
//! that workers died of: each of these waits alone. What another node is to compute again waits apart.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::apart::Apart;
use super::task::Size;
use crate::limits::LOOKS;

/// The global queue.
#[derive(Debug, Default)]
pub(crate) struct GlobalQueue {
    jobs: BTreeMap<JobId, JobQueue>,
    /// Tasks that nodes looked at since the start.
    pub(crate) looks: u64,
}

#[derive(Debug, Default)]
struct JobQueue {
    /// By their ends: what is taken off the front of a row leaves it where it is.
    rows: BTreeMap<u128, Row>,
    /// Tasks in these.
    tasks: usize,
    /// Units that failed, and others that are to take nothing with them.
    alone: BTreeSet<u128>,
    /// Units that workers died of.
    deadly: BTreeSet<u128>,
    /// What another node is to compute again, which is not among the tasks.
    apart: Apart,
    /// Units of all of these.
    units: u128,
}

/// Tasks side by side, of `size` units each, but for the last one, which may have fewer.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: Interval,
    size: u128,
}

impl Row {
    fn len(self) -> usize {
        usize::try_from(self.at.units().div_ceil(self.size)).expect("a refill cuts no more than gq may hold")
    }

    /// The task that begins with `lo`.
    fn from(self, lo: u128) -> Interval {
        debug_assert!(self.at.contains(lo));
        Interval::new(lo, lo.saturating_add(self.size).min(self.at.hi))
    }

    /// The task that has `unit`.
    fn with(self, unit: u128) -> Interval {
        debug_assert!(self.at.contains(unit));
        self.from(unit - (unit - self.at.lo) % self.size)
    }

    fn tasks(self) -> impl Iterator<Item = Interval> {
        let behind = move |task: &Interval| (task.hi < self.at.hi).then(|| self.from(task.hi));
        std::iter::successors(Some(self.from(self.at.lo)), behind)
    }
}

impl JobQueue {
    fn len(&self) -> usize {
        self.tasks + self.alone.len() + self.deadly.len()
    }

    fn add(&mut self, at: Interval, size: u128) {
        if !at.is_empty() {
            let row = Row { at, size };
            self.units += at.units();
            self.tasks += row.len();
            let other = self.rows.insert(at.hi, row);
            assert!(other.is_none(), "rows do not overlap");
        }
    }

    fn pick(&mut self, row: Row) {
        let known = self.rows.remove(&row.at.hi).expect("the row was found just now");
        assert!(known.at == row.at && row.at.units() <= self.units && row.len() <= self.tasks);
        self.units -= row.at.units();
        self.tasks -= row.len();
    }

    /// The first row that ends behind `unit`.
    fn ends_behind(&self, unit: u128) -> Option<Row> {
        self.rows.range(unit + 1..).next().map(|(_, row)| *row)
    }

    /// No unit of `at` waits.
    fn is_free(&self, at: Interval) -> bool {
        let mut alone = self.alone.range(at.lo..at.hi).chain(self.deadly.range(at.lo..at.hi));
        alone.next().is_none()
            && self.ends_behind(at.lo).is_none_or(|row| at.hi <= row.at.lo)
            && !self.apart.intervals().any(|other| other.overlaps(at))
    }

    /// `at` leaves the tasks that it overlaps; what is left of these waits on.
    fn carve(&mut self, at: Interval) {
        while let Some(row) = self.ends_behind(at.lo).filter(|row| row.at.lo < at.hi) {
            self.pick(row);
            self.add(Interval::new(row.at.lo, at.lo), row.size);
            if at.hi < row.at.hi {
                let last = row.with(at.hi - 1);
                self.add(Interval::new(at.hi, last.hi), row.size);
                self.add(Interval::new(last.hi, row.at.hi), row.size);
            }
        }
        debug_assert!(self.ends_behind(at.lo).is_none_or(|row| at.hi <= row.at.lo), "no row has any of it");
    }

    /// The first task that is wanted, as far as a node looks: without its first units where only these are not.
    fn first_wanted(&self, mut wanted: impl FnMut(u128) -> u128) -> Option<(Row, Interval)> {
        let mut left = LOOKS;
        for row in self.rows.values() {
            for mut task in row.tasks() {
                while !task.is_empty() {
                    left = left.checked_sub(1)?;
                    let from = wanted(task.lo);
                    if from == task.lo {
                        return Some((*row, task));
                    }
                    task.lo = from.min(task.hi);
                }
            }
        }
        None
    }

    /// `at`, which begins a task and is no more than that, leaves. As a rule that is the first of a row.
    fn take(&mut self, row: Row, at: Interval) {
        assert!(row.at.lo <= at.lo && at.lo < at.hi && at.hi <= row.at.hi, "{at} is of the row {}", row.at);
        if at != row.from(row.at.lo) || at.hi == row.at.hi {
            return self.carve(at);
        }
        self.rows.get_mut(&row.at.hi).expect("the row was found just now").at.lo = at.hi;
        self.units -= at.units();
        self.tasks -= 1;
    }
}

/// Why a unit waits alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alone {
    /// It failed.
    Failed,
    /// Workers died of it.
    Deadly,
}

impl GlobalQueue {
    /// Tasks of all jobs.
    pub(crate) fn len(&self) -> usize {
        self.jobs.values().map(JobQueue::len).sum()
    }

    /// Tasks of `job` that wait, but for what waits apart.
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
        let mut all: Vec<_> = queue.rows.values().flat_map(|row| row.tasks()).chain(alone).collect();
        all.extend(queue.apart.intervals());
        all.sort_unstable();
        all
    }

    /// Tasks of `job` wait from now on as they were cut: side by side, of `size` units each, the last one of what is left.
    pub(crate) fn put(&mut self, job: JobId, at: Interval, size: u128) {
        assert!(!at.is_empty() && size > 0, "a task has units");
        let queue = self.jobs.entry(job).or_default();
        debug_assert!(queue.is_free(at), "what is cut was not here");
        queue.add(at, size);
    }

    /// `unit` waits alone.
    pub(crate) fn put_alone(&mut self, job: JobId, unit: u128, why: Alone) {
        let queue = self.jobs.entry(job).or_default();
        debug_assert!(queue.is_free(Interval::one(unit)), "unit {unit} waits once");
        let is_new = match why {
            Alone::Failed => queue.alone.insert(unit),
            Alone::Deadly => queue.deadly.insert(unit),
        };
        assert!(is_new, "unit {unit} waits once");
        queue.units += 1;
    }

    /// `at` came back: it waits as part of what lies beside it. What is given out of that is cut anew.
    pub(crate) fn put_back(&mut self, job: JobId, mut at: Interval) {
        assert!(!at.is_empty(), "what comes back has units");
        let queue = self.jobs.entry(job).or_default();
        debug_assert!(queue.is_free(at), "what comes back was not here");
        let (before, behind) = (queue.rows.get(&at.lo).copied(), queue.ends_behind(at.lo));
        assert!(behind.is_none_or(|row| at.hi <= row.at.lo), "what comes back was not here");
        if let Some(row) = before {
            queue.pick(row);
            let last = row.with(at.lo - 1);
            queue.add(Interval::new(row.at.lo, last.lo), row.size);
            at.lo = last.lo;
        }
        if let Some(row) = behind.filter(|row| row.at.lo == at.hi) {
            queue.pick(row);
            let first = row.from(at.hi);
            queue.add(Interval::new(first.hi, row.at.hi), row.size);
            at.hi = first.hi;
        }
        queue.add(at, at.units());
    }

    /// Takes the first task of `job` that is wanted, or the first units of one that is too large. `wanted` says of a task
    /// that begins with a unit from which one on it is wanted. Units that workers died of are among them only where
    /// `deadly`.
    pub(crate) fn take(
        &mut self,
        job: JobId,
        size: Size,
        deadly: bool,
        mut wanted: impl FnMut(u128) -> u128,
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
        let task = queue.first_wanted(&mut wanted);
        let before = task.map_or(u128::MAX, |(_, task)| task.lo);
        let mut wanted = |unit| wanted(unit) == unit;
        let alone = queue.alone.range(..before).take(LOOKS).copied().find(|&unit| wanted(unit));
        let before = alone.unwrap_or(before);
        let deaths = if deadly { LOOKS } else { 0 };
        let deadly = queue.deadly.range(..before).take(deaths).copied().find(|&unit| wanted(unit));
        if let Some(unit) = deadly.or(alone) {
            let was_here = queue.deadly.remove(&unit) || queue.alone.remove(&unit);
            assert!(was_here, "unit {unit} was found just now");
            queue.units -= 1;
            return Some(Interval::one(unit));
        }
        let (row, mut task) = task?;
        if task.units() > size.whole {
            task.hi = task.lo + size.units;
        }
        assert!(task.units() <= size.whole, "{task} is no larger than asked for");
        queue.take(row, task);
        Some(task)
    }

    /// `at`, which waits, does so apart from now on: for another node than `first`.
    pub(crate) fn set_apart(&mut self, job: JobId, at: Interval, first: NodeId, now_us: u64) {
        let gone = self.remove(job, at);
        assert!(gone == at.units(), "it waited");
        let queue = self.jobs.get_mut(&job).expect("it waited there");
        queue.apart.add(at, first, now_us);
        queue.units += gone;
    }

    /// What waits for another node than `first` waits for any.
    pub(crate) fn end_apart(&mut self, job: JobId, first: NodeId) {
        let Some(queue) = self.jobs.get_mut(&job) else { return };
        let gone = queue.apart.remove_of(first);
        queue.units -= gone.iter().map(|at| at.units()).sum::<u128>();
        gone.into_iter().for_each(|at| self.put_back(job, at));
    }

    /// Takes what waits apart and node `id` may have.
    ///
    /// # Errors
    /// There is nothing, and when there will be.
    pub(crate) fn take_apart(
        &mut self,
        job: JobId,
        id: NodeId,
        size: Size,
        from_us: impl Fn(u128, NodeId, u64) -> u64,
        now_us: u64,
    ) -> Result<Interval, Option<u64>> {
        let queue = self.jobs.get_mut(&job).ok_or(None)?;
        let at = queue.apart.take(id, size, from_us, now_us)?;
        queue.units -= at.units();
        Ok(at)
    }

    /// Takes `at` out of the tasks that it overlaps; what is left of them waits on. How many units that were.
    pub(crate) fn remove(&mut self, job: JobId, at: Interval) -> u128 {
        assert!(!at.is_empty(), "what leaves has units");
        let Some(queue) = self.jobs.get_mut(&job) else { return 0 };
        let before = queue.units;
        queue.carve(at);
        for alone in [&mut queue.alone, &mut queue.deadly] {
            while let Some(&unit) = alone.range(at.lo..at.hi).next() {
                alone.remove(&unit);
                queue.units -= 1;
            }
        }
        queue.units -= queue.apart.remove(at);
        before - queue.units
    }

    /// What waits of `at`, units that wait alone left aside, does so in tasks of `size` units.
    pub(crate) fn narrow(&mut self, job: JobId, at: Interval, size: u128) {
        // A job of which nothing waits has no queue.
        if let Some(queue) = self.jobs.get_mut(&job) {
            let rows = queue.rows.range(at.lo + 1..).map(|(_, row)| row.at.within(at));
            let pieces: Vec<Interval> = rows.take_while(|piece| !piece.is_empty()).collect();
            for piece in pieces {
                queue.carve(piece);
                queue.add(piece, size);
            }
        }
    }

    /// All tasks of `job` are dropped. How many units these had.
    pub(crate) fn clear(&mut self, job: JobId) -> u128 {
        self.jobs.remove(&job).map_or(0, |queue| queue.units)
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
        gq.put(job, at(0, 10), 10);
        gq.put(job, at(10, 12), 2);
        gq.put(job, at(20, 30), 10);
        assert_eq!(gq.take(job, size(4, 8), true, |lo| lo), Some(at(0, 4)));
        assert_eq!(gq.take(job, size(4, 8), true, |lo| lo), Some(at(4, 10)));
        assert_eq!(
            gq.take(job, size(20, 20), true, |lo| if lo > 10 { lo } else { u128::MAX }),
            Some(at(20, 30))
        );
        gq.put(job, at(20, 30), 10);
        gq.remove(job, at(11, 22));
        assert_eq!(gq.intervals(job), [at(10, 11), at(22, 30)]);
        gq.remove(job, at(24, 25));
        assert_eq!(gq.intervals(job), [at(10, 11), at(22, 24), at(25, 30)]);
        assert_eq!((gq.len(), gq.units(job)), (3, 8));
        gq.clear(job);
        assert!(gq.len() == 0 && gq.take(job, size(1, 1), true, |lo| lo).is_none());
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
            if unit < 5_000 { u128::MAX } else { unit }
        };
        assert_eq!(gq.take(job, size(10, 19), true, &mut not_alone), Some(at(5_000, 5_010)));
        assert_eq!(gq.take(job, size(10, 19), true, &mut not_alone), None);
        assert!(looks <= 4 * LOOKS + 1, "{looks} looks");
        assert_eq!(
            gq.take(job, size(10, 19), false, |lo| lo),
            Some(at(1, 2)),
            "a node has one that is deadly"
        );
        assert_eq!(gq.take(job, size(10, 19), true, |lo| lo), Some(at(0, 1)));
        assert_eq!((gq.len(), gq.units(job)), (1_998, 1_998));
    }

    /// The reference model: one entry a task.
    #[test]
    fn rows_say_what_an_entry_for_each_task_would() {
        let (job, mut random) = (JobId(1), 5_u64);
        let mut draw = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u128::from((random >> 33) % n)
        };
        let tasks_of = |gq: &GlobalQueue| -> Vec<(u128, u128)> {
            gq.intervals(job).into_iter().map(|at| (at.lo, at.hi)).collect()
        };
        for _ in 0..300 {
            let (mut gq, mut model, mut cursor) = (GlobalQueue::default(), BTreeMap::new(), 0);
            for _ in 0..60 {
                match draw(4) {
                    0 => {
                        let (row, unit) = (at(cursor, cursor + 1 + draw(30)), 1 + draw(7));
                        gq.put(job, row, unit);
                        while cursor < row.hi {
                            model.insert(cursor, (cursor + unit).min(row.hi));
                            cursor = model[&cursor];
                        }
                    }
                    1 => {
                        let (unit, from) = (1 + draw(6), draw(cursor as u64 + 1));
                        let tasks = model.iter().map(|(&lo, &hi)| (lo, hi)).enumerate();
                        let task = tasks.into_iter().find(|(_, task)| task.1 > from);
                        let task = task.filter(|(before, task)| before + usize::from(task.0 < from) < LOOKS);
                        let taken = gq.take(job, size(unit, unit + 2), true, |lo| lo.max(from));
                        assert_eq!(taken.is_some(), task.is_some());
                        if let Some((_, (lo, hi))) = task {
                            model.remove(&lo);
                            let begin = lo.max(from);
                            let end = if hi - begin > unit + 2 { begin + unit } else { hi };
                            model.extend([(lo, begin), (end, hi)].into_iter().filter(|(lo, hi)| lo < hi));
                            assert_eq!(taken, Some(at(begin, end)));
                        }
                    }
                    2 => {
                        let lo = draw(cursor as u64 + 1);
                        let gone = at(lo, lo + 1 + draw(9));
                        gq.remove(job, gone);
                        let cut: Vec<_> =
                            model.extract_if(.., |lo, hi| at(*lo, *hi).overlaps(gone)).collect();
                        for (lo, hi) in cut {
                            let left = [(lo, gone.lo), (gone.hi, hi)];
                            model.extend(left.into_iter().filter(|(lo, hi)| lo < hi));
                        }
                    }
                    _ => {
                        let lo = draw(cursor as u64 + 1);
                        let mut back = at(lo, (lo + 1 + draw(9)).min(cursor));
                        if back.is_empty() || model.iter().any(|(&lo, &hi)| at(lo, hi).overlaps(back)) {
                            continue;
                        }
                        gq.put_back(job, back);
                        if let Some(hi) = model.remove(&back.hi) {
                            back.hi = hi;
                        }
                        if let Some((&lo, _)) = model.iter().find(|(_, hi)| **hi == back.lo) {
                            back.lo = lo;
                        }
                        model.insert(back.lo, back.hi);
                    }
                }
                assert_eq!(tasks_of(&gq), model.iter().map(|(&lo, &hi)| (lo, hi)).collect::<Vec<_>>());
                assert_eq!(gq.len(), model.len());
                assert_eq!(gq.units(job), model.iter().map(|(lo, hi)| hi - lo).sum::<u128>());
            }
        }
    }
}
