//! A map by unit, in order. Its entries lie in leaves far larger than those of `BTreeMap`: what comes in the order of units
//! fills them one after the other, and a search ends in one piece of memory.

use std::collections::BTreeMap;

/// Entries of a leaf, at most.
const LEAF: usize = 64;

/// Values by unit.
#[derive(Debug)]
pub(super) struct ByUnit<T> {
    /// Each leaf has what lies from its key up to the next one's, in order. None is empty.
    leaves: BTreeMap<u128, Vec<(u128, T)>>,
    len: usize,
}

impl<T> Default for ByUnit<T> {
    fn default() -> Self {
        Self { leaves: BTreeMap::new(), len: 0 }
    }
}

impl<T: Copy> ByUnit<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// # Panics
    /// Where `unit` has a value.
    pub(super) fn insert(&mut self, unit: u128, value: T) {
        self.len += 1;
        let Some((_, leaf)) = self.leaves.range_mut(..=unit).next_back() else {
            self.leaves.insert(unit, vec![(unit, value)]);
            return;
        };
        let at = leaf.partition_point(|of| of.0 < unit);
        assert!(leaf.get(at).is_none_or(|of| of.0 != unit), "unit {unit} has one value");
        if leaf.len() < LEAF {
            return leaf.insert(at, (unit, value));
        }
        let half = if at == LEAF { LEAF } else { LEAF / 2 };
        let mut behind = leaf.split_off(half);
        let (leaf, at) = if at < half { (leaf, at) } else { (&mut behind, at - half) };
        leaf.insert(at, (unit, value));
        assert!(!behind.is_empty() && behind.len() <= LEAF, "a leaf has entries, and not too many");
        self.leaves.insert(behind[0].0, behind);
    }

    /// # Panics
    /// Where `unit` has no value.
    pub(super) fn remove(&mut self, unit: u128) {
        self.len -= 1;
        let (&key, leaf) = self.leaves.range_mut(..=unit).next_back().expect("the unit has a value");
        let at = leaf.partition_point(|of| of.0 < unit);
        assert!(leaf.remove(at).0 == unit, "unit {unit} has a value");
        if leaf.is_empty() {
            self.leaves.remove(&key);
        }
    }

    /// The last that is not behind `unit`.
    pub(super) fn up_to(&self, unit: u128) -> Option<T> {
        let mut leaves = self.leaves.range(..=unit).rev();
        let last = |leaf: &[(u128, T)]| Some(leaf[..leaf.partition_point(|of| of.0 <= unit)].last()?.1);
        leaves.find_map(|(_, leaf)| last(leaf))
    }

    /// What lies in [lo, hi).
    pub(super) fn within(&self, lo: u128, hi: u128) -> impl Iterator<Item = T> {
        let first = self.leaves.range(..=lo).next_back().map_or(lo, |(&key, _)| key);
        let all = self.leaves.range(first..).flat_map(|(_, leaf)| leaf);
        all.skip_while(move |of| of.0 < lo).take_while(move |of| of.0 < hi).map(|of| of.1)
    }

    /// All of it.
    pub(super) fn values(&self) -> impl Iterator<Item = T> {
        self.leaves.values().flatten().map(|of| of.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_map_in_whatever_order_units_come_and_go() {
        let mut random = 3_u64;
        let mut draw = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u128::from((random >> 33) % n)
        };
        for story in 0..40 {
            let (mut map, mut model, mut next) = (ByUnit::default(), BTreeMap::new(), 0);
            // More come than go at first; in order, at any place, or both.
            for step in 0..1_200 {
                if draw(if step < 800 { 4 } else { 2 }) > 0 {
                    let in_order = story % 3 == 0 || story % 3 == 1 && draw(2) == 0;
                    let unit = if in_order { next } else { draw(2_000) };
                    next = next.max(unit) + 1;
                    if model.insert(unit, step).is_none() {
                        map.insert(unit, step);
                    } else {
                        map.remove(unit);
                        map.insert(unit, step);
                    }
                } else if let Some((&unit, _)) = model.range(draw(2_000)..).next() {
                    model.remove(&unit);
                    map.remove(unit);
                }
                let (lo, units) = (draw(2_000), draw(300));
                assert_eq!(map.up_to(lo), model.range(..=lo).next_back().map(|of| *of.1));
                assert!(map.within(lo, lo + units).eq(model.range(lo..lo + units).map(|of| *of.1)));
                assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                assert!(map.leaves.values().all(|leaf| (1..=LEAF).contains(&leaf.len())));
            }
            assert!(map.values().eq(model.values().copied()));
        }
    }

    #[test]
    #[should_panic(expected = "unit 7 has one value")]
    fn a_unit_has_one_value() {
        let mut map = ByUnit::default();
        map.insert(7, 1);
        map.insert(7, 2);
    }
}
