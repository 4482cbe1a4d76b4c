//! The path for any processor: bundles of plain words, which the compiler turns into the vectors that
//! every processor of the architecture has (SSE2, NEON).

use starfarm_protocol::spec::Algorithm;

use crate::digest::Digest;
use crate::lanes::Wide;
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::run::{Found, Piece, Runner, scan};
use crate::sha1::Sha1;
use crate::sha256::Sha256;

/// The inner loop for an algorithm. The widths are measured on x86-64 (SSE2).
pub(crate) fn runner(algorithm: Algorithm) -> Runner {
    match algorithm {
        Algorithm::Md5 => entry::<Md5, 4>,
        Algorithm::Ntlm => entry::<Ntlm, 4>,
        Algorithm::Sha1 => entry::<Sha1, 2>,
        Algorithm::Sha256 => entry::<Sha256, 2>,
    }
}

fn entry<D: Digest, const SETS: usize>(piece: &Piece<'_>, found: &mut Vec<Found>) {
    scan::<D, Wide<u32, SETS>>(piece, found);
}
