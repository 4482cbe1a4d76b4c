//! What happened to single units, one or several things each, in one flat set: a hundred thousand small lists would take a
//! whole turn to free when their job ends.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};

use starfarm_protocol::ids::{Attempt, Boot, NodeId};
use starfarm_protocol::interval::Interval;

/// What may happen to a unit.
pub(crate) trait Happening: Copy + Ord {
    /// Nothing is before it in order.
    const FIRST: Self;
}

/// A worker died of it.
impl Happening for (NodeId, Boot) {
    const FIRST: Self = (NodeId(0), Boot(0));
}

/// It failed.
impl Happening for (Attempt, NodeId) {
    const FIRST: Self = (Attempt(0), NodeId(0));
}

/// What happened to units.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PerUnit<T>(BTreeSet<(u128, T)>);

impl<T> Default for PerUnit<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Happening> PerUnit<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// It happened to this unit; false if that was known.
    pub(crate) fn insert(&mut self, unit: u128, what: T) -> bool {
        self.0.insert((unit, what))
    }

    /// It did not happen to this unit after all.
    pub(crate) fn retract(&mut self, unit: u128, what: T) {
        self.0.remove(&(unit, what));
    }

    pub(crate) fn contains(&self, unit: u128, what: T) -> bool {
        self.0.contains(&(unit, what))
    }

    /// Only what `stays` happened after all.
    pub(crate) fn retain(&mut self, stays: impl Fn(T) -> bool) {
        self.0.retain(|of| stays(of.1));
    }

    /// Anything happened to this unit.
    pub(crate) fn has(&self, unit: u128) -> bool {
        self.of(unit).next().is_some()
    }

    /// What happened to this unit, in order.
    pub(crate) fn of(&self, unit: u128) -> impl Iterator<Item = T> + '_ {
        self.0.range((unit, T::FIRST)..).take_while(move |of| of.0 == unit).map(|of| of.1)
    }

    /// The units of [lo, hi) that something happened to, in order.
    pub(crate) fn units(&self, Interval { lo, hi }: Interval) -> impl Iterator<Item = u128> + '_ {
        let mut last = None;
        let from = self.0.range((lo, T::FIRST)..).map(|of| of.0).take_while(move |&unit| unit < hi);
        from.filter(move |&unit| last.replace(unit) != Some(unit))
    }

    /// All of it, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, T)> + '_ {
        self.0.iter().copied()
    }

    /// Nothing happened to [lo, hi) any more.
    pub(crate) fn remove(&mut self, at: Interval) {
        self.take(at, |_| ());
    }

    /// The same; `gone` is shown what had happened.
    pub(crate) fn take(&mut self, Interval { lo, hi }: Interval, mut gone: impl FnMut(T)) {
        let mut from = Included((lo, T::FIRST));
        while let Some(&of) = self.0.range((from, Excluded((hi, T::FIRST)))).next() {
            self.0.remove(&of);
            gone(of.1);
            from = Excluded(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_to_a_unit_is_told_and_forgotten_by_intervals() {
        let mut of = PerUnit::default();
        let run = |attempt| (Attempt(attempt), NodeId(1));
        assert!(of.insert(7, run(2)) && of.insert(7, run(0)) && of.insert(3, run(5)) && of.insert(9, run(1)));
        assert!(!of.insert(7, run(2)), "that was known");
        assert!(of.has(7) && !of.has(8) && of.contains(7, run(2)) && !of.contains(7, run(1)));
        assert_eq!(of.of(7).collect::<Vec<_>>(), [run(0), run(2)]);
        assert_eq!(of.units(Interval::new(0, 9)).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(of.units(Interval::new(7, u128::MAX)).collect::<Vec<_>>(), [7, 9]);
        of.remove(Interval::new(0, 3));
        of.remove(Interval::new(8, 8));
        assert_eq!(of.iter().count(), 4);
        of.remove(Interval::new(3, 8));
        assert_eq!(of.iter().collect::<Vec<_>>(), [(9, run(1))]);
        of.retract(9, run(2));
        assert!(!of.is_empty());
        of.retract(9, run(1));
        assert!(of.is_empty());
    }
}
