//! What MD4 and MD5 share: rounds of sixteen steps over four words, in groups of four steps after which
//! the words have their names back. Orders, constants and the steps themselves are in `ntlm` and `md5`.

use crate::block::{Block, Layout, Words};
use crate::digest::{Beside, Digest, finish, spread};
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
    type Fixed = [u32; STEPS_MAX];
    type Batch<V: Lanes> = Batch<V>;

    fn key_step(varying: &[usize]) -> usize {
        last_use::<F>(varying) - 3
    }
    fn fixed(block: &Block, _varying: &[usize]) -> [u32; STEPS_MAX] {
        let added = |step: usize| block[usize::from(F::ORDER[step])].wrapping_add(F::CONSTANTS[step]);
        std::array::from_fn(added)
    }
    #[inline(always)]
    fn start<V: Lanes>(_varying: &[usize], key_words: &[usize]) -> Batch<V> {
        let zero = V::splat(0);
        let last_groups = (key_step::<F>(key_words) - 16 * (F::ROUNDS - 1)) / 4;
        Batch { tail: [zero; 16], schedule: [zero; STEPS_MAX], last_groups }
    }
    #[inline(always)]
    fn turn<V: Lanes>(batch: &mut Batch<V>, word: usize, values: V) {
        batch.tail[word & 15] = values;
    }
    #[inline(always)]
    fn set<V: Lanes>(batch: &mut Batch<V>, fixed: &[u32; STEPS_MAX], words: &[usize]) {
        for word in words.iter().map(|word| word & 15) {
            for step in &F::USES[word][..F::ROUNDS] {
                let step = usize::from(*step) % STEPS_MAX;
                batch.schedule[step] = batch.tail[word].add(V::splat(fixed[step]));
            }
        }
    }
    #[inline(always)]
    fn key<V: Lanes>(batch: &Batch<V>, _fixed: &[u32; STEPS_MAX], beside: &mut impl Beside) -> V {
        let mut state = spread(&INITIAL);
        state = round::<F, V, 0>(state, &batch.schedule[..16], beside);
        state = round::<F, V, 1>(state, &batch.schedule[16..32], beside);
        let first = 16 * (F::ROUNDS - 1);
        let last = &batch.schedule[first..first + 16];
        let (groups, rest) = last.split_at(4 * (batch.last_groups & 3));
        if F::ROUNDS == 4 {
            state = round::<F, V, 2>(state, &batch.schedule[32..48], beside);
            let [a, b, c, d] = round::<F, V, 3>(state, groups, beside);
            step::<F, V, 3>(a, b, c, d, rest[0], F::TURNS[3][0])
        } else {
            let [a, b, c, d] = round::<F, V, 2>(state, groups, beside);
            step::<F, V, 2>(a, b, c, d, rest[0], F::TURNS[2][0])
        }
    }
    fn aim(block: &Block, varying: &[usize], digest: &Words) -> u32 {
        // Takes the steps after the key's back.
        let [mut a, mut b, mut c, mut d] = [0, 1, 2, 3].map(|i| digest[i].wrapping_sub(INITIAL[i]));
        for step in (key_step::<F>(varying) + 1..16 * F::ROUNDS).rev() {
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
        let schedule = F::fixed(block, &[]);
        let mut state = INITIAL;
        state = round::<F, u32, 0>(state, &schedule[..16], &mut ());
        state = round::<F, u32, 1>(state, &schedule[16..32], &mut ());
        state = round::<F, u32, 2>(state, &schedule[32..48], &mut ());
        if F::ROUNDS == 4 {
            state = round::<F, u32, 3>(state, &schedule[48..], &mut ());
        }
        finish(state, INITIAL)
    }
}

/// The batch at hand: message word plus constant for each step, and where to stop.
pub(crate) struct Batch<V> {
    /// The tail's part of the block.
    tail: [V; 16],
    schedule: [V; STEPS_MAX],
    /// Whole groups to take in the last round, before the one step that yields the key.
    last_groups: usize,
}

/// The step whose outcome is the key. Once the last use of a varying word is passed, the rest can be
/// taken back from the digest, which leaves the outcomes of the four steps up to that use; one of
/// these four steps opens a group, and a stop there needs no code of its own.
fn key_step<F: Family>(varying: &[usize]) -> usize {
    last_use::<F>(varying) & !3
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

#[inline(always)]
fn round<F: Family, V: Lanes, const ROUND: usize>(
    mut state: [V; 4],
    schedule: &[V],
    beside: &mut impl Beside,
) -> [V; 4] {
    for added in schedule.chunks_exact(4) {
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

#[inline(always)]
fn step<F: Family, V: Lanes, const ROUND: usize>(a: V, b: V, c: V, d: V, added: V, turn: u32) -> V {
    // `a` and `added` are ready early, the mix is not: this order keeps the chain short.
    let turned = a.add(added).add(F::mix::<V, ROUND>(b, c, d)).rotate_left(turn);
    if F::ADDS_B { turned.add(b) } else { turned }
}
