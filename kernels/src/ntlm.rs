//! NTLM: MD4 (RFC 1320) over the candidate's bytes, each widened to 16 bits: orders, constants and mixing
//! functions. The steps themselves are in `md`.

use crate::lanes::Lanes;
use crate::md::Family;

/// MD4 of a candidate's bytes widened to UTF-16, little endian.
pub(crate) struct Ntlm;

/// MD4 has 48 steps; the rest is not used.
#[rustfmt::skip]
const ORDER: [u8; 64] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Nothing, then the square roots of 2 and 3 times 2^30.
const CONSTANTS: [u32; 64] = {
    let mut constants = [0; 64];
    let mut step = 16;
    while step < 48 {
        constants[step] = if step < 32 { 0x5a82_7999 } else { 0x6ed9_eba1 };
        step += 1;
    }
    constants
};

impl Family for Ntlm {
    const ROUNDS: usize = 3;
    const ORDER: [u8; 64] = ORDER;
    const CONSTANTS: [u32; 64] = CONSTANTS;
    const TURNS: [[u32; 4]; 4] = [[3, 7, 11, 19], [3, 5, 9, 13], [3, 9, 11, 15], [0; 4]];
    const ADDS_B: bool = false;
    const STRIDE: usize = 2;

    #[inline(always)]
    fn mix<V: Lanes, const ROUND: usize>(b: V, c: V, d: V) -> V {
        match ROUND {
            0 => b.select(c, d),
            1 => b.majority(c, d),
            _ => b.parity(c, d),
        }
    }
}
