//! How much came in lately: in the window of time that began last, and in the one before. A window begins with the first
//! units after the end of the last.

/// Units that came in lately, in windows of so many microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Pace<const WINDOW_US: u64> {
    /// When both began; none before the first units.
    began_us: Option<(u64, u64)>,
    before: u64,
    now: u64,
}

impl<const WINDOW_US: u64> Pace<WINDOW_US> {
    /// So many units came in.
    pub(crate) fn count(&mut self, units: u64, now_us: u64) {
        let (_, last_us) = *self.began_us.get_or_insert((now_us, now_us));
        let for_us = now_us.saturating_sub(last_us);
        if for_us >= 2 * WINDOW_US {
            // It stood still, or its units take long: what was before says nothing of now.
            *self = Self { began_us: Some((now_us, now_us)), ..Self::default() };
        } else if for_us >= WINDOW_US {
            *self = Self { began_us: Some((last_us, now_us)), before: self.now, now: 0 };
        }
        self.now = self.now.saturating_add(units);
    }

    /// The most that came in one window.
    pub(crate) fn lately(&self) -> u64 {
        self.before.max(self.now)
    }

    /// More units a second it cannot have been, if all `out` that nodes have were as good as done; endless where it was
    /// not seen for a window yet.
    pub(crate) fn most(&self, out: u128, now_us: u64) -> f64 {
        let span_us = self.began_us.map_or(0, |(began_us, _)| now_us.saturating_sub(began_us));
        if span_us < WINDOW_US {
            return f64::INFINITY;
        }
        (out as f64 + self.before as f64 + self.now as f64) * 1e6 / span_us as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn whoever_stands_still_gets_slower_and_who_goes_on_is_as_fast_as_before() {
        let mut pace = Pace::<{ 10 * SECOND }>::default();
        assert_eq!(pace.most(0, 99 * SECOND), f64::INFINITY);
        for second in 0..100 {
            pace.count(5, second * SECOND);
            let most = pace.most(10, second * SECOND);
            assert!(most >= 5.0 && (second < 10 || most < 7.0), "{second}: {most}");
        }
        let still = [110, 200, 1_000].map(|second| pace.most(10, second * SECOND));
        assert!(still[0] < 5.0 && still.is_sorted_by(|a, b| a > b) && still[2] < 0.2, "{still:?}");
        pace.count(5, 2_000 * SECOND);
        assert_eq!(pace.most(10, 2_001 * SECOND), f64::INFINITY, "it goes on");
    }

    /// Four slots, each with a unit of ten minutes and another one ahead.
    #[test]
    fn long_units_make_nobody_slow() {
        let mut pace = Pace::<{ 10 * SECOND }>::default();
        for second in 0..6_000_u64 {
            if second % 600 < 4 {
                pace.count(1, second * SECOND);
            }
            let most = pace.most(8, second * SECOND);
            assert!(most >= 4.0 / 600.0, "{second}: {most}");
        }
    }

    #[test]
    fn what_came_long_ago_is_not_lately() {
        let mut pace = Pace::<{ 10 * SECOND }>::default();
        pace.count(7, 0);
        pace.count(2, 10 * SECOND);
        assert_eq!(pace.lately(), 7);
        pace.count(3, 19 * SECOND);
        pace.count(1, 20 * SECOND);
        assert_eq!(pace.lately(), 5);
        pace.count(1, 40 * SECOND);
        assert_eq!(pace.lately(), 1);
    }
}
