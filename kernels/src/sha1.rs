//! SHA-1 (FIPS 180-4), one block, in groups of five steps after which the state's words have their names
//! back.

use crate::block::{Block, Layout, Words};
use crate::digest::{Digest, finish, spread};
use crate::lanes::Lanes;

/// SHA-1 of a candidate's bytes.
pub(crate) struct Sha1;

const INITIAL: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
/// One constant for each 20 steps.
const CONSTANTS: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];

impl Digest for Sha1 {
    const LAYOUT: Layout = Layout { big_endian: true, stride: 1 };
    type Run<V: Lanes> = [V; 16];

    fn key_step(_varying: &[usize]) -> usize {
        0
    }
    #[inline(always)]
    fn start<V: Lanes>(block: &Block, _varying: &[usize]) -> [V; 16] {
        spread(block)
    }
    #[inline(always)]
    fn set<V: Lanes>(run: &mut [V; 16], word: usize, values: V) {
        run[word & 15] = values;
    }
    #[inline(always)]
    fn key<V: Lanes>(run: &[V; 16]) -> V {
        key(*run)
    }
    fn aim(_block: &Block, _varying: &[usize], digest: &Words) -> u32 {
        aim(digest)
    }
    fn next_aim(digest: &Words) -> u32 {
        next_aim(digest)
    }
    fn digest(block: &Block) -> Words {
        finish(compress(*block), INITIAL)
    }
}

/// The last word of the state, which is ready four steps before the others; those are left out by the compiler.
#[inline(always)]
fn key<V: Lanes>(message: [V; 16]) -> V {
    compress(message)[4]
}

fn aim(digest: &Words) -> u32 {
    digest[4].wrapping_sub(INITIAL[4])
}

fn next_aim(digest: &Words) -> u32 {
    digest[3].wrapping_sub(INITIAL[3])
}

/// The state after 80 steps, the initial words not yet added.
#[inline(always)]
fn compress<V: Lanes>(mut message: [V; 16]) -> [V; 5] {
    let mut state = spread(&INITIAL);
    for first in [0, 5, 10, 15] {
        state = group::<V, 0>(state, &mut message, first);
    }
    for first in [20, 25, 30, 35] {
        state = group::<V, 1>(state, &mut message, first);
    }
    for first in [40, 45, 50, 55] {
        state = group::<V, 2>(state, &mut message, first);
    }
    for first in [60, 65, 70] {
        state = group::<V, 3>(state, &mut message, first);
    }
    // Apart from the loop, so that a caller who wants one word pays for no more.
    group::<V, 3>(state, &mut message, 75)
}

/// Five steps from step `first` on; `PART` is the group of 20 steps they belong to.
#[inline(always)]
fn group<V: Lanes, const PART: usize>(state: [V; 5], message: &mut [V; 16], first: usize) -> [V; 5] {
    let [mut a, mut b, mut c, mut d, mut e] = state;
    for t in first..first + 5 {
        let mix = match PART {
            0 => b.select(c, d),
            2 => b.majority(c, d),
            _ => b.parity(c, d),
        };
        let added = e.add(word(message, t)).add(V::splat(CONSTANTS[PART]));
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, added.add(mix).add(a.rotate_left(5)));
    }
    [a, b, c, d, e]
}

/// Word `t` of the message schedule; from word 16 on it takes the place of the one 16 before.
#[inline(always)]
fn word<V: Lanes>(message: &mut [V; 16], t: usize) -> V {
    if t >= 16 {
        let mixed = message[(t + 13) & 15].xor(message[(t + 8) & 15]).xor(message[(t + 2) & 15]);
        message[t & 15] = mixed.xor(message[t & 15]).rotate_left(1);
    }
    message[t & 15]
}
