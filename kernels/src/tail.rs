//! The last positions of a candidate, which change from one to the next: a table of ready-made message words that
//! an inner run steps through. The positions before it are `space`'s business.

use crate::block::Layout;
use crate::lanes::LANES_MAX;

/// Most entries of a tail: 256 KiB for each word that changes, so that the table stays in the second cache
/// while a run is long enough for its preparation not to count.
const TAIL_MAX: usize = 1 << 16;
/// Entries behind a table's end, so that the last batch may load past it.
const PADDING: usize = LANES_MAX;

/// The last positions' contribution to the message words.
pub(crate) struct Tail {
    /// Number of combinations, 1..=65 536.
    pub(crate) size: usize,
    /// Words of the block that differ from one combination to another, ascending.
    pub(crate) words: Vec<usize>,
    /// For each of `words`, what each combination adds to it; padded.
    pub(crate) tables: Vec<Vec<u32>>,
}

impl Tail {
    /// Where the tail of candidates over `positions` begins: as early as its size allows.
    pub(crate) fn start(positions: &[Vec<u8>]) -> usize {
        let mut size = 1;
        let fits = positions.iter().rev().take_while(|alphabet| {
            size *= alphabet.len();
            size <= TAIL_MAX
        });
        positions.len() - fits.count()
    }

    /// The tail of the positions `fast`, the first of which is number `tail_at`.
    pub(crate) fn new(layout: Layout, tail_at: usize, fast: &[Vec<u8>]) -> Self {
        let size = fast.iter().map(Vec::len).product();
        let changing = (tail_at..).zip(fast).filter(|(_, alphabet)| alphabet.len() > 1);
        let mut tail = Self { size, words: Vec::new(), tables: Vec::new() };
        let mut turns = size;
        for (position, alphabet) in changing {
            let word = layout.word_of(position);
            if tail.words.last() != Some(&word) {
                tail.words.push(word);
                tail.tables.push(vec![0; size + PADDING]);
            }
            turns /= alphabet.len();
            let last = tail.tables.len() - 1;
            for (turn, entries) in tail.tables[last][..size].chunks_mut(turns).enumerate() {
                let mut block = [0; 16];
                layout.place(&mut block, position, alphabet[turn % alphabet.len()]);
                entries.iter_mut().for_each(|entry| *entry |= block[word]);
            }
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_takes_what_fits() {
        let alphabet = |n: usize| (0..n).map(|b| b as u8).collect::<Vec<_>>();
        assert_eq!(Tail::start(&[alphabet(26), alphabet(26), alphabet(26), alphabet(26)]), 1);
        assert_eq!(Tail::start(&[alphabet(2), alphabet(256), alphabet(256)]), 1);
        assert_eq!(Tail::start(&[alphabet(256)]), 0);
    }
}
