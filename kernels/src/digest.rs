//! What the inner loop asks of an algorithm. The algorithms have a file each.

use crate::block::{Block, Layout, Words};
use crate::lanes::Lanes;

/// A digest over one message block, written once for vectors of any width.
///
/// The loop compares one word only, the *key*: a word of the state that is known early. Where the words
/// that change from candidate to candidate are not used in the last steps, these steps can be taken back
/// from a target's digest instead of being computed for each candidate.
pub(crate) trait Digest {
    /// Where a candidate's bytes stand in the block.
    const LAYOUT: Layout;

    /// Everything a batch of candidates needs; what does not change in a run is computed once.
    type Run<V: Lanes>;

    /// The earliest step whose outcome can be the key, where the words `varying` change; 0 where it is the same in any run.
    fn key_step(varying: &[usize]) -> usize;

    /// A run over candidates that differ from `block` only in the words `varying`.
    fn start<V: Lanes>(block: &Block, varying: &[usize]) -> Self::Run<V>;

    /// Gives word `word` of the block, one of `varying`, its values.
    fn set<V: Lanes>(run: &mut Self::Run<V>, word: usize, values: V);

    /// The key of each candidate.
    fn key<V: Lanes>(run: &Self::Run<V>) -> V;

    /// The key that a candidate of this run has if `digest` is its digest.
    fn aim(block: &Block, varying: &[usize], digest: &Words) -> u32;

    /// The outcome of the step behind the key's, of a candidate with this digest, where all words may change.
    fn next_aim(digest: &Words) -> u32;

    /// The digest of one candidate.
    fn digest(block: &Block) -> Words;
}

/// All words may change: the key is then a plain word of the digest, the same in every run.
pub(crate) const ALL_WORDS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The key of `digest` where nothing is known about the run.
pub(crate) fn plain_aim<D: Digest>(digest: &Words) -> u32 {
    D::aim(&[0; 16], &ALL_WORDS, digest)
}

/// The block with each word in all lanes: how a SHA begins a run.
#[inline(always)]
pub(crate) fn spread<V: Lanes, const WORDS: usize>(words: &[u32; WORDS]) -> [V; WORDS] {
    let mut spread = [V::splat(0); WORDS];
    for (lanes, word) in spread.iter_mut().zip(words) {
        *lanes = V::splat(*word);
    }
    spread
}

/// The digest out of the last state: the initial words are added.
pub(crate) fn finish<const WORDS: usize>(state: [u32; WORDS], initial: [u32; WORDS]) -> Words {
    let mut words = [0; 8];
    for (word, (state, initial)) in words.iter_mut().zip(state.into_iter().zip(initial)) {
        *word = state.wrapping_add(initial);
    }
    words
}
