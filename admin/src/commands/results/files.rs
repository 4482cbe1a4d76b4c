//! Files that units made, written out into a folder of the user's.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use starfarm_protocol::admin::{ArchiveInfo, OutputLoss};
use starfarm_protocol::archive::{self, ArchiveError};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::is_inside;

use super::source::Source;
use crate::failure::{Exit, Failure};
use crate::human;

impl From<ArchiveError> for Failure {
    fn from(e: ArchiveError) -> Self {
        Self::new(Exit::Conflict, e.to_string())
    }
}

/// Where files go.
pub(crate) struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// The folder `dir`, which is made if need be.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(dir).map_err(|e| cannot_write(dir, &e))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// A file of this name, which comes in pieces.
    pub(super) fn file(&self, name: &str) -> Result<Coming, Failure> {
        let path = self.dir.join(name);
        if !is_inside(name) {
            let words = format!("{} is no file inside of a folder", human::printable(name));
            return Err(Failure::new(Exit::Conflict, words));
        }
        let folder = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(folder).map_err(|e| cannot_write(folder, &e))?;
        let part = folder.join(format!(".starfarm-{}.part", std::process::id()));
        let file = File::create(&part).map_err(|e| cannot_write(&part, &e))?;
        Ok(Coming { path, part, file })
    }

    /// Writes out what is in the archive of a unit; or says what is wrong with that on the scheduler's disk.
    pub(super) fn take(
        &self,
        source: &mut dyn Source,
        files: &ArchiveInfo,
    ) -> Result<Option<OutputLoss>, Failure> {
        // It may be large.
        let path = self.dir.join(format!(".starfarm-{}", std::process::id()));
        let mut archive = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| cannot_write(&path, &e))?;
        let taken = self.fetch(source, files, &mut archive).and_then(|lost| match lost {
            None => self.unpack(&mut archive).map(|()| None),
            lost => Ok(lost),
        });
        fs::remove_file(&path).map_err(|e| cannot_write(&path, &e))?;
        taken
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
                    archive.write_all(&piece).map_err(|e| cannot_write(&self.dir, &e))?;
                    hasher.update(&piece);
                    bytes += piece.len() as u64;
                }
                Err(what) => return Ok(Some(what)),
            }
        }
        let is_whole = ContentHash(*hasher.finalize().as_bytes()) == files.hash;
        archive.rewind().map_err(|e| cannot_write(&self.dir, &e))?;
        Ok((!is_whole).then_some(OutputLoss::Damaged))
    }

    fn unpack(&self, archive: &mut File) -> Result<(), Failure> {
        archive::each_file(archive, |name, mode, mut content| {
            let path = self.dir.join(name);
            self.write(&path, mode & 0o755, &mut content).map_err(|e| not_placed(&path, &e))
        })
    }

    /// Writes a file, which is then whole or not there. One that is there already stays, and must be equal.
    fn write(&self, path: &Path, mode: u32, content: &mut impl Read) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(folder)?;
        let part = folder.join(format!(".starfarm-{}.part", std::process::id()));
        let mut file = File::create(&part)?;
        let written = io::copy(content, &mut file)
            .and_then(|_| file.set_permissions(fs::Permissions::from_mode(mode | 0o600)))
            .and_then(|()| place(&part, path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }
}

/// A file that comes in pieces, and is whole or not there.
pub(super) struct Coming {
    path: PathBuf,
    part: PathBuf,
    file: File,
}

impl Coming {
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|e| cannot_write(&self.part, &e))
    }

    /// It is whole. One that is there already stays, and must be equal.
    pub(super) fn end(self) -> Result<(), Failure> {
        place(&self.part, &self.path).map_err(|e| not_placed(&self.path, &e))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

/// A part becomes the file `path`, unless one is there: that must be equal.
fn place(part: &Path, path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) if are_equal(part, path)? => fs::remove_file(part),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(part, path),
    }
}

fn not_placed(path: &Path, e: &io::Error) -> Failure {
    match e.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(
            Exit::Conflict,
            format!(
                "{} is there and has other bytes: remove it, or name another folder by --dir",
                human::printable(&path.display().to_string())
            ),
        ),
        _ => cannot_write(path, e),
    }
}

fn are_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let hash = |file: File| blake3::Hasher::new().update_reader(file).map(|hasher| hasher.finalize());
    Ok(hash(one)? == hash(other)?)
}

fn cannot_write(path: &Path, e: &io::Error) -> Failure {
    Failure::new(
        Exit::Conflict,
        format!("cannot write {}: {e}", human::printable(&path.display().to_string())),
    )
}
