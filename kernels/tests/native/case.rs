//! Random spaces, intervals in them and targets for these, and what the judge says of them: who computes candidates in
//! another way is compared with that.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::judge::{Chance, candidate, digest};
use starfarm_kernels::{Hit, Search};
use starfarm_protocol::spec::Algorithm;

pub(crate) struct Case {
    pub(crate) algorithm: Algorithm,
    pub(crate) positions: Vec<Vec<u8>>,
    pub(crate) min: usize,
}

impl Case {
    /// Candidates of at most 1 to `longest` bytes.
    pub(crate) fn random(chance: &mut Chance, algorithm: Algorithm, longest: usize) -> Case {
        let length = 1 + chance.index(longest);
        Self::of_length(chance, algorithm, length)
    }

    /// Candidates of at most `length` bytes.
    pub(crate) fn of_length(chance: &mut Chance, algorithm: Algorithm, length: usize) -> Case {
        let positions = alphabets(chance, length);
        Case { algorithm, min: 1 + chance.index(positions.len()), positions }
    }

    pub(crate) fn units(&self) -> u128 {
        self.first(self.positions.len() + 1)
    }

    /// The first unit of the candidates of that length; behind the longest ones, the number of all.
    pub(crate) fn first(&self, length: usize) -> u128 {
        let of =
            |length| self.positions[..length].iter().map(|a: &Vec<u8>| a.len() as u128).product::<u128>();
        (self.min..length).map(of).sum()
    }

    pub(crate) fn candidate(&self, unit: u128) -> Vec<u8> {
        candidate(&self.positions, self.min, unit)
    }

    pub(crate) fn digest(&self, unit: u128) -> Vec<u8> {
        digest(self.algorithm, &self.candidate(unit))
    }

    pub(crate) fn search(&self, targets: &[Vec<u8>]) -> Search {
        let search = Search::new(self.algorithm, &self.positions, self.min, targets).unwrap();
        assert_eq!(search.units(), self.units());
        search
    }

    /// What a scan of these units has to find.
    pub(crate) fn judge(&self, units: impl IntoIterator<Item = u128>, targets: &[Vec<u8>]) -> Vec<Hit> {
        let index: HashMap<&[u8], u32> = targets.iter().map(Vec::as_slice).zip(0..).collect();
        let hit = |unit| index.get(self.digest(unit).as_slice()).map(|target| Hit { unit, target: *target });
        units.into_iter().filter_map(hit).collect()
    }

    /// Up to `most` units somewhere in the space, often at a seam: its ends, a change of length.
    pub(crate) fn interval(&self, chance: &mut Chance, most: u128) -> (u128, u128) {
        let units = self.units();
        let width = match chance.index(6) {
            0 => 1,
            1 => 1 + chance.below(130),
            _ => 1 + chance.below(most),
        }
        .min(units);
        let seam = self.first(self.min + chance.index(self.positions.len() + 1 - self.min));
        let lo = match chance.index(4) {
            0 => 0,
            1 => units - width,
            2 => seam.saturating_sub(width / 2).min(units - width),
            _ => chance.below(units - width + 1),
        };
        (lo, lo + width)
    }

    /// `count` distinct digests: those of each interval's first and last unit and of some in it, of its
    /// neighbours outside, and of nothing.
    pub(crate) fn targets(
        &self,
        chance: &mut Chance,
        intervals: &[(u128, u128)],
        count: usize,
    ) -> Vec<Vec<u8>> {
        let ends = intervals.iter().flat_map(|(lo, hi)| [hi - 1, *lo]);
        let beside = intervals.iter().flat_map(|(lo, hi)| [lo.checked_sub(1), Some(*hi)]).flatten();
        let mut planted: Vec<u128> = ends.chain(beside.filter(|unit| *unit < self.units())).collect();
        for (lo, hi) in intervals {
            planted.extend((0..count.min(40)).map(|_| lo + chance.below(hi - lo)));
        }
        // The first interval has the first target, at its last unit or its first.
        let other = chance.index(2);
        planted.swap(0, other);
        planted.truncate(count);
        let mut seen = HashSet::new();
        let planted = planted.into_iter().map(|unit| self.digest(unit));
        let mut targets: Vec<_> = planted.filter(|digest| seen.insert(digest.clone())).collect();
        while targets.len() < count {
            targets.push(chance.bytes(self.algorithm.digest_bytes()));
        }
        for i in (1..targets.len()).rev() {
            let other = chance.index(i + 1);
            targets.swap(i, other);
        }
        targets
    }
}

/// What a failure says of it.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.positions.iter().map(Vec::len).collect();
        write!(f, "{:?} {sizes:?} min {}", self.algorithm, self.min)
    }
}

/// An alphabet for each position, of up to 64: all candidates together are fewer than 2^128.
fn alphabets(chance: &mut Chance, length: usize) -> Vec<Vec<u8>> {
    let sizes = [1, 1, 2, 3, 10, 26, 62, 95, 255, 256];
    let mut room = u128::MAX / 64;
    let any_alphabet = |_| {
        let size = sizes.get(chance.index(2 * sizes.len())).copied().unwrap_or(1 + chance.index(256));
        let size = if room >= size as u128 { size } else { 1 };
        room /= size as u128;
        chance.alphabet(size)
    };
    (0..length).map(any_alphabet).collect()
}
