//! A directory of one test.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Set, it keeps the directories of tests and soaks, for a look at what went wrong.
const KEEP: &str = "STARFARM_KEEP";

/// A directory that is removed with everything in it. Its path is short: a Unix socket below it must fit
/// into 108 bytes.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new, empty directory.
    ///
    /// # Panics
    /// It cannot be made.
    #[expect(clippy::new_without_default, reason = "each one is another directory")]
    pub fn new() -> Self {
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("sf-e2e-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // One that was killed has left it behind, or one in another container has the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it and returns its path.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os(KEEP).is_some() {
            eprintln!("kept: {}", self.0.display());
            return;
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
