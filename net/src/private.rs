//! Files and folders that others on the machine must not read or write: a state directory may have been made beforehand,
//! by `mkdir` or by systemd with mode 755, a backup may have come back with other modes, and where others could write they
//! may have put something of theirs.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Everything that a group or others may do.
const OTHERS: u32 = 0o077;
/// A group or others may write: in a folder they may put files there, and without the sticky bit rename and delete what is
/// there.
const WRITABLE: u32 = 0o022;

/// Makes the folder `path` for a daemon's state, and those above it, if need be. One that is there already keeps its mode,
/// which is its owner's choice: all that is put there is private by itself.
///
/// # Errors
/// It cannot be made; or others may write in it, or something in it is another user's: the words say what to do.
pub fn state_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let there = fs::metadata(path)?;
    let (shown, me, uid) = (path.display(), me(), there.uid());
    if is_foreign(uid, me) {
        return Err(refused(format!(
            "it belongs to another user (uid {uid}), who can put files of their own there: choose another place, or run \
             `chown {me} {shown}` as root"
        )));
    }
    if let Some(who) = writers(&there) {
        return Err(refused(format!(
            "{who} may write in it (mode {:03o}) and so could put files of their own there: choose another place, or \
             `chmod go-w {shown}`",
            there.mode() & 0o7777
        )));
    }
    nobody_elses(path, false)
}

/// All that lies in the folder `path` is this user's or root's, links as well; `deep`: so is what lies in the folders there.
/// A link of another user would lead this one's files elsewhere. Nor is there a named pipe: a read of it never ends.
///
/// # Errors
/// Something is another user's, or a pipe: the words say what to do.
pub fn nobody_elses(path: &Path, deep: bool) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let there = match entry.metadata() {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            there => there?,
        };
        let (path, me, uid) = (entry.path(), me(), there.uid());
        if is_foreign(uid, me) {
            let shown = path.display();
            return Err(refused(format!(
                "{shown} belongs to another user (uid {uid}), who may have put it there: delete it, or if it should be \
                 there run `chown -h {me} {shown}` as root"
            )));
        }
        no_pipe(&path, &there)?;
        if deep && there.is_dir() {
            nobody_elses(&path, deep)?;
        }
    }
    Ok(())
}

/// A read of a named pipe never ends where nobody writes to it.
fn no_pipe(path: &Path, there: &Metadata) -> io::Result<()> {
    let shown = path.display();
    let is_pipe = there.file_type().is_fifo();
    if is_pipe {
        Err(refused(format!("{shown} is a named pipe, and no file here is one: delete it")))
    } else {
        Ok(())
    }
}

/// Nobody but this user and root can change the file `path`, which a person wrote; and it is no named pipe.
///
/// # Errors
/// It is not there, or others can: the words say what to do.
pub fn unchanged_by_others(path: &Path) -> io::Result<()> {
    // A link may lead to one: what a shell puts in place of `<(COMMAND)` does.
    no_pipe(path, &fs::symlink_metadata(path)?)?;
    let there = fs::metadata(path)?;
    let (shown, me, uid) = (path.display(), me(), there.uid());
    if is_foreign(uid, me) {
        return Err(refused(format!(
            "it belongs to another user (uid {uid}), who can change it: run `chown {me} {shown}` as root"
        )));
    }
    match writers(&there) {
        Some(who) => {
            let mode = there.mode() & 0o7777;
            Err(refused(format!("{who} may write it (mode {mode:03o}): run `chmod go-w {shown}`")))
        }
        None => Ok(()),
    }
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether what belongs to `uid` is neither of the user `me` nor of root, who can do anything anyway.
fn is_foreign(uid: u32, me: u32) -> bool {
    uid != 0 && uid != me
}

/// Who may write there beside the owner. That nobody else is in the group is not looked up.
fn writers(there: &Metadata) -> Option<&'static str> {
    match there.mode() & WRITABLE {
        0 => None,
        0o020 => Some("its group"),
        _ => Some("everybody on this machine"),
    }
}

fn refused(words: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, words)
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
    let unclosed = |why: &dyn std::fmt::Display| {
        let (shown, owned) = (path.display(), before & 0o700);
        refused(format!(
            "others on this machine can use {shown} (mode {before:03o}), and that cannot be changed: {why}. Run \
             `chmod {owned:03o} {shown}` as its owner, or choose another place"
        ))
    };
    fs::set_permissions(path, Permissions::from_mode(before & !OTHERS)).map_err(|e| unclosed(&e))?;
    // Some file systems take any mode and keep none.
    if mode(path)? & OTHERS != 0 {
        return Err(unclosed(&"its file system keeps no modes"));
    }
    Ok(Some(format!(
        "others on this machine could use {} till now (mode {before:03o}); it is closed to them. If it holds a key \
         and they are not to be trusted, revoke that",
        path.display()
    )))
}

/// The folder that the link `path` leads to is closed to all but its owner.
///
/// # Errors
/// Others can use it: the words say what to do. It stays as it is: they may have to.
pub fn closed(path: &Path) -> io::Result<()> {
    let (there, shown) = (mode(path)?, path.display());
    if there & OTHERS == 0 {
        return Ok(());
    }
    Err(refused(format!(
        "{shown} leads to a folder that others on this machine can use (mode {there:03o}): let it lead to one that only you \
         can use (mode 700)"
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
    fn a_state_folder_keeps_its_mode_unless_others_may_write_there() {
        let path = scratch("state");
        state_folder(&path).unwrap();
        assert_eq!(mode(&path).unwrap(), 0o700);
        for (given, who) in [
            (0o755, None),
            (0o2750, None),
            (0o775, Some("its group may write in it (mode 775)")),
            (0o720, Some("its group may write in it (mode 720)")),
            (0o1777, Some("everybody on this machine may write in it (mode 1777)")),
            (0o777, Some("everybody on this machine may write in it (mode 777)")),
            (0o702, Some("everybody on this machine may write in it (mode 702)")),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(given)).unwrap();
            let words = state_folder(&path).map_err(|e| e.to_string());
            let fits = match (&words, who) {
                (Ok(()), None) => true,
                (Err(words), Some(who)) => words.contains(who) && words.contains("`chmod go-w "),
                _ => false,
            };
            assert!(fits, "{given:o}: {words:?}");
            assert_eq!(mode(&path).unwrap(), given & 0o777);
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_file_that_a_person_wrote_is_not_believed_where_others_may_write_it() {
        let above = scratch("settings");
        private_folder(&above).unwrap();
        let path = above.join("config.toml");
        assert_eq!(unchanged_by_others(&path).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, "").unwrap();
        for (given, fine) in [(0o644, true), (0o664, false), (0o666, false)] {
            fs::set_permissions(&path, Permissions::from_mode(given)).unwrap();
            let words = unchanged_by_others(&path).map_err(|e| e.to_string());
            assert_eq!(words.is_ok(), fine, "{given:o}: {words:?}");
            assert!(words.is_ok() || words.is_err_and(|words| words.contains("`chmod go-w ")));
        }
        fs::remove_dir_all(above).unwrap();
    }

    #[test]
    fn what_is_another_users_is_neither_ours_nor_roots() {
        let foreign = [(1_000, 1_000), (0, 1_000), (1_001, 1_000), (1_000, 0), (0, 0)];
        assert_eq!(foreign.map(|(uid, me)| is_foreign(uid, me)), [false, false, true, true, false]);
    }

    /// Whether this is root, who alone can make another user's files; where not, the summary of the run says that `test` was
    /// skipped.
    fn is_root(test: &str) -> bool {
        use std::io::Write;
        let is_root = me() == 0;
        if let Some(path) = std::env::var_os("STARFARM_SKIPS").filter(|_| !is_root) {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "root: {test}: only root makes files of other users").unwrap();
        }
        is_root
    }

    #[test]
    fn what_another_user_has_put_there_is_refused_by_its_name() {
        use std::os::unix::fs::{chown, lchown, symlink};
        if !is_root("private::planted") {
            return;
        }
        let path = scratch("planted");
        state_folder(&path.join("journal/deep")).unwrap();
        let planted = |at: &Path, make: &dyn Fn(&Path), words: &dyn Fn() -> String| {
            make(at);
            assert_eq!(words(), "", "it is ours: {}", at.display());
            lchown(at, Some(1_234), None).unwrap();
            let told = words();
            let (shown, does) = (at.display(), format!("`chown -h 0 {}`", at.display()));
            assert!(told.starts_with(&format!("{shown} belongs to another user (uid 1234)")), "{told}");
            assert!(told.contains("delete it") && told.contains(&does), "{told}");
            if at.is_dir() && !at.is_symlink() { fs::remove_dir(at) } else { fs::remove_file(at) }.unwrap();
        };
        let link = |at: &Path| symlink("/etc", at).unwrap();
        let file = |at: &Path| fs::write(at, "").unwrap();
        let folder = |at: &Path| fs::create_dir(at).unwrap();
        let said = |outcome: io::Result<()>| outcome.err().map_or_else(String::new, |e| e.to_string());
        for make in [&link as &dyn Fn(&Path), &file, &folder] {
            planted(&path.join("planted"), make, &|| said(state_folder(&path)));
            planted(&path.join("journal/deep/planted"), make, &|| said(nobody_elses(&path, true)));
        }
        fs::write(path.join("journal/planted"), "").unwrap();
        chown(path.join("journal/planted"), Some(1_234), None).unwrap();
        state_folder(&path).unwrap();
        let words = said(unchanged_by_others(&path.join("journal/planted")));
        assert!(words.starts_with("it belongs to another user (uid 1234)"), "{words}");
        chown(&path, Some(1_234), None).unwrap();
        let words = said(state_folder(&path));
        assert!(words.starts_with("it belongs to another user (uid 1234)"), "{words}");
        assert!(words.contains("choose another place"), "{words}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_named_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
        let path = scratch("pipe");
        state_folder(&path.join("outputs")).unwrap();
        for at in ["keys.json", "outputs/again"].map(|name| path.join(name)) {
            assert!(std::process::Command::new("mkfifo").arg(&at).status().unwrap().success());
            let words = nobody_elses(&path, true).unwrap_err().to_string();
            assert_eq!(
                words,
                format!("{} is a named pipe, and no file here is one: delete it", at.display())
            );
            fs::remove_file(at).unwrap();
        }
        nobody_elses(&path, true).unwrap();
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
