//! The worker's state directory: its lock, its key, the spool of unacknowledged results. What was running
//! when a worker died is in `board`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use starfarm_protocol::seal::{Secret, StaticKey};
use zeroize::Zeroizing;

use crate::WorkerError;

/// An open state directory. The lock lasts as long as the value.
pub(crate) struct State {
    dir: PathBuf,
    _lock: File,
}

impl State {
    /// Makes the directory if need be, private to the user, and locks it.
    ///
    /// # Errors
    /// [`WorkerError::InUse`], [`WorkerError::System`].
    pub(crate) fn open(dir: &Path) -> Result<Self, WorkerError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|e| WorkerError::file("cannot make the state directory", dir, &e))?;
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(|e| WorkerError::file("cannot open", &path, &e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(WorkerError::InUse(dir.to_owned())),
            Err(error) => Err(WorkerError::file("cannot lock", &path, &error.into())),
        }
    }

    /// A file or folder of the state directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The node's key, made at the first start.
    ///
    /// # Errors
    /// Where the file cannot be read or written, or does not hold a key.
    pub(crate) fn key(&self) -> Result<StaticKey, WorkerError> {
        let path = self.path("key");
        match std::fs::read_to_string(&path).map(Zeroizing::new) {
            Ok(text) => Secret::from_text(text.trim()).map(StaticKey::from_secret).map_err(|why| {
                WorkerError::System(format!(
                    "the key file `{}` cannot be used: {why}; move it away to come back as a new node",
                    path.display()
                ))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = StaticKey::generate().map_err(|e| WorkerError::System(e.to_string()))?;
                self.replace("key", key.private().to_text().as_bytes())?;
                Ok(key)
            }
            Err(error) => Err(WorkerError::file("cannot read the key file", &path, &error)),
        }
    }

    /// The results that an earlier incarnation could not deliver, if it left any.
    pub(crate) fn spool(&self) -> Option<Vec<u8>> {
        std::fs::read(self.path("spool")).ok()
    }

    /// Keeps the undelivered results for the next incarnation.
    ///
    /// # Errors
    /// Where the file cannot be written; the results are then computed again.
    pub(crate) fn write_spool(&self, bytes: &[u8]) -> Result<(), WorkerError> {
        self.replace("spool", bytes)
    }

    /// Writes a file so that a crash leaves either the old or the new one whole.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), WorkerError> {
        let (path, fresh) = (self.path(name), self.path(&format!("{name}.new")));
        let write = || {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| WorkerError::file("cannot write", &path, &e))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn the_key_is_made_once_and_private() {
        let dir = TempDir::new();
        let state = State::open(&dir.0.join("deep/down")).unwrap();
        let key = state.key().unwrap().public();
        assert_eq!(state.key().unwrap().public(), key);
        let mode = std::fs::metadata(state.path("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(state.path("key"), "no key").unwrap();
        assert!(state.key().unwrap_err().to_string().contains("move it away"));
    }

    #[test]
    fn a_second_worker_in_the_directory_is_told_so_and_a_later_one_is_let_in() {
        let dir = TempDir::new();
        let first = State::open(&dir.0).unwrap();
        let second = State::open(&dir.0).map(drop).unwrap_err();
        assert!(matches!(second, WorkerError::InUse(_)), "{second}");
        assert!(second.to_string().contains("another worker"));
        drop(first);
        assert!(State::open(&dir.0).is_ok());
    }

    #[test]
    fn the_spool_is_replaced_whole() {
        let dir = TempDir::new();
        let state = State::open(&dir.0).unwrap();
        assert_eq!(state.spool(), None);
        state.write_spool(b"long spool").unwrap();
        state.write_spool(b"short").unwrap();
        assert_eq!(state.spool().unwrap(), b"short");
    }
}
