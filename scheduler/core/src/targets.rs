//! Which targets of a search were hit, a bit for each: whoever stops with all of them must know that, however many they are.

/// Targets that were hit. There is room for all of them from the first one on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Targets {
    of: u32,
    /// Target 8 i + k is bit k of byte i. Empty as long as none was hit.
    bits: Vec<u8>,
    hit: u32,
}

impl Targets {
    /// None of so many.
    pub(crate) fn new(of: u32) -> Self {
        Self { of, bits: Vec::new(), hit: 0 }
    }

    /// How many were hit.
    pub(crate) fn hit(&self) -> u32 {
        self.hit
    }

    /// This one was hit, now or before.
    pub(crate) fn insert(&mut self, target: u32) {
        self.insert_all(target / 8, &[1 << (target % 8)]);
    }

    /// Those were hit whose bits are set from this byte on.
    pub(crate) fn insert_all(&mut self, from: u32, bits: &[u8]) {
        self.bits.resize(self.of.div_ceil(8) as usize, 0);
        for (byte, more) in self.bits[from as usize..].iter_mut().zip(bits) {
            self.hit += (more & !*byte).count_ones();
            *byte |= more;
        }
    }

    /// All bits, in parts of so many bytes, each with the number of its first byte.
    pub(crate) fn parts(&self, bytes: usize) -> impl Iterator<Item = (u32, &[u8])> {
        (0..).step_by(bytes).zip(self.bits.chunks(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_counts_once_and_costs_a_bit() {
        let mut targets = Targets::new(10_000_001);
        assert!(targets.bits.is_empty());
        for target in [0, 7, 8, 10_000_000, 7, 0] {
            targets.insert(target);
        }
        assert_eq!((targets.hit(), targets.bits.capacity()), (4, 1_250_001));
        let mut again = Targets::new(10_000_001);
        again.insert(9);
        for _ in 0..2 {
            targets.parts(1_000).for_each(|(from, bits)| again.insert_all(from, bits));
            assert_eq!(again.hit(), 5);
        }
        targets.insert(9);
        assert_eq!(again, targets);
    }
}
