//! A node's rating: the paper's 64 periods. It is shown, logged and kept in checkpoints, and decides nothing.

use crate::limits::RATING_PERIODS;

/// Standard tasks (S_i / S_target) that a node has done in each of the last periods.
#[derive(Debug)]
pub(crate) struct Rating {
    /// A ring, by the number of the period.
    periods: [f32; RATING_PERIODS],
    started_us: u64,
    /// Number of the last period.
    period: u64,
    period_us: u64,
}

impl Rating {
    /// Of a node that begins now, in periods of that length.
    pub(crate) fn new(now_us: u64, period_us: u64) -> Self {
        Self { periods: [0.0; RATING_PERIODS], started_us: now_us, period: 0, period_us }
    }

    /// As a checkpoint kept it: the number of the last period and the length of each, and tasks by period.
    pub(crate) fn restore(started_us: u64, (period, period_us): (u64, u64), periods: &[f32]) -> Self {
        let mut rating = Self { period, ..Self::new(started_us, period_us) };
        rating.periods.iter_mut().zip(periods).for_each(|(to, from)| *to = *from);
        rating
    }

    /// What a checkpoint keeps: start, number of the last period, tasks by period.
    pub(crate) fn parts(&self) -> (u64, u64, &[f32]) {
        (self.started_us, self.period, &self.periods)
    }

    /// Periods have another length from now on. The power of the old window is taken for that of the new one: what
    /// stands in single periods would be a guess in any case.
    pub(crate) fn rebase(&mut self, period_us: u64, now_us: u64) {
        if period_us == self.period_us {
            return;
        }
        let power = self.power(now_us) * period_us as f64 / self.period_us as f64;
        *self = Self::new(self.started_us, period_us);
        self.advance(now_us);
        let whole = (self.period as usize).min(RATING_PERIODS);
        for past in 0..whole {
            self.periods[(self.period as usize - 1 - past) % RATING_PERIODS] = power as f32;
        }
        // The running period has begun a while ago.
        let begun = (now_us.saturating_sub(self.started_us) % period_us) as f64 / period_us as f64;
        self.periods[self.period as usize % RATING_PERIODS] = (power * begun) as f32;
    }

    fn advance(&mut self, now_us: u64) {
        let period = now_us.saturating_sub(self.started_us) / self.period_us;
        for past in self.period + 1..=period.min(self.period + RATING_PERIODS as u64) {
            self.periods[past as usize % RATING_PERIODS] = 0.0;
        }
        self.period = self.period.max(period);
    }

    /// `tasks` standard tasks are done.
    pub(crate) fn add(&mut self, tasks: f64, now_us: u64) {
        assert!(tasks.is_finite() && tasks >= 0.0, "{tasks} tasks");
        self.advance(now_us);
        self.periods[self.period as usize % RATING_PERIODS] += tasks as f32;
    }

    /// Power: standard tasks a period, over the last 64 periods or since it joined.
    pub(crate) fn power(&mut self, now_us: u64) -> f64 {
        self.advance(now_us);
        let elapsed_us = now_us.saturating_sub(self.started_us).max(self.period_us / 10);
        let periods = (elapsed_us as f64 / self.period_us as f64).min(RATING_PERIODS as f64);
        self.periods.iter().map(|&tasks| f64::from(tasks)).sum::<f64>() / periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A node that did two standard tasks a second until `now`, rated in periods of 10 s.
    fn steady(now: u64) -> Rating {
        let mut rating = Rating::new(0, 10 * SECOND);
        (0..now).for_each(|second| rating.add(2.0, second * SECOND));
        rating
    }

    #[test]
    fn another_period_after_a_restart_keeps_the_speed_and_its_fading() {
        for (now, period) in [(35, 1), (35, 60), (2_000, 1), (2_000, 25), (4_001, 60)] {
            let mut rating = steady(now);
            rating.rebase(period * SECOND, now * SECOND);
            let share = rating.power(now * SECOND) / (2.0 * period as f64);
            assert!((0.95..1.05).contains(&share), "{share} after {now} s, {period} s each");
            // It goes on counting in the new period, and what it no longer does fades.
            let later = now + period;
            (now..later).for_each(|second| rating.add(2.0, second * SECOND));
            assert!(rating.power(later * SECOND) > 1.9 * period as f64, "{now} {period}");
            assert_eq!(rating.power((later + 65 * period) * SECOND), 0.0, "{now} {period}");
        }
    }

    #[test]
    fn the_same_period_changes_nothing() {
        let (mut rating, before) = (steady(100), steady(100));
        rating.rebase(10 * SECOND, 100 * SECOND);
        assert_eq!(rating.parts(), before.parts());
    }
}
