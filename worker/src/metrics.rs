//! Where programs of units tell figures of their own: a socket for each job, which the node's monitoring agent makes once
//! somebody asks for it. Its path is in the environment of programs, `STARFARM_METRICS`.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use starfarm_protocol::ids::JobId;

use crate::say::say;

/// So often, and so long each time, the first program of a job waits for the socket. It starts without one as well.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(5);

/// The folder of these sockets.
pub(crate) struct Metrics(PathBuf);

impl Metrics {
    /// The folder of a worker whose state is there. The path of a socket has 107 bytes at most, so it is none below that.
    pub(crate) fn folder(state: &Path) -> PathBuf {
        let mut hash = DefaultHasher::new();
        (state, rustix::process::getuid().as_raw()).hash(&mut hash);
        std::env::temp_dir().join(format!("starfarm-metrics-{:016x}", hash.finish()))
    }

    /// Makes the folder, empty.
    ///
    /// # Errors
    /// It cannot be made, or is somebody else's.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let folder = Self::folder(state);
        starfarm_net::private_folder(&folder)?;
        for entry in fs::read_dir(&folder)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Self(folder))
    }

    /// The same; without it programs have no such socket, and run all the same.
    pub(crate) fn open_or_say(state: &Path) -> Option<Arc<Self>> {
        let opened = Self::open(state).map(Arc::new);
        let why = |error| say(&format!("nobody hears figures of programs, for want of a folder: {error}"));
        opened.map_err(why).ok()
    }

    /// The path of a job's socket, which is there soon.
    pub(crate) fn of(&self, job: JobId) -> PathBuf {
        let (socket, wanted) = (self.0.join(job.0.to_string()), self.0.join(format!("{}.wanted", job.0)));
        // Without it nobody hears the program, which can be told nothing better.
        if !wanted.exists() && OpenOptions::new().create(true).append(true).open(&wanted).is_ok() {
            for _ in 0..LOOKS {
                if socket.exists() {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        socket
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let _ = starfarm_net::remove_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_job_has_a_path_that_a_socket_can_have_however_deep_the_state_lies() {
        let dir = TempDir::new();
        let state = dir.0.join("a".repeat(200));
        let metrics = Metrics::open(&state).unwrap();
        let path = metrics.of(JobId(7));
        assert!(path.as_os_str().len() < 100 && path.with_extension("wanted").exists());
        assert_eq!(metrics.of(JobId(7)), path);
        // What one that was killed has left behind goes.
        drop(Metrics::open(&state).unwrap());
        assert!(!path.with_extension("wanted").exists());
    }
}
