//! Some units of another space, which keep their values and their numbers: what is left of a job.

use starfarm_protocol::spec::Interval;

use crate::decomposer::{Decomposer, in_space};
use crate::error::ValueError;

/// Units of `of`; see [`starfarm_protocol::spec::Space::Subset`].
pub struct Subset {
    of: Box<dyn Decomposer>,
    intervals: Vec<Interval>,
    /// `starts[i]` is the first unit of interval i; the last entry is N.
    starts: Vec<u128>,
}

impl Subset {
    /// The units of `of` that lie in `intervals`.
    ///
    /// # Errors
    /// No intervals, or such as are empty, not in order, or not in the space.
    pub fn new(of: Box<dyn Decomposer>, intervals: &[Interval]) -> Result<Self, String> {
        if intervals.is_empty() {
            return Err("no units are left: give at least one".into());
        }
        let (mut starts, mut end, mut total) = (vec![0], 0, 0);
        for Interval { lo, hi } in intervals {
            if lo.0 < end || hi <= lo || hi.0 > of.units() {
                return Err(format!(
                    "the units from {lo} to {hi} (exclusive) are not in order, or not in the space"
                ));
            }
            end = hi.0;
            // They are apart and in the space, so that it is no more than that has.
            total += hi.0 - lo.0;
            starts.push(total);
        }
        Ok(Self { of, intervals: intervals.to_vec(), starts })
    }

    /// The interval that has the unit.
    fn at(&self, unit: u128) -> usize {
        self.starts.partition_point(|start| *start <= unit).saturating_sub(1)
    }

    fn in_whole(&self, unit: u128) -> Result<u128, ValueError> {
        in_space(unit, self.units()).map(|()| self.number(unit))
    }
}

impl Decomposer for Subset {
    fn units(&self) -> u128 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        self.of.value(self.in_whole(unit)?)
    }

    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        self.of.fields(self.in_whole(unit)?)
    }

    fn bound(&self, unit: u128) -> String {
        self.of.bound(self.number(unit))
    }

    fn bound_behind(&self, unit: u128) -> String {
        self.of.bound_behind(self.number(unit))
    }

    fn side_by_side(&self, lo: u128, hi: u128) -> u128 {
        self.starts.get(self.at(lo) + 1).map_or(hi, |end| hi.min(*end))
    }

    fn numbers(&self) -> u128 {
        self.of.units()
    }

    /// The unit's number in the whole space.
    fn number(&self, unit: u128) -> u128 {
        let at = self.at(unit);
        match self.intervals.get(at) {
            Some(interval) => interval.lo.0 + (unit - self.starts[at]),
            None => unit,
        }
    }

    fn names(&self) -> Vec<String> {
        self.of.names()
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::units::Units;

    use super::*;
    use crate::range::Frames;

    fn subset(intervals: &[(u128, u128)]) -> Result<Subset, String> {
        let intervals: Vec<_> =
            intervals.iter().map(|&(lo, hi)| Interval { lo: Units(lo), hi: Units(hi) }).collect();
        Subset::new(Box::new(Frames::new(10, 19).unwrap()), &intervals)
    }

    #[test]
    fn units_keep_their_values_and_numbers() {
        let left = subset(&[(1, 3), (3, 4), (9, 10)]).unwrap();
        let all: Vec<_> =
            (0..left.units()).map(|unit| (left.number(unit), left.value(unit).unwrap())).collect();
        let expected =
            [(1, b"11"), (2, b"12"), (3, b"13"), (9, b"19")].map(|(number, value)| (number, value.to_vec()));
        assert_eq!(all, expected);
        assert_eq!((left.value(4), left.names()), (Err(ValueError::OutOfSpace), vec!["clock".to_owned()]));
        assert_eq!(left.fields(3).unwrap()[0].1, b"1");
    }

    #[test]
    fn of_several_units_together_the_bounds_are_those_of_the_whole() {
        let left = subset(&[(1, 3), (3, 4), (9, 10)]).unwrap();
        let bounds =
            |lo: u128, hi: u128| (left.bound(lo), left.bound_behind(hi - 1), left.side_by_side(lo, hi));
        assert_eq!(bounds(0, 2), ("11".into(), "13".into(), 2));
        assert_eq!(bounds(1, 4), ("12".into(), "20".into(), 2));
        assert_eq!(bounds(3, 4), ("19".into(), "20".into(), 4));
        assert_eq!(left.numbers(), 10);
    }

    #[test]
    fn bad_intervals_are_refused() {
        for bad in [&[][..], &[(2, 2)], &[(3, 2)], &[(5, 6), (4, 5)], &[(1, 3), (2, 4)], &[(9, 11)]] {
            assert!(subset(bad).is_err(), "{bad:?}");
        }
    }
}
