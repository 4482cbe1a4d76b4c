//! The candidates as an indexed space: from a unit index to its place, and from there on run by run.
//!
//! The last position turns fastest, so a candidate is cut in two: its *tail*, the last few positions, runs
//! through a table of ready-made message words, while the rest stays the same. One turn of the tail is a
//! *run*; between runs the rest steps on like an odometer. Hashing is not done here.

use std::sync::OnceLock;

use crate::SearchError;
use crate::block::{Block, Layout};
use crate::tail::Tail;

/// All candidates.
pub(crate) struct Space {
    layout: Layout,
    positions: Vec<Vec<u8>>,
    lengths: Vec<Length>,
    units: u128,
}

/// The candidates of one length.
struct Length {
    /// Unit of the first of them.
    first: u128,
    /// Bytes of a candidate.
    length: usize,
    /// Position where the tail begins.
    tail_at: usize,
    /// Made when it is first needed: a job of many lengths may never come to all of them.
    tail: OnceLock<Tail>,
}

impl Space {
    /// Checks the shape; see [`crate::Search::new`].
    pub(crate) fn new(layout: Layout, positions: &[Vec<u8>], min: usize) -> Result<Space, SearchError> {
        let max = positions.len();
        if min == 0 || min > max {
            return Err(SearchError::Lengths { min, max });
        }
        if max > layout.length_max() {
            return Err(SearchError::TooLong { length: max, limit: layout.length_max() });
        }
        for (position, alphabet) in positions.iter().enumerate() {
            check_alphabet(position, alphabet)?;
        }
        let mut lengths = Vec::new();
        let mut units = 0u128;
        for length in min..=max {
            let used = &positions[..length];
            lengths.push(Length { first: units, length, tail_at: Tail::start(used), tail: OnceLock::new() });
            units = product(used).and_then(|n| units.checked_add(n)).ok_or(SearchError::TooManyUnits)?;
        }
        Ok(Space { layout, positions: positions.to_vec(), lengths, units })
    }

    /// Number of candidates.
    pub(crate) fn units(&self) -> u128 {
        self.units
    }

    /// The alphabet of each position.
    pub(crate) fn positions(&self) -> &[Vec<u8>] {
        &self.positions
    }

    /// How candidates are laid into blocks.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The whole block of the candidate of `unit`, below [`Space::units`].
    pub(crate) fn block(&self, unit: u128) -> Block {
        let Length { first, length, .. } = &self.lengths[self.length_of(unit)];
        let (mut block, mut rest) = (self.layout.empty(*length), unit - first);
        for (position, alphabet) in self.positions[..*length].iter().enumerate().rev() {
            let size = alphabet.len() as u128;
            self.layout.place(&mut block, position, alphabet[(rest % size) as usize]);
            rest /= size;
        }
        block
    }

    /// How many lengths there are.
    pub(crate) fn lengths(&self) -> usize {
        self.lengths.len()
    }

    /// Of a length the number of candidates, their block with zeros where it varies, and the words that do, ascending.
    pub(crate) fn varying(&self, index: usize) -> (u128, Block, Vec<usize>) {
        let Length { first, length, .. } = &self.lengths[index];
        let (mut block, mut words) = (self.layout.empty(*length), Vec::new());
        for (position, alphabet) in self.positions[..*length].iter().enumerate() {
            match alphabet[..] {
                [symbol] => self.layout.place(&mut block, position, symbol),
                _ => words.push(self.layout.word_of(position)),
            }
        }
        words.dedup();
        (self.end(index) - first, block, words)
    }

    /// The unit behind the last one of a length.
    fn end(&self, index: usize) -> u128 {
        self.lengths.get(index + 1).map_or(self.units, |next| next.first)
    }

    /// Which of the lengths the candidate of `unit` has.
    fn length_of(&self, unit: u128) -> usize {
        self.lengths.partition_point(|l| l.first <= unit) - 1
    }

    /// The run in which `unit`, below [`Space::units`], lies.
    pub(crate) fn seek(&self, unit: u128) -> Odometer<'_> {
        let index = self.length_of(unit);
        let mut odometer = Odometer::at_length(self, index);
        let within = unit - self.lengths[index].first;
        let size = odometer.tail.size as u128;
        odometer.from = (within % size) as usize;
        let mut rest = within / size;
        for (digit, alphabet) in odometer.digits.iter_mut().zip(&self.positions).rev() {
            let size = alphabet.len() as u128;
            *digit = (rest % size) as usize;
            rest /= size;
        }
        odometer
    }
}

/// A run, and the way to the next one.
pub(crate) struct Odometer<'a> {
    space: &'a Space,
    /// Which length.
    pub(crate) index: usize,
    /// For each position before the tail the place in its alphabet.
    pub(crate) digits: Vec<usize>,
    /// The tail of this length.
    pub(crate) tail: &'a Tail,
    /// First combination of the tail that belongs to the run.
    pub(crate) from: usize,
}

impl<'a> Odometer<'a> {
    /// The first run of a length.
    fn at_length(space: &'a Space, index: usize) -> Self {
        let length = &space.lengths[index];
        let tail = length.tail.get_or_init(|| {
            Tail::new(space.layout, length.tail_at, &space.positions[length.tail_at..length.length])
        });
        Odometer { space, index, digits: vec![0; length.tail_at], tail, from: 0 }
    }

    /// The block of the run's candidates, zeros where the tail changes.
    pub(crate) fn block(&self) -> Block {
        let length = &self.space.lengths[self.index];
        let mut block = self.space.layout.empty(length.length);
        for (position, alphabet) in self.space.positions[..length.length].iter().enumerate() {
            match self.digits.get(position) {
                Some(digit) => self.space.layout.place(&mut block, position, alphabet[*digit]),
                None if alphabet.len() == 1 => self.space.layout.place(&mut block, position, alphabet[0]),
                None => {}
            }
        }
        block
    }

    /// Bytes of the run's candidates, and the unit behind the last one of that length.
    pub(crate) fn length(&self) -> (usize, u128) {
        (self.space.lengths[self.index].length, self.space.end(self.index))
    }

    /// Steps on to the next run; behind the last one it stands at the first run of the last length.
    pub(crate) fn advance(&mut self) {
        self.from = 0;
        for (digit, alphabet) in self.digits.iter_mut().zip(&self.space.positions).rev() {
            *digit += 1;
            if *digit < alphabet.len() {
                return;
            }
            *digit = 0;
        }
        if self.index + 1 < self.space.lengths.len() {
            *self = Odometer::at_length(self.space, self.index + 1);
        }
    }
}

fn check_alphabet(position: usize, alphabet: &[u8]) -> Result<(), SearchError> {
    let mut seen = [false; 256];
    for byte in alphabet {
        if std::mem::replace(&mut seen[usize::from(*byte)], true) {
            return Err(SearchError::Alphabet { position, repeated: Some(*byte) });
        }
    }
    if alphabet.is_empty() {
        return Err(SearchError::Alphabet { position, repeated: None });
    }
    Ok(())
}

fn product(positions: &[Vec<u8>]) -> Option<u128> {
    positions.iter().try_fold(1u128, |n, alphabet| n.checked_mul(alphabet.len() as u128))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Layout = Layout { big_endian: false, stride: 1 };

    fn bytes(block: &Block, length: usize) -> Vec<u8> {
        block.iter().flat_map(|word| word.to_le_bytes()).take(length).collect()
    }

    #[test]
    fn constant_positions_stay_in_the_block() {
        let positions = [b"ab".to_vec(), b"x".to_vec(), b"cd".to_vec(), b"y".to_vec(), b"z".to_vec()];
        let space = Space::new(PLAIN, &positions, 5).unwrap();
        let run = space.seek(3);
        assert_eq!(run.tail.words, [0]);
        assert_eq!(run.from, 3);
        let mut block = run.block();
        block[0] |= run.tail.tables[0][3];
        assert_eq!(bytes(&block, 6), b"bxdyz\x80");
    }

    #[test]
    fn runs_follow_one_another_across_lengths() {
        let wide: Vec<u8> = (0..=255).collect();
        let positions = [b"ab".to_vec(), wide.clone(), wide, b"cd".to_vec()];
        let space = Space::new(PLAIN, &positions, 3).unwrap();
        assert_eq!(space.units(), 2 * 65_536 + 4 * 65_536);
        let mut run = space.seek(65_536 + 7);
        assert_eq!((run.from, bytes(&run.block(), 4)), (7, b"b\0\0\x80".to_vec()));
        run.advance();
        assert_eq!((run.from, bytes(&run.block(), 5)), (0, b"a\0\0\0\x80".to_vec()));
        run.advance();
        assert_eq!(bytes(&run.block(), 2), b"a\x01");
    }

    #[test]
    fn too_many_candidates_are_refused() {
        let wide: Vec<u8> = (0..=255).collect();
        let sixteen = vec![wide; 16];
        assert!(Space::new(PLAIN, &sixteen[..15], 1).is_ok());
        assert_eq!(Space::new(PLAIN, &sixteen, 16).err(), Some(SearchError::TooManyUnits));
    }
}
