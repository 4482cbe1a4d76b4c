//! The rate of transfers: contents go to and from workers at so many bytes a second, all of them together, so that tasks and
//! results, which travel on the same network, never wait for them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes a second that are the least: a rate below makes workers believe that the scheduler has gone.
pub(crate) const RATE_MIN: u64 = 1 << 20;
/// Nobody waits longer for a record, of 60 KiB at most: many who share a low rate exceed it somewhat rather than break off.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// What was not used of the rate lately may be used now.
const BURST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Rate {
    bytes_a_second: Option<u64>,
    /// When all that was let through would have gone at the rate.
    paid_until: Mutex<Instant>,
}

impl Rate {
    /// None: as fast as the network takes them.
    pub(crate) fn new(bytes_a_second: Option<u64>, now: Instant) -> Self {
        Self { bytes_a_second, paid_until: Mutex::new(now) }
    }

    /// So many bytes are to go, or have come: how long to wait before anything follows.
    pub(crate) fn wait(&self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.bytes_a_second else { return Duration::ZERO };
        let mut paid_until = self.paid_until.lock().expect("a panic under the lock ends the process");
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let from = now.checked_sub(BURST).map_or(*paid_until, |from| from.max(*paid_until));
        *paid_until = (from + takes).min(now + WAIT_MAX);
        paid_until.saturating_duration_since(now)
    }

    /// The same, and waits.
    pub(crate) async fn pay(&self, bytes: usize) {
        if self.bytes_a_second.is_some() {
            tokio::time::sleep(self.wait(bytes, Instant::now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_a_while_is_what_the_rate_allows_however_it_is_cut() {
        for bytes in [100, 60_000] {
            let mut now = Instant::now();
            let (rate, begin) = (Rate::new(Some(RATE_MIN), now), now);
            let mut gone = 0;
            while now - begin < Duration::from_secs(60) {
                now += rate.wait(bytes, now);
                gone += bytes as u64;
            }
            let wanted = 60 * RATE_MIN;
            assert!(wanted.abs_diff(gone) < RATE_MIN / 8, "{gone} of {wanted}");
            // A pause is not made up for.
            now += Duration::from_secs(600);
            assert!(rate.wait(bytes, now) < Duration::from_millis(10));
            let waits: Duration =
                (0..10 * RATE_MIN / bytes as u64).map(|_| rate.wait(bytes, now)).max().unwrap();
            assert_eq!(waits, WAIT_MAX);
        }
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        let now = Instant::now();
        let rate = Rate::new(None, now);
        assert!((0..1_000).all(|_| rate.wait(1 << 30, now) == Duration::ZERO));
    }
}
