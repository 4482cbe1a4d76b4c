//! The clock of a process: it begins at 0, and goes a little too fast or too slow.

/// Parts of a million.
const MILLION: i64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    born_us: u64,
    /// What it shows at first.
    first_us: u64,
    /// It is ahead by so many microseconds after a second.
    ahead: i64,
}

impl Clock {
    pub(super) fn new(born_us: u64, first_us: u64, ahead: i64) -> Self {
        Self { born_us, first_us, ahead }
    }

    /// What it shows at that time of the simulation.
    pub(super) fn shows(&self, now_us: u64) -> u64 {
        let real = i128::from(now_us.saturating_sub(self.born_us));
        self.first_us + (real * i128::from(MILLION + self.ahead) / i128::from(MILLION)) as u64
    }

    /// When it shows that, at the earliest; now, where it does already.
    pub(super) fn when(&self, local_us: u64, now_us: u64) -> u64 {
        let left = i128::from(local_us.saturating_sub(self.shows(now_us)));
        let real = left * i128::from(MILLION) / i128::from(MILLION + self.ahead);
        now_us + real as u64 + u64::from(left > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_shows_comes_when_it_says() {
        for ahead in [-200, 0, 150] {
            let clock = Clock::new(5_000, 77, ahead);
            assert_eq!(clock.shows(5_000), 77);
            for local_us in [78, 1_000_000, 99_999_999_999] {
                let when = clock.when(local_us, 5_000);
                assert!(clock.shows(when) >= local_us && clock.shows(when - 3) < local_us, "{ahead}");
            }
        }
    }
}
