//! The files of a unit, in the tar archive that its worker packed. Nothing of that is believed.

use std::fmt;
use std::io::{self, Read};

use crate::spec::is_inside;

/// An archive that no honest worker packs.
#[derive(Debug)]
pub enum ArchiveError {
    /// It is no tar archive, or cannot be read to its end.
    Unreadable(io::Error),
    /// This entry has a name, or is of a kind, that no file of a unit has.
    NoFile(String),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(e) => write!(f, "the files of a unit cannot be unpacked: {e}")?,
            Self::NoFile(name) => write!(f, "{name:?} is no file inside of a folder")?,
        }
        f.write_str(": the worker that packed it is at fault")
    }
}

impl std::error::Error for ArchiveError {}

/// Shows `each` the files of an archive, one by one: its name, which is relative and stays below a folder, its mode and its
/// content.
///
/// # Errors
/// The archive has what is no such file, is no archive, or `each` fails.
pub fn each_file<E: From<ArchiveError>>(
    archive: impl Read,
    mut each: impl FnMut(&str, u32, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let unreadable = ArchiveError::Unreadable;
    for entry in tar::Archive::new(archive).entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let name = entry.path().map_err(unreadable)?.to_string_lossy().into_owned();
        if !is_inside(&name) || !entry.header().entry_type().is_file() {
            return Err(ArchiveError::NoFile(name).into());
        }
        let mode = entry.header().mode().map_err(unreadable)?;
        each(&name, mode, &mut entry)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(name: &str, kind: tar::EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        // `set_path` would refuse the names that are of interest.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(3);
        header.set_mode(0o4755);
        header.set_cksum();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&header, &b"abc"[..]).unwrap();
        archive.into_inner().unwrap()
    }

    fn read(archive: &[u8]) -> Result<Vec<(String, u32, String)>, ArchiveError> {
        let mut files = Vec::new();
        each_file(archive, |name, mode, content| {
            let mut text = String::new();
            content.read_to_string(&mut text).unwrap();
            files.push((name.to_owned(), mode, text));
            Ok::<_, ArchiveError>(())
        })?;
        Ok(files)
    }

    #[test]
    fn files_are_shown_and_nothing_else_is() {
        let file = tar::EntryType::Regular;
        assert_eq!(read(&packed("a/b", file)).unwrap(), [("a/b".into(), 0o4755, "abc".into())]);
        for name in ["/a", "../a", "a/../../b"] {
            let words = read(&packed(name, file)).unwrap_err().to_string();
            assert_eq!(
                words,
                format!("{name:?} is no file inside of a folder: the worker that packed it is at fault")
            );
        }
        for kind in
            [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Directory, tar::EntryType::Fifo]
        {
            assert!(matches!(read(&packed("a", kind)), Err(ArchiveError::NoFile(_))), "{kind:?}");
        }
        assert!(matches!(read(&[7; 600]), Err(ArchiveError::Unreadable(_))));
    }
}
