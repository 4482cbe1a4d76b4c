//! What a unit made, packed into an archive.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use starfarm_protocol::bulk::Source;
use starfarm_protocol::ids::ContentHash;

use super::memory::{Held, Memory};
use super::room::{Room, Stake};

/// What a file takes in an archive beside its bytes: headers, of which a long name needs more, and the rest of a block.
const EACH_BYTES: u64 = 2_560;
/// Bytes of an archive in a file that are hashed and written at once: hashing a few at a time is slow.
const PACK_BYTES: usize = 256 << 10;

/// A file that a unit made.
pub(super) struct Output {
    /// In the unit's scratch directory.
    pub(super) name: String,
    /// In the archive.
    pub(super) shown: String,
    pub(super) bytes: u64,
}

pub(super) fn bytes_of(names: &[Output]) -> u64 {
    names.iter().map(|output| output.bytes).sum()
}

/// What a unit made: a tar archive. Equal files make equal archives.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) hash: ContentHash,
    pub(super) bytes: u64,
    /// Files in it.
    pub(super) count: u32,
    archive: Archive,
}

#[derive(Debug)]
enum Archive {
    Memory {
        all: Vec<u8>,
        _held: Held,
    },
    /// It has no name, so it goes with this.
    Disk {
        file: File,
        _stake: Stake,
    },
}

impl Made {
    #[cfg(test)]
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.archive, Archive::Memory { .. })
    }
}

impl Source for Made {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        match &self.archive {
            Archive::Memory { all, .. } => all.read(offset, max),
            Archive::Disk { file, .. } => {
                let mut bytes = vec![0; max];
                let read = file.read_at(&mut bytes, offset)?;
                bytes.truncate(read);
                Ok(bytes)
            }
        }
    }
}

/// Why there is no archive.
#[derive(Debug)]
pub(super) enum NotPacked {
    /// What the unit made cannot be read, on whatever node; in words for a person.
    Unit(String),
    /// It is this node's fault.
    Here(io::Error),
}

impl From<io::Error> for NotPacked {
    fn from(error: io::Error) -> Self {
        Self::Here(error)
    }
}

/// The archive of these files. A long one is made beside the directory `scratch`.
pub(super) fn pack(
    scratch: &Path,
    names: &[Output],
    memory: &Memory,
    room: &Room,
) -> Result<Made, NotPacked> {
    let count = names.len() as u32;
    let bytes_max = bytes_of(names) + EACH_BYTES * names.len() as u64;
    if let Some(held) = memory.take(bytes_max) {
        let all = write_archive(scratch, names, Vec::with_capacity(bytes_max as usize))?;
        let (hash, bytes) = (ContentHash::of(&all), all.len() as u64);
        return Ok(Made { hash, bytes, count, archive: Archive::Memory { all, _held: held } });
    }
    let path = scratch.with_extension("tar");
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    let hashing = Hashing { to: file, hasher: blake3::Hasher::new(), bytes: 0 };
    let written = write_archive(scratch, names, BufWriter::with_capacity(PACK_BYTES, hashing))?;
    let Hashing { to, hasher, bytes } = written.into_inner().map_err(io::IntoInnerError::into_error)?;
    let hash = ContentHash(*hasher.finalize().as_bytes());
    Ok(Made { hash, bytes, count, archive: Archive::Disk { file: to, _stake: room.stake() } })
}

fn write_archive<W: Write>(scratch: &Path, names: &[Output], to: W) -> Result<W, NotPacked> {
    let mut archive = tar::Builder::new(to);
    for Output { name, shown, bytes } in names {
        let file = open(scratch, name)?;
        let mode = file.metadata()?.permissions().mode();
        let mut header = tar::Header::new_gnu();
        header.set_size(*bytes);
        header.set_mode(if mode & 0o100 != 0 { 0o755 } else { 0o644 });
        header.set_mtime(0);
        // Something that the unit left running may write on: no more is taken than was there.
        let mut content = Counted { of: file.take(*bytes), left: *bytes };
        archive.append_data(&mut header, shown, &mut content)?;
        if content.left > 0 {
            let why = format!("made a file `{name}` that became shorter after its program's end");
            return Err(NotPacked::Unit(why));
        }
    }
    Ok(archive.into_inner()?)
}

/// Opens a file that was there when it was looked at. Something that the unit left running may have put another thing there,
/// which is not waited for.
fn open(scratch: &Path, name: &str) -> Result<File, NotPacked> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    match File::options().read(true).custom_flags(flags).open(scratch.join(name)) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(NotPacked::Unit(format!("made `{name}`, which is no regular file"))),
        Err(e) if is_of_node(&e) => Err(NotPacked::Here(e)),
        Err(e) => Err(NotPacked::Unit(format!("made a file `{name}` that cannot be read: {e}"))),
    }
}

/// A file cannot be opened, whatever file it is.
fn is_of_node(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO))
}

/// Counts what is read.
struct Counted<R> {
    of: R,
    left: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.of.read(bytes)?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Hashes and counts what is written.
struct Hashing<W> {
    to: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    /// Every node refused the job of a unit whose file nobody may read, and none ever ended it.
    #[test]
    fn a_file_that_cannot_be_read_is_the_units_fault() {
        let dir = TempDir::new();
        let scratch = &dir.0;
        fs::write(scratch.join("a"), "xyz").unwrap();
        let output = |name: &str, bytes| Output { name: name.into(), shown: name.into(), bytes };
        let why = |output: Output| match write_archive(scratch, &[output], Vec::new()) {
            Err(NotPacked::Unit(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(output("gone", 3)).starts_with("made a file `gone` that cannot be read: "));
        assert_eq!(why(output("a", 4)), "made a file `a` that became shorter after its program's end");
        let pipe = std::process::Command::new("mkfifo").arg(scratch.join("pipe")).status().unwrap();
        assert!(pipe.success());
        assert_eq!(why(output("pipe", 0)), "made `pipe`, which is no regular file");
        std::os::unix::fs::symlink("a", scratch.join("link")).unwrap();
        assert!(why(output("link", 3)).starts_with("made a file `link` that cannot be read: "));
    }
}
