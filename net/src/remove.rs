//! Removing what a user's program has left behind, whatever modes it gave to its folders.

use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

/// What removing from a folder takes.
const USABLE: u32 = 0o700;

/// Removes `path` with all that is in it; a file or a link is unlinked, and a link is followed nowhere. Where a folder keeps
/// its owner from doing that, as one of mode 555 does, the folders are made usable and it is tried once more.
///
/// # Errors
/// Something cannot be removed all the same; then some may be gone. That there is nothing at `path` is no error.
pub fn remove_all(path: &Path) -> io::Result<()> {
    match removed(path) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            // What stays closed makes itself known by the next attempt.
            if let Ok(folder) = folder(CWD, path) {
                open_up(&folder);
            }
            removed(path)
        }
        outcome => outcome,
    }
}

fn removed(path: &Path) -> io::Result<()> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    outcome.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// The folder of this name in `above`, whatever its mode; no link to one.
fn folder<P: rustix::path::Arg>(above: impl std::os::fd::AsFd, name: P) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(above, name, flags, Mode::empty())?)
}

/// Makes this folder and those below it usable to their owner, as far as that can be done. It goes from one open folder to
/// the next: a link that somebody puts in place of one meanwhile leads nowhere.
fn open_up(at: &OwnedFd) {
    let mode = rustix::fs::fstat(at).map_or(USABLE, |there| there.st_mode & 0o7777);
    if mode & USABLE != USABLE {
        // A descriptor of a folder that cannot be read takes no `fchmod`. This name stands for the folder that it has open.
        let named = format!("/proc/self/fd/{}", at.as_raw_fd());
        let _ = fs::set_permissions(named, Permissions::from_mode(mode | USABLE));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(list) = rustix::fs::openat(at, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
    for entry in list.flatten() {
        let name: &CStr = entry.file_name();
        let may_be_one = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if may_be_one
            && !matches!(name.to_bytes(), b"." | b"..")
            && let Ok(below) = folder(at, name)
        {
            open_up(&below);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use rustix::process::Uid;

    use super::*;

    const NOBODY: u32 = 65_534;

    /// Does `act` in an empty folder as a user who is not root: root may do anything, whatever the modes.
    fn as_a_user(name: &str, act: impl FnOnce(&Path) + Send) {
        let dir = std::env::temp_dir().join(format!("starfarm-remove-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                if is_root {
                    let uid = Uid::from_raw(NOBODY);
                    // Of this thread alone, which ends with it.
                    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                }
                act(&dir);
            });
            user.join().unwrap();
        });
        fs::remove_dir_all(&dir).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_that_nobody_may_write_go_with_all_that_is_in_them() {
        as_a_user("closed", |dir| {
            for closed in [0o555, 0o600, 0o300, 0o000] {
                let root = dir.join("work");
                fs::create_dir_all(root.join("a/b")).unwrap();
                fs::create_dir_all(root.join("c")).unwrap();
                for name in ["a/b/film", "a/film", "c/film"] {
                    fs::write(root.join(name), "x").unwrap();
                }
                for name in ["a/b", "a", "c", ""] {
                    set_mode(&root.join(name), closed);
                }
                assert!(fs::remove_dir_all(&root).is_err(), "this user may do anything, mode {closed:o}");
                remove_all(&root).unwrap();
                assert!(!root.exists(), "mode {closed:o}");
            }
        });
    }

    #[test]
    fn what_a_link_leads_to_stays_as_it_is() {
        as_a_user("link", |dir| {
            let elsewhere = dir.join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            fs::write(elsewhere.join("film"), "x").unwrap();
            set_mode(&elsewhere, 0o555);
            let root = dir.join("work");
            fs::create_dir_all(root.join("a")).unwrap();
            symlink(&elsewhere, root.join("a/link")).unwrap();
            set_mode(&root.join("a"), 0o555);
            remove_all(&root).unwrap();
            assert!(!root.exists());
            symlink(&elsewhere, &root).unwrap();
            remove_all(&root).unwrap();
            assert!(root.symlink_metadata().is_err());
            assert_eq!(mode(&elsewhere), 0o555);
            assert!(elsewhere.join("film").exists());
            set_mode(&elsewhere, 0o755);
        });
    }

    #[test]
    fn a_file_is_unlinked_and_nothing_is_no_error() {
        as_a_user("file", |dir| {
            let path = dir.join("film");
            fs::write(&path, "x").unwrap();
            remove_all(&path).unwrap();
            assert!(!path.exists());
            remove_all(&path).unwrap();
            remove_all(&path.join("below")).unwrap();
        });
    }

    #[test]
    fn what_cannot_be_removed_all_the_same_is_told() {
        as_a_user("kept", |dir| {
            let above = dir.join("above");
            fs::create_dir_all(above.join("work")).unwrap();
            set_mode(&above, 0o555);
            let told = remove_all(&above.join("work")).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::PermissionDenied);
            assert_eq!(mode(&above), 0o555, "what is above is another's");
            set_mode(&above, 0o755);
        });
    }
}
