//! A content that comes into memory chunk by chunk.

use super::{BulkError, CHUNK_BYTES, Chunk};
use crate::ids::ContentHash;

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
