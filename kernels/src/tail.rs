//! The positions of a candidate that change within a run: a table of ready-made message words that the inner loop steps
//! through. Which positions these are is `cut`'s business.

use crate::block::Layout;
use crate::lanes::LANES_MAX;

/// Most entries of a tail: 256 KiB for each word that changes, so that the table stays in the second cache
/// while a run is long enough for its preparation not to count.
pub(crate) const TAIL_MAX: usize = 1 << 16;
/// Entries behind a table's end, so that the last batch may load past it.
const PADDING: usize = LANES_MAX;

/// These positions' contribution to the message words.
pub(crate) struct Tail {
    /// Words of the block that differ from one combination to another, ascending.
    pub(crate) words: Vec<usize>,
    /// For each of `words`, what each combination adds to it; padded.
    pub(crate) tables: Vec<Vec<u32>>,
}

impl Tail {
    /// The tail of the positions `fast`, the first of which is number `tail_at`.
    pub(crate) fn new(layout: Layout, tail_at: usize, fast: &[Vec<u8>]) -> Self {
        let size: usize = fast.iter().map(Vec::len).product();
        let words = layout.words_of(tail_at, fast);
        let mut tables = vec![vec![0; size + PADDING]; words.len()];
        let mut turns = size;
        for (position, alphabet) in (tail_at..).zip(fast).filter(|(_, alphabet)| alphabet.len() > 1) {
            turns /= alphabet.len();
            let table = words.partition_point(|word| *word < layout.word_of(position));
            for (turn, entries) in tables[table][..size].chunks_mut(turns).enumerate() {
                let mut block = [0; 16];
                layout.place(&mut block, position, alphabet[turn % alphabet.len()]);
                entries.iter_mut().for_each(|entry| *entry |= block[words[table]]);
            }
        }
        Self { words, tables }
    }
}
