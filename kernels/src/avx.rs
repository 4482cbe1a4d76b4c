//! The AVX-512 and AVX2 paths. The vector types are private to this file and used under `featured` alone, which
//! nobody gets before the processor was asked: that is what makes each `unsafe` below sound.
#![allow(unsafe_code)]

mod sha_ni;

use std::arch::x86_64::*;

use starfarm_protocol::spec::Algorithm;

use crate::digest::Digest;
use crate::lanes::{Lanes, Wide};
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::run::{Found, Piece, Runner, scan};
use crate::sha1::Sha1;
use crate::sha256::Sha256;
use sha_ni::ShaNi;

/// Declares the path of a processor's feature: its vector, and the inner loop for each algorithm. `$md` and so on say
/// how many vectors go side by side, as measured: more of them hide more of a step's latency, until the registers are
/// full and what is spilled costs more. A digest with more state has fewer.
macro_rules! path {
    (
        $(#[$doc:meta])* $runner:ident, $vector:ident($register:ty), $feature:tt: $lanes:literal lanes,
        side by side: $md:literal $sha1:literal $sha256:literal,
        $splat:ident $load:ident $store:ident $shift_right:ident, $($pairwise:ident: $instruction:ident)*
        { $($rest:tt)* }
    ) => {
        $(#[$doc])*
        pub(crate) fn $runner(algorithm: Algorithm) -> Option<Runner> {
            fn entry<D: Digest, const SETS: usize>(piece: &Piece<'_>, found: &mut Vec<Found>) {
                // SAFETY: this is handed out only where the processor has the feature.
                unsafe { featured::<D, SETS>(piece, found) }
            }

            #[target_feature(enable = $feature)]
            fn featured<D: Digest, const SETS: usize>(piece: &Piece<'_>, found: &mut Vec<Found>) {
                scan::<D, Wide<$vector, SETS>>(piece, found);
            }

            is_x86_feature_detected!($feature).then_some(match algorithm {
                Algorithm::Md5 => entry::<Md5, $md>,
                Algorithm::Ntlm => entry::<Ntlm, $md>,
                Algorithm::Sha1 => entry::<Sha1, $sha1>,
                Algorithm::Sha256 => entry::<Sha256, $sha256>,
            })
        }

        #[derive(Clone, Copy)]
        struct $vector($register);

        impl Lanes for $vector {
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(word: u32) -> Self {
                featured!($vector($splat(word as i32)))
            }
            #[inline(always)]
            fn load(from: &[u32]) -> Self {
                let from: *const u32 = from[..Self::LANES].as_ptr();
                // SAFETY: as in `featured!`; the slice has as many words as are read, and no alignment is asked.
                unsafe { $vector($load(from.cast())) }
            }
            #[inline(always)]
            fn store(self, to: &mut [u32]) {
                let to: *mut u32 = to[..Self::LANES].as_mut_ptr();
                // SAFETY: as in `featured!`; the slice has room for what is written, and no alignment is asked.
                unsafe { $store(to.cast(), self.0) }
            }
            $(
                #[inline(always)]
                fn $pairwise(self, other: Self) -> Self {
                    featured!($vector($instruction(self.0, other.0)))
                }
            )*
            #[inline(always)]
            fn not(self) -> Self {
                self.xor(Self::splat(!0))
            }
            #[inline(always)]
            fn shift_right(self, bits: u32) -> Self {
                featured!($vector($shift_right(self.0, Self::splat(bits).0)))
            }
            $($rest)*
        }
    };
}

/// Runs instructions of the feature in a method of a vector.
macro_rules! featured {
    ($e:expr) => {
        // SAFETY: a vector is made and used under its path's `featured` alone, where the feature is on.
        unsafe { $e }
    };
}

path! {
    /// The inner loop for an algorithm; none where the processor has no AVX-512. It has 32 registers.
    avx512, Zmm(__m512i), "avx512f": 16 lanes, side by side: 5 4 3,
    _mm512_set1_epi32 _mm512_loadu_si512 _mm512_storeu_si512 _mm512_srlv_epi32,
    add: _mm512_add_epi32 xor: _mm512_xor_si512 and: _mm512_and_si512 or: _mm512_or_si512
    {
        #[inline(always)]
        fn rotate_left(self, bits: u32) -> Self {
            featured!(Zmm(_mm512_rolv_epi32(self.0, Self::splat(bits).0)))
        }
        #[inline(always)]
        fn matches(self, other: Self) -> u32 {
            u32::from(featured!(_mm512_cmpeq_epi32_mask(self.0, other.0)))
        }
        #[inline(always)]
        fn equal(self, other: Self) -> u128 {
            self.matches(other).into()
        }
        #[inline(always)]
        fn bit(self) -> Self {
            featured!(Zmm(_mm512_sllv_epi32(Self::splat(1).0, self.0)))
        }
        // One instruction each, whose constant is the outcome for each of the eight cases. LLVM does not always find it.
        #[inline(always)]
        fn select(self, yes: Self, no: Self) -> Self {
            featured!(Zmm(_mm512_ternarylogic_epi32::<0b1100_1010>(self.0, yes.0, no.0)))
        }
        #[inline(always)]
        fn majority(self, y: Self, z: Self) -> Self {
            featured!(Zmm(_mm512_ternarylogic_epi32::<0b1110_1000>(self.0, y.0, z.0)))
        }
        #[inline(always)]
        fn parity(self, y: Self, z: Self) -> Self {
            featured!(Zmm(_mm512_ternarylogic_epi32::<0b1001_0110>(self.0, y.0, z.0)))
        }
    }
}

/// The inner loop for an algorithm; none where the processor has no AVX2 or no instructions for SHA.
pub(crate) fn sha(algorithm: Algorithm) -> Option<Runner> {
    fn entry(piece: &Piece<'_>, found: &mut Vec<Found>) {
        // SAFETY: this is handed out only where the processor has the features.
        unsafe { featured(piece, found) }
    }

    #[target_feature(enable = "avx2,sha")]
    fn featured(piece: &Piece<'_>, found: &mut Vec<Found>) {
        scan::<ShaNi, Ymm>(piece, found);
    }

    let others = avx2(algorithm).filter(|_| is_x86_feature_detected!("sha"))?;
    Some(if algorithm == Algorithm::Sha256 { entry } else { others })
}

path! {
    /// The inner loop for an algorithm; none where the processor has no AVX2. It has 16 registers.
    avx2, Ymm(__m256i), "avx2": 8 lanes, side by side: 4 2 2,
    _mm256_set1_epi32 _mm256_loadu_si256 _mm256_storeu_si256 _mm256_srlv_epi32,
    add: _mm256_add_epi32 xor: _mm256_xor_si256 and: _mm256_and_si256 or: _mm256_or_si256
    {
        #[inline(always)]
        fn rotate_left(self, bits: u32) -> Self {
            let left = featured!(Ymm(_mm256_sllv_epi32(self.0, Self::splat(bits).0)));
            left.or(self.shift_right(32 - bits))
        }
        #[inline(always)]
        fn matches(self, other: Self) -> u32 {
            featured!(_mm256_movemask_epi8(_mm256_cmpeq_epi32(self.0, other.0))) as u32
        }
        #[inline(always)]
        fn equal(self, other: Self) -> u128 {
            let same = featured!(_mm256_castsi256_ps(_mm256_cmpeq_epi32(self.0, other.0)));
            featured!(_mm256_movemask_ps(same)) as u128
        }
        #[inline(always)]
        fn bit(self) -> Self {
            featured!(Ymm(_mm256_sllv_epi32(Self::splat(1).0, self.0)))
        }
    }
}
