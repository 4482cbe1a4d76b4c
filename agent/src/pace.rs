//! So much a second and no more, for what others make us do or say.

use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// How often something may be done, and how often it was left out since it was done last.
pub(crate) struct Pace {
    most: u32,
    since: Instant,
    done: u32,
    left_out: u64,
}

impl Pace {
    /// So often a second.
    pub(crate) fn new(most: u32, now: Instant) -> Self {
        Self { most, since: now, done: 0, left_out: 0 }
    }

    /// Once more: how often it was left out before that; none where it is to be left out now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.since) >= SECOND {
            (self.since, self.done) = (now, 0);
        }
        if self.done >= self.most {
            self.left_out += 1;
            return None;
        }
        self.done += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_a_second_is_left_out_and_told_in_the_next() {
        let start = Instant::now();
        let mut pace = Pace::new(2, start);
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!([0, 10, 20, 999].map(|ms| pace.next(at(ms))), [Some(0), Some(0), None, None]);
        assert_eq!([1_000, 1_001, 1_002].map(|ms| pace.next(at(ms))), [Some(2), Some(0), None]);
        assert_eq!(pace.next(at(2_500)), Some(1));
    }
}
