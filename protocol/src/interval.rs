//! An interval of a job's units: what tasks, results, leases and gaps are made of.

/// The units from `lo` up to `hi`, which is not among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Interval {
    /// First unit.
    pub lo: u128,
    /// End, exclusive.
    pub hi: u128,
}

impl Interval {
    /// [lo, hi); empty where `hi` is not above `lo`.
    pub const fn new(lo: u128, hi: u128) -> Self {
        Self { lo, hi }
    }

    /// `unit` alone.
    pub const fn one(unit: u128) -> Self {
        Self { lo: unit, hi: unit + 1 }
    }

    /// `units` units from `lo` on, as messages say it; cut at the largest number where a peer says nonsense.
    pub const fn from_units(lo: u128, units: u64) -> Self {
        Self { lo, hi: lo.saturating_add(units as u128) }
    }

    /// How many units it has.
    pub const fn units(self) -> u128 {
        self.hi.saturating_sub(self.lo)
    }

    /// It has no unit.
    pub const fn is_empty(self) -> bool {
        self.lo >= self.hi
    }

    /// `unit` is in it.
    pub const fn contains(self, unit: u128) -> bool {
        self.lo <= unit && unit < self.hi
    }

    /// The units that are in `other` as well; it may be empty.
    pub fn within(self, other: Interval) -> Interval {
        Interval { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// Some unit is in both.
    pub fn overlaps(self, other: Interval) -> bool {
        !self.within(other).is_empty()
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {})", self.lo, self.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_meet_in_what_both_have() {
        let of = Interval::new;
        assert_eq!((of(2, 5).units(), of(5, 2).units(), of(3, 3).is_empty()), (3, 0, true));
        assert!(of(2, 5).contains(2) && !of(2, 5).contains(5) && Interval::one(4) == of(4, 5));
        assert_eq!(of(2, 9).within(of(5, 20)), of(5, 9));
        assert!(of(2, 9).overlaps(of(8, 9)) && !of(2, 9).overlaps(of(9, 12)) && !of(3, 3).overlaps(of(0, 9)));
        assert_eq!(Interval::from_units(u128::MAX - 1, 9).units(), 1);
        assert_eq!(of(2, 5).to_string(), "[2, 5)");
    }
}
