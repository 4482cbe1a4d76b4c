//! Files and folders that others on the machine must not read: a state directory may have been made beforehand, by
//! `mkdir` or by systemd with mode 755, and a backup may have come back with other modes.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Everything that a group or others may do.
const OTHERS: u32 = 0o077;
/// Everybody may put files there, and without the sticky bit rename and delete what is there.
const WRITABLE: u32 = 0o002;

/// Makes the folder `path` for a daemon's state, and those above it, if need be. One that is there already keeps its mode,
/// which is its owner's choice: all that is put there is private by itself.
///
/// # Errors
/// It cannot be made; or everybody may write in it: the words say what to do.
pub fn state_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & WRITABLE != 0 {
        let words = format!(
            "everybody on this machine may write in it (mode {mode:03o}) and so could put files of their own there: choose \
             another place, or `chmod o-w {}`",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, words));
    }
    Ok(())
}

/// Makes the folder `path`, and those above it, if need be; one that is there already is closed to all but its owner.
///
/// # Errors
/// It cannot be made, or cannot be closed: the words say what to do.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    close(path).map(drop)
}

/// Closes the file or folder `path` to all but its owner. What a person should know, if others could have used it till
/// now.
///
/// # Errors
/// Others can use it all the same: the words say what to do.
pub fn close(path: &Path) -> io::Result<Option<String>> {
    let before = mode(path)?;
    if before & OTHERS == 0 {
        return Ok(None);
    }
    let refused = |why: &dyn std::fmt::Display| {
        let (shown, owned) = (path.display(), before & 0o700);
        let words = format!(
            "others on this machine can use {shown} (mode {before:03o}), and that cannot be changed: {why}. Run \
             `chmod {owned:03o} {shown}` as its owner, or choose another place"
        );
        io::Error::new(ErrorKind::PermissionDenied, words)
    };
    fs::set_permissions(path, Permissions::from_mode(before & !OTHERS)).map_err(|e| refused(&e))?;
    // Some file systems take any mode and keep none.
    if mode(path)? & OTHERS != 0 {
        return Err(refused(&"its file system keeps no modes"));
    }
    Ok(Some(format!(
        "others on this machine could use {} till now (mode {before:03o}); it is closed to them. If it holds a key \
         and they are not to be trusted, revoke that",
        path.display()
    )))
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-private-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_folder_that_was_made_beforehand_is_closed_and_a_new_one_was_never_open() {
        let above = scratch("folder");
        let path = above.join("deep/down");
        private_folder(&path).unwrap();
        for made in [&above, &path] {
            assert_eq!(mode(made).unwrap(), 0o700, "{}", made.display());
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        private_folder(&path).unwrap();
        assert_eq!(mode(&path).unwrap(), 0o700);
        fs::remove_dir_all(above).unwrap();
    }

    #[test]
    fn a_state_folder_keeps_its_mode_unless_everybody_may_write_there() {
        let path = scratch("state");
        state_folder(&path).unwrap();
        assert_eq!(mode(&path).unwrap(), 0o700);
        for (given, fine) in [(0o755, true), (0o775, true), (0o1777, false), (0o777, false), (0o702, false)] {
            fs::set_permissions(&path, Permissions::from_mode(given)).unwrap();
            let words = state_folder(&path).map_err(|e| e.to_string());
            assert_eq!(words.is_ok(), fine, "{given:o}: {words:?}");
            assert!(words.is_ok() || words.is_err_and(|words| words.contains("chmod o-w")));
            assert_eq!(mode(&path).unwrap(), given & 0o777);
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_file_that_others_could_read_is_closed_and_told_once() {
        let above = scratch("file");
        private_folder(&above).unwrap();
        let path = above.join("key");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let told = close(&path).unwrap().unwrap();
        assert!(told.contains("mode 640") && told.contains("revoke"), "{told}");
        assert_eq!((mode(&path).unwrap(), close(&path).unwrap()), (0o600, None));
        fs::remove_dir_all(above).unwrap();
    }

    /// Modes are not kept there, whoever asks.
    #[test]
    fn what_cannot_be_closed_is_refused_in_words() {
        let words = close(Path::new("/proc/self/limits")).unwrap_err().to_string();
        assert!(words.contains("mode 444") && words.contains("chmod 400"), "{words}");
    }
}
