//! Packed files and the contents in them, read: `protocol/src/packed.rs` describes the bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::packed::{Entry, Found, Scan};

/// A packed file that is read.
pub(crate) struct Packed {
    file: File,
    end: u64,
}

impl Packed {
    /// The file at `path`; none where it is not there.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let end = file.metadata()?.len();
        Ok(Some(Self { file, end }))
    }

    /// All entries; what lies between is passed over.
    pub(crate) fn entries(&self) -> impl Iterator<Item = io::Result<Entry>> + '_ {
        let read = |bytes: &mut [u8], at| self.file.read_exact_at(bytes, at);
        Scan::new(read, 0, self.end).filter_map(|found| match found {
            Ok(Found::Entry(entry)) => Some(Ok(entry)),
            Ok(Found::Damage(..) | Found::Tail(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The bytes of an entry.
    pub(crate) fn body(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        // No entry ends behind the file.
        let mut bytes = vec![0; usize::try_from(entry.length).map_err(|_| ErrorKind::FileTooLarge)?];
        self.file.read_exact_at(&mut bytes, entry.body())?;
        Ok(bytes)
    }
}

/// Contents by hash: where each lies, where it is whole.
#[derive(Default)]
pub(crate) struct Contents {
    file: Option<Packed>,
    all: HashMap<ContentHash, Option<Entry>>,
}

impl Contents {
    /// Those of the file at `path` that are `wanted`.
    pub(crate) fn read(path: &Path, wanted: impl Fn(&ContentHash) -> bool) -> io::Result<Self> {
        let file = Packed::open(path)?;
        let mut all: HashMap<ContentHash, Option<Entry>> = HashMap::new();
        if let Some(file) = &file {
            for entry in file.entries() {
                let entry = entry?;
                let hash = ContentHash(entry.label);
                if !wanted(&hash) {
                    continue;
                }
                let is_whole = !entry.gone && ContentHash::of(&file.body(&entry)?) == hash;
                match (entry.gone, is_whole) {
                    (true, _) => drop(all.remove(&hash)),
                    (false, true) => drop(all.insert(hash, Some(entry))),
                    // One that was damaged may have been stored again.
                    (false, false) => drop(all.entry(hash).or_insert(None)),
                }
            }
        }
        Ok(Self { file, all })
    }

    /// What is wrong with a content, if anything is.
    pub(crate) fn loss(&self, hash: &ContentHash) -> Option<OutputLoss> {
        match self.all.get(hash) {
            None => Some(OutputLoss::Missing),
            Some(None) => Some(OutputLoss::Damaged),
            Some(Some(_)) => None,
        }
    }

    /// Those that are damaged.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = ContentHash> + '_ {
        self.all.iter().filter(|(_, entry)| entry.is_none()).map(|(hash, _)| *hash)
    }

    /// The content, where it is whole.
    pub(crate) fn get(&self, hash: &ContentHash) -> io::Result<Option<Vec<u8>>> {
        match (self.all.get(hash), &self.file) {
            (Some(Some(entry)), Some(file)) => file.body(entry).map(Some),
            _ => Ok(None),
        }
    }
}
