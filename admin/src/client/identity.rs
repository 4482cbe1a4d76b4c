//! Who the caller is to a farm elsewhere: a static key in a private file, and a name for the list of keys.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::seal::{Role, StaticKey, is_valid_name};
use zeroize::Zeroizing;

use crate::config;
use crate::failure::Failure;
use crate::output::say;

/// The user's key for `role`, made when it is first needed. A scheduler holds a key to the role that it
/// enrolled with, so each role has its own: `admin.key`, `operator.key`, `observer.key`.
pub(super) fn key(role: Role) -> Result<StaticKey, Failure> {
    key_in(&config::state_folder()?, &format!("{}.key", role))
}

fn key_in(folder: &Path, name: &str) -> Result<StaticKey, Failure> {
    let path = folder.join(name);
    let failure = |what: &str, error: &std::io::Error| {
        Failure::usage(format!(
            "cannot {what} your key {}: {error}: check the directory's permissions",
            path.display()
        ))
    };
    match std::fs::read_to_string(&path).map(Zeroizing::new) {
        Ok(text) => {
            let told = starfarm_net::close(&path).map_err(|error| Failure::usage(error.to_string()))?;
            told.iter().for_each(|told| say(told));
            StaticKey::from_file(&text).map_err(|error| {
                Failure::usage(format!(
                    "your key {} is damaged ({error}): remove it, and a new one is made and enrolled",
                    path.display()
                ))
            })
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(Failure::usage(format!(
            "your key {} is damaged (it is no text): remove it, and a new one is made and enrolled",
            path.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = StaticKey::generate().map_err(|error| Failure::usage(error.to_string()))?;
            match keep(folder, &path, &key) {
                // Another command has made one meanwhile: use that.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => key_in(folder, name),
                kept => kept.map(|()| key).map_err(|error| failure("write", &error)),
            }
        }
        Err(error) => Err(failure("read", &error)),
    }
}

/// Writes the file beside and links it, so that nobody ever reads half a key.
fn keep(folder: &Path, path: &Path, key: &StaticKey) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let fresh = folder.join(format!("new-key-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    let written = file
        .write_all(key.to_file().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::hard_link(&fresh, path));
    std::fs::remove_file(&fresh)?;
    written
}

/// USER@HOST and the beginning of the key, so that no two keys ask for the same name.
pub(super) fn name(key: &PublicKey) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name_of(&user(), host.trim(), key)
}

fn name_of(user: &str, host: &str, key: &PublicKey) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let short = |text: &str| text.chars().map(clean).take(24).collect::<String>();
    let digits = &key.to_string()[..8];
    let name = format!("{}@{}-{digits}", short(user), short(host));
    if is_valid_name(&name) { name } else { format!("admin-{digits}") }
}

/// The user's name, for people to read; what a user may do never depends on it.
pub(crate) fn user() -> String {
    let named =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    named.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let folder = std::env::temp_dir().join(format!("starfarm-identity-{}", std::process::id()));
        let key = key_in(&folder, "admin.key").unwrap();
        assert_eq!(key_in(&folder, "admin.key").unwrap().public(), key.public());
        assert_ne!(key_in(&folder, "observer.key").unwrap().public(), key.public());
        let mode = std::fs::metadata(folder.join("admin.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let late = keep(&folder, &folder.join("admin.key"), &StaticKey::generate().unwrap());
        assert_eq!(late.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        std::fs::write(folder.join("admin.key"), "half").unwrap();
        assert!(key_in(&folder, "admin.key").unwrap_err().message.contains("remove it"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_are_valid_and_differ_with_the_key() {
        let key = PublicKey([0xab; 32]);
        assert_eq!(name_of("ada", "node-1", &key), "ada@node-1-abababab");
        assert_eq!(name_of("", "", &key), "admin-abababab");
        for (user, host) in [("é b", "x/y"), (&*"u".repeat(99), &*"h".repeat(99)), ("-", "-")] {
            assert!(is_valid_name(&name_of(user, host, &key)), "{user} {host}");
        }
    }
}
