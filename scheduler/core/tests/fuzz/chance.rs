//! Chance that a seed decides: splitmix64 (Steele, Lea and Flood, 2014).

pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1; `n` is 1 or more.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// `lo` to `hi`, both included.
    pub fn within(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len() as u64) as usize].clone())
    }

    /// An index into `weights`, as often as these say.
    pub fn weighed(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        weights.iter().position(|&weight| at.checked_sub(weight).map(|rest| at = rest).is_none()).unwrap()
    }
}
