//! Numbers from a seed: the same seed gives the same numbers, as jitter and tests want it. Not for secrets.

/// SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 where `bound` is 0. The modulo's bias is nothing to a jitter.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn same_seed_same_numbers_and_all_below_the_bound() {
        let draw = |seed| {
            let mut random = SplitMix64(seed);
            (0..100).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|&n| n < 10));
        assert_eq!(SplitMix64(1).below(0), 0);
        // The first number of seed 0, as the paper's reference code has it.
        assert_eq!(SplitMix64(0).draw(), 0xE220_A839_7B1D_CDAF);
    }
}
