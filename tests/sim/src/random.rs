//! Chance by a seed. Each purpose draws from a stream of its
//! own, so that one more fault does not change what the network does.

use starfarm_protocol::random::SplitMix64;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

/// A probability as a threshold: one comparison a draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// `share` lies in 0..=1.
    pub(crate) fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * u64::MAX as f64) as u64)
    }
}

impl Random {
    /// The stream of `seed` for one purpose.
    pub(crate) fn stream(seed: u64, purpose: u64) -> Self {
        let mut random = SplitMix64(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ purpose);
        Self(SplitMix64(random.draw()))
    }

    /// 64 bits.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number in 0..bound; 0 where `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True with that probability. A chance of 0 draws nothing.
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.draw() <= chance.0
    }

    /// A real number in [0, 1).
    pub(crate) fn real(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A factor in [1 - spread, 1 + spread).
    pub(crate) fn about_one(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.real() - 1.0)
    }

    /// Puts things into another order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// The time to the next of events that come every `mean_us` in the mean, at least 1 us.
    pub(crate) fn wait_us(&mut self, mean_us: f64) -> u64 {
        1 + (-(1.0 - self.real()).ln() * mean_us) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_as_often_as_they_say() {
        let mut random = Random::stream(3, 1);
        let chance = Chance::new(0.2);
        let often = (0..100_000).filter(|_| random.happens(chance)).count();
        assert!((19_000..21_000).contains(&often), "{often}");
        assert!(!(0..1000).any(|_| random.happens(Chance::new(0.0))));
        assert!((0..1000).all(|_| random.happens(Chance::new(1.0))));
        assert!((0..1000).all(|_| random.below(7) < 7));
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |seed, purpose| Random::stream(seed, purpose).draw();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}
