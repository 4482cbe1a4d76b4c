//! A set of units as disjoint intervals: the simulator's own model, which shares no code with the core's
//! accounting.

use std::collections::BTreeMap;

/// A set of units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    /// First unit to end (exclusive); no two touch.
    runs: BTreeMap<u128, u128>,
    units: u128,
}

impl Intervals {
    /// Units in the set.
    pub(crate) fn units(&self) -> u128 {
        self.units
    }

    /// Adds [lo, hi) and says how many units of it are new.
    pub(crate) fn insert(&mut self, lo: u128, hi: u128) -> u128 {
        let (mut from, mut to) = (lo, hi);
        let mut known = 0;
        if let Some((&start, end)) = self.runs.range_mut(..=lo).next_back()
            && *end >= lo
        {
            if *end >= hi {
                return 0;
            }
            known = *end - lo;
            from = start;
        }
        while let Some((&start, &end)) = self.runs.range(from..=hi).next() {
            if start > lo {
                known += end.min(hi) - start;
            }
            to = to.max(end);
            self.runs.remove(&start);
        }
        self.runs.insert(from, to);
        let new = hi - lo - known;
        self.units += new;
        new
    }

    /// Takes [lo, hi) out, as far as it is in the set.
    pub(crate) fn remove(&mut self, lo: u128, hi: u128) {
        while let Some((&start, &end)) = self.runs.range(..hi).next_back().filter(|(_, end)| **end > lo) {
            self.runs.remove(&start);
            if hi < end {
                self.runs.insert(hi, end);
            }
            if start < lo {
                self.runs.insert(start, lo);
            }
            self.units -= end.min(hi) - start.max(lo);
        }
    }

    /// The intervals, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.runs.iter().map(|(&lo, &hi)| (lo, hi))
    }

    /// Whether all of [lo, hi) is in the set.
    pub(crate) fn covers(&self, lo: u128, hi: u128) -> bool {
        self.runs.range(..=lo).next_back().is_some_and(|(_, &end)| end >= hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_a_bitmap() {
        let mut random = Random::stream(1, 0);
        for _ in 0..300 {
            let (mut set, mut bits) = (Intervals::default(), [false; 64]);
            for _ in 0..40 {
                let lo = random.below(60) as usize;
                let hi = (lo + 1 + random.below(9) as usize).min(64);
                assert_eq!(set.covers(lo as u128, hi as u128), bits[lo..hi].iter().all(|&b| b));
                let new = bits[lo..hi].iter().filter(|&&b| !b).count();
                assert_eq!(set.insert(lo as u128, hi as u128), new as u128);
                bits[lo..hi].fill(true);
                if random.below(4) == 0 {
                    let lo = random.below(60) as usize;
                    let hi = lo + 1 + random.below(4) as usize;
                    set.remove(lo as u128, hi as u128);
                    bits[lo..hi].fill(false);
                }
                assert_eq!(set.units(), bits.iter().filter(|&&b| b).count() as u128);
                assert!(set.runs.iter().zip(set.runs.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
