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
    left_out: Option<LeftOut>,
}

/// What had no room. All units that are held are below.
#[derive(Clone, Copy)]
struct LeftOut {
    unit: u128,
    /// The first place of such an output.
    at: u64,
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
        if self.left_out.is_some_and(|left| left.unit <= output.unit.0) {
            self.leave_out(at, output.unit.0);
            return None;
        }
        self.held.insert(output.unit.0, (at, output));
        if self.held.len() > self.held_max
            && let Some((unit, (at, _))) = self.held.pop_last()
        {
            self.leave_out(at, unit);
        }
        None
    }

    fn leave_out(&mut self, at: u64, unit: u128) {
        let left = self.left_out.unwrap_or(LeftOut { unit, at });
        self.left_out = Some(LeftOut { unit: left.unit.min(unit), at: left.at.min(at) });
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
        self.left_out.take().map(|left| left.at)
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
    use starfarm_protocol::random::SplitMix64;

    use super::super::pages::testing::Fake;
    use super::*;

    /// The outputs of these units come in, one at a place, to one who holds up to three; which are passed on while the job
    /// runs, and which when it has ended.
    fn passed(units: &[u64]) -> [Vec<u128>; 2] {
        let mut order = Order::holding(3);
        let (mut seen, mut most, mut passed) = (0, 0, [vec![], vec![]]);
        for has_ended in [false, true] {
            let passed = &mut passed[usize::from(has_ended)];
            loop {
                while seen < units.len() {
                    let output = Fake::default().output(units[seen]);
                    passed.extend(order.put(seen as u64, output, seen >= most));
                    seen += 1;
                    most = most.max(seen);
                    passed.extend(std::iter::from_fn(|| order.next()));
                }
                if has_ended {
                    passed.extend(std::iter::from_fn(|| order.give_up()));
                }
                match order.read_again() {
                    Some(at) => seen = at as usize,
                    None => break,
                }
            }
        }
        passed.map(|outputs| outputs.into_iter().map(|output| output.unit.0).collect())
    }

    #[test]
    fn what_has_no_room_is_read_again() {
        assert_eq!(passed(&[0, 1, 2]), [vec![0, 1, 2], vec![]]);
        assert_eq!(passed(&[1, 2, 3, 4, 5, 6, 0]), [vec![0, 1, 2, 3, 4, 5, 6], vec![]]);
        let backwards: Vec<u64> = (0..40).rev().collect();
        assert_eq!(passed(&backwards), [(0..40).collect(), vec![]]);
        assert_eq!(
            passed(&[9, 8, 7, 6, 5, 4]),
            [vec![], vec![4, 5, 6, 7, 8, 9]],
            "the first one is not there"
        );
    }

    #[test]
    fn whatever_the_order_each_comes_once_and_those_below_a_gap_before_the_end() {
        let mut random = SplitMix64(5);
        for _ in 0..2_000 {
            let count = random.below(30);
            let mut units: Vec<u64> = (0..count).collect();
            (1..units.len()).for_each(|at| units.swap(at, random.below(at as u64 + 1) as usize));
            let gap = random.below(40);
            units.retain(|unit| *unit != gap);
            let (below, above): (Vec<u128>, Vec<u128>) = (0..u128::from(count))
                .filter(|unit| *unit != gap.into())
                .partition(|unit| *unit < gap.into());
            assert_eq!(passed(&units), [below, above], "{units:?}");
        }
    }

    #[test]
    fn a_unit_that_ran_again_does_not_wait() {
        assert_eq!(passed(&[0, 1, 0, 3, 2]), [vec![0, 1, 0, 2, 3], vec![]]);
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
