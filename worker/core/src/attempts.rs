//! Which attempts were heard, as ranges: to acknowledge them, and to know a repeated offer. Bounded.

use std::collections::BTreeMap;

/// Ranges that are remembered. Offers of a batch have consecutive numbers, so this is about a thousand
/// batches; an older repeat is rare, and the interval index catches it while the task is held.
const RANGES_MAX: usize = 1_024;

/// A set of attempt numbers. The lowest are forgotten when it grows too long: forgetting may run a task
/// twice, which counts once, whereas remembering too much would lose a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts {
    /// Last attempts by the first ones; no two ranges touch.
    ranges: BTreeMap<u64, u64>,
}

impl Attempts {
    /// Adds `attempt`; false where it was known.
    pub(crate) fn insert(&mut self, attempt: u64) -> bool {
        if self.contains(attempt) {
            return false;
        }
        let after = attempt.checked_add(1).and_then(|next| self.ranges.remove(&next));
        let last = after.unwrap_or(attempt);
        match self.ranges.range_mut(..attempt).next_back() {
            Some((_, end)) if *end + 1 == attempt => *end = last,
            _ => drop(self.ranges.insert(attempt, last)),
        }
        if self.ranges.len() > RANGES_MAX {
            self.ranges.pop_first();
        }
        true
    }

    /// Whether `attempt` was heard and is remembered.
    pub(crate) fn contains(&self, attempt: u64) -> bool {
        self.ranges.range(..=attempt).next_back().is_some_and(|(_, &last)| last >= attempt)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Empties the set and hands out what was in it.
    pub(crate) fn take(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.ranges).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn behaves_like_a_set_and_keeps_its_ranges_apart() {
        let mut random = starfarm_protocol::random::SplitMix64(7);
        for _ in 0..50 {
            let (mut ours, mut model) = (Attempts::default(), BTreeSet::new());
            for _ in 0..200 {
                let attempt = random.below(120);
                assert_eq!(ours.insert(attempt), model.insert(attempt));
            }
            (0..130).for_each(|a| assert_eq!(ours.contains(a), model.contains(&a), "{a}"));
            let ranges = ours.take();
            assert!(ranges.windows(2).all(|w| w[0].1 + 1 < w[1].0), "{ranges:?}");
        }
    }

    #[test]
    fn the_ends_of_the_number_line_hold() {
        let mut ours = Attempts::default();
        for attempt in [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX] {
            ours.insert(attempt);
        }
        assert_eq!(ours.take(), [(0, 1), (u64::MAX - 1, u64::MAX)]);
    }

    #[test]
    fn forgets_the_lowest_when_it_grows_too_long() {
        let mut ours = Attempts::default();
        (0..=RANGES_MAX as u64).for_each(|n| assert!(ours.insert(n * 2)));
        assert!(!ours.contains(0));
        assert!(ours.contains(2) && ours.contains(RANGES_MAX as u64 * 2));
    }
}
