//! The judge: a plain odometer and other people's digests, plus a small seeded source of numbers. It shares
//! no code with the kernels.

use md4::Md4;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use starfarm_kernels::{Hit, Path, Search};
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::spec::Algorithm;

pub(crate) const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Ntlm];

pub(crate) fn digest(algorithm: Algorithm, candidate: &[u8]) -> Vec<u8> {
    match algorithm {
        Algorithm::Md5 => Md5::digest(candidate).to_vec(),
        Algorithm::Sha1 => Sha1::digest(candidate).to_vec(),
        Algorithm::Sha256 => Sha256::digest(candidate).to_vec(),
        Algorithm::Ntlm => {
            let wide: Vec<u8> = candidate.iter().flat_map(|byte| [*byte, 0]).collect();
            Md4::digest(&wide).to_vec()
        }
    }
}

pub(crate) fn length_max(algorithm: Algorithm) -> usize {
    algorithm.candidate_bytes_max()
}

/// The candidate of a unit.
pub(crate) fn candidate(positions: &[Vec<u8>], min: usize, unit: u128) -> Vec<u8> {
    let mut rest = unit;
    for length in min..=positions.len() {
        let count: u128 = positions[..length].iter().map(|a| a.len() as u128).product();
        if rest >= count {
            rest -= count;
            continue;
        }
        let mut candidate = Vec::new();
        for alphabet in positions[..length].iter().rev() {
            candidate.push(alphabet[(rest % alphabet.len() as u128) as usize]);
            rest /= alphabet.len() as u128;
        }
        candidate.reverse();
        return candidate;
    }
    panic!("unit {unit} is outside of the space")
}

/// The paths of this machine. The test of the choice says which ones are skipped.
pub(crate) fn paths() -> Vec<Path> {
    Path::ALL.into_iter().filter(|path| path.is_available()).collect()
}

pub(crate) fn scan(search: &Search, lo: u128, hi: u128) -> Vec<Hit> {
    let mut hits = Vec::new();
    assert_eq!(search.scan(lo, hi, &mut hits, &mut |_| true), hi);
    hits
}

/// Numbers from a seed.
pub(crate) struct Chance(SplitMix64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number in `0..end`.
    pub(crate) fn below(&mut self, end: u128) -> u128 {
        ((u128::from(self.next()) << 64) | u128::from(self.next())) % end
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u128) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next() as u8).take(count).collect()
    }

    /// `size` distinct bytes in no order.
    pub(crate) fn alphabet(&mut self, size: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..=255).collect();
        for i in 0..size {
            let other = i + self.index(256 - i);
            bytes.swap(i, other);
        }
        bytes.truncate(size);
        bytes
    }
}
