//! A small seeded generator (splitmix64, Steele, Lea and Flood 2014): the same seed gives the same faults.

/// A generator. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that is different for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True with probability `share`, 0 to 1.
    pub fn chance(&mut self, share: f64) -> bool {
        // 53 bits are what an f64 holds, so that 1.0 is always true and 0.0 never.
        ((self.bits() >> 11) as f64) / ((1_u64 << 53) as f64) < share
    }

    /// A number from 0 up to, not including, `bound`; 0 where the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| random.bits())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn chances_and_bounds_are_kept() {
        let mut random = Random::new(1);
        let hits = (0..10_000).filter(|_| random.chance(0.2)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| !random.chance(0.0) && random.chance(1.0) && random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
