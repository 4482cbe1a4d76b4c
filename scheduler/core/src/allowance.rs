//! What one node may have the farm do within a while, whatever it sends: each message costs a bounded time, and so do all
//! of them together. What is beyond that is not done, and counted as against the rules.

use crate::limits::{
    CHARGES_A_SECOND, CHARGES_MAX, DEBT_SECONDS, FACTS_A_SECOND, FACTS_MAX, FEEDBACK_A_SECOND, FEEDBACK_MAX,
    HELD_LOOKS_A_SECOND, IDLE_LINES_A_SECOND, IDLE_LINES_MAX, INCARNATIONS_A_SECOND, INCARNATIONS_MAX,
    WITHDRAWALS_A_SECOND,
};

/// So much of something, and it comes back with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Below zero so much is owed: it comes back first.
    left: i64,
    /// Up to then what came back was counted.
    at_us: u64,
    /// What comes back each second.
    a_second: u64,
    most: u64,
}

impl Allowance {
    /// All of `most`, of which `a_second` come back each second.
    fn new(most: u64, a_second: u64, now_us: u64) -> Self {
        Self { left: most as i64, at_us: now_us, a_second, most }
    }

    /// Takes `wanted`, or as much as there is: how much that was.
    pub(crate) fn take(&mut self, wanted: u64, now_us: u64) -> u64 {
        self.refill(now_us);
        let taken = wanted.min(u64::try_from(self.left).unwrap_or(0));
        self.left -= taken as i64;
        taken
    }

    /// Takes all of `spent`, which is done already; what is lacking is owed. False where that was more than there is.
    pub(crate) fn charge(&mut self, spent: u64, now_us: u64) -> bool {
        self.refill(now_us);
        let owed_at_most = -i64::try_from(self.a_second * DEBT_SECONDS).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub_unsigned(spent).max(owed_at_most);
        self.left >= 0
    }

    fn refill(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.at_us);
        let back = u128::from(elapsed_us) * u128::from(self.a_second) / 1_000_000;
        if back > 0 {
            let back = i64::try_from(back).unwrap_or(i64::MAX);
            self.left = self.left.saturating_add(back).min(self.most as i64);
            self.at_us = now_us;
        }
    }
}

/// What one node may still do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowances {
    /// Tasks and intervals that are looked at for what it says.
    pub(crate) looks: Allowance,
    /// Revokes that answer what it lists.
    pub(crate) withdrawals: Allowance,
    /// Incarnations, and changes of its slots.
    pub(crate) incarnations: Allowance,
    /// Changes of its facts.
    pub(crate) facts: Allowance,
    /// Units that are charged with deaths of its workers.
    pub(crate) charges: Allowance,
    /// Speed-ups and slow-downs.
    pub(crate) feedback: [Allowance; 2],
    /// Lines about results by which nothing was counted.
    pub(crate) idle_lines: Allowance,
}

impl Allowances {
    /// Those of a node that nothing is known of yet.
    pub(crate) fn new(now_us: u64) -> Self {
        let each_second = |most, a_second| Allowance::new(most, a_second, now_us);
        Self {
            looks: each_second(HELD_LOOKS_A_SECOND, HELD_LOOKS_A_SECOND),
            withdrawals: each_second(WITHDRAWALS_A_SECOND, WITHDRAWALS_A_SECOND),
            incarnations: each_second(INCARNATIONS_MAX, INCARNATIONS_A_SECOND),
            facts: each_second(FACTS_MAX, FACTS_A_SECOND),
            charges: each_second(CHARGES_MAX, CHARGES_A_SECOND),
            feedback: [each_second(FEEDBACK_MAX, FEEDBACK_A_SECOND); 2],
            idle_lines: each_second(IDLE_LINES_MAX, IDLE_LINES_A_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back_with_time_and_never_more_than_there_was() {
        let mut of = Allowance::new(10, 4, 0);
        assert_eq!([of.take(7, 0), of.take(7, 0), of.take(1, 200_000)], [7, 3, 0]);
        assert_eq!(of.take(1, 250_000), 1, "a quarter of a second brings one");
        for now_ms in 251..500 {
            assert_eq!(of.take(1, now_ms * 1_000), 0, "asking often brings nothing earlier, nor later");
        }
        assert_eq!(of.take(1, 500_000), 1);
        assert_eq!(of.take(u64::MAX, u64::MAX), 10);
    }

    #[test]
    fn what_was_spent_beyond_it_is_owed() {
        let mut of = Allowance::new(10, 4, 0);
        assert!(of.charge(10, 0) && !of.charge(8, 0));
        assert_eq!((of.take(1, 2_000_000), of.take(9, 2_500_000)), (0, 2));
        assert!(!of.charge(u64::MAX, 2_500_000));
        let back_us = 2_500_000 + DEBT_SECONDS * 1_000_000;
        assert_eq!((of.take(1, back_us), of.take(9, back_us + 250_000)), (0, 1), "not for ever");
    }
}
