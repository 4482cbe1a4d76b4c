//! SHA-256 (FIPS 180-4), one block, in groups of eight steps after which the state's words have their
//! names back.

use crate::block::{Block, Layout, Words};
use crate::digest::{Beside, Digest, finish, first_varying, single, spread};
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
pub(crate) const CONSTANTS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// The message words of a batch. What the block does to the words 16 to 31 of the message schedule is added up where a word
/// changes, since most do not.
pub(crate) struct Batch<V> {
    /// The tail's part of the block, and what the schedule makes of it.
    tail: [V; 16],
    small0: [V; 16],
    small1: [V; 16],
    /// A bit for each word that has such a part.
    varying: u32,
    /// The first of them.
    from: usize,
    /// The block, each word with the constant of its step.
    first: [V; 16],
    /// What the block adds to the words 16 to 31.
    next: [V; 16],
}

/// The same of a run's part.
pub(crate) struct Fixed {
    /// After the step of the first word with a tail's part, which is not yet added.
    state: [u32; 8],
    first: [u32; 16],
    small0: [u32; 16],
    small1: [u32; 16],
    /// What is added to the words 16 to 31, but for the exclusive ors with the tail's part.
    next: [u32; 16],
}

impl Digest for Sha256 {
    const LAYOUT: Layout = Layout { big_endian: true, stride: 1 };
    const RUNS: usize = 8;
    const PARTS: usize = 7;
    type Fixed = Fixed;
    type Batch<V: Lanes> = Batch<V>;

    fn key_step(_varying: &[usize]) -> usize {
        0
    }
    fn fixed(block: &Block, varying: &[usize]) -> Fixed {
        let small = |of: fn(u32) -> u32, further: usize, to: usize| match to + further {
            word if word < 16 && !varying.contains(&word) => of(block[word]),
            _ => 0,
        };
        let next = |to: usize| {
            let plain = block[to].wrapping_add(block.get(to + 9).copied().unwrap_or(0));
            plain.wrapping_add(small(small0, 1, to)).wrapping_add(small(small1, 14, to))
        };
        let first: [u32; 16] = std::array::from_fn(|word| block[word].wrapping_add(CONSTANTS[word]));
        let known = &first[..=first_varying(varying)];
        Fixed {
            state: known.iter().fold(INITIAL, |state, added| step_of(state, *added)),
            first,
            small0: block.map(small0),
            small1: block.map(small1),
            next: std::array::from_fn(next),
        }
    }
    #[inline(always)]
    fn start<V: Lanes>(varying: &[usize], _key_words: &[usize]) -> Batch<V> {
        let [tail, small0, small1, first, next] = [[V::splat(0); 16]; 5];
        Batch {
            tail,
            small0,
            small1,
            varying: varying.iter().fold(0, |bits, word| bits | 1 << word),
            from: first_varying(varying),
            first,
            next,
        }
    }
    #[inline(always)]
    fn turn<V: Lanes>(batch: &mut Batch<V>, word: usize, values: V) {
        let word = word & 15;
        batch.tail[word] = values;
        batch.small0[word] = small0(values);
        batch.small1[word] = small1(values);
    }
    #[inline(always)]
    fn set<V: Lanes>(batch: &mut Batch<V>, fixed: &Fixed, words: &[usize]) {
        let mut reached = 0u32;
        for word in words.iter().map(|word| word & 15) {
            batch.first[word] = batch.tail[word].add(V::splat(fixed.first[word]));
            reached |= REACHES
                .into_iter()
                .filter(|further| word >= *further)
                .fold(0, |bits, f| bits | 1 << (word - f));
        }
        while reached != 0 {
            let to = reached.trailing_zeros() as usize & 15;
            reached &= reached - 1;
            batch.next[to] = batch.to_next(fixed, to);
        }
    }
    /// The word `a` after 57 steps, the earliest that a digest tells.
    #[inline(always)]
    fn key<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> V {
        let (state, message) = before_last(batch, fixed, beside);
        step(state, message[8], 56)[0]
    }
    fn aim(_block: &Block, _varying: &[usize], digest: &Words) -> u32 {
        earlier(digest, 4)
    }
    fn next_aim(digest: &Words) -> u32 {
        earlier(digest, 3)
    }
    fn digest(block: &Block) -> Words {
        let (batch, fixed) = single::<Self>(block);
        let (state, message) = before_last(&batch, &fixed, &mut ());
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

impl<V: Lanes> Batch<V> {
    /// What the words of the block add to word 16 + `to` of the schedule.
    #[inline(always)]
    fn to_next(&self, fixed: &Fixed, to: usize) -> V {
        let varies = |word: usize| self.varying >> word & 1 != 0;
        let mut sum = V::splat(fixed.next[to]);
        if varies(to) {
            sum = sum.add(self.tail[to]);
        }
        if varies(to + 1) {
            sum = sum.add(self.small0[(to + 1) & 15].xor(V::splat(fixed.small0[(to + 1) & 15])));
        }
        if varies(to + 9) {
            sum = sum.add(self.tail[(to + 9) & 15]);
        }
        if varies(to + 14) {
            sum = sum.add(self.small1[(to + 14) & 15].xor(V::splat(fixed.small1[(to + 14) & 15])));
        }
        sum
    }
}

/// The state after the first `steps` steps of a block, 16 at most.
pub(crate) fn state_before(block: &Block, steps: usize) -> [u32; 8] {
    let words = block.iter().zip(CONSTANTS).take(steps);
    words.fold(INITIAL, |state, (word, constant)| step_of(state, word.wrapping_add(constant)))
}

/// The state after 56 steps, and the last words of the message schedule.
#[inline(always)]
fn before_last<V: Lanes>(batch: &Batch<V>, fixed: &Fixed, beside: &mut impl Beside) -> ([V; 8], [V; 16]) {
    let from = batch.from & 15;
    let mut state: [V; 8] = spread(&fixed.state);
    for word in [0, 4] {
        state[word] = state[word].add(batch.tail[from]);
    }
    let (middle, first) = (8.max(from + 1), &batch.first[..]);
    for added in [&first[from + 1..middle], &first[middle..]] {
        for added in added {
            state = step_of(state, *added);
        }
        beside.part();
    }
    let mut message = batch.next;
    for t in 2..7 {
        message[t] = message[t].add(small1(message[t - 2]));
    }
    for t in 7..15 {
        message[t] = message[t].add(small1(message[t - 2])).add(message[t - 7]);
    }
    message[15] = message[15].add(small1(message[13])).add(message[8]).add(small0(message[0]));
    state = group::<V, 0>(state, &message, 16);
    beside.part();
    state = group::<V, 8>(state, &message, 24);
    beside.part();
    expand(&mut message);
    state = group::<V, 0>(state, &message, 32);
    beside.part();
    state = group::<V, 8>(state, &message, 40);
    beside.part();
    // Apart, so that what is not used of it costs nothing.
    expand(&mut message);
    state = group::<V, 0>(state, &message, 48);
    beside.part();
    (state, message)
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
