//! What became of every unit of a job: a partition of [0, cursor) into coalesced intervals, each in one
//! class; what lies beyond the cursor was never cut. This is the heart of the accounting: classes only
//! change here, and the counters change with them (R2, R6). Which task holds which interval is not known
//! here, so that only the room of the queues may change anything: class and place change together.

use std::collections::BTreeMap;

use starfarm_protocol::interval::Interval;

/// What became of a unit that was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// In gq.
    Pending = 0,
    /// In dq: given to a node.
    Out = 1,
    /// Computed and counted, once.
    Done = 2,
    /// Given up after its retries, or poison.
    Failed = 3,
    /// Not wanted any more: the job ended early.
    Abandoned = 4,
}

/// A set of classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes(u8);

impl Classes {
    /// The set of `classes`.
    pub(crate) const fn of(classes: &[Class]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < classes.len() {
            bits |= 1 << classes[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    fn has(self, class: Class) -> bool {
        self.0 & 1 << class as u8 != 0
    }
}

/// Units that ran to their end, or were given up.
pub(crate) const DECIDED: Classes = Classes::of(&[Class::Done, Class::Failed]);
/// Units that failed for good.
pub(crate) const FAILED: Classes = Classes::of(&[Class::Failed]);
/// Units that a result can still decide.
pub(super) const OPEN: Classes = Classes::of(&[Class::Pending, Class::Out, Class::Abandoned]);

/// An interval that changed its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) at: Interval,
    /// The class before.
    pub(crate) was: Class,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    hi: u128,
    class: Class,
}

/// The partition of a job's units.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    units: u128,
    cursor: u128,
    segments: BTreeMap<u128, Segment>,
    counts: [u128; 5],
}

impl Coverage {
    /// A job of `units` units, none of them cut.
    pub(crate) fn new(units: u128) -> Self {
        Self { units, cursor: 0, segments: BTreeMap::new(), counts: [0; 5] }
    }

    /// There are `units` of them from now on: those that come are fresh.
    pub(super) fn grow(&mut self, units: u128) {
        assert!(units >= self.units, "no unit that a job has goes away");
        self.units = units;
    }

    /// Units of the job.
    pub(crate) fn units(&self) -> u128 {
        self.units
    }

    /// First unit that was never cut.
    pub(crate) fn cursor(&self) -> u128 {
        self.cursor
    }

    /// Units that were never cut.
    pub(crate) fn fresh(&self) -> u128 {
        self.units.checked_sub(self.cursor).expect("nothing is cut beyond the job's end")
    }

    /// Units of a class.
    pub(crate) fn count(&self, class: Class) -> u128 {
        self.counts[class as usize]
    }

    /// Each unit is done or has failed.
    pub(crate) fn is_decided(&self) -> bool {
        self.count(Class::Done) + self.count(Class::Failed) == self.units()
    }

    /// A result can still decide `unit`. An abandoned one too: the work was done.
    pub(crate) fn is_open(&self, unit: u128) -> bool {
        let segment = self.segments.range(..=unit).next_back().filter(|(_, segment)| segment.hi > unit);
        segment.is_some_and(|(_, segment)| OPEN.has(segment.class))
    }

    /// It was computed and counted.
    pub(crate) fn is_done(&self, unit: u128) -> bool {
        self.has_in(Interval::one(unit), Class::Done)
    }

    /// Units of a class in [lo, hi).
    pub(crate) fn count_in(&self, Interval { lo, hi }: Interval, class: Class) -> u128 {
        if lo >= hi {
            return 0;
        }
        let start = self.segments.range(..=lo).next_back().map_or(lo, |(&at, _)| at);
        let of_class = self.segments.range(start..hi).filter(|(_, segment)| segment.class == class);
        of_class.map(|(&at, segment)| segment.hi.min(hi).saturating_sub(at.max(lo))).sum()
    }

    /// Some unit of [lo, hi) is in a class.
    pub(crate) fn has_in(&self, Interval { lo, hi }: Interval, class: Class) -> bool {
        if lo >= hi {
            return false;
        }
        let start = self.segments.range(..=lo).next_back().map_or(lo, |(&at, _)| at);
        self.segments.range(start..hi).any(|(_, segment)| segment.class == class && segment.hi > lo)
    }

    /// The first units side by side of [lo, hi) that are in a class.
    pub(crate) fn first_in(&self, at: Interval, class: Class) -> Option<Interval> {
        assert!(!at.is_empty(), "an empty interval has no units");
        let start = self.segments.range(..=at.lo).next_back().map_or(at.lo, |(&lo, _)| lo);
        let of_class = self.segments.range(start..at.hi).filter(|(_, segment)| segment.class == class);
        let mut within = of_class.map(|(&lo, segment)| Interval::new(lo, segment.hi).within(at));
        within.find(|piece| !piece.is_empty())
    }

    /// What of [lo, hi) a result can still decide, in order.
    pub(crate) fn open_in(&self, at: Interval) -> Vec<Interval> {
        if at.is_empty() {
            return Vec::new();
        }
        let start = self.segments.range(..=at.lo).next_back().map_or(at.lo, |(&lo, _)| lo);
        let open = self.segments.range(start..at.hi).filter(|(_, segment)| OPEN.has(segment.class));
        let within = open.map(|(&lo, segment)| Interval::new(lo, segment.hi).within(at));
        within.filter(|piece| !piece.is_empty()).collect()
    }

    /// A result can still decide some unit of `at`.
    pub(crate) fn has_open_in(&self, at: Interval) -> bool {
        self.within(at, OPEN).next().is_some()
    }

    /// Intervals held in memory.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Cuts [cursor, hi) from the fresh space into `class`.
    ///
    /// # Panics
    /// Where `hi` is not in (cursor, units].
    pub(super) fn cut(&mut self, hi: u128, class: Class) {
        let lo = self.cursor;
        assert!(lo < hi && hi <= self.units, "a cut lies in the fresh space");
        self.cursor = hi;
        self.counts[class as usize] += hi - lo;
        match self.segments.last_entry() {
            Some(mut last) if last.get().class == class => last.get_mut().hi = hi,
            _ => drop(self.segments.insert(lo, Segment { hi, class })),
        }
    }

    /// Every unit of [lo, hi) whose class is in `from` changes to `to`; `pieces` gets what changed, in
    /// order. Units beyond the cursor are left alone.
    pub(super) fn change(&mut self, at: Interval, from: Classes, to: Class, pieces: &mut Vec<Piece>) {
        let Interval { mut lo, hi } = at;
        while lo < hi {
            let mut up_to = self.segments.range_mut(..=lo);
            let Some((&start, segment)) = up_to.next_back().filter(|(_, segment)| lo < segment.hi) else {
                break;
            };
            let Segment { hi: end, class: was } = *segment;
            let at = Interval::new(lo, end.min(hi));
            lo = at.hi;
            if was == to || !from.has(was) {
                continue;
            }
            pieces.push(Piece { at, was });
            take(&mut self.counts, was, at.units());
            self.counts[to as usize] += at.units();
            // What lies before it in the segment stays as it was. Where nothing does, it joins the one before.
            let mut first = at.lo;
            let changed = Segment { hi: at.hi, class: to };
            if start < at.lo {
                segment.hi = at.lo;
                self.segments.insert(at.lo, changed);
            } else if let Some((&before, known)) = up_to.next_back().filter(|(_, known)| known.class == to) {
                (first, *known) = (before, changed);
                self.segments.remove(&start);
            } else {
                *segment = changed;
            }
            // Likewise behind it.
            if at.hi < end {
                self.segments.insert(at.hi, Segment { hi: end, class: was });
            } else if let Some(&next) = self.segments.get(&end).filter(|next| next.class == to) {
                self.segments.remove(&end);
                self.segments.insert(first, next);
            }
        }
        self.assert_sum();
    }

    fn assert_sum(&self) {
        assert!(self.counts.iter().sum::<u128>() == self.cursor, "each unit that was cut is in one class");
    }

    /// As [`Coverage::change`] for all that was cut, in one pass however many segments there are.
    pub(super) fn change_all(&mut self, from: Classes, to: Class) {
        let mut joined: Vec<(u128, Segment)> = Vec::with_capacity(self.segments.len());
        for (lo, mut segment) in std::mem::take(&mut self.segments) {
            if from.has(segment.class) {
                take(&mut self.counts, segment.class, segment.hi - lo);
                self.counts[to as usize] += segment.hi - lo;
                segment.class = to;
            }
            match joined.last_mut() {
                Some((_, last)) if last.class == segment.class => last.hi = segment.hi,
                _ => joined.push((lo, segment)),
            }
        }
        self.segments = joined.into_iter().collect();
        self.assert_sum();
    }

    /// The intervals of a class, in order.
    pub(crate) fn intervals(&self, class: Class) -> impl Iterator<Item = Interval> + '_ {
        self.segments.iter().filter(move |(_, s)| s.class == class).map(|(&lo, s)| Interval::new(lo, s.hi))
    }

    /// What of `at` is done or has failed, in order.
    pub(crate) fn decided_in(&self, at: Interval) -> impl Iterator<Item = Interval> + '_ {
        self.within(at, DECIDED)
    }

    /// What of `at` is in one of these classes, in order.
    pub(crate) fn within(&self, at: Interval, classes: Classes) -> impl Iterator<Item = Interval> + '_ {
        let start = self.segments.range(..=at.lo).next_back().map_or(at.lo, |(&lo, _)| lo);
        let segments = self.segments.range(start..at.hi.max(start));
        let of_them = segments.filter(move |(_, segment)| classes.has(segment.class));
        of_them.map(move |(&lo, s)| Interval::new(lo, s.hi).within(at)).filter(|piece| !piece.is_empty())
    }

    /// What is neither done nor failed, in order and joined.
    pub(crate) fn undecided(&self) -> Vec<Interval> {
        let cut = self.segments.iter().filter(|(_, segment)| !DECIDED.has(segment.class));
        let cut = cut.map(|(&lo, segment)| Interval::new(lo, segment.hi));
        let fresh = Interval::new(self.cursor, self.units);
        let mut joined: Vec<Interval> = Vec::new();
        for at in cut.chain(Some(fresh).filter(|fresh| !fresh.is_empty())) {
            match joined.last_mut() {
                Some(last) if last.hi == at.lo => last.hi = at.hi,
                _ => joined.push(at),
            }
        }
        let decided = self.count(Class::Done) + self.count(Class::Failed);
        debug_assert!(joined.iter().map(|at| at.units()).sum::<u128>() + decided == self.units);
        joined
    }

    /// Each unit is in one class, or was never cut.
    pub(crate) fn check_sum(&self) -> Result<(), String> {
        let counted: u128 = self.counts.iter().sum();
        match counted + self.fresh() == self.units {
            true => Ok(()),
            false => Err(format!("{counted} counted, {} fresh", self.fresh())),
        }
    }

    /// Checks what holds always: the segments tile [0, cursor) and the counters are their sums.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (mut at, mut counts, mut last) = (0, [0_u128; 5], None);
        for (&lo, segment) in &self.segments {
            if lo != at || segment.hi <= lo || last == Some(segment.class) {
                return Err(format!("segment [{lo}, {}) does not follow {at}", segment.hi));
            }
            counts[segment.class as usize] += segment.hi - lo;
            (at, last) = (segment.hi, Some(segment.class));
        }
        if at != self.cursor || counts != self.counts {
            return Err(format!("cursor {} and counts {:?}, but {at}, {counts:?}", self.cursor, self.counts));
        }
        Ok(())
    }
}

fn take(counts: &mut [u128; 5], class: Class, units: u128) {
    let count = &mut counts[class as usize];
    *count = count.checked_sub(units).expect("the sum has each unit of the class");
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Class; 5] = [Class::Pending, Class::Out, Class::Done, Class::Failed, Class::Abandoned];

    /// The reference model: one class a unit.
    #[test]
    fn agrees_with_one_class_a_unit() {
        let mut random = 7_u64;
        let mut draw = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        for _ in 0..200 {
            let units = 1 + draw(80) as usize;
            let (mut coverage, mut model) = (Coverage::new(units as u128), Vec::new());
            for _ in 0..60 {
                if model.len() < units && draw(3) == 0 {
                    let more = 1 + draw((units - model.len()) as u64) as usize;
                    let class = ALL[draw(2) as usize];
                    coverage.cut((model.len() + more) as u128, class);
                    model.resize(model.len() + more, class);
                } else {
                    let lo = draw(units as u64) as usize;
                    let hi = lo + draw(12) as usize;
                    let (to, bits) = (ALL[draw(5) as usize], Classes(draw(32) as u8));
                    let mut pieces = Vec::new();
                    if draw(8) == 0 {
                        let mut all = coverage.clone();
                        all.change_all(bits, to);
                        all.check().unwrap();
                        let mut one = coverage.clone();
                        one.change(Interval::new(0, units as u128), bits, to, &mut Vec::new());
                        let of = |of: &Coverage| ALL.map(|class| of.intervals(class).collect::<Vec<_>>());
                        assert_eq!(of(&all), of(&one));
                    }
                    coverage.change(Interval::new(lo as u128, hi as u128), bits, to, &mut pieces);
                    let mut changed = 0;
                    for unit in lo..hi.min(model.len()) {
                        let was = model[unit];
                        let in_piece = pieces.iter().find(|p| p.at.contains(unit as u128));
                        let changes = bits.has(was) && was != to;
                        assert_eq!(in_piece.map(|p| p.was), changes.then_some(was), "unit {unit}");
                        changed += u128::from(changes);
                        model[unit] = if changes { to } else { was };
                    }
                    assert_eq!(pieces.iter().map(|p| p.at.units()).sum::<u128>(), changed);
                }
                coverage.check().unwrap();
                for class in ALL {
                    let count = model.iter().filter(|&&c| c == class).count();
                    assert_eq!(coverage.count(class), count as u128, "{class:?}");
                    let lo = draw(units as u64) as usize;
                    let hi = lo + draw(20) as usize;
                    let at = Interval::new(lo as u128, hi as u128);
                    let count = model.iter().take(hi).skip(lo).filter(|&&c| c == class).count();
                    assert_eq!(coverage.count_in(at, class), count as u128);
                    assert_eq!(coverage.has_in(at, class), count > 0);
                }
                assert_eq!(coverage.cursor(), model.len() as u128);
            }
        }
    }

    #[test]
    fn the_largest_space_is_counted_without_overflow() {
        let mut coverage = Coverage::new(u128::MAX);
        coverage.cut(u128::MAX, Class::Out);
        let mut pieces = Vec::new();
        coverage.change(Interval::new(0, u128::MAX), Classes::of(&[Class::Out]), Class::Done, &mut pieces);
        assert_eq!((coverage.count(Class::Done), coverage.segments()), (u128::MAX, 1));
    }
}
