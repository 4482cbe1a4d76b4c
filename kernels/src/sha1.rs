//! SHA-1 (FIPS 180-4), one block, in groups of five steps after which the state's words have their names
//! back.

use crate::block::{Block, Layout, Words};
use crate::digest::{Beside, Digest, finish, first_varying, single, spread};
use crate::lanes::Lanes;

/// SHA-1 of a candidate's bytes.
pub(crate) struct Sha1;

const INITIAL: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
/// One constant for each 20 steps.
const CONSTANTS: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];

/// The message words of a batch. Those behind the block are exclusive ors of the block's, so the run's part and the tail's
/// are made apart.
pub(crate) struct Batch<V> {
    /// The tail's part of the block.
    tail: [V; 16],
    /// The first word with such a part.
    from: usize,
    /// The block, each word with the constant of its step.
    first: [V; 16],
    /// The tail's part of the words behind the block.
    later: [V; LATER],
}

/// A run's part of the message words: of the block's with the constant of the step, then of those behind.
pub(crate) struct Fixed {
    /// After the step of the first word with a tail's part, which is not yet added.
    state: [u32; 5],
    first: [u32; 16],
    later: [u32; LATER],
}

/// Words behind the block.
const LATER: usize = 64;

impl Digest for Sha1 {
    const LAYOUT: Layout = Layout { big_endian: true, stride: 1 };
    const RUNS: usize = 16;
    const PARTS: usize = 13;
    type Fixed = Fixed;
    type Batch<V: Lanes> = Batch<V>;

    fn key_step(_varying: &[usize]) -> usize {
        0
    }
    fn fixed(block: &Block, varying: &[usize]) -> Fixed {
        let first = block.map(|word| word.wrapping_add(CONSTANTS[0]));
        let known = &first[..=first_varying(varying)];
        Fixed {
            state: known.iter().fold(INITIAL, |state, word| step(state, *word)),
            first,
            later: expand(block),
        }
    }
    #[inline(always)]
    fn start<V: Lanes>(varying: &[usize], _key_words: &[usize]) -> Batch<V> {
        let zero = V::splat(0);
        Batch { tail: [zero; 16], from: first_varying(varying), first: [zero; 16], later: [zero; LATER] }
    }
    #[inline(always)]
    fn turn<V: Lanes>(batch: &mut Batch<V>, word: usize, values: V) {
        batch.tail[word & 15] = values;
    }
    #[inline(always)]
    fn turned<V: Lanes>(batch: &mut Batch<V>) {
        batch.later = expand(&batch.tail);
    }
    #[inline(always)]
    fn set<V: Lanes>(batch: &mut Batch<V>, fixed: &Fixed, words: &[usize]) {
        for word in words.iter().map(|word| word & 15) {
            batch.first[word] = batch.tail[word].add(V::splat(fixed.first[word]));
        }
    }
    #[inline(always)]
    fn key<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> V {
        // The last word of the state is ready four steps before the others; those are left out by the compiler.
        compress(batch, fixed, beside)[4]
    }
    fn aim(_block: &Block, _varying: &[usize], digest: &Words) -> u32 {
        digest[4].wrapping_sub(INITIAL[4])
    }
    fn next_aim(digest: &Words) -> u32 {
        digest[3].wrapping_sub(INITIAL[3])
    }
    fn digest(block: &Block) -> Words {
        let (batch, fixed) = single::<Sha1>(block);
        finish(compress(&batch, &fixed, &mut ()), INITIAL)
    }
}

/// The words behind a block.
#[inline(always)]
fn expand<V: Lanes>(block: &[V; 16]) -> [V; LATER] {
    let mut later = [V::splat(0); LATER];
    for t in 0..16 {
        let word = |further: usize| if t < further { block[16 + t - further] } else { later[t - further] };
        later[t] = word(3).xor(word(8)).xor(word(14)).xor(word(16)).rotate_left(1);
    }
    for t in 16..LATER {
        later[t] = later[t - 3].xor(later[t - 8]).xor(later[t - 14]).xor(later[t - 16]).rotate_left(1);
    }
    later
}

/// The state after 80 steps, the initial words not yet added.
#[inline(always)]
fn compress<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> [V; 5] {
    let mut state: [V; 5] = spread(&fixed.state);
    state[0] = state[0].add(batch.tail[batch.from & 15]);
    for word in &batch.first[(batch.from & 15) + 1..] {
        state = step(state, *word);
    }
    beside.part();
    for t in 0..4 {
        state = step(state, batch.later(fixed, t).add(V::splat(CONSTANTS[0])));
    }
    beside.part();
    for first in [4, 9, 14, 19] {
        state = group::<V, 1>(state, first, batch, fixed);
        beside.part();
    }
    for first in [24, 29, 34, 39] {
        state = group::<V, 2>(state, first, batch, fixed);
        beside.part();
    }
    for first in [44, 49, 54] {
        state = group::<V, 3>(state, first, batch, fixed);
        beside.part();
    }
    // Apart from the loop, so that a caller who wants one word pays for no more.
    group::<V, 3>(state, 59, batch, fixed)
}

/// One of the first 20 steps, with its message word, to which its constant was added.
#[inline(always)]
fn step<V: Lanes>([a, b, c, d, e]: [V; 5], word: V) -> [V; 5] {
    [e.add(word).add(b.select(c, d)).add(a.rotate_left(5)), a, b.rotate_left(30), c, d]
}

impl<V: Lanes> Batch<V> {
    /// Word `t` of those behind the block.
    #[inline(always)]
    fn later(&self, fixed: &Fixed, t: usize) -> V {
        self.later[t].xor(V::splat(fixed.later[t]))
    }
}

/// Five steps with the words from word `first` on of those behind the block; `PART` is the group of 20 steps they belong to.
#[inline(always)]
fn group<V: Lanes, const PART: usize>(
    state: [V; 5],
    first: usize,
    batch: &Batch<V>,
    fixed: &Fixed,
) -> [V; 5] {
    let [mut a, mut b, mut c, mut d, mut e] = state;
    for t in first..first + 5 {
        let mix = if PART == 2 { b.majority(c, d) } else { b.parity(c, d) };
        let word = batch.later(fixed, t).add(V::splat(CONSTANTS[PART]));
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, e.add(word).add(mix).add(a.rotate_left(5)));
    }
    [a, b, c, d, e]
}
