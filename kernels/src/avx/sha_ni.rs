//! SHA-256 by the processor's own instructions (x86 SHA extensions), which take two steps of one message each. Measured on
//! a Zen 3, that is faster than 8 messages side by side in vectors of 8 words.
//!
//! What is known of a digest, and which word is its key, is said in `sha256`. The digest is private to the file above, which
//! uses it under `sha` alone, and nobody gets that before the processor was asked: this is what makes each `unsafe` below
//! sound. No closure has an instruction beyond SSE2, for it would not melt into the function that has the processor's
//! features.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use crate::block::{Block, Layout, Words};
use crate::digest::{Beside, Digest, first_varying};
use crate::lanes::Lanes;
use crate::sha256::{CONSTANTS, Sha256, state_before};

/// SHA-256 of a candidate's bytes, by these instructions.
pub(super) struct ShaNi;

/// Candidates of a batch: the words of a vector.
const LANES: usize = 8;

/// The words of a message block, four to a vector.
type Message = [__m128i; 4];
/// The words a, b, e, f of the state and the words c, d, g, h, as the instructions have them.
type State = [__m128i; 2];

/// The tail's part of each candidate's block; the run's part is the run's alone.
pub(super) struct Batch<V> {
    tail: [[u32; LANES]; 16],
    messages: [Message; LANES],
    of: PhantomData<V>,
}

/// A run's part.
pub(super) struct Fixed {
    /// After as many pairs of steps as come before the first word that varies.
    state: State,
    pairs: usize,
    message: Message,
}

/// Runs one of the instructions.
macro_rules! featured {
    ($e:expr) => {
        // SAFETY: `avx` alone can name this digest, and uses it under the path that asks for these features.
        unsafe { $e }
    };
}

impl Digest for ShaNi {
    const LAYOUT: Layout = Sha256::LAYOUT;
    const RUNS: usize = 8;
    const PARTS: usize = LANES / 2;
    type Fixed = Fixed;
    type Batch<V: Lanes> = Batch<V>;

    fn key_step(varying: &[usize]) -> usize {
        Sha256::key_step(varying)
    }
    fn fixed(block: &Block, varying: &[usize]) -> Fixed {
        let pairs = first_varying(varying) / 2;
        let [a, b, c, d, e, f, g, h] = state_before(block, 2 * pairs);
        Fixed { state: [vector([f, e, b, a]), vector([h, g, d, c])], pairs, message: message(block) }
    }
    #[inline(always)]
    fn start<V: Lanes>(_varying: &[usize], _key_words: &[usize]) -> Batch<V> {
        assert_eq!(V::LANES, LANES, "the path has vectors of this width");
        Batch { tail: [[0; LANES]; 16], messages: [message(&[0; 16]); LANES], of: PhantomData }
    }
    #[inline(always)]
    fn turn<V: Lanes>(batch: &mut Batch<V>, word: usize, values: V) {
        values.store(&mut batch.tail[word & 15]);
    }
    #[inline(always)]
    fn turned<V: Lanes>(batch: &mut Batch<V>) {
        for (lane, own) in batch.messages.iter_mut().enumerate() {
            *own = message(&batch.tail.map(|word| word[lane]));
        }
    }
    #[inline(always)]
    fn set<V: Lanes>(_batch: &mut Batch<V>, _fixed: &Fixed, _words: &[usize]) {}
    /// The word `a` after 57 steps.
    #[inline(always)]
    fn key<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> V {
        let mut keys = [0; LANES];
        // These instructions have no form for wide vectors: what such left in the registers would hold up each of them.
        featured!(_mm256_zeroupper());
        for (keys, messages) in keys.chunks_exact_mut(2).zip(batch.messages.chunks_exact(2)) {
            // One does not wait for the other, so the processor takes them side by side.
            keys[0] = compress(fixed, &messages[0]);
            keys[1] = compress(fixed, &messages[1]);
            beside.part();
        }
        V::load(&keys)
    }
    fn aim(block: &Block, varying: &[usize], digest: &Words) -> u32 {
        Sha256::aim(block, varying, digest)
    }
    fn next_aim(digest: &Words) -> u32 {
        Sha256::next_aim(digest)
    }
    fn digest(block: &Block) -> Words {
        Sha256::digest(block)
    }
}

/// Four words, the first one lowest.
#[inline(always)]
fn vector([w, x, y, z]: [u32; 4]) -> __m128i {
    featured!(_mm_set_epi32(z as i32, y as i32, x as i32, w as i32))
}

#[inline(always)]
fn message(block: &Block) -> Message {
    std::array::from_fn(|at| vector([block[4 * at], block[4 * at + 1], block[4 * at + 2], block[4 * at + 3]]))
}

/// The word `a` after 57 steps of the message that a tail's part makes with a run's: after a 58th it is the word `b`.
#[inline(always)]
fn compress(fixed: &Fixed, tail: &Message) -> u32 {
    let [mut w0, mut w1, mut w2, mut w3] = fixed.message;
    // They have no bit in common.
    w0 = featured!(_mm_or_si128(w0, tail[0]));
    w1 = featured!(_mm_or_si128(w1, tail[1]));
    w2 = featured!(_mm_or_si128(w2, tail[2]));
    w3 = featured!(_mm_or_si128(w3, tail[3]));
    let mut state = fixed.state;
    for (pair, words) in [w0, upper(w0), w1, upper(w1), w2, upper(w2), w3, upper(w3)].into_iter().enumerate()
    {
        if pair >= fixed.pairs {
            state = two_steps(state, words, pair);
        }
    }
    for first in [8, 16] {
        w0 = next_four(w0, w1, w2, w3);
        state = four_steps(state, w0, first);
        w1 = next_four(w1, w2, w3, w0);
        state = four_steps(state, w1, first + 2);
        w2 = next_four(w2, w3, w0, w1);
        state = four_steps(state, w2, first + 4);
        w3 = next_four(w3, w0, w1, w2);
        state = four_steps(state, w3, first + 6);
    }
    w0 = next_four(w0, w1, w2, w3);
    state = four_steps(state, w0, 24);
    w1 = next_four(w1, w2, w3, w0);
    state = four_steps(state, w1, 26);
    w2 = next_four(w2, w3, w0, w1);
    let [abef, _] = two_steps(state, w2, 28);
    featured!(_mm_extract_epi32::<2>(abef)) as u32
}

/// The second two of four words.
#[inline(always)]
fn upper(four: __m128i) -> __m128i {
    featured!(_mm_shuffle_epi32::<0b0000_1110>(four))
}

/// Four steps, `pair` being the first two of them.
#[inline(always)]
fn four_steps(state: State, words: __m128i, pair: usize) -> State {
    two_steps(two_steps(state, words, pair), upper(words), pair + 1)
}

/// The steps `2 * pair` and the next with their two message words, in the lower half of `words`.
#[inline(always)]
fn two_steps([abef, cdgh]: State, words: __m128i, pair: usize) -> State {
    let constants = vector([CONSTANTS[2 * pair], CONSTANTS[2 * pair + 1], 0, 0]);
    let next = featured!(_mm_sha256rnds2_epu32(cdgh, abef, _mm_add_epi32(words, constants)));
    [next, abef]
}

/// The next four words of the message schedule, after these sixteen.
#[inline(always)]
fn next_four(w0: __m128i, w1: __m128i, w2: __m128i, w3: __m128i) -> __m128i {
    featured!({
        let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
        _mm_sha256msg2_epu32(sum, w3)
    })
}
