//! The NEON path. Each processor of this architecture has it, so that nobody need be asked.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use starfarm_protocol::spec::Algorithm;

use crate::lanes::{Lanes, Wide};
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::run::{Runner, scan};
use crate::sha1::Sha1;
use crate::sha256::Sha256;

/// Four words.
#[derive(Clone, Copy)]
struct Quad(uint32x4_t);

/// The inner loop for an algorithm. There are 32 registers; a digest with more state has fewer vectors side by side.
pub(crate) fn neon(algorithm: Algorithm) -> Runner {
    match algorithm {
        Algorithm::Md5 => scan::<Md5, Wide<Quad, 4>>,
        Algorithm::Ntlm => scan::<Ntlm, Wide<Quad, 4>>,
        Algorithm::Sha1 => scan::<Sha1, Wide<Quad, 3>>,
        Algorithm::Sha256 => scan::<Sha256, Wide<Quad, 2>>,
    }
}

/// Runs instructions of NEON.
macro_rules! neon {
    ($e:expr) => {
        // SAFETY: the architecture has them all.
        unsafe { $e }
    };
}

impl Lanes for Quad {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        neon!(Quad(vdupq_n_u32(word)))
    }
    #[inline(always)]
    fn load(from: &[u32]) -> Self {
        let from: *const u32 = from[..Self::LANES].as_ptr();
        // SAFETY: the slice has as many words as are read, and no alignment is asked.
        unsafe { Quad(vld1q_u32(from)) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32]) {
        let to: *mut u32 = to[..Self::LANES].as_mut_ptr();
        // SAFETY: the slice has room for what is written, and no alignment is asked.
        unsafe { vst1q_u32(to, self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        neon!(Quad(vaddq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        neon!(Quad(veorq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        neon!(Quad(vandq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        neon!(Quad(vorrq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn not(self) -> Self {
        neon!(Quad(vmvnq_u32(self.0)))
    }
    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        // A shift to the left by less than nothing is one to the right.
        let [left, right] = [bits as i32, bits as i32 - 32].map(|by| neon!(vdupq_n_s32(by)));
        neon!(Quad(vorrq_u32(vshlq_u32(self.0, left), vshlq_u32(self.0, right))))
    }
    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        neon!(Quad(vshlq_u32(self.0, vdupq_n_s32(-(bits as i32)))))
    }
    #[inline(always)]
    fn matches(self, other: Self) -> u32 {
        neon!(vmaxvq_u32(vceqq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn equal(self, other: Self) -> u128 {
        let same = neon!(vandq_u32(vceqq_u32(self.0, other.0), vld1q_u32([1, 2, 4, 8].as_ptr())));
        neon!(vaddvq_u32(same)).into()
    }
    #[inline(always)]
    fn bit(self) -> Self {
        neon!(Quad(vshlq_u32(vdupq_n_u32(1), vreinterpretq_s32_u32(self.0))))
    }
    #[inline(always)]
    fn select(self, yes: Self, no: Self) -> Self {
        neon!(Quad(vbslq_u32(self.0, yes.0, no.0)))
    }
}
