//! What the inner loop asks of an algorithm. The algorithms have a file each.

use crate::block::{Block, Layout, Words};
use crate::lanes::Lanes;

/// A digest over one message block, written once for vectors of any width.
///
/// The loop compares one word only, the *key*: a word of the state that is known early. Where the words
/// that change from candidate to candidate are not used in the last steps, these steps can be taken back
/// from a target's digest instead of being computed for each candidate.
///
/// A message word is the run's part and the tail's part of it, which have no bit in common. What depends on the one alone
/// is computed once for a run, what depends on the other alone once for a batch.
pub(crate) trait Digest {
    /// Where a candidate's bytes stand in the block.
    const LAYOUT: Layout;

    /// How many runs go through a batch before the next batch: more than 1 where the batch's own part is worth much.
    const RUNS: usize;

    /// How often [`Digest::key`] has something done beside it.
    const PARTS: usize;

    /// What depends on a run alone.
    type Fixed;

    /// What depends on a batch, and the message words of the run at hand.
    type Batch<V: Lanes>;

    /// The earliest step whose outcome can be the key, where the words `varying` change; 0 where it is the same in any run.
    fn key_step(varying: &[usize]) -> usize;

    /// A run whose candidates differ from `block` only in the words `varying`, where it has zeros.
    fn fixed(block: &Block, varying: &[usize]) -> Self::Fixed;

    /// The first batch of such runs, with no combination yet, whose key is that of runs in which `key_words` vary.
    fn start<V: Lanes>(varying: &[usize], key_words: &[usize]) -> Self::Batch<V>;

    /// Gives the word `word`, one of those that vary, the tail's part of the next combinations.
    fn turn<V: Lanes>(batch: &mut Self::Batch<V>, word: usize, values: V);

    /// Each of them has got its own: makes what depends on all of them.
    #[inline(always)]
    fn turned<V: Lanes>(_batch: &mut Self::Batch<V>) {}

    /// Puts the message words `words` together for a run; the other words must be those of the run before.
    fn set<V: Lanes>(batch: &mut Self::Batch<V>, fixed: &Self::Fixed, words: &[usize]);

    /// The key of each candidate.
    fn key<V: Lanes>(batch: &Self::Batch<V>, fixed: &Self::Fixed, beside: &mut impl Beside) -> V;

    /// The key that a candidate of this run has if `digest` is its digest.
    fn aim(block: &Block, varying: &[usize], digest: &Words) -> u32;

    /// The outcome of the step behind the key's, of a candidate with this digest, where all words may change.
    fn next_aim(digest: &Words) -> u32;

    /// The digest of one candidate.
    fn digest(block: &Block) -> Words;
}

/// Something to be done between the steps of a digest: the steps leave a processor's other half idle.
pub(crate) trait Beside {
    /// A part of it, the next one at each call.
    fn part(&mut self);
}

/// Nothing to be done.
impl Beside for () {
    #[inline(always)]
    fn part(&mut self) {}
}

/// All words may change: the key is then a plain word of the digest, the same in every run.
pub(crate) const ALL_WORDS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The key of `digest` where nothing is known about the run.
pub(crate) fn plain_aim<D: Digest>(digest: &Words) -> u32 {
    D::aim(&[0; 16], &ALL_WORDS, digest)
}

/// The first of these words; the first of all if there is none.
pub(crate) fn first_varying(varying: &[usize]) -> usize {
    varying.first().map_or(0, |word| word & 15)
}

/// The one candidate of a run in which no word changes, for the digest of a single block.
pub(crate) fn single<D: Digest>(block: &Block) -> (D::Batch<u32>, D::Fixed) {
    let (mut batch, fixed) = (D::start(&[], &ALL_WORDS), D::fixed(block, &[]));
    D::set(&mut batch, &fixed, &ALL_WORDS);
    (batch, fixed)
}

/// Words that begin with the same value in all lanes.
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
