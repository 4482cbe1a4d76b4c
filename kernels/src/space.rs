//! The candidates as an indexed space: from a unit index to its place, and from there on run by run.
//!
//! A candidate's *tail*, some positions side by side, runs through a table of ready-made message words, while the others
//! stay the same. One turn of the tail is a *run*; between runs the others step on like an odometer. Which positions are
//! the tail is `cut`'s business: the last ones, or for whole sweeps those whose words cost least. Hashing is not done here.

use std::ops::Range;

use crate::SearchError;
use crate::block::{Block, Layout};
use crate::cut::{Cut, product};
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
    /// The last positions are the tail.
    last: Cut,
    /// Others are, which cost less; none if none do.
    wide: Option<Cut>,
}

impl Space {
    /// Checks the shape; see [`crate::Search::new`]. `key_step` tells up to which step a candidate's digest is computed
    /// where these words change, if that makes a difference.
    pub(crate) fn new(
        layout: Layout,
        positions: &[Vec<u8>],
        min: usize,
        key_step: Option<fn(&[usize]) -> usize>,
    ) -> Result<Space, SearchError> {
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
            let last = Cut::last(used);
            let wide = key_step.and_then(|key_step| Cut::wide(layout, used, &last, key_step));
            lengths.push(Length { first: units, length, last, wide });
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
        let words = self.layout.words_of(0, &self.positions[..*length]);
        (self.end(index) - first, self.shared(*length, 0..*length), words)
    }

    /// The block of candidates of `length` with zeros but where these positions have one symbol alone.
    fn shared(&self, length: usize, positions: Range<usize>) -> Block {
        let mut block = self.layout.empty(length);
        for position in positions {
            if let [symbol] = self.positions[position][..] {
                self.layout.place(&mut block, position, symbol);
            }
        }
        block
    }

    /// The unit behind the last one of a length.
    fn end(&self, index: usize) -> u128 {
        self.lengths.get(index + 1).map_or(self.units, |next| next.first)
    }

    /// Which of the lengths the candidate of `unit` has.
    fn length_of(&self, unit: u128) -> usize {
        self.lengths.partition_point(|l| l.first <= unit) - 1
    }

    /// The units from `lo` on that are searched with one tail, below `hi`, which is at most [`Space::units`] and above `lo`:
    /// whole sweeps of at most `sweep_max` where there are any and their tail costs less.
    fn part(&self, lo: u128, hi: u128, sweep_max: u128) -> Part<'_> {
        let index = self.length_of(lo);
        let Length { first, last, wide, .. } = &self.lengths[index];
        let units = hi.min(self.end(index)) - lo;
        let within = lo - first;
        let of_last = |units| Part { index, within, cut: last, units };
        let Some(wide) = wide.as_ref().filter(|wide| wide.sweep() <= sweep_max) else {
            return of_last(units);
        };
        let sweep = wide.sweep();
        let before = (sweep - within % sweep) % sweep;
        if units < before + sweep {
            of_last(units)
        } else if before > 0 {
            of_last(before)
        } else {
            Part { index, within, cut: wide, units: units / sweep * sweep }
        }
    }

    /// The end of the units from `lo` on that are searched with one tail.
    pub(crate) fn part_end(&self, lo: u128, hi: u128, sweep_max: u128) -> u128 {
        lo + self.part(lo, hi, sweep_max).units
    }

    /// What is searched next of these units, which is about `chunk` of them: whole sweeps, or a part of one run.
    pub(crate) fn step(&self, lo: u128, hi: u128, chunk: u128, sweep_max: u128) -> Step<'_> {
        let Part { index, within, cut, units } = self.part(lo, hi, sweep_max);
        let step = |units, numbers, combinations| {
            let units = lo..lo + units;
            Step { space: self, index, cut, units, numbers, combinations }
        };
        // Of a tail without positions behind it a sweep is a run.
        let (sweep, from) = (cut.sweep(), within % cut.sweep());
        let run = within / sweep * cut.stride;
        if from == 0 && units >= sweep {
            let sweeps = (units / sweep).min((chunk / sweep).max(1));
            step(sweeps * sweep, run..run + sweeps * cut.stride, 0..cut.size)
        } else {
            let to = sweep.min(from + units);
            step(to - from, run..run + 1, from as usize..to as usize)
        }
    }
}

/// Units of one length that are searched with one tail.
struct Part<'a> {
    /// Which length.
    index: usize,
    /// The first of them, within the length.
    within: u128,
    cut: &'a Cut,
    /// How many.
    units: u128,
}

/// An interval of units of one length, as the inner loop is given it.
pub(crate) struct Step<'a> {
    space: &'a Space,
    /// Which length.
    pub(crate) index: usize,
    cut: &'a Cut,
    /// The units.
    pub(crate) units: Range<u128>,
    /// The runs, by their numbers within the length.
    pub(crate) numbers: Range<u128>,
    /// The tail's combinations in each of them.
    pub(crate) combinations: Range<usize>,
}

impl<'a> Step<'a> {
    /// The run with this number.
    pub(crate) fn odometer(&self, number: u128) -> Odometer<'a> {
        Odometer::at(self.space, self.index, self.cut, number)
    }

    /// Bytes of the candidates.
    pub(crate) fn length(&self) -> usize {
        self.space.lengths[self.index].length
    }

    /// How these candidates are cut.
    pub(crate) fn cut(&self) -> &'a Cut {
        self.cut
    }

    /// Its tail.
    pub(crate) fn tail(&self) -> &'a Tail {
        self.cut.tail(self.space.layout, &self.space.positions)
    }

    /// The block of all candidates with this cut, zeros where the tail changes and outside it.
    pub(crate) fn shared(&self) -> Block {
        self.space.shared(self.length(), self.cut.inside())
    }

    /// The unit of a combination of the tail in a run.
    pub(crate) fn unit(&self, number: u128, combination: usize) -> u128 {
        let Cut { stride, .. } = self.cut;
        let sweep = number / stride * self.cut.sweep();
        self.space.lengths[self.index].first + sweep + combination as u128 * stride + number % stride
    }
}

/// A run, and the way to the next one.
pub(crate) struct Odometer<'a> {
    space: &'a Space,
    index: usize,
    cut: &'a Cut,
    /// For each position outside the tail the place in its alphabet.
    digits: Vec<usize>,
    /// The block of the run's candidates, zeros where the tail changes.
    pub(crate) block: Block,
}

impl<'a> Odometer<'a> {
    fn at(space: &'a Space, index: usize, cut: &'a Cut, number: u128) -> Self {
        let Length { length, .. } = space.lengths[index];
        let (mut block, mut rest, mut digits) = (space.shared(length, cut.inside()), number, Vec::new());
        for position in cut.outside(length).rev() {
            let alphabet = &space.positions[position];
            let size = alphabet.len() as u128;
            let digit = (rest % size) as usize;
            space.layout.place(&mut block, position, alphabet[digit]);
            digits.push(digit);
            rest /= size;
        }
        digits.reverse();
        Odometer { space, index, cut, digits, block }
    }

    /// For each position outside the tail: how many symbols it has, and which of them stands there.
    pub(crate) fn digits(&self) -> impl Iterator<Item = [u32; 2]> {
        let outside = self.cut.outside(self.space.lengths[self.index].length);
        let sizes = outside.map(|position| self.space.positions[position].len() as u32);
        sizes.zip(&self.digits).map(|(size, digit)| [size, *digit as u32])
    }

    /// Steps on to the next run; behind the last one of its length it stands at the first.
    pub(crate) fn advance(&mut self) {
        let outside = self.cut.outside(self.space.lengths[self.index].length);
        for (digit, position) in self.digits.iter_mut().rev().zip(outside.rev()) {
            let alphabet = &self.space.positions[position];
            let before = alphabet[*digit];
            *digit = (*digit + 1) % alphabet.len();
            self.space.layout.replace(&mut self.block, position, before, alphabet[*digit]);
            if *digit != 0 {
                return;
            }
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
        let space = Space::new(PLAIN, &positions, 5, None).unwrap();
        let step = space.step(3, 4, 1, 1);
        assert_eq!((&step.tail().words[..], step.combinations.clone()), (&[0][..], 3..4));
        let mut block = step.odometer(0).block;
        block[0] |= step.tail().tables[0][3];
        assert_eq!(bytes(&block, 6), b"bxdyz\x80");
    }

    #[test]
    fn one_run_follows_another() {
        let wide: Vec<u8> = (0..=255).collect();
        let positions = [b"ab".to_vec(), wide.clone(), wide, b"cd".to_vec()];
        let space = Space::new(PLAIN, &positions, 3, None).unwrap();
        assert_eq!(space.units(), 2 * 65_536 + 4 * 65_536);
        let step = space.step(65_536 + 7, space.units(), 1, 1);
        assert_eq!((step.numbers.clone(), step.combinations.clone()), (1..2, 7..65_536));
        assert_eq!(bytes(&step.odometer(1).block, 4), b"b\0\0\x80");
        let step = space.step(step.units.end, space.units(), 1 << 20, 1);
        assert_eq!((step.numbers.clone(), step.units.end), (0..512, space.units()));
        let mut run = step.odometer(0);
        assert_eq!(bytes(&run.block, 5), b"a\0\0\0\x80");
        run.advance();
        assert_eq!(bytes(&run.block, 2), b"a\x01");
    }

    #[test]
    fn steps_have_each_unit_once_whatever_their_cut() {
        let alphabet = |n: u8| (b'a'..b'a' + n).collect::<Vec<_>>();
        let positions = [5, 4, 1, 8, 9, 2, 3].map(alphabet);
        for layout in [PLAIN, Layout { big_endian: false, stride: 2 }, Layout { big_endian: true, stride: 1 }]
        {
            // The first word costs least.
            let space =
                Space::new(layout, &positions, 5, Some(|words| 1000 * words.last().unwrap_or(&0))).unwrap();
            let wide: Vec<bool> = space.lengths.iter().map(|length| length.wide.is_some()).collect();
            assert_eq!(wide, [true; 3]);
            for (lo, hi, sweep_max) in
                [(0, space.units(), 1 << 20), (7, 6_851, 1 << 20), (7, 851, 1), (500, 501, 9)]
            {
                let (mut next, mut wide) = (lo, 0);
                while next < hi {
                    let step = space.step(next, hi, 200, sweep_max);
                    assert_eq!(step.units.start, next);
                    next = step.units.end;
                    wide += u32::from(step.cut.stride > 1);
                    assert_eq!(searched(&space, &step), step.units.collect::<Vec<_>>());
                }
                assert_eq!((next, wide > 0), (hi, hi - lo > 1 && sweep_max > 9));
            }
        }
    }

    /// The units that a step's runs have, ascending. The block of each is as it should be.
    fn searched(space: &Space, step: &Step<'_>) -> Vec<u128> {
        let mut odometer = step.odometer(step.numbers.start);
        let mut units = Vec::new();
        for number in step.numbers.clone() {
            for combination in step.combinations.clone() {
                let (unit, mut block, tail) = (step.unit(number, combination), odometer.block, step.tail());
                for (word, table) in tail.words.iter().zip(&tail.tables) {
                    block[*word] |= table[combination];
                }
                assert_eq!(block, space.block(unit), "unit {unit}");
                units.push(unit);
            }
            odometer.advance();
        }
        units.sort_unstable();
        units
    }

    #[test]
    fn too_many_candidates_are_refused() {
        let wide: Vec<u8> = (0..=255).collect();
        let sixteen = vec![wide; 16];
        assert!(Space::new(PLAIN, &sixteen[..15], 1, None).is_ok());
        assert_eq!(Space::new(PLAIN, &sixteen, 16, None).err(), Some(SearchError::TooManyUnits));
    }
}
