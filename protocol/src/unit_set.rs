//! A set of units, kept as intervals.

use std::collections::BTreeMap;

/// Units; neighbours are one interval.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitSet {
    /// End, exclusive, by first unit.
    runs: BTreeMap<u128, u128>,
}

impl UnitSet {
    /// Adds [lo, hi).
    pub fn insert(&mut self, mut lo: u128, mut hi: u128) {
        if lo >= hi {
            return;
        }
        while let Some((&first, &end)) = self.runs.range(..=hi).next_back().filter(|run| *run.1 >= lo) {
            self.runs.remove(&first);
            (lo, hi) = (lo.min(first), hi.max(end));
        }
        self.runs.insert(lo, hi);
    }

    /// Takes [lo, hi) out.
    pub fn remove(&mut self, lo: u128, hi: u128) {
        if lo >= hi {
            return;
        }
        while let Some((&first, &end)) = self.runs.range(..hi).next_back().filter(|run| *run.1 > lo) {
            self.runs.remove(&first);
            if end > hi {
                self.runs.insert(hi, end);
            }
            if first < lo {
                self.runs.insert(first, lo);
            }
        }
    }

    /// Whether any unit of [lo, hi) is in it.
    pub fn overlaps(&self, lo: u128, hi: u128) -> bool {
        lo < hi && self.runs.range(..hi).next_back().is_some_and(|(_, &end)| end > lo)
    }

    /// Whether `unit` is among them.
    pub fn contains(&self, unit: u128) -> bool {
        self.runs.range(..=unit).next_back().is_some_and(|(_, &hi)| unit < hi)
    }

    /// The intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.runs.iter().map(|(&lo, &hi)| (lo, hi))
    }

    /// How many units there are.
    pub fn units(&self) -> u128 {
        self.iter().map(|(lo, hi)| hi - lo).sum()
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What of these is in `other` as well.
    #[must_use]
    pub fn within(&self, other: &UnitSet) -> UnitSet {
        let mut both = UnitSet::default();
        for (lo, hi) in self.iter() {
            let start = other.runs.range(..=lo).next_back().map_or(lo, |(&first, _)| first);
            for (&first, &end) in other.runs.range(start..hi) {
                both.insert(first.max(lo), end.min(hi));
            }
        }
        both
    }

    /// What of these is not in `other`.
    #[must_use]
    pub fn without(&self, other: &UnitSet) -> UnitSet {
        let mut rest = self.clone();
        for (lo, hi) in self.within(other).iter() {
            rest.remove(lo, hi);
        }
        rest
    }
}

impl FromIterator<(u128, u128)> for UnitSet {
    fn from_iter<I: IntoIterator<Item = (u128, u128)>>(intervals: I) -> Self {
        let mut set = Self::default();
        intervals.into_iter().for_each(|(lo, hi)| set.insert(lo, hi));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn it_agrees_with_a_bit_for_each_unit() {
        let mut random = SplitMix64(3);
        let units = |bits: u64| (0..64_u128).filter(move |unit| bits >> unit & 1 == 1);
        let of = |bits: u64| units(bits).map(|unit| (unit, unit + 1)).collect::<UnitSet>();
        for _ in 0..300 {
            let (mut set, mut bits) = (UnitSet::default(), 0_u64);
            for _ in 0..20 {
                let draw = random.draw();
                let (lo, hi) = (draw % 60, (draw % 60 + (draw >> 8) % 9).min(63));
                let mask = (1_u64 << hi) - (1_u64 << lo.min(hi));
                if draw >> 32 & 1 == 1 {
                    set.insert(lo.into(), hi.into());
                    bits |= mask;
                } else {
                    set.remove(lo.into(), hi.into());
                    bits &= !mask;
                }
                assert_eq!(set, of(bits), "neighbours are joined");
                assert!((0..64).all(|unit| set.contains(unit) == (bits >> unit & 1 == 1)));
            }
            let other = random.draw() & random.draw();
            assert_eq!(set.within(&of(other)), of(bits & other));
            assert_eq!(set.without(&of(other)), of(bits & !other));
            assert_eq!((set.units(), set.is_empty()), (bits.count_ones().into(), bits == 0));
        }
    }
}
