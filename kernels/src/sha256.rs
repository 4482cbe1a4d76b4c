//! SHA-256 (FIPS 180-4), one block, in groups of eight steps after which the state's words have their
//! names back.

use crate::block::{Block, Layout, Words};
use crate::digest::{Digest, finish, spread};
use crate::lanes::Lanes;

/// SHA-256 of a candidate's bytes.
pub(crate) struct Sha256;

/// First 32 bits of the fractions of the square roots of the first 8 primes.
#[rustfmt::skip]
const INITIAL: [u32; 8] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];

/// First 32 bits of the fractions of the cube roots of the first 64 primes.
#[rustfmt::skip]
const CONSTANTS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// A batch at hand. What the block does to the words 16 to 31 of the message schedule is added up where a word changes, since most
/// do not.
pub(crate) struct Run<V> {
    block: [V; 16],
    /// The block, each word with the constant of its step.
    added: [V; 16],
    /// What the block adds to the words 16 to 31.
    next: [V; 16],
}

impl Digest for Sha256 {
    const LAYOUT: Layout = Layout { big_endian: true, stride: 1 };
    type Run<V: Lanes> = Run<V>;

    fn key_step(_varying: &[usize]) -> usize {
        0
    }
    #[inline(always)]
    fn start<V: Lanes>(block: &Block, _varying: &[usize]) -> Run<V> {
        let added = std::array::from_fn(|word| V::splat(block[word].wrapping_add(CONSTANTS[word])));
        let next = std::array::from_fn(|to| V::splat(to_next(block, to)));
        Run { block: spread(block), added, next }
    }
    #[inline(always)]
    fn set<V: Lanes>(run: &mut Run<V>, word: usize, values: V) {
        let word = word & 15;
        run.block[word] = values;
        run.added[word] = values.add(V::splat(CONSTANTS[word]));
        for to in REACHES.into_iter().filter_map(|further| word.checked_sub(further)) {
            run.next[to] = to_next(&run.block, to);
        }
    }
    /// The word `a` after 57 steps, the earliest that a digest tells.
    #[inline(always)]
    fn key<V: Lanes>(run: &Run<V>) -> V {
        let (state, message) = before_last(run);
        step(state, message[8], 56)[0]
    }
    fn aim(_block: &Block, _varying: &[usize], digest: &Words) -> u32 {
        earlier(digest, 4)
    }
    fn next_aim(digest: &Words) -> u32 {
        earlier(digest, 3)
    }
    fn digest(block: &Block) -> Words {
        let (state, message) = before_last(&Self::start::<u32>(block, &[]));
        finish(group::<u32, 8>(state, &message, 56), INITIAL)
    }
}

/// The word `a` so many steps before those whose outcomes the digest has. It has the words `a` and `e` of the last four steps, and
/// a step adds the same to the word `a` of four steps before, which gives its `e`, as to what the words `a` in between make, which
/// gives its `a`.
fn earlier(digest: &Words, steps: usize) -> u32 {
    let mut last: [u32; 8] = std::array::from_fn(|word| digest[word].wrapping_sub(INITIAL[word]));
    for _ in 0..steps {
        let [a, x, y, z, e, f, g, h] = last;
        let earlier = e.wrapping_sub(a.wrapping_sub(outer(x, y, z)));
        last = [x, y, z, earlier, f, g, h, 0];
    }
    last[3]
}

/// How much further the words of the block are that word 16 of the schedule is made of.
const REACHES: [usize; 4] = [0, 1, 9, 14];

/// What the words of the block add to word 16 + `to` of the schedule.
#[inline(always)]
fn to_next<V: Lanes>(block: &[V; 16], to: usize) -> V {
    let mut sum = block[to];
    if let Some(word) = block.get(to + 1) {
        sum = sum.add(small0(*word));
    }
    if let Some(word) = block.get(to + 9) {
        sum = sum.add(*word);
    }
    if let Some(word) = block.get(to + 14) {
        sum = sum.add(small1(*word));
    }
    sum
}

/// The state after 56 steps, and the last words of the message schedule.
#[inline(always)]
fn before_last<V: Lanes>(run: &Run<V>) -> ([V; 8], [V; 16]) {
    let mut state = spread(&INITIAL);
    for added in &run.added[..8] {
        state = step_of(state, *added);
    }
    for added in &run.added[8..] {
        state = step_of(state, *added);
    }
    let mut message = run.next;
    for t in 2..7 {
        message[t] = message[t].add(small1(message[t - 2]));
    }
    for t in 7..15 {
        message[t] = message[t].add(small1(message[t - 2])).add(message[t - 7]);
    }
    message[15] = message[15].add(small1(message[13])).add(message[8]).add(small0(message[0]));
    state = group::<V, 0>(state, &message, 16);
    state = group::<V, 8>(state, &message, 24);
    expand(&mut message);
    state = group::<V, 0>(state, &message, 32);
    state = group::<V, 8>(state, &message, 40);
    // Apart, so that what is not used of it costs nothing.
    expand(&mut message);
    (group::<V, 0>(state, &message, 48), message)
}

/// Eight steps from step `first` on, with the message words from `AT` on.
#[inline(always)]
fn group<V: Lanes, const AT: usize>(mut state: [V; 8], message: &[V; 16], first: usize) -> [V; 8] {
    for i in 0..8 {
        state = step(state, message[AT + i], first + i);
    }
    state
}

/// Step number `number`, with its message word.
#[inline(always)]
fn step<V: Lanes>(state: [V; 8], word: V, number: usize) -> [V; 8] {
    step_of(state, word.add(V::splat(CONSTANTS[number])))
}

/// A step with its message word, to which its constant was added.
#[inline(always)]
fn step_of<V: Lanes>([a, b, c, d, e, f, g, h]: [V; 8], added: V) -> [V; 8] {
    let big1 = e.rotate_left(26).parity(e.rotate_left(21), e.rotate_left(7));
    let t1 = h.add(added).add(e.select(f, g)).add(big1);
    [t1.add(outer(a, b, c)), a, b, c, d.add(t1), e, f, g]
}

/// What the words `a` of the three steps before add to the next.
#[inline(always)]
fn outer<V: Lanes>(a: V, b: V, c: V) -> V {
    let big0 = a.rotate_left(30).parity(a.rotate_left(19), a.rotate_left(10));
    big0.add(a.majority(b, c))
}

/// The next 16 words of the message schedule, in place.
#[inline(always)]
fn expand<V: Lanes>(message: &mut [V; 16]) {
    for t in 0..16 {
        let (w15, w2) = (message[(t + 1) & 15], message[(t + 14) & 15]);
        message[t] = message[t].add(small0(w15)).add(message[(t + 9) & 15]).add(small1(w2));
    }
}

#[inline(always)]
fn small0<V: Lanes>(word: V) -> V {
    word.rotate_left(25).parity(word.rotate_left(14), word.shift_right(3))
}

#[inline(always)]
fn small1<V: Lanes>(word: V) -> V {
    word.rotate_left(15).parity(word.rotate_left(13), word.shift_right(10))
}
