//! How long to wait for an acknowledgement before a repeat (RFC 6298: smoothed round trip and its
//! deviation), the same for offers and results. Which samples count (Karn's rule) is the caller's business.

use crate::limits::{RTO_MAX_US, RTO_MIN_US};

/// A smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct Rto {
    initial_us: u64,
    smoothed: Option<Smoothed>,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    mean_us: u64,
    deviation_us: u64,
}

impl Rto {
    /// Waits `initial_us` before the first sample.
    pub fn new(initial_us: u64) -> Self {
        Self { initial_us, smoothed: None }
    }

    /// Learns from one round trip.
    pub fn sample(&mut self, round_us: u64) {
        self.smoothed = Some(match self.smoothed {
            None => Smoothed { mean_us: round_us, deviation_us: round_us / 2 },
            Some(Smoothed { mean_us, deviation_us }) => Smoothed {
                mean_us: mean_us - mean_us / 8 + round_us / 8,
                deviation_us: deviation_us - deviation_us / 4 + mean_us.abs_diff(round_us) / 4,
            },
        });
    }

    /// How long to wait after `repeats` repetitions, in microseconds: doubled with each, within the limits.
    pub fn wait_us(&self, repeats: u32) -> u64 {
        let first = match self.smoothed {
            None => self.initial_us,
            Some(s) => s.mean_us.saturating_add(s.deviation_us.saturating_mul(4)),
        };
        let first = first.clamp(RTO_MIN_US, RTO_MAX_US);
        first.saturating_mul(1 << repeats.min(16)).min(RTO_MAX_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL_US: u64 = 1_000_000;

    #[test]
    fn steady_round_trips_bring_the_wait_down_to_the_floor_and_jumps_raise_it() {
        let mut rto = Rto::new(INITIAL_US);
        assert_eq!(rto.wait_us(0), INITIAL_US);
        (0..50).for_each(|_| rto.sample(2_000));
        assert_eq!(rto.wait_us(0), RTO_MIN_US);
        (0..3).for_each(|_| rto.sample(400_000));
        assert!(rto.wait_us(0) > 400_000, "{}", rto.wait_us(0));
    }

    #[test]
    fn repeats_double_the_wait_up_to_the_limit() {
        let mut rto = Rto::new(INITIAL_US);
        (0..50).for_each(|_| rto.sample(1));
        let waits: Vec<_> = (0..8).map(|n| rto.wait_us(n) / 1000).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(rto.wait_us(u32::MAX), RTO_MAX_US);
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut rto = Rto::new(INITIAL_US);
        [u64::MAX, 0, u64::MAX].iter().for_each(|&us| rto.sample(us));
        assert_eq!(rto.wait_us(3), RTO_MAX_US);
    }
}
