//! How a slot runs a unit of a command.

use crate::intervals::Intervals;

/// What befalls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Whatever it runs fails.
    pub(crate) sick: bool,
    /// It hung, and was ended.
    pub(crate) hung: bool,
    /// Its machine has room for the unit's files.
    pub(crate) has_room: bool,
}

pub(crate) fn divides(divisor: u64, unit: u128) -> bool {
    divisor > 0 && unit.is_multiple_of(u128::from(divisor))
}

/// Units that some machine had no room for, and said so.
#[derive(Debug, Default)]
pub(crate) struct Roomless(Intervals);

impl Roomless {
    pub(crate) fn add(&mut self, unit: u128) {
        self.0.insert(unit, unit + 1);
    }

    /// What of an acknowledged result over [lo, hi) tells of units that ran.
    pub(crate) fn ran(&self, lo: u128, hi: u128, durable: &Intervals) -> Vec<(u128, u128)> {
        if self.0.units() == 0 {
            return vec![(lo, hi)];
        }
        let units = (lo..hi).map(|unit| (unit, unit + 1));
        units.filter(|(lo, hi)| durable.covers(*lo, *hi) || !self.0.covers(*lo, *hi)).collect()
    }
}
