//! The hits of one job. So many of them are in memory, those of the highest units, where most of the work goes on; the
//! others are in the journal alone. Above the floor everything is known here, below it only how much there is.

use std::collections::BTreeSet;

use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::unit_set::UnitSet;

use crate::targets::Targets;

/// A unit and a target.
pub(crate) type Hit = (u128, u32);

/// Hits that a job has in memory, at most; and those of units that are computed again, at most as many as of one that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitsKept {
    /// As long as it has not ended.
    pub running: usize,
    /// From its end on.
    pub ended: usize,
}

impl HitsKept {
    /// All of them.
    pub const ALL: Self = Self { running: usize::MAX, ended: usize::MAX };
}

/// What a job has found.
#[derive(Clone, Debug)]
pub(crate) struct Hits {
    most: HitsKept,
    has_ended: bool,
    kept: BTreeSet<Hit>,
    /// The highest hit that was let go: all above it are kept.
    floor: Option<Hit>,
    /// Known hits of units that are not done: whoever does these names them again. Above the floor they are among the kept ones as
    /// well.
    early: BTreeSet<Hit>,
    /// Units that were wanted again after they were done, and whose hits are not all known: what was found there was counted.
    counted: UnitSet,
    count: u64,
    /// Targets that were hit, where the search stops with all of them.
    targets: Option<Targets>,
}

impl Hits {
    /// None; `targets` are there where the search stops with all of them.
    pub(crate) fn new(most: HitsKept, targets: Option<u32>) -> Self {
        Self {
            most,
            has_ended: false,
            kept: BTreeSet::new(),
            floor: None,
            early: BTreeSet::new(),
            counted: UnitSet::default(),
            count: 0,
            targets: targets.map(Targets::new),
        }
    }

    /// All that there are, in memory or not; but for those that were found in `counted` units and had been missed there.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Those in memory.
    pub(crate) fn kept(&self) -> &BTreeSet<Hit> {
        &self.kept
    }

    /// Those in memory that are among these units.
    pub(crate) fn known_in(&self, at: Interval) -> impl Iterator<Item = Hit> + '_ {
        let range = (at.lo, 0)..(at.hi, 0);
        let low = self.early.range(range.clone()).filter(|hit| !self.kept.contains(*hit));
        low.chain(self.kept.range(range)).copied()
    }

    /// Some are in the journal alone.
    pub(crate) fn are_paged(&self) -> bool {
        self.floor.is_some()
    }

    /// Very many would be of units that are not done if these, which are, were wanted again. Below that all are known then.
    pub(crate) fn are_crowded(&self, at: Interval) -> bool {
        self.early.len() + self.kept.range((at.lo, 0)..(at.hi, 0)).count() > self.most.running / 2
    }

    /// The highest of those in the journal alone.
    pub(crate) fn floor(&self) -> Option<Hit> {
        self.floor
    }

    /// Those in memory that a checkpoint must have.
    pub(crate) fn for_checkpoint(&self) -> Vec<Hit> {
        self.early.difference(&self.kept).chain(&self.kept).copied().collect()
    }

    /// Units of which all hits are counted, and are not known here.
    pub(crate) fn counted(&self) -> &UnitSet {
        &self.counted
    }

    /// Targets that were hit, where that matters.
    pub(crate) fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    /// A checkpoint tells of the hits that are in the journal alone. Older versions told of targets by intervals.
    pub(crate) fn restore(&mut self, record: &Record) {
        match record {
            Record::HitsPaged { floor, count, targets, again, .. } => {
                self.page(*floor, *count, again);
                if let Some(hit) = &mut self.targets {
                    targets.iter().flat_map(|&(lo, hi)| lo..hi).for_each(|target| hit.insert(target as u32));
                }
            }
            Record::TargetsHit { from, bits, .. } => {
                if let Some(hit) = &mut self.targets {
                    hit.insert_all(*from, bits);
                }
            }
            _ => unreachable!("the caller has looked at its kind"),
        }
    }

    /// All hits of `unit` that were ever counted are in memory.
    pub(crate) fn tell_of(&self, unit: u128) -> bool {
        self.floor.is_none_or(|floor| floor.0 < unit)
    }

    /// It is in memory.
    pub(crate) fn has(&self, hit: Hit) -> bool {
        self.kept.contains(&hit) || self.early.contains(&hit)
    }

    /// The search has found what it was to find.
    pub(crate) fn satisfy(&self, stop: Stop, targets: u32) -> bool {
        match stop {
            Stop::Never => false,
            Stop::FirstHit => self.count > 0,
            Stop::AllTargets => self.targets.as_ref().is_some_and(|of| of.hit() == targets),
        }
    }

    /// A hit of a unit that is done or is not; false if it was in memory. Below the floor it is for the caller to know that its
    /// unit has just been decided.
    pub(crate) fn add(&mut self, hit: Hit, is_done: bool) -> bool {
        if self.has(hit) {
            return false;
        }
        let (is_low, is_counted) =
            (self.floor.is_some_and(|floor| hit <= floor), self.counted.contains(hit.0));
        self.count += u64::from(!is_low || !is_counted);
        if let Some(targets) = &mut self.targets {
            targets.insert(hit.1);
        }
        if !is_done && !is_counted {
            self.early.insert(hit);
        }
        if !is_low {
            self.kept.insert(hit);
            self.shrink();
        }
        true
    }

    /// As a checkpoint tells of those that it does not have: there are `count` in all, and all above `floor` were added.
    fn page(&mut self, floor: Hit, count: u64, counted: &[(u128, u128)]) {
        let above = self.kept.split_off(&floor);
        self.kept = above;
        self.kept.remove(&floor);
        self.floor = self.floor.max(Some(floor));
        self.count = count;
        counted.iter().for_each(|&(lo, hi)| self.counted.insert(lo, hi));
        self.early.retain(|hit| !self.counted.contains(hit.0));
    }

    /// The job has ended, or goes on.
    pub(crate) fn ended(&mut self, has_ended: bool) {
        self.has_ended = has_ended;
        self.shrink();
    }

    /// Units are done: nobody names their hits again.
    pub(crate) fn done(&mut self, at: Interval) {
        let done: Vec<Hit> = self.early.range((at.lo, 0)..(at.hi, 0)).copied().collect();
        for hit in done {
            self.early.remove(&hit);
        }
    }

    /// None is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.early.is_empty()
    }

    /// Some wait for their units to be done.
    pub(crate) fn wait(&self) -> bool {
        !self.early.is_empty()
    }

    /// Units that were done are wanted again. Those below the floor bring hits that nobody here can tell from new ones. So may
    /// the others, where too many hits wait for their units to be done again.
    pub(crate) fn again(&mut self, at: Interval) {
        let low = self.floor.map_or(at.lo, |(unit, _)| at.hi.min(unit + 1));
        self.counted.insert(at.lo, low);
        let lo = at.lo.max(low);
        let hits: Vec<Hit> = self.kept.range((lo, 0)..(at.hi.max(lo), 0)).copied().collect();
        if self.early.len() + hits.len() <= self.most.running {
            self.early.extend(hits);
            self.counted.remove(lo, at.hi);
        } else {
            self.counted.insert(lo, at.hi);
        }
    }

    fn shrink(&mut self) {
        let most = if self.has_ended { self.most.ended } else { self.most.running };
        while self.kept.len() > most {
            let lowest = self.kept.pop_first().expect("there are more than none");
            self.floor = self.floor.max(Some(lowest));
        }
    }

    /// What holds at all times; `is_done` says it of a unit.
    pub(crate) fn check(&self, is_done: impl Fn(u128) -> bool) -> Result<(), String> {
        let most = if self.has_ended { self.most.ended } else { self.most.running };
        let apart = self.early.iter().filter(|hit| !self.kept.contains(*hit)).count();
        let known = (self.kept.len() + apart) as u64;
        let is_low = |hit: &Hit| self.floor.is_some_and(|floor| *hit <= floor);
        let is_early = |hit: &Hit| {
            (is_low(hit) || self.kept.contains(hit)) && !is_done(hit.0) && !self.counted.contains(hit.0)
        };
        match self.kept.first() {
            _ if self.kept.len() > most => Err(format!("{} hits are in memory", self.kept.len())),
            Some(lowest) if is_low(lowest) => Err(format!("hit {lowest:?} is below the floor")),
            _ if !self.early.iter().all(is_early) => Err("a hit is early, and is not".into()),
            _ if known > self.count || (self.floor.is_none() && known < self.count) => {
                Err(format!("{known} of {} hits are in memory", self.count))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds hits of units that are done; the search stops with all of three targets.
    fn hits(most: usize, all: impl IntoIterator<Item = Hit>) -> Hits {
        let mut hits = Hits::new(HitsKept { running: most, ended: 2 }, Some(3));
        all.into_iter().for_each(|hit| assert!(hits.add(hit, true)));
        hits.check(|_| true).unwrap();
        hits
    }

    /// As a checkpoint would.
    fn restored(before: &Hits, is_done: impl Fn(u128) -> bool) -> Hits {
        let mut after = Hits::new(before.most, Some(3));
        for hit in before.for_checkpoint() {
            after.add(hit, is_done(hit.0));
        }
        after.page(before.floor().unwrap(), before.count(), &Vec::from_iter(before.counted().iter()));
        for (from, bits) in before.targets().unwrap().parts(1) {
            after.targets.as_mut().unwrap().insert_all(from, bits);
        }
        after.check(is_done).unwrap();
        after
    }

    #[test]
    fn the_same_are_in_memory_in_whatever_order_they_came() {
        let all: Vec<Hit> = (0..40).map(|unit| (unit * 7 % 41, unit as u32 % 3)).collect();
        let (one, other) = (hits(8, all.clone()), hits(8, all.into_iter().rev()));
        assert_eq!((one.kept(), one.floor(), one.count()), (other.kept(), other.floor(), 40));
        assert_eq!(one.kept().len(), 8);
        assert_eq!((one.tell_of(31), one.tell_of(32)), (false, true), "{:?}", one.floor());
        assert!(one.satisfy(Stop::AllTargets, 3) && !one.satisfy(Stop::AllTargets, 4));
    }

    #[test]
    fn what_a_checkpoint_tells_is_what_was() {
        let mut before = hits(8, (0..40).map(|unit| (unit, 1)));
        assert!(before.add((3, 2), false), "unit 3 is not done");
        before.check(|unit| unit != 3).unwrap();
        assert!(before.has((3, 2)) && !before.add((3, 2), true));
        let mut after = restored(&before, |unit| unit != 3);
        assert_eq!((after.kept(), after.floor(), after.count()), (before.kept(), before.floor(), 41));
        assert_eq!((&after.early, after.targets()), (&before.early, before.targets()));
        after.done(Interval::new(0, 4));
        assert!(!after.has((3, 2)), "whoever named it again has");
    }

    /// A node is not trusted, and another one then, and so on: what each found waits to be found again, and what others find
    /// meanwhile fills the memory.
    #[test]
    fn what_waits_to_be_found_again_is_bounded() {
        let mut hits = hits(8, (0..8).map(|unit| (unit, 0)));
        for round in 1..5_u128 {
            hits.again(Interval::new(round * 8 - 8, round * 8));
            (round * 8..round * 8 + 8).for_each(|unit| assert!(hits.add((unit, 0), true)));
            hits.check(|unit| unit >= round * 8).unwrap();
            assert!(hits.early.len() <= 8, "{} hits wait", hits.early.len());
        }
        assert_eq!((hits.count(), hits.counted().iter().collect()), (40, vec![(8, 32)]));
        let after = restored(&hits, |unit| unit >= 32);
        assert_eq!((&after.early, after.counted(), after.kept()), (&hits.early, hits.counted(), hits.kept()));
        // They are found again: of the first eight that is known, of the others nobody knows, and none is counted twice.
        for unit in 0..32 {
            assert_eq!(hits.has((unit, 0)), unit < 8);
            hits.done(Interval::one(unit));
            hits.add((unit, 0), true);
        }
        assert_eq!(hits.count(), 40 + 8, "these are told apart before their units are done");
        hits.check(|_| true).unwrap();
    }

    #[test]
    fn units_whose_hits_were_not_all_known_are_known_well_once_they_are_done_again() {
        let mut hits = hits(8, (0..8).map(|unit| (unit, 0)));
        hits.early.extend([(100, 0), (101, 0)]);
        hits.again(Interval::new(0, 8));
        assert_eq!((hits.early.len(), hits.counted().units()), (2, 8), "that would be too many");
        hits.early.clear();
        assert!(!hits.are_crowded(Interval::new(4, 8)) && hits.are_crowded(Interval::new(3, 8)));
        hits.again(Interval::new(4, 8));
        assert_eq!((hits.early.len(), hits.counted().iter().collect()), (4, vec![(0, 4)]));
    }

    #[test]
    fn what_is_found_again_below_the_floor_is_not_counted_again() {
        let mut hits = hits(8, (0..40).map(|unit| (unit, 0)));
        // The floor is unit 31; units [20, 36) are done by another.
        hits.again(Interval::new(20, 36));
        for unit in 20..36 {
            assert_eq!(hits.add((unit, 0), true), unit < 32, "unit {unit}");
        }
        assert_eq!((hits.count(), hits.counted().iter().collect()), (40, vec![(20, 32)]));
        hits.done(Interval::new(20, 36));
        // What was missed there is not counted, but its target is; above the floor both are.
        assert!(hits.add((25, 1), true) && hits.add((33, 2), true));
        assert_eq!((hits.count(), hits.satisfy(Stop::AllTargets, 3)), (41, true));
        hits.check(|_| true).unwrap();
    }

    #[test]
    fn a_job_that_has_ended_keeps_fewer() {
        let mut hits = hits(8, (0..8).map(|unit| (unit, 0)));
        assert!(!hits.are_paged());
        hits.ended(true);
        assert_eq!((hits.kept().len(), hits.floor(), hits.count()), (2, Some((5, 0)), 8));
        hits.ended(false);
        hits.add((9, 0), true);
        assert_eq!(Vec::from_iter(hits.kept().iter().map(|hit| hit.0)), [6, 7, 9]);
    }

    #[test]
    fn targets_are_remembered_only_where_the_search_stops_with_all_of_them() {
        let mut hits = Hits::new(HitsKept::ALL, None);
        (0..9).for_each(|target| assert!(hits.add((5, target), true)));
        assert_eq!((hits.targets(), hits.count()), (None, 9));
        assert!(hits.satisfy(Stop::FirstHit, 9) && !hits.satisfy(Stop::Never, 9));
    }
}
