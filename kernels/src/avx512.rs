//! The AVX-512 path. The vector type is private to this file and used under `entry` alone, which nobody
//! gets before the processor was asked: that is what makes each `unsafe` below sound.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use starfarm_protocol::spec::Algorithm;

use crate::digest::Digest;
use crate::lanes::{Lanes, Wide};
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::run::{Found, Piece, Runner, scan};
use crate::sha1::Sha1;
use crate::sha256::Sha256;

/// The inner loop for an algorithm; none where the processor has no AVX-512. How many vectors go side by
/// side is measured: more of them hide more of a step's latency, until the 32 registers are full and
/// what is spilled costs more. A digest with more state has fewer.
pub(crate) fn runner(algorithm: Algorithm) -> Option<Runner> {
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    Some(match algorithm {
        Algorithm::Md5 => entry::<Md5, 6>,
        Algorithm::Ntlm => entry::<Ntlm, 6>,
        Algorithm::Sha1 => entry::<Sha1, 4>,
        Algorithm::Sha256 => entry::<Sha256, 3>,
    })
}

fn entry<D: Digest, const SETS: usize>(piece: &Piece<'_>, found: &mut Vec<Found>) {
    // SAFETY: only `runner` hands this function out, and only where the processor has the feature.
    unsafe { featured::<D, SETS>(piece, found) }
}

#[target_feature(enable = "avx512f")]
fn featured<D: Digest, const SETS: usize>(piece: &Piece<'_>, found: &mut Vec<Found>) {
    scan::<D, Wide<Zmm, SETS>>(piece, found);
}

/// 16 words.
#[derive(Clone, Copy)]
struct Zmm(__m512i);

/// Runs instructions of the feature in a method of [`Zmm`].
macro_rules! featured {
    ($e:expr) => {
        // SAFETY: a `Zmm` is made and used under `featured` alone, where the feature is on.
        unsafe { $e }
    };
}

impl Lanes for Zmm {
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        featured!(Zmm(_mm512_set1_epi32(word as i32)))
    }
    #[inline(always)]
    fn load(from: &[u32]) -> Self {
        let from: *const u32 = from[..Self::LANES].as_ptr();
        // SAFETY: as in `featured!`; the slice has as many words as are read, and no alignment is asked.
        unsafe { Zmm(_mm512_loadu_si512(from.cast())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32]) {
        let to: *mut u32 = to[..Self::LANES].as_mut_ptr();
        // SAFETY: as in `featured!`; the slice has room for what is written, and no alignment is asked.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        featured!(Zmm(_mm512_add_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        featured!(Zmm(_mm512_xor_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        featured!(Zmm(_mm512_and_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        featured!(Zmm(_mm512_or_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn not(self) -> Self {
        self.xor(Self::splat(!0))
    }
    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        featured!(Zmm(_mm512_rolv_epi32(self.0, _mm512_set1_epi32(bits as i32))))
    }
    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        featured!(Zmm(_mm512_srlv_epi32(self.0, _mm512_set1_epi32(bits as i32))))
    }
    #[inline(always)]
    fn matches(self, other: Self) -> u32 {
        u32::from(featured!(_mm512_cmpeq_epi32_mask(self.0, other.0)))
    }
}
