//! A content that comes in chunk by chunk, and what came of those whose stream broke.

use std::collections::HashMap;

use super::{BulkError, CHUNK_BYTES, Chunk};
use crate::ids::ContentHash;

/// Bytes of transfers that broke off that are kept at most; beyond them all are dropped, and sent from their start.
const BROKEN_OFF_BYTES_MAX: u64 = 64 << 20;

/// The chunks of `content` from `offset` on, for either direction.
pub fn chunks(content: &[u8], offset: u64) -> impl Iterator<Item = Chunk<'_>> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    let starts = (from as u64..).step_by(CHUNK_BYTES);
    content[from..].chunks(CHUNK_BYTES).zip(starts).map(|(bytes, offset)| Chunk { offset, bytes })
}

/// A content that comes in chunk by chunk. It survives the stream that it came by.
#[derive(Clone, Debug)]
pub struct Incoming {
    hash: ContentHash,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Nothing has come yet of the content with this hash.
    pub fn new(hash: ContentHash) -> Self {
        Self { hash, bytes: Vec::new() }
    }

    /// Which content it is.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Bytes that have come: where a get or put goes on.
    pub fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Takes the next chunk of a content of `total` bytes. Memory grows with what comes, not with what is
    /// announced.
    ///
    /// # Errors
    /// [`BulkError::OutOfPlace`]; nothing is taken then.
    pub fn take(&mut self, chunk: &Chunk<'_>, total: u64) -> Result<(), BulkError> {
        if chunk.offset != self.offset() || self.offset() + chunk.bytes.len() as u64 > total {
            return Err(BulkError::OutOfPlace);
        }
        self.bytes.extend_from_slice(chunk.bytes);
        Ok(())
    }

    /// The whole content, once [`Incoming::offset`] has reached its length.
    ///
    /// # Errors
    /// [`BulkError::Hash`]: what came is not what was asked for; start anew.
    pub fn finish(self) -> Result<Vec<u8>, BulkError> {
        if ContentHash::of(&self.bytes) == self.hash { Ok(self.bytes) } else { Err(BulkError::Hash) }
    }
}

/// What came of transfers whose streams broke, so that they can go on. Whoever goes on with one takes it out: two
/// workers may well send equal contents at one time, and a transfer belongs to one stream alone.
#[derive(Default, Debug)]
pub struct BrokenOff(HashMap<ContentHash, Incoming>);

impl BrokenOff {
    /// Keeps what came, unless more of the same is here.
    pub fn keep(&mut self, incoming: Incoming) {
        if self.0.values().map(Incoming::offset).sum::<u64>() + incoming.offset() > BROKEN_OFF_BYTES_MAX {
            self.0.clear();
        }
        let before = self.0.get(&incoming.hash).map_or(0, Incoming::offset);
        if incoming.offset() > before {
            self.0.insert(incoming.hash, incoming);
        }
    }

    /// Where a put of `total` bytes goes on.
    pub fn take(&mut self, hash: ContentHash, total: u64) -> Incoming {
        let kept = self.0.remove(&hash).filter(|incoming| incoming.offset() < total);
        kept.unwrap_or_else(|| Incoming::new(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_arrives_in_chunks_and_can_go_on_where_it_was() {
        let content: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
        let total = content.len() as u64;
        let mut incoming = Incoming::new(ContentHash::of(&content));
        for chunk in chunks(&content, 0).take(2) {
            incoming.take(&chunk, total).unwrap();
        }
        let stray = Chunk { offset: 0, bytes: b"again" };
        assert_eq!(incoming.take(&stray, total), Err(BulkError::OutOfPlace));
        for chunk in chunks(&content, incoming.offset()) {
            incoming.take(&chunk, total).unwrap();
        }
        assert_eq!(incoming.take(&Chunk { offset: total, bytes: b"x" }, total), Err(BulkError::OutOfPlace));
        assert_eq!(incoming.finish().unwrap(), content);
        assert_eq!(Incoming::new(ContentHash([7; 32])).finish(), Err(BulkError::Hash));
        assert_eq!(chunks(&content, u64::MAX).count(), 0);
    }
}
