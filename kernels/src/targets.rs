//! The digests looked for, and the sieve before them: most candidates are turned away by their key alone,
//! the rest by an exact look-up. Keys are explained in `digest`.

use std::ops::RangeInclusive;

use crate::block::{Block, Words};
use crate::digest::{Digest, plain_aim};
use crate::lanes::Lanes;

/// Up to so many targets each get a comparison of their own, which allows a different key in each run.
/// Above, one look into a bitmap costs less.
pub(crate) const FEW_MAX: usize = 8;
/// Bits of the sieve and of the bitmap per target: of the latter about 1 candidate in 32 passes by chance, or fewer.
const BITS_PER_TARGET: usize = 32;
/// Fewest and most bits of the bitmap, as powers of two: 16 KiB (in the first cache) and 64 MiB.
const BITS_LOG2: RangeInclusive<u32> = 17..=29;
/// The same of the sieve, which must not outgrow the second cache: 16 KiB and 1 MiB.
const SIEVE_BITS_LOG2: RangeInclusive<u32> = 17..=23;

/// The targets in the order of their plain keys.
pub(crate) struct Targets {
    pub(crate) digests: Vec<Words>,
    /// The caller's index of each.
    order: Vec<u32>,
    plain: Keys,
    /// What is asked of candidates of any length; none where the targets are few.
    filter: Option<Filter>,
}

impl Targets {
    /// `digests` has 1..=2^32 - 1 entries.
    pub(crate) fn new<D: Digest>(digests: &[Words]) -> Targets {
        let mut sorted: Vec<(u32, u32)> =
            digests.iter().zip(0..).map(|(digest, index)| (plain_aim::<D>(digest), index)).collect();
        sorted.sort_unstable();
        let plain = Keys::new(sorted.iter().map(|(key, _)| *key).collect());
        let order: Vec<u32> = sorted.iter().map(|(_, index)| *index).collect();
        let filter = (order.len() > FEW_MAX).then(|| Filter::new(&plain.keys));
        let digests = order.iter().map(|index| digests[*index as usize]).collect();
        Targets { digests, order, plain, filter }
    }

    /// What many targets are looked up in first; none where they are few and each is compared on its own.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The targets' plain keys.
    pub(crate) fn plain(&self) -> &Keys {
        &self.plain
    }

    /// Indices of the targets that are equal to `digest`, ascending.
    pub(crate) fn find<D: Digest>(&self, digest: &Words) -> impl Iterator<Item = u32> {
        let places = self.plain.places(plain_aim::<D>(digest));
        places.filter(|at| self.digests[*at] == *digest).map(|at| self.order[at])
    }
}

/// Many targets by the keys that they have in one length of candidates, whose block is known but for the words that vary in it.
pub(crate) struct Own {
    pub(crate) keys: Keys,
    pub(crate) filter: Filter,
    pub(crate) words: Vec<usize>,
}

impl Own {
    /// The words `words` of `block` vary.
    pub(crate) fn new<D: Digest>(targets: &Targets, block: &Block, words: Vec<usize>) -> Own {
        let mut keys: Vec<u32> = targets.digests.iter().map(|digest| D::aim(block, &words, digest)).collect();
        keys.sort_unstable();
        Own { filter: Filter::new(&keys), keys: Keys::new(keys), words }
    }
}

/// Keys, ascending.
pub(crate) struct Keys {
    keys: Vec<u32>,
    /// For each value of a key's leading bits where its keys begin; one more entry at the end.
    starts: Vec<u32>,
    /// How far a key is moved right to get its leading bits.
    shift: u32,
}

impl Keys {
    fn new(keys: Vec<u32>) -> Keys {
        // About one key for each value of the leading bits; at least 2, so that the shift stays below 32.
        let bits = (usize::BITS - keys.len().leading_zeros()).clamp(1, 24);
        let shift = 32 - bits;
        let starts = (0..=1u64 << bits)
            .scan(0usize, |at, leading| {
                *at += keys[*at..].partition_point(|key| u64::from(key >> shift) < leading);
                Some(*at as u32)
            })
            .collect();
        Keys { keys, starts, shift }
    }

    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// For each value of a key's leading bits where its keys begin, and how far a key is moved right to get them.
    pub(crate) fn starts(&self) -> (&[u32], u32) {
        (&self.starts, self.shift)
    }

    /// This is one of them.
    pub(crate) fn has(&self, key: u32) -> bool {
        self.places(key).next().is_some()
    }

    fn places(&self, key: u32) -> impl Iterator<Item = usize> {
        let leading = (key >> self.shift) as usize;
        let bucket = self.starts[leading] as usize..self.starts[leading + 1] as usize;
        bucket.filter(move |at| self.keys[*at] == key)
    }
}

/// What turns most candidates away: the sieve is asked of each, the bitmap of those that pass.
pub(crate) struct Filter {
    pub(crate) sieve: Sieve,
    pub(crate) bitmap: Bitmap,
}

impl Filter {
    fn new(keys: &[u32]) -> Filter {
        Filter { sieve: Sieve::new(keys), bitmap: Bitmap::new(keys) }
    }
}

/// A Bloom filter that looks into one word for a key: its last bits tell which word, its leading ones two bits of it.
pub(crate) struct Sieve {
    words: Vec<u32>,
}

impl Sieve {
    fn new(keys: &[u32]) -> Sieve {
        let mut sieve = Sieve { words: vec![0; 1 << (bits_log2(keys, SIEVE_BITS_LOG2) - 5)] };
        for key in keys {
            let word = sieve.word_of(*key);
            sieve.words[word as usize] |= Sieve::bits_of(*key);
        }
        sieve
    }

    /// Which word each key is looked up in.
    #[inline(always)]
    pub(crate) fn word_of<V: Lanes>(&self, keys: V) -> V {
        keys.and(V::splat(self.words.len() as u32 - 1))
    }

    /// The bits of the word that each key must have there.
    #[inline(always)]
    pub(crate) fn bits_of<V: Lanes>(keys: V) -> V {
        keys.shift_right(27).bit().or(keys.shift_right(22).and(V::splat(31)).bit())
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// A target may have this key; otherwise none has.
    #[cfg(test)]
    fn passes(&self, key: u32) -> bool {
        self.words[self.word_of(key) as usize] & Sieve::bits_of(key) == Sieve::bits_of(key)
    }
}

/// So many bits for each key, as a power of two within a range.
fn bits_log2(keys: &[u32], within: RangeInclusive<u32>) -> u32 {
    let wanted = (keys.len() * BITS_PER_TARGET).next_power_of_two().trailing_zeros();
    wanted.clamp(*within.start(), *within.end())
}

/// A bit for each value of a key's leading bits: set where a target has such a key.
pub(crate) struct Bitmap {
    words: Vec<u64>,
    shift: u32,
}

impl Bitmap {
    fn new(keys: &[u32]) -> Bitmap {
        let bits = bits_log2(keys, BITS_LOG2);
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
                let key = plain_aim::<Md5>(&wanted);
                assert!(targets.plain().has(key));
                assert_eq!(targets.find::<Md5>(&wanted).collect::<Vec<_>>(), [index]);
                if let Some(filter) = targets.filter() {
                    assert_eq!((filter.bitmap.bit(key), filter.sieve.passes(key)), (1, true));
                }
            }
            assert_eq!(targets.find::<Md5>(&digest(count + 1)).count(), 0);
            assert_eq!(targets.filter().is_some(), count > 8);
        }
    }

    #[test]
    fn most_keys_are_turned_away() {
        let digests: Vec<Words> = (0..100_000).map(digest).collect();
        let targets = Targets::new::<Md5>(&digests);
        let Filter { sieve, bitmap } = targets.filter().unwrap();
        let keys = || (0..100_000u32).map(|n| n.wrapping_mul(0x85eb_ca6b));
        let passed: u64 = keys().map(|key| bitmap.bit(key)).sum();
        assert!(passed < 100_000 / 32, "the bitmap lets {passed} of 100 000 pass");
        let passed = keys().filter(|key| sieve.passes(*key)).count();
        assert!(passed < 100_000 / 64, "the sieve lets {passed} of 100 000 pass");
    }

    #[test]
    fn a_repeated_target_is_reported_under_both_indices() {
        let digests = [digest(4), digest(9), digest(4)];
        let targets = Targets::new::<Md5>(&digests);
        assert_eq!(targets.find::<Md5>(&digest(4)).collect::<Vec<_>>(), [0, 2]);
    }
}
