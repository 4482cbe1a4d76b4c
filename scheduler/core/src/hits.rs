//! The hits of one job. So many of them are in memory, those of the highest units, where most of the work goes on; the
//! others are in the journal alone. Above the floor everything is known here, below it only how much there is.

use std::collections::BTreeSet;

use starfarm_protocol::interval::Interval;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::unit_set::UnitSet;

/// A unit and a target.
pub(crate) type Hit = (u128, u32);

/// Hits that a job has in memory, at most.
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
    /// Hits below the floor in units that are not done: whoever does these names them again.
    early: BTreeSet<Hit>,
    /// Units below the floor that were wanted again after they were done: what was found there was counted.
    counted: UnitSet,
    count: u64,
    /// Targets that were hit, and how many they are.
    targets: UnitSet,
    targets_hit: u128,
}

impl Hits {
    pub(crate) fn new(most: HitsKept) -> Self {
        Self {
            most,
            has_ended: false,
            kept: BTreeSet::new(),
            floor: None,
            early: BTreeSet::new(),
            counted: UnitSet::default(),
            count: 0,
            targets: UnitSet::default(),
            targets_hit: 0,
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
        self.early.range(range.clone()).chain(self.kept.range(range)).copied()
    }

    /// Some are in the journal alone.
    pub(crate) fn are_paged(&self) -> bool {
        self.floor.is_some()
    }

    /// Very many are of units that are not done.
    pub(crate) fn are_crowded(&self) -> bool {
        self.early.len() > self.most.running / 16
    }

    /// The highest of those in the journal alone.
    pub(crate) fn floor(&self) -> Option<Hit> {
        self.floor
    }

    /// Those in memory that a checkpoint must have.
    pub(crate) fn for_checkpoint(&self) -> Vec<Hit> {
        self.early.iter().chain(&self.kept).copied().collect()
    }

    /// Units of which all hits are counted, and are not known here.
    pub(crate) fn counted(&self) -> &UnitSet {
        &self.counted
    }

    /// Targets that were hit.
    pub(crate) fn targets(&self) -> &UnitSet {
        &self.targets
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
            Stop::AllTargets => self.targets_hit == u128::from(targets),
        }
    }

    /// A hit; false if it was in memory. Below the floor it is for the caller to know that its unit has just been decided.
    pub(crate) fn add(&mut self, hit: Hit, is_done: impl Fn(u128) -> bool) -> bool {
        if self.has(hit) {
            return false;
        }
        let is_low = self.floor.is_some_and(|floor| hit <= floor);
        self.count += u64::from(!is_low || !self.counted.contains(hit.0));
        let target = u128::from(hit.1);
        if !self.targets.contains(target) {
            self.targets.insert(target, target + 1);
            self.targets_hit += 1;
        }
        match is_low {
            true => self.let_go(hit, &is_done),
            false => drop(self.kept.insert(hit)),
        }
        self.shrink(is_done);
        true
    }

    /// As a checkpoint tells of those that it does not have: there are `count` in all, and all above `floor` were added.
    pub(crate) fn page(
        &mut self,
        floor: Hit,
        count: u64,
        targets: &[(u128, u128)],
        counted: &[(u128, u128)],
        is_done: impl Fn(u128) -> bool,
    ) {
        let above = self.kept.split_off(&floor);
        let mut below = std::mem::replace(&mut self.kept, above);
        below.extend(self.kept.take(&floor));
        self.floor = self.floor.max(Some(floor));
        below.into_iter().for_each(|hit| self.let_go(hit, &is_done));
        self.count = count;
        targets.iter().for_each(|&(lo, hi)| self.targets.insert(lo, hi));
        counted.iter().for_each(|&(lo, hi)| self.counted.insert(lo, hi));
        self.targets_hit = self.targets.units();
    }

    /// The job has ended, or goes on.
    pub(crate) fn ended(&mut self, has_ended: bool, is_done: impl Fn(u128) -> bool) {
        self.has_ended = has_ended;
        self.shrink(is_done);
    }

    /// Units are done: nobody names their hits again.
    pub(crate) fn done(&mut self, at: Interval) {
        let done: Vec<Hit> = self.early.range((at.lo, 0)..(at.hi, 0)).copied().collect();
        for hit in done {
            self.early.remove(&hit);
        }
    }

    /// Units that were done are wanted again. Those below the floor bring hits that nobody here can tell from new ones.
    pub(crate) fn again(&mut self, at: Interval) {
        if let Some((unit, _)) = self.floor {
            self.counted.insert(at.lo, at.hi.min(unit + 1));
        }
    }

    fn shrink(&mut self, is_done: impl Fn(u128) -> bool) {
        let most = if self.has_ended { self.most.ended } else { self.most.running };
        while self.kept.len() > most {
            let lowest = self.kept.pop_first().expect("there are more than none");
            self.floor = self.floor.max(Some(lowest));
            self.let_go(lowest, &is_done);
        }
    }

    fn let_go(&mut self, hit: Hit, is_done: &impl Fn(u128) -> bool) {
        if !is_done(hit.0) {
            self.early.insert(hit);
        }
    }

    /// What holds at all times; `is_done` says it of a unit.
    pub(crate) fn check(&self, is_done: impl Fn(u128) -> bool) -> Result<(), String> {
        let most = if self.has_ended { self.most.ended } else { self.most.running };
        let known = (self.kept.len() + self.early.len()) as u64;
        let is_low = |hit: &Hit| self.floor.is_some_and(|floor| *hit <= floor);
        match self.kept.first() {
            _ if self.kept.len() > most => Err(format!("{} hits are in memory", self.kept.len())),
            Some(lowest) if is_low(lowest) => Err(format!("hit {lowest:?} is below the floor")),
            _ if self.early.iter().any(|hit| !is_low(hit) || is_done(hit.0)) => {
                Err("a hit is early, and is not".into())
            }
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

    /// Adds hits of units that are done.
    fn hits(most: usize, all: impl IntoIterator<Item = Hit>) -> Hits {
        let mut hits = Hits::new(HitsKept { running: most, ended: 2 });
        all.into_iter().for_each(|hit| assert!(hits.add(hit, |_| true)));
        hits.check(|_| true).unwrap();
        hits
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
        let mut before = hits(8, (0..40).map(|unit| (unit, 5)));
        assert!(before.add((3, 6), |_| false), "unit 3 is not done");
        before.check(|unit| unit != 3).unwrap();
        assert!(before.has((3, 6)) && !before.add((3, 6), |_| true));
        let mut after = Hits::new(before.most);
        for hit in before.for_checkpoint() {
            after.add(hit, |unit| unit != 3);
        }
        let (targets, counted) =
            (Vec::from_iter(before.targets().iter()), Vec::from_iter(before.counted().iter()));
        after.page(before.floor().unwrap(), before.count(), &targets, &counted, |unit| unit != 3);
        after.check(|unit| unit != 3).unwrap();
        assert_eq!((after.kept(), after.floor(), after.count()), (before.kept(), before.floor(), 41));
        assert_eq!((&after.early, after.targets()), (&before.early, before.targets()));
        after.done(Interval::new(0, 4));
        assert!(!after.has((3, 6)), "whoever named it again has");
    }

    #[test]
    fn what_is_found_again_below_the_floor_is_not_counted_again() {
        let mut hits = hits(8, (0..40).map(|unit| (unit, 0)));
        // The floor is unit 31; units [20, 36) are done by another.
        hits.again(Interval::new(20, 36));
        for unit in 20..36 {
            assert_eq!(hits.add((unit, 0), |_| true), unit < 32, "unit {unit}");
        }
        assert_eq!((hits.count(), hits.counted().iter().collect()), (40, vec![(20, 32)]));
        // What was missed there is not counted, but its target is; above the floor both are.
        assert!(hits.add((25, 1), |_| true) && hits.add((33, 2), |_| true));
        assert_eq!((hits.count(), hits.satisfy(Stop::AllTargets, 3)), (41, true));
        hits.check(|_| true).unwrap();
    }

    #[test]
    fn a_job_that_has_ended_keeps_fewer() {
        let mut hits = hits(8, (0..8).map(|unit| (unit, 0)));
        assert!(!hits.are_paged());
        hits.ended(true, |_| true);
        assert_eq!((hits.kept().len(), hits.floor(), hits.count()), (2, Some((5, 0)), 8));
        hits.ended(false, |_| true);
        hits.add((9, 0), |_| true);
        assert_eq!(Vec::from_iter(hits.kept().iter().map(|hit| hit.0)), [6, 7, 9]);
    }
}
