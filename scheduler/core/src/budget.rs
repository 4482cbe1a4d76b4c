//! A budget: something that costs the farm its disk or its time may be done so often at once, and then so often in a time.
//! Whoever keeps to the protocol never meets one.

/// How often something may be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// So often at once ...
    pub(crate) burst: u64,
    /// ... and once more after each such time.
    pub(crate) every_us: u64,
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    spent: u64,
    /// Until then what was spent was given back.
    at_us: u64,
}

impl Budget {
    /// Spends one; false where none is left.
    pub(crate) fn spend(&mut self, limit: Limit, now_us: u64) -> bool {
        let back = now_us.saturating_sub(self.at_us) / limit.every_us;
        if back >= self.spent {
            *self = Self { spent: 0, at_us: now_us };
        } else {
            *self = Self { spent: self.spent - back, at_us: self.at_us + back * limit.every_us };
        }
        let may = self.spent < limit.burst;
        self.spent += u64::from(may);
        assert!(self.spent <= limit.burst, "no more is spent than there is");
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_in_each_time() {
        let (mut budget, limit) = (Budget::default(), Limit { burst: 3, every_us: 10 });
        let mut spend = |now_us| budget.spend(limit, now_us);
        assert_eq!([1_000; 5].map(&mut spend), [true, true, true, false, false]);
        assert_eq!([1_009, 1_010, 1_010, 1_019, 1_020].map(&mut spend), [false, true, false, false, true]);
        assert_eq!([9_000; 5].map(&mut spend), [true, true, true, false, false]);
    }
}
