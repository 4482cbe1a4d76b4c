//! Lists: one line, one unit. The lines lie in chunks that are known by their hashes and are looked up
//! one at a time, so a worker needs only the chunks that its tasks touch.

use std::sync::Arc;

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::Chunk;

use crate::decomposer::{Chunks, Decomposer, in_space, too_large};
use crate::error::ValueError;
use crate::lines::Lines;
use crate::recent::Recent;

/// A list of lines in chunks; see [`Chunk`].
pub struct List {
    hashes: Vec<ContentHash>,
    /// `starts[i]` is the first unit of chunk i; the last entry is N.
    starts: Vec<u128>,
    chunks: Arc<dyn Chunks>,
    recent: Recent<usize>,
}

impl List {
    /// The lines of `pieces`, in order, which are found in `chunks`.
    ///
    /// # Errors
    /// No pieces, a piece without lines, more than 2^128 - 1 lines.
    pub fn new(pieces: &[Chunk], chunks: Arc<dyn Chunks>) -> Result<Self, String> {
        if pieces.is_empty() {
            return Err("the list is empty: give at least one entry".into());
        }
        if let Some(number) = pieces.iter().position(|piece| piece.units == 0) {
            return Err(format!("chunk {number} of the list has no lines: submit the job again"));
        }
        let size = || format!("the list's {} chunks hold too many lines", pieces.len());
        let starts = starts(pieces).ok_or_else(|| too_large(&size()))?;
        let hashes = pieces.iter().map(|piece| piece.hash).collect();
        Ok(Self { hashes, starts, chunks, recent: Recent::new() })
    }

    /// The chunk that holds `unit`, which is below N: what must be at hand for the unit's value.
    fn chunk_of(&self, unit: u128) -> usize {
        self.starts.partition_point(|start| *start <= unit) - 1
    }

    fn lines(&self, chunk: usize) -> Result<Arc<Lines>, ValueError> {
        let look_up = || {
            let hash = self.hashes[chunk];
            let content = self.chunks.chunk(&hash).ok_or(ValueError::ChunkMissing(hash))?;
            let lines = Lines::new(content);
            let are_right = lines.count() == self.starts[chunk + 1] - self.starts[chunk];
            if are_right { Ok((chunk, lines)) } else { Err(ValueError::ChunkMalformed(hash)) }
        };
        self.recent.get(|number| *number == chunk, look_up).map(|(_, lines)| lines)
    }
}

impl Decomposer for List {
    fn units(&self) -> u128 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        in_space(unit, self.units())?;
        let chunk = self.chunk_of(unit);
        let within = unit - self.starts[chunk];
        Ok(self.lines(chunk)?.line(within as usize).to_vec())
    }
}

/// The first unit of each chunk, then N; `None` if N does not fit.
fn starts(pieces: &[Chunk]) -> Option<Vec<u128>> {
    let mut starts = vec![0_u128];
    let mut total = 0_u128;
    for piece in pieces {
        total = total.checked_add(u128::from(piece.units))?;
        starts.push(total);
    }
    Some(starts)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Store {
        contents: HashMap<ContentHash, Arc<[u8]>>,
        asked: AtomicUsize,
    }

    impl Chunks for Store {
        fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.contents.get(hash).cloned()
        }
    }

    fn piece(content: &str, units: u64) -> Chunk {
        Chunk { hash: ContentHash::of(content.as_bytes()), units }
    }

    fn list(contents: &[(&str, u64)]) -> (List, Arc<Store>) {
        let mut store = Store::default();
        for (content, _) in contents {
            store.contents.insert(ContentHash::of(content.as_bytes()), Arc::from(content.as_bytes()));
        }
        let store = Arc::new(store);
        let pieces: Vec<_> = contents.iter().map(|(content, units)| piece(content, *units)).collect();
        (List::new(&pieces, store.clone()).unwrap(), store)
    }

    #[test]
    fn a_unit_is_a_line_in_whichever_chunk_it_lies() {
        let (list, store) = list(&[("one\ntwo\n", 2), ("three\n", 1), ("\nfive\r\n six \n", 3)]);
        let value = |unit| String::from_utf8(list.value(unit).unwrap()).unwrap();
        assert_eq!(
            (0..list.units()).map(value).collect::<Vec<_>>(),
            ["one", "two", "three", "", "five\r", " six "]
        );
        assert_eq!(list.value(6), Err(ValueError::OutOfSpace));
        assert_eq!(store.asked.load(Ordering::Relaxed), 3, "each chunk is looked up once on a walk");
        assert_eq!(value(0), "one");
        assert_eq!(value(5), " six ");
    }

    #[test]
    fn a_missing_chunk_is_named_and_only_it_is_needed() {
        let absent = piece("absent\n", 1);
        let (_, store) = list(&[("here\n", 1)]);
        let list = List::new(&[absent.clone(), piece("here\n", 1)], store).unwrap();
        assert_eq!(list.value(0), Err(ValueError::ChunkMissing(absent.hash)));
        assert_eq!(list.value(1).unwrap(), b"here");
    }

    #[test]
    fn a_chunk_with_other_lines_than_promised_is_an_error() {
        for (content, units) in [("a\nb\n", 3), ("a\nb\n", 1), ("a\nb", 1), ("a\nb", 3), ("", 5)] {
            let (list, _) = list(&[(content, units)]);
            let hash = ContentHash::of(content.as_bytes());
            assert_eq!(list.value(0), Err(ValueError::ChunkMalformed(hash)), "{content:?} as {units}");
        }
    }

    #[test]
    fn empty_lists_are_refused() {
        let store = Arc::new(Store::default());
        assert_eq!(
            List::new(&[], store.clone()).err().unwrap(),
            "the list is empty: give at least one entry"
        );
        let pieces = [piece("a\n", 1), piece("", 0)];
        let why = List::new(&pieces, store).err().unwrap();
        assert_eq!(why, "chunk 1 of the list has no lines: submit the job again");
    }

    #[test]
    fn a_long_list_counts_without_its_chunks() {
        let pieces = vec![piece("a\n", u64::MAX); 1000];
        let list = List::new(&pieces, Arc::new(Store::default())).unwrap();
        assert_eq!(list.units(), u128::from(u64::MAX) * 1000);
        assert_eq!(list.chunk_of(u128::from(u64::MAX) - 1), 0);
        assert_eq!(list.chunk_of(u128::from(u64::MAX)), 1);
        assert_eq!(list.chunk_of(list.units() - 1), 999);
    }
}
