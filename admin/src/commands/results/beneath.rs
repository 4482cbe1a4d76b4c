//! A folder of the user's, beneath which files are written under names that others had a say in: no name leads out of it,
//! and no link that lies beneath it is followed. A file has no name until it is whole.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder.
pub(super) struct Beneath {
    dir: OwnedFd,
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum There {
    /// It must be equal.
    Stays,
    /// It gives way: we wrote it ourselves.
    GivesWay,
}

impl Beneath {
    /// The folder `dir`, which is made if need be. The user named it, so it may be a link.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: openat(CWD, dir, flags, Mode::empty())? })
    }

    /// Writes a file, which is then whole or not there; its folders are made. Without `mode` it gets what the system gives.
    ///
    /// # Errors
    /// As [`Beneath::place`].
    pub(super) fn write(
        &self,
        name: &Path,
        mode: Option<u32>,
        content: &mut dyn Read,
        there: There,
    ) -> io::Result<()> {
        let mut part = self.part()?;
        io::copy(content, &mut part.file)?;
        if let Some(mode) = mode {
            part.file.set_permissions(Permissions::from_mode(mode))?;
        }
        self.place(part, name, there)
    }

    /// A file that has no name in the folder yet.
    pub(super) fn part(&self) -> io::Result<Part> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = openat(&self.dir, ".", flags, Mode::from_raw_mode(0o666)) {
            return Ok(Part { file: file.into(), named: None });
        }
        // Some file systems do not know such files.
        let (dir, name) = (self.dir.try_clone()?, part_name());
        let _ = unlinkat(&dir, &name, AtFlags::empty());
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, &name, new, Mode::from_raw_mode(0o666))?;
        Ok(Part { file: file.into(), named: Some((dir, name)) })
    }

    /// A part that is whole gets its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where the name leads out of the folder or is none;
    /// [`io::ErrorKind::AlreadyExists`] where another file has it that stays; [`io::ErrorKind::NotADirectory`] where a link
    /// or a file is in the way.
    pub(super) fn place(&self, mut part: Part, name: &Path, there: There) -> io::Result<()> {
        let (dir, name) = self.folder_of(name)?;
        match part.name(&dir, name) {
            Err(Errno::EXIST) if part.is_equal(&dir, name)? => Ok(()),
            Err(Errno::EXIST) if there == There::GivesWay => Ok(part.replace(&dir, name)?),
            named => Ok(named?),
        }
    }

    /// The folder that a file of this name lies in, made if need be, and its name there.
    fn folder_of<'a>(&self, name: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
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
        Ok((dir, file))
    }
}

/// A link where a folder should be is reported as one or the other, by the system.
fn in_the_way(e: Errno) -> io::Error {
    match e {
        Errno::LOOP | Errno::NOTDIR => io::ErrorKind::NotADirectory.into(),
        e => e.into(),
    }
}

fn part_name() -> PathBuf {
    PathBuf::from(format!(".starfarm-{}.part", std::process::id()))
}

/// A file that is being written. What gets no name is gone when it is closed.
pub(super) struct Part {
    pub(super) file: File,
    /// Only where the file system knows no files without a name: the one that it has meanwhile.
    named: Option<(OwnedFd, PathBuf)>,
}

impl Part {
    /// Gives it a name that is free.
    fn name(&mut self, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let Some((root, part)) = &self.named else {
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            return linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW);
        };
        match openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
        renameat(root, part, dir, name)?;
        self.named = None;
        Ok(())
    }

    /// Takes the place of what has that name.
    fn replace(&mut self, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        if self.named.is_none() {
            // A link does not replace what is there.
            let (dir, part) = (dir.try_clone().map_err(|_| Errno::MFILE)?, part_name());
            let _ = unlinkat(&dir, &part, AtFlags::empty());
            self.name(&dir, part.as_os_str())?;
            self.named = Some((dir, part));
        }
        let (from, part) = self.named.as_ref().expect("it was just named");
        renameat(from, part, dir, name)?;
        self.named = None;
        Ok(())
    }

    /// Whether the file of that name, which is there, has the same bytes. A link has none.
    fn is_equal(&mut self, dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let other = match openat(dir, name, flags, Mode::empty()) {
            Ok(other) => File::from(other),
            Err(Errno::LOOP) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        let (ours, theirs) = (self.file.metadata()?, other.metadata()?);
        if !theirs.is_file() || ours.len() != theirs.len() {
            return Ok(false);
        }
        self.file.rewind()?;
        has_same_bytes(&self.file, &other)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some((dir, name)) = self.named.take() {
            // What could not be written is of no use, and a name that is left over would be in the way.
            let _ = unlinkat(&dir, &name, AtFlags::empty());
        }
    }
}

fn has_same_bytes(one: &File, other: &File) -> io::Result<bool> {
    let (mut one, mut other) = (one, other);
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..count]) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
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

    fn write(beneath: &Beneath, name: &str, content: &[u8]) -> io::Result<()> {
        beneath.write(Path::new(name), None, &mut &*content, There::Stays)
    }

    #[test]
    fn files_and_their_folders_are_made_and_what_is_there_must_be_equal() {
        let home = Home::new("made");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        write(&beneath, "a/b/c.txt", b"one").unwrap();
        write(&beneath, "./a/b/c.txt", b"one").unwrap();
        let other = write(&beneath, "a/b/c.txt", b"two").unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(home.0.join("in/a/b/c.txt")).unwrap(), b"one");
        assert_eq!(fs::read_dir(home.0.join("in/a/b")).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn no_name_leads_out() {
        let home = Home::new("out");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        for name in ["../x", "a/../../x", "/x", "", "."] {
            let error = write(&beneath, name, b"x").unwrap_err();
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
        let folder = write(&beneath, "folder/x", b"x").unwrap_err();
        assert_eq!(folder.kind(), io::ErrorKind::NotADirectory);
        let file = write(&beneath, "file", b"x").unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(home.0.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn what_we_wrote_ourselves_gives_way_whole_and_leaves_nothing_over() {
        let home = Home::new("gives-way");
        let beneath = Beneath::open(&home.0.join("in")).unwrap();
        for (content, there) in [("one", There::Stays), ("other", There::GivesWay)] {
            beneath.write(Path::new("a/x"), Some(0o750), &mut content.as_bytes(), there).unwrap();
            assert_eq!(fs::read_to_string(home.0.join("in/a/x")).unwrap(), content);
        }
        assert_eq!(fs::metadata(home.0.join("in/a/x")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(home.0.join("in/a")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(home.0.join("in")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_has_no_name_until_it_is_whole() {
        let home = Home::new("whole");
        let (beneath, dir) = (Beneath::open(&home.0.join("in")).unwrap(), home.0.join("in"));
        let mut part = beneath.part().unwrap();
        std::io::Write::write_all(&mut part.file, b"half").unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        beneath.place(part, Path::new("x"), There::Stays).unwrap();
        assert_eq!(fs::read(dir.join("x")).unwrap(), b"half");
        drop(beneath.part().unwrap());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[test]
    fn a_file_system_without_unnamed_files_serves_as_well() {
        let home = Home::new("named");
        let (beneath, dir) = (Beneath::open(&home.0.join("in")).unwrap(), home.0.join("in"));
        let part = |content: &[u8]| {
            fs::write(dir.join(part_name()), content).unwrap();
            let file = File::options().read(true).write(true).open(dir.join(part_name())).unwrap();
            Part { file, named: Some((beneath.dir.try_clone().unwrap(), part_name())) }
        };
        let x = Path::new("a/x");
        beneath.place(part(b"one"), x, There::Stays).unwrap();
        beneath.place(part(b"one"), x, There::Stays).unwrap();
        let other = beneath.place(part(b"two"), x, There::Stays).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::AlreadyExists);
        beneath.place(part(b"two"), x, There::GivesWay).unwrap();
        assert_eq!(fs::read(dir.join(x)).unwrap(), b"two");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no part is left over");
    }
}
