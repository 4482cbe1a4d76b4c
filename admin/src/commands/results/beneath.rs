//! A folder of the user's, beneath which files are written under names that others had a say in: no name leads out of it,
//! and no link that lies beneath it is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder.
pub(super) struct Beneath {
    dir: OwnedFd,
}

impl Beneath {
    /// The folder `dir`, which is made if need be. The user named it, so it may be a link.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: openat(CWD, dir, flags, Mode::empty())? })
    }

    /// Writes a file, which is then whole or not there; its folders are made. One that is there already stays, and must be
    /// equal.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where the name leads out of the folder or is none;
    /// [`io::ErrorKind::AlreadyExists`] where another file has it; [`io::ErrorKind::NotADirectory`] where a link or a file is
    /// in the way.
    pub(super) fn write(&self, name: &Path, content: &[u8]) -> io::Result<()> {
        let mut names = Vec::new();
        for part in name.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        let (file, folders) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let mut dir = self.dir.try_clone()?;
        for folder in folders {
            match mkdirat(&dir, *folder, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            dir = openat(&dir, *folder, FOLDER, Mode::empty()).map_err(in_the_way)?;
        }
        place(&dir, file, content)
    }
}

/// A link where a folder should be is reported as one or the other, by the system.
fn in_the_way(e: Errno) -> io::Error {
    match e {
        Errno::LOOP | Errno::NOTDIR => io::ErrorKind::NotADirectory.into(),
        e => e.into(),
    }
}

fn place(dir: &OwnedFd, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let there = openat(
        dir,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    );
    match there {
        Ok(file) => {
            let file = File::from(file);
            let length = file.metadata()?;
            let is_equal = length.is_file() && length.len() == content.len() as u64 && has(file, content)?;
            return if is_equal { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) };
        }
        Err(Errno::NOENT) => {}
        Err(Errno::LOOP) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(e) => return Err(e.into()),
    }
    let part = PathBuf::from(format!(".starfarm-{}.part", std::process::id()));
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, &part, new, Mode::from_raw_mode(0o666))?;
    let written = File::from(file).write_all(content).and_then(|()| Ok(renameat(dir, &part, dir, name)?));
    if written.is_err() {
        // What could not be written is of no use, and a name that is left over would be in the way.
        let _ = unlinkat(dir, &part, AtFlags::empty());
    }
    written
}

fn has(mut file: File, content: &[u8]) -> io::Result<bool> {
    let mut there = Vec::with_capacity(content.len());
    file.read_to_end(&mut there)?;
    Ok(there == content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("starfarm-beneath-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(dir.join("outside")).unwrap();
            Self(dir)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_and_their_folders_are_made_and_what_is_there_must_be_equal() {
        let home = Home::new("made");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        beneath.write(Path::new("a/b/c.txt"), b"one").unwrap();
        beneath.write(Path::new("./a/b/c.txt"), b"one").unwrap();
        let other = beneath.write(Path::new("a/b/c.txt"), b"two").unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(home.0.join("in/a/b/c.txt")).unwrap(), b"one");
        assert_eq!(fs::read_dir(home.0.join("in/a/b")).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn no_name_leads_out() {
        let home = Home::new("out");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        for name in ["../x", "a/../../x", "/x", "", "."] {
            let error = beneath.write(Path::new(name), b"x").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert!(!home.0.join("x").exists());
    }

    #[test]
    fn no_link_beneath_is_followed() {
        let home = Home::new("link");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        symlink("../outside", home.0.join("in/folder")).unwrap();
        symlink("../outside/file", home.0.join("in/file")).unwrap();
        let folder = beneath.write(Path::new("folder/x"), b"x").unwrap_err();
        assert_eq!(folder.kind(), io::ErrorKind::NotADirectory);
        let file = beneath.write(Path::new("file"), b"x").unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(home.0.join("outside")).unwrap().count(), 0);
    }
}
