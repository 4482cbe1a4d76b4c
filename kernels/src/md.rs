//! What MD4 and MD5 share: rounds of sixteen steps over four words, in groups of four steps after which
//! the words have their names back. Orders, constants and the steps themselves are in `ntlm` and `md5`.

use std::ops::Range;

use crate::block::{Block, Layout, Words};
use crate::digest::{Beside, Digest, finish, first_varying, single, spread};
use crate::lanes::Lanes;

const STEPS_MAX: usize = 64;
const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// One of the two. `ROUND` is a constant after inlining.
pub(crate) trait Family {
    /// Rounds of 16 steps: 3 or 4.
    const ROUNDS: usize;
    /// The message word of each step.
    const ORDER: [u8; STEPS_MAX];
    /// The constant added in each step.
    const CONSTANTS: [u32; STEPS_MAX];
    /// By how much the four steps of a group turn, per round.
    const TURNS: [[u32; 4]; 4];
    /// MD5 adds `b` after the turn.
    const ADDS_B: bool;
    /// Bytes of the block that a byte of the candidate takes.
    const STRIDE: usize;
    /// For each message word the step of each round that uses it.
    const USES: [[u8; 4]; 16] = uses(&Self::ORDER, Self::ROUNDS);

    /// The round's function of three words.
    fn mix<V: Lanes, const ROUND: usize>(b: V, c: V, d: V) -> V;
    /// The same for one word and a round that is not a constant.
    fn mix_word(round: usize, b: u32, c: u32, d: u32) -> u32 {
        match round {
            0 => Self::mix::<u32, 0>(b, c, d),
            1 => Self::mix::<u32, 1>(b, c, d),
            2 => Self::mix::<u32, 2>(b, c, d),
            _ => Self::mix::<u32, 3>(b, c, d),
        }
    }
}

impl<F: Family> Digest for F {
    const LAYOUT: Layout = Layout { big_endian: false, stride: F::STRIDE };
    const RUNS: usize = 1;
    const PARTS: usize = 4 * F::ROUNDS - 1;
    type Fixed = Fixed;
    type Batch<V: Lanes> = Batch<V>;

    fn key_step(varying: &[usize]) -> usize {
        // Once the last use of a varying word is passed, the rest can be taken back from the digest, which leaves the outcomes
        // of the four steps up to that use.
        last_use::<F>(varying) - 3
    }
    fn fixed(block: &Block, varying: &[usize]) -> Fixed {
        let added = |step: usize| block[usize::from(F::ORDER[step])].wrapping_add(F::CONSTANTS[step]);
        let added = std::array::from_fn(added);
        let mut state = INITIAL;
        for (step, added) in added[..first_varying(varying)].iter().enumerate() {
            let [a, b, c, d] = state;
            state = [d, self::step::<F, u32, 0>(a, b, c, d, *added, F::TURNS[0][step % 4]), b, c];
        }
        state.rotate_left(first_varying(varying) % 4);
        Fixed { state, added }
    }
    #[inline(always)]
    fn start<V: Lanes>(varying: &[usize], key_words: &[usize]) -> Batch<V> {
        let zero = V::splat(0);
        Batch {
            tail: [zero; 16],
            schedule: [zero; STEPS_MAX],
            from: first_varying(varying),
            key_step: F::key_step(key_words),
        }
    }
    #[inline(always)]
    fn turn<V: Lanes>(batch: &mut Batch<V>, word: usize, values: V) {
        batch.tail[word & 15] = values;
    }
    #[inline(always)]
    fn set<V: Lanes>(batch: &mut Batch<V>, fixed: &Fixed, words: &[usize]) {
        for word in words.iter().map(|word| word & 15) {
            for step in &F::USES[word][..F::ROUNDS] {
                let step = usize::from(*step) % STEPS_MAX;
                batch.schedule[step] = batch.tail[word].add(V::splat(fixed.added[step]));
            }
        }
    }
    #[inline(always)]
    fn key<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> V {
        if F::ROUNDS == 4 {
            let state = first::<F, V>(batch, fixed, beside);
            let state = round::<F, V, 1>(batch, state, beside);
            last::<F, V, 2, 3>(batch, state, beside)
        } else {
            let state = first::<F, V>(batch, fixed, beside);
            last::<F, V, 1, 2>(batch, state, beside)
        }
    }
    fn aim(block: &Block, varying: &[usize], digest: &Words) -> u32 {
        // Takes the steps after the key's back.
        let [mut a, mut b, mut c, mut d] = [0, 1, 2, 3].map(|i| digest[i].wrapping_sub(INITIAL[i]));
        for step in (F::key_step(varying) + 1..16 * F::ROUNDS).rev() {
            let turn = F::TURNS[step / 16][step % 4];
            let added = block[usize::from(F::ORDER[step])].wrapping_add(F::CONSTANTS[step]);
            let turned = if F::ADDS_B { b.wrapping_sub(c) } else { b }.rotate_right(turn);
            let before = turned.wrapping_sub(F::mix_word(step / 16, c, d, a)).wrapping_sub(added);
            (a, b, c, d) = (before, c, d, a);
        }
        b
    }
    fn next_aim(digest: &Words) -> u32 {
        digest[3].wrapping_sub(INITIAL[3])
    }
    fn digest(block: &Block) -> Words {
        let (batch, fixed) = single::<F>(block);
        let mut state = first::<F, u32>(&batch, &fixed, &mut ());
        state = round::<F, u32, 1>(&batch, state, &mut ());
        state = round::<F, u32, 2>(&batch, state, &mut ());
        if F::ROUNDS == 4 {
            state = round::<F, u32, 3>(&batch, state, &mut ());
        }
        finish(state, INITIAL)
    }
}

/// A run's part.
pub(crate) struct Fixed {
    /// Before the first step that uses a varying word.
    state: [u32; 4],
    /// Message word plus constant for each step.
    added: [u32; STEPS_MAX],
}

/// The batch at hand: message word plus constant for each step, and where to stop.
pub(crate) struct Batch<V> {
    /// The tail's part of the block.
    tail: [V; 16],
    schedule: [V; STEPS_MAX],
    /// The first step that uses a varying word.
    from: usize,
    /// The step whose outcome is the key, in the last group of the last round but one or behind it.
    key_step: usize,
}

/// The last step that uses one of these words.
fn last_use<F: Family>(varying: &[usize]) -> usize {
    let last = (0..16 * F::ROUNDS).rev().find(|step| varying.contains(&usize::from(F::ORDER[*step])));
    last.unwrap_or(16 * F::ROUNDS - 1)
}

/// For each message word the step of each round that uses it.
const fn uses(order: &[u8; STEPS_MAX], rounds: usize) -> [[u8; 4]; 16] {
    let mut uses = [[0; 4]; 16];
    let mut step = 0;
    while step < 16 * rounds {
        uses[order[step] as usize][step / 16] = step as u8;
        step += 1;
    }
    uses
}

/// The first round, from the first step that uses a varying word on.
#[inline(always)]
fn first<F: Family, V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> [V; 4] {
    let [mut a, mut b, mut c, mut d] = spread(&fixed.state);
    let (group, turns) = (batch.from & 12, F::TURNS[0]);
    let added = &batch.schedule[group..group + 4];
    if batch.from % 4 < 1 {
        a = step::<F, V, 0>(a, b, c, d, added[0], turns[0]);
    }
    if batch.from % 4 < 2 {
        d = step::<F, V, 0>(d, a, b, c, added[1], turns[1]);
    }
    if batch.from % 4 < 3 {
        c = step::<F, V, 0>(c, d, a, b, added[2], turns[2]);
    }
    b = step::<F, V, 0>(b, c, d, a, added[3], turns[3]);
    beside.part();
    groups::<F, V, 0>(batch, [a, b, c, d], group + 4..16, beside)
}

/// The last two rounds up to the key.
#[inline(always)]
fn last<F: Family, V: Lanes, const BEFORE: usize, const LAST: usize>(
    batch: &Batch<V>,
    state: [V; 4],
    beside: &mut impl Beside,
) -> V {
    let state = groups::<F, V, BEFORE>(batch, state, 16 * BEFORE..16 * LAST - 4, beside);
    if batch.key_step < 16 * LAST {
        return stop::<F, V, BEFORE>(batch, state, 16 * LAST - 4);
    }
    let state = groups::<F, V, BEFORE>(batch, state, 16 * LAST - 4..16 * LAST, beside);
    let first = 16 * LAST + ((batch.key_step - 16 * LAST) & 12);
    let state = groups::<F, V, LAST>(batch, state, 16 * LAST..first, beside);
    stop::<F, V, LAST>(batch, state, first)
}

#[inline(always)]
fn round<F: Family, V: Lanes, const ROUND: usize>(
    batch: &Batch<V>,
    state: [V; 4],
    beside: &mut impl Beside,
) -> [V; 4] {
    groups::<F, V, ROUND>(batch, state, 16 * ROUND..16 * ROUND + 16, beside)
}

/// Some groups of a round.
#[inline(always)]
fn groups<F: Family, V: Lanes, const ROUND: usize>(
    batch: &Batch<V>,
    mut state: [V; 4],
    steps: Range<usize>,
    beside: &mut impl Beside,
) -> [V; 4] {
    for added in batch.schedule[steps].chunks_exact(4) {
        let [a, b, c, d] = state;
        let turns = F::TURNS[ROUND];
        let a = step::<F, V, ROUND>(a, b, c, d, added[0], turns[0]);
        let d = step::<F, V, ROUND>(d, a, b, c, added[1], turns[1]);
        let c = step::<F, V, ROUND>(c, d, a, b, added[2], turns[2]);
        let b = step::<F, V, ROUND>(b, c, d, a, added[3], turns[3]);
        state = [a, b, c, d];
        beside.part();
    }
    state
}

/// The outcome of the key's step, in the group that begins at step `first`.
#[inline(always)]
fn stop<F: Family, V: Lanes, const ROUND: usize>(batch: &Batch<V>, state: [V; 4], first: usize) -> V {
    let [a, b, c, d] = state;
    let (added, turns) = (&batch.schedule[first..first + 4], F::TURNS[ROUND]);
    let place = batch.key_step - first;
    let a = step::<F, V, ROUND>(a, b, c, d, added[0], turns[0]);
    if place == 0 {
        return a;
    }
    let d = step::<F, V, ROUND>(d, a, b, c, added[1], turns[1]);
    if place == 1 {
        return d;
    }
    let c = step::<F, V, ROUND>(c, d, a, b, added[2], turns[2]);
    if place == 2 {
        return c;
    }
    step::<F, V, ROUND>(b, c, d, a, added[3], turns[3])
}

#[inline(always)]
fn step<F: Family, V: Lanes, const ROUND: usize>(a: V, b: V, c: V, d: V, added: V, turn: u32) -> V {
    // `a` and `added` are ready early, the mix is not: this order keeps the chain short.
    let turned = a.add(added).add(F::mix::<V, ROUND>(b, c, d)).rotate_left(turn);
    if F::ADDS_B { turned.add(b) } else { turned }
}
