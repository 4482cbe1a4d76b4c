//! Contents by their hash: job specifications, pieces of lists, long outputs. One packed file with an
//! index in memory; nothing is kept from one start to the next in this version.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use starfarm_protocol::ids::ContentHash;

/// The store.
#[derive(Debug)]
pub(crate) struct Blobs {
    file: File,
    end: u64,
    index: HashMap<ContentHash, (u64, u64)>,
}

impl Blobs {
    /// An empty store in the file at `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path)?;
        Ok(Self { file, end: 0, index: HashMap::new() })
    }

    /// Keeps a content; says its hash. One that is there already takes no more room.
    pub(crate) fn put(&mut self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = ContentHash::of(content);
        if !self.index.contains_key(&hash) {
            self.file.write_all_at(content, self.end)?;
            self.index.insert(hash, (self.end, content.len() as u64));
            self.end += content.len() as u64;
        }
        Ok(hash)
    }

    /// Bytes of a content; `None` where it is not here.
    pub(crate) fn len(&self, hash: &ContentHash) -> Option<u64> {
        self.index.get(hash).map(|&(_, length)| length)
    }

    /// Up to `max` bytes of a content from `offset`; empty at its end.
    pub(crate) fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(&(start, length)) = self.index.get(hash) else { return Ok(None) };
        let count = length.saturating_sub(offset).min(max as u64) as usize;
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, start + offset.min(length))?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_in_pieces_and_are_kept_once() {
        let path = std::env::temp_dir().join(format!("starfarm-blobs-{}", std::process::id()));
        let mut blobs = Blobs::create(&path).unwrap();
        let (one, two) = (blobs.put(b"hello").unwrap(), blobs.put(b"world!").unwrap());
        assert_eq!(blobs.put(b"hello").unwrap(), one);
        assert_eq!(blobs.end, 11);
        assert_eq!(blobs.read(&two, 2, 3).unwrap().unwrap(), b"rld");
        assert_eq!(blobs.read(&one, 5, 3).unwrap().unwrap(), b"");
        assert_eq!(blobs.read(&one, 50, 3).unwrap().unwrap(), b"");
        assert!(blobs.read(&ContentHash([0; 32]), 0, 1).unwrap().is_none());
        assert_eq!((blobs.len(&two), blobs.len(&ContentHash([0; 32]))), (Some(6), None));
        std::fs::remove_file(path).unwrap();
    }
}
