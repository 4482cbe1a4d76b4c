//! Files that units made, written out into a folder of the user's.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use starfarm_protocol::admin::{ArchiveInfo, OutputLoss};
use starfarm_protocol::archive::{self, ArchiveError};
use starfarm_protocol::ids::ContentHash;

use super::beneath::{Beneath, Part, There};
use super::source::{Source, content};
use crate::failure::{Exit, Failure};
use crate::human;

/// Archives up to this size are unpacked from memory.
const HELD_BYTES_MAX: u64 = 1 << 20;

impl From<ArchiveError> for Failure {
    fn from(e: ArchiveError) -> Self {
        Self::new(Exit::Conflict, e.to_string())
    }
}

/// Where files go.
pub(crate) struct Folder {
    dir: PathBuf,
    beneath: Beneath,
}

impl Folder {
    /// The folder `dir`, which is made if need be.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let beneath = Beneath::open(dir).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let shown = human::printable(&dir.display().to_string());
                Failure::usage(format!("{shown} is a file: name a folder by --dir, which is made if need be"))
            }
            _ => not_written(dir, &e),
        })?;
        Ok(Self { dir: dir.to_owned(), beneath })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file of this name, which comes in pieces.
    pub(super) fn file(&self, name: &str) -> Result<Coming<'_>, Failure> {
        let part = self.beneath.part().map_err(|e| self.not_written(Path::new(name), &e))?;
        Ok(Coming { folder: self, name: name.into(), part })
    }

    /// Writes a file, which is then whole or not there.
    pub(super) fn write(
        &self,
        name: &Path,
        mode: Option<u32>,
        content: &mut dyn Read,
        there: There,
    ) -> Result<(), Failure> {
        self.beneath.write(name, mode, content, there).map_err(|e| self.not_written(name, &e))
    }

    /// Writes out what is in the archive of a unit; or says what is wrong with that on the scheduler's disk.
    pub(super) fn take(
        &self,
        source: &mut dyn Source,
        files: &ArchiveInfo,
        there: There,
    ) -> Result<Option<OutputLoss>, Failure> {
        if files.bytes <= HELD_BYTES_MAX {
            return match content(source, files.hash, files.bytes)? {
                Ok(archive) => self.unpack(&archive[..], there).map(|()| None),
                Err(what) => Ok(Some(what)),
            };
        }
        let mut part = self.beneath.part().map_err(|e| not_written(&self.dir, &e))?;
        match self.fetch(source, files, &mut part.file)? {
            None => self.unpack(&part.file, there).map(|()| None),
            lost => Ok(lost),
        }
    }

    fn fetch(
        &self,
        source: &mut dyn Source,
        files: &ArchiveInfo,
        archive: &mut File,
    ) -> Result<Option<OutputLoss>, Failure> {
        let (mut hasher, mut bytes) = (blake3::Hasher::new(), 0);
        while bytes < files.bytes {
            match source.piece(files.hash, bytes)? {
                Ok(piece) if piece.is_empty() => break,
                Ok(piece) => {
                    archive.write_all(&piece).map_err(|e| not_written(&self.dir, &e))?;
                    hasher.update(&piece);
                    bytes += piece.len() as u64;
                }
                Err(what) => return Ok(Some(what)),
            }
        }
        let is_whole = ContentHash(*hasher.finalize().as_bytes()) == files.hash;
        archive.rewind().map_err(|e| not_written(&self.dir, &e))?;
        Ok((!is_whole).then_some(OutputLoss::Damaged))
    }

    fn unpack(&self, archive: impl Read, there: There) -> Result<(), Failure> {
        archive::each_file(archive, |name, mode, content| {
            self.write(Path::new(name), Some(mode & 0o755 | 0o600), content, there)
        })
    }

    fn not_written(&self, name: &Path, e: &io::Error) -> Failure {
        match e.kind() {
            // As whoever named it wrote it.
            io::ErrorKind::InvalidInput => not_written(name, e),
            _ => not_written(&self.dir.join(name), e),
        }
    }
}

/// A file that comes in pieces, and is whole or not there.
pub(super) struct Coming<'a> {
    folder: &'a Folder,
    name: PathBuf,
    part: Part,
}

impl Coming<'_> {
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.part.file.write_all(bytes).map_err(|e| self.folder.not_written(&self.name, &e))
    }

    /// It is whole. One that is there already stays, and must be equal.
    pub(super) fn end(self) -> Result<(), Failure> {
        let Self { folder, name, part } = self;
        folder.beneath.place(part, &name, There::Stays).map_err(|e| folder.not_written(&name, &e))
    }
}

fn not_written(path: &Path, e: &io::Error) -> Failure {
    let shown = human::printable(&path.display().to_string());
    let words = match e.kind() {
        io::ErrorKind::InvalidInput => {
            format!("{shown} names no file inside of the folder: name the files by {{index}} instead")
        }
        io::ErrorKind::AlreadyExists => {
            format!(
                "{shown} is there and has other bytes: remove it, name another folder by --dir, or, where two units make it, put \
                 {{index}} into its name"
            )
        }
        io::ErrorKind::NotADirectory => {
            format!("cannot write {shown}: it leads through a link or a file: remove that")
        }
        _ => format!("cannot write {shown}: {e}"),
    };
    Failure::new(Exit::Conflict, words)
}
