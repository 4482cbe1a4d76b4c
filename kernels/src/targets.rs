//! The digests looked for, and the sieve before them: most candidates are turned away by their key alone,
//! the rest by an exact look-up. Keys are explained in `digest`.

use crate::block::Words;
use crate::digest::{Digest, plain_aim};

/// Up to so many targets each get a comparison of their own, which allows a different key in each run.
/// Above, one look into a bitmap costs less.
pub(crate) const FEW_MAX: usize = 8;
/// Bits of the bitmap per target: about 1 candidate in 32 passes by chance, or fewer.
const BITS_PER_TARGET: usize = 32;
/// Fewest and most bits of the bitmap, as powers of two: 16 KiB (in the first cache) and 64 MiB.
const BITS_LOG2: std::ops::RangeInclusive<u32> = 17..=29;

/// The targets in the order of their keys.
pub(crate) struct Targets {
    keys: Vec<u32>,
    pub(crate) digests: Vec<Words>,
    /// The caller's index of each.
    order: Vec<u32>,
    /// For each value of a key's leading bits where its keys begin; one more entry at the end.
    starts: Vec<u32>,
    /// How far a key is moved right to get its leading bits.
    shift: u32,
    /// None where the targets are few.
    bitmap: Option<Bitmap>,
}

impl Targets {
    /// `digests` has 1..=2^32 - 1 entries.
    pub(crate) fn new<D: Digest>(digests: &[Words]) -> Targets {
        let mut sorted: Vec<(u32, u32)> =
            digests.iter().zip(0..).map(|(digest, index)| (plain_aim::<D>(digest), index)).collect();
        sorted.sort_unstable();
        let keys: Vec<u32> = sorted.iter().map(|(key, _)| *key).collect();
        let order: Vec<u32> = sorted.iter().map(|(_, index)| *index).collect();
        // About one key for each value of the leading bits; at least 2, so that the shift stays below 32.
        let bits = (usize::BITS - keys.len().leading_zeros()).clamp(1, 24);
        let shift = 32 - bits;
        let starts = (0..=1u64 << bits)
            .scan(0usize, |at, leading| {
                *at += keys[*at..].partition_point(|key| u64::from(key >> shift) < leading);
                Some(*at as u32)
            })
            .collect();
        let bitmap = (keys.len() > FEW_MAX).then(|| Bitmap::new(&keys));
        let digests = order.iter().map(|index| digests[*index as usize]).collect();
        Targets { keys, digests, order, starts, shift, bitmap }
    }

    /// The sieve for many targets; none where they are few and each is compared on its own.
    pub(crate) fn bitmap(&self) -> Option<&Bitmap> {
        self.bitmap.as_ref()
    }

    /// The targets' keys, ascending.
    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// For each value of a key's leading bits where its keys begin, and how far a key is moved right to get them.
    pub(crate) fn starts(&self) -> (&[u32], u32) {
        (&self.starts, self.shift)
    }

    /// Some target has this plain key.
    pub(crate) fn has_key(&self, key: u32) -> bool {
        self.places(key).next().is_some()
    }

    /// Indices of the targets that are equal to `digest`, ascending.
    pub(crate) fn find<D: Digest>(&self, digest: &Words) -> impl Iterator<Item = u32> {
        self.places(plain_aim::<D>(digest)).filter(|at| self.digests[*at] == *digest).map(|at| self.order[at])
    }

    fn places(&self, key: u32) -> impl Iterator<Item = usize> {
        let leading = (key >> self.shift) as usize;
        let bucket = self.starts[leading] as usize..self.starts[leading + 1] as usize;
        bucket.filter(move |at| self.keys[*at] == key)
    }
}

/// A bit for each value of a key's leading bits: set where a target has such a key.
pub(crate) struct Bitmap {
    words: Vec<u64>,
    shift: u32,
}

impl Bitmap {
    fn new(keys: &[u32]) -> Bitmap {
        let wanted = (keys.len() * BITS_PER_TARGET).next_power_of_two().trailing_zeros();
        let bits = wanted.clamp(*BITS_LOG2.start(), *BITS_LOG2.end());
        let shift = 32 - bits;
        let mut words = vec![0; 1 << (bits - 6)];
        for key in keys {
            let at = key >> shift;
            words[(at >> 6) as usize] |= 1 << (at & 63);
        }
        Bitmap { words, shift }
    }

    /// The bits, and how far a key is moved right to get its own.
    pub(crate) fn parts(&self) -> (&[u64], u32) {
        (&self.words, self.shift)
    }

    /// 1 where a target may have this key, 0 where none has.
    #[inline(always)]
    pub(crate) fn bit(&self, key: u32) -> u64 {
        let at = key >> self.shift;
        (self.words[(at >> 6) as usize] >> (at & 63)) & 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md5::Md5;

    fn digest(n: u32) -> Words {
        // Spread over the keys, with pairs that share a key.
        let first = (n / 2).wrapping_mul(0x9e37_79b9);
        [first, n, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn each_target_is_found_and_nothing_else() {
        for count in [1u32, 2, 8, 9, 500, 100_000] {
            let digests: Vec<Words> = (0..count).map(digest).collect();
            let targets = Targets::new::<Md5>(&digests);
            for index in (0..count).step_by(1 + count as usize / 97) {
                let wanted = digest(index);
                assert!(targets.has_key(plain_aim::<Md5>(&wanted)));
                assert_eq!(targets.find::<Md5>(&wanted).collect::<Vec<_>>(), [index]);
                if let Some(bitmap) = targets.bitmap() {
                    assert_eq!(bitmap.bit(plain_aim::<Md5>(&wanted)), 1);
                }
            }
            assert_eq!(targets.find::<Md5>(&digest(count + 1)).count(), 0);
            assert_eq!(targets.bitmap().is_some(), count > 8);
        }
    }

    #[test]
    fn the_bitmap_turns_most_keys_away() {
        let digests: Vec<Words> = (0..100_000).map(digest).collect();
        let targets = Targets::new::<Md5>(&digests);
        let bitmap = targets.bitmap().unwrap();
        let passed: u64 = (0..100_000u32).map(|n| bitmap.bit(n.wrapping_mul(0x85eb_ca6b))).sum();
        assert!(passed < 100_000 / 32, "{passed} of 100 000 passed");
    }

    #[test]
    fn a_repeated_target_is_reported_under_both_indices() {
        let digests = [digest(4), digest(9), digest(4)];
        let targets = Targets::new::<Md5>(&digests);
        assert_eq!(targets.find::<Md5>(&digest(4)).collect::<Vec<_>>(), [0, 2]);
    }
}
