//! Outputs in the order of their units: one waits until those of all lower units are there or have failed. What waits is
//! bounded: where it would be more, the highest units are left out, and read again when there is room.

use std::collections::BTreeMap;

use starfarm_protocol::admin::OutputInfo;
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;

use super::pages::ORDERED_MAX;

pub(super) struct Order {
    /// Those of all units below were passed on, or do not come.
    next: u128,
    /// Outputs that wait, by unit, each with its place among all that came in.
    held: BTreeMap<u128, (u64, OutputInfo)>,
    held_max: usize,
    /// Units that failed and have no output.
    silent: UnitSet,
    /// The first place of an output that was left out.
    left_out: Option<u64>,
}

impl Default for Order {
    fn default() -> Self {
        Self::holding(ORDERED_MAX)
    }
}

impl Order {
    fn holding(held_max: usize) -> Self {
        Self { next: 0, held: BTreeMap::new(), held_max, silent: UnitSet::default(), left_out: None }
    }

    /// Takes the output at this place. One of a unit that was passed on comes back: it ran again, unless this is not the
    /// first time that the place is read.
    pub(super) fn put(&mut self, at: u64, output: OutputInfo, is_new: bool) -> Option<OutputInfo> {
        if output.unit.0 < self.next {
            return is_new.then_some(output);
        }
        self.held.insert(output.unit.0, (at, output));
        if self.held.len() > self.held_max
            && let Some((_, (at, _))) = self.held.pop_last()
        {
            self.left_out = Some(self.left_out.map_or(at, |first| first.min(at)));
        }
        None
    }

    /// The next one whose turn it is.
    pub(super) fn next(&mut self) -> Option<OutputInfo> {
        let (&unit, _) = self.held.first_key_value()?;
        while self.next < unit && self.silent.contains(self.next) {
            self.next += 1;
        }
        if unit <= self.next { self.give_up() } else { None }
    }

    /// The next one, whether or not those before it are there: they do not come any more.
    pub(super) fn give_up(&mut self) -> Option<OutputInfo> {
        let (_, (_, output)) = self.held.pop_first()?;
        self.next = self.next.max(output.unit.0.saturating_add(output.units.0));
        Some(output)
    }

    /// From which place on outputs are to be read again, now that there is room.
    pub(super) fn read_again(&mut self) -> Option<u64> {
        if self.held.len() > self.held_max / 2 {
            return None;
        }
        self.left_out.take()
    }

    /// Nobody waits for a unit that failed without an output.
    pub(super) fn is_silent(&mut self, unit: Units) {
        self.silent.insert(unit.0, unit.0.saturating_add(1));
    }

    /// How many such units are known, if something waits.
    pub(super) fn silent(&self) -> Option<u128> {
        (!self.held.is_empty()).then(|| self.silent.units())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pages::testing::Fake;
    use super::*;

    /// The outputs of these units come in, one at a place, to one who holds up to three; those that follow which.
    fn passed(units: &[u64]) -> Vec<u128> {
        let mut order = Order::holding(3);
        let (mut seen, mut most, mut passed) = (0, 0, Vec::new());
        while seen < units.len() {
            let late = order.put(seen as u64, Fake::default().output(units[seen]), seen >= most);
            passed.extend(late);
            seen += 1;
            most = most.max(seen);
            while let Some(output) = order.next() {
                passed.push(output);
            }
            if seen == units.len() {
                seen = order.read_again().map_or(seen, |at| at as usize);
            }
        }
        passed.into_iter().map(|output| output.unit.0).collect()
    }

    #[test]
    fn what_has_no_room_is_read_again() {
        assert_eq!(passed(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(passed(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let backwards: Vec<u64> = (0..40).rev().collect();
        assert_eq!(passed(&backwards), (0..40).collect::<Vec<u128>>());
        assert_eq!(passed(&[9, 8, 7, 6, 5, 4]), [0; 0], "the first one is not there");
    }

    #[test]
    fn a_unit_that_ran_again_does_not_wait() {
        assert_eq!(passed(&[0, 1, 0, 3, 2]), [0, 1, 0, 2, 3]);
    }

    #[test]
    fn a_unit_that_failed_without_a_word_holds_nobody_up() {
        let mut order = Order::holding(3);
        order.put(0, Fake::default().output(2), true);
        assert_eq!((order.next(), order.silent()), (None, Some(0)));
        order.is_silent(Units(0));
        assert_eq!(order.next(), None);
        order.is_silent(Units(1));
        assert_eq!(order.next().map(|output| output.unit), Some(Units(2)));
        assert_eq!(order.silent(), None, "nothing waits");
    }
}
