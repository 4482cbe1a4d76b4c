//! The farm's clock, as a post knows it: what its parent says. A post that stays where it is for days hears of it again and
//! again, for its own clock goes a little faster or slower, and the farm's may be set.

/// The farm's clock went back where it is behind by more than this, in microseconds.
const BACK_US: u64 = 1_000_000;

/// So far the farm's clock is ahead of that of this process, in microseconds.
#[derive(Default, Debug)]
pub(crate) struct FarmClock {
    /// None before it was told.
    ahead_us: Option<u64>,
    /// What the last word said, if that was less. It may have been late.
    doubted_us: Option<u64>,
}

impl FarmClock {
    /// The farm's clock.
    pub(crate) fn shows(&self, now_us: u64) -> Option<u64> {
        self.ahead_us.map(|ahead_us| now_us + ahead_us)
    }

    /// When that of this process shows that time of the farm's.
    pub(crate) fn when(&self, farm_us: u64) -> Option<u64> {
        self.ahead_us.map(|ahead_us| farm_us.saturating_sub(ahead_us))
    }

    /// A parent takes the post in, and says what its clock shows; whether that is so much earlier that what was measured is of a
    /// time that has yet to come.
    pub(crate) fn begin(&mut self, farm_us: u64, now_us: u64) -> bool {
        self.doubted_us = None;
        self.set(farm_us.saturating_sub(now_us))
    }

    /// The parent says it again; as [`FarmClock::begin`]. A word that was under way for long makes the clock seem to be behind:
    /// so two in a row must say that.
    pub(crate) fn hear(&mut self, farm_us: u64, now_us: u64) -> bool {
        let ahead_us = farm_us.saturating_sub(now_us);
        if self.ahead_us.is_none_or(|before_us| before_us <= ahead_us) {
            return self.begin(farm_us, now_us);
        }
        match self.doubted_us.take() {
            Some(doubted_us) => self.set(doubted_us.max(ahead_us)),
            None => {
                self.doubted_us = Some(ahead_us);
                false
            }
        }
    }

    fn set(&mut self, ahead_us: u64) -> bool {
        self.ahead_us.replace(ahead_us).is_some_and(|before_us| ahead_us + BACK_US < before_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn a_word_that_was_late_does_not_set_it_back() {
        let mut clock = FarmClock::default();
        assert!(clock.shows(3).is_none() && !clock.begin(100 * SECOND_US, 0));
        assert!(!clock.hear(101 * SECOND_US, 5 * SECOND_US), "four seconds late");
        assert_eq!(clock.shows(5 * SECOND_US), Some(105 * SECOND_US));
        assert!(!clock.hear(110 * SECOND_US, 10 * SECOND_US), "in time");
        assert!(!clock.hear(111 * SECOND_US, 15 * SECOND_US), "late again, and not in a row");
        assert_eq!(clock.when(115 * SECOND_US), Some(15 * SECOND_US));
    }

    #[test]
    fn two_words_set_it_back_and_one_sets_it_ahead() {
        let mut clock = FarmClock::default();
        clock.begin(100 * SECOND_US, 0);
        assert!(!clock.hear(50 * SECOND_US, 5 * SECOND_US) && clock.hear(54 * SECOND_US, 10 * SECOND_US));
        assert_eq!(clock.shows(10 * SECOND_US), Some(55 * SECOND_US), "the second was late");
        assert!(!clock.hear(60 * SECOND_US, 15 * SECOND_US), "right again");
        assert!(!clock.hear(99 * SECOND_US, 20 * SECOND_US));
        assert_eq!(clock.shows(20 * SECOND_US), Some(99 * SECOND_US));
    }
}
