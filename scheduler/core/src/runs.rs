//! What is said of units one by one, kept by intervals of neighbours of which the same is said: a million units that
//! failed alike cost as much as one.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use starfarm_protocol::interval::Interval;

/// A value for each of some units. Neighbours with the same value are one entry.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Runs<T> {
    /// End, exclusive, and value, by first unit. They do not overlap; those that touch differ.
    runs: BTreeMap<u128, (u128, T)>,
    units: u128,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: BTreeMap::new(), units: 0 }
    }
}

impl<T: Copy + PartialEq> Runs<T> {
    /// How many units there is something said of.
    pub(crate) fn units(&self) -> u128 {
        self.units
    }

    /// How many intervals these are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What is said of this unit.
    pub(crate) fn get(&self, unit: u128) -> Option<T> {
        let (_, &(hi, value)) = self.runs.range(..=unit).next_back()?;
        (unit < hi).then_some(value)
    }

    /// The interval that holds `at`, of all of which the same is said.
    pub(crate) fn holding(&self, at: Interval) -> Option<Interval> {
        let (&lo, &(hi, _)) = self.runs.range(..=at.lo).next_back()?;
        (at.hi <= hi).then_some(Interval::new(lo, hi))
    }

    /// From now on `value` is said of [lo, hi), whatever was said before.
    pub(crate) fn insert(&mut self, at: Interval, value: T) {
        let Interval { mut lo, mut hi } = at;
        if lo >= hi {
            return;
        }
        self.remove(at);
        self.units += hi - lo;
        if let Some((&first, &(end, said))) = self.runs.range(..lo).next_back()
            && end == lo
            && said == value
        {
            lo = first;
        }
        if let Some(&(end, said)) = self.runs.get(&hi)
            && said == value
        {
            self.runs.remove(&hi);
            hi = end;
        }
        self.runs.insert(lo, (hi, value));
    }

    /// Nothing is said of [lo, hi) any more.
    pub(crate) fn remove(&mut self, Interval { lo, hi }: Interval) {
        if lo >= hi {
            return;
        }
        while let Some((&first, &(end, value))) = self.runs.range(..hi).next_back().filter(|run| run.1.0 > lo)
        {
            self.runs.remove(&first);
            let gone = end.min(hi) - first.max(lo);
            self.units = self.units.checked_sub(gone).expect("the sum has what each run added to it");
            if end > hi {
                self.runs.insert(hi, (end, value));
            }
            if first < lo {
                self.runs.insert(first, (lo, value));
            }
        }
    }

    /// The units of which something is said, neighbours joined whatever it is.
    pub(crate) fn intervals(&self) -> Vec<Interval> {
        let mut intervals: Vec<Interval> = Vec::new();
        for (at, _) in self.iter() {
            match intervals.last_mut() {
                Some(last) if last.hi == at.lo => last.hi = at.hi,
                _ => intervals.push(at),
            }
        }
        intervals
    }

    /// What of `at` there is something said of, in order.
    pub(crate) fn within(&self, at: Interval) -> Vec<Interval> {
        let first = self.runs.range(..=at.lo).next_back().map_or(at.lo, |(&lo, _)| lo);
        let near = self.runs.range(first..at.hi).map(|(&lo, &(hi, _))| Interval::new(lo, hi).within(at));
        near.filter(|piece| !piece.is_empty()).collect()
    }

    /// Each interval and its value, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Interval, T)> + '_ {
        self.runs.iter().map(|(&lo, &(hi, value))| (Interval::new(lo, hi), value))
    }

    /// `take` units, one by one, behind the first `skip`.
    pub(crate) fn page(&self, skip: usize, take: usize) -> Vec<(u128, T)> {
        let (mut skip, mut page) = (skip as u128, Vec::new());
        for (at, value) in self.iter() {
            if page.len() == take {
                break;
            }
            let left = skip.min(at.units());
            skip -= left;
            page.extend((at.lo + left..at.hi).take(take - page.len()).map(|unit| (unit, value)));
        }
        page
    }

    /// `take` units, one by one, behind `unit`: without a walk over those before it.
    pub(crate) fn page_behind(&self, unit: u128, take: usize) -> Vec<(u128, T)> {
        let Some(from) = unit.checked_add(1) else { return Vec::new() };
        let first = self.runs.range(..=from).next_back().map(|(_, &(hi, value))| (from, hi, value));
        let next = self.runs.range((Excluded(from), Unbounded)).map(|(&lo, &(hi, value))| (lo, hi, value));
        let units =
            first.into_iter().chain(next).flat_map(|(lo, hi, value)| (lo..hi).map(move |unit| (unit, value)));
        units.take(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_what_a_value_for_each_unit_would() {
        let (mut runs, mut each, mut seed) = (Runs::default(), BTreeMap::new(), 1_u64);
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u128::from((seed >> 33) % below)
        };
        for _ in 0..3_000 {
            let lo = next(60);
            let (hi, value) = (lo + next(9), next(3));
            if next(3) == 0 {
                runs.remove(Interval::new(lo, hi));
                each.retain(|unit, _| !(lo..hi).contains(unit));
            } else {
                runs.insert(Interval::new(lo, hi), value);
                each.extend((lo..hi).map(|unit| (unit, value)));
            }
            assert_eq!(runs.units(), each.len() as u128);
            assert_eq!(runs.is_empty(), each.is_empty());
            assert!((0..70).all(|unit| runs.get(unit) == each.get(&unit).copied()));
            let (skip, take) = (next(20) as usize, next(20) as usize);
            let expected: Vec<_> =
                each.iter().skip(skip).take(take).map(|(&unit, &value)| (unit, value)).collect();
            assert_eq!(runs.page(skip, take), expected);
            let unit = next(70);
            let behind: Vec<_> =
                each.range(unit + 1..).take(take).map(|(&unit, &value)| (unit, value)).collect();
            assert_eq!(runs.page_behind(unit, take), behind);
            let all: Vec<_> = runs.iter().collect();
            assert!(all.windows(2).all(|two| two[0].0.hi < two[1].0.lo || two[0].1 != two[1].1), "{all:?}");
        }
    }
}
