//! The stages that each back end of the farm has beside its own, as somebody has loaded them: kept in `monitor.toml`, told to
//! all agents, and loaded again when the scheduler starts again.

use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::UNIX_EPOCH;

use starfarm_agent::check_farm_file;

use super::Tree;
use super::stages::Stages;
use crate::store::state::{StateDir, replace};

/// Where they are kept.
const FILE: &str = "monitor.toml";

impl Tree {
    /// These are in force from now on, once they are kept.
    ///
    /// # Errors
    /// They cannot be had, or not be kept: nothing has changed; in words.
    pub(crate) fn load(&self, state: &StateDir, text: String) -> Result<(), String> {
        check_farm_file(FILE, &text).map_err(|error| error.to_string())?;
        replace(&state.file(FILE), text.as_bytes()).map_err(|error| error.to_string())?;
        self.put(text, state);
        Ok(())
    }

    /// Loads what was kept. A file that nobody can use is said, and is as if there were none.
    pub(crate) fn load_again(&self, state: &StateDir) {
        let path = state.file(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                return starfarm_net::say(&format!("no stages of the farm: {}: {error}", path.display()));
            }
        };
        match check_farm_file(&path.display().to_string(), &text) {
            Ok(()) => self.put(text, state),
            Err(error) => starfarm_net::say(&format!("no stages of the farm: {error}")),
        }
    }

    /// When the file was written tells one load from another, also after a restart.
    fn put(&self, text: String, state: &StateDir) {
        let written = std::fs::metadata(state.file(FILE)).and_then(|file| file.modified()).ok();
        let written_ns =
            written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_nanos();
        let stages = Arc::new(Stages::new(text, written_ns));
        *self.stages.lock().unwrap_or_else(PoisonError::into_inner) = stages;
        let _ = self.waker.wake();
    }

    /// What all back ends are to have.
    pub(crate) fn stages(&self) -> Arc<Stages> {
        Arc::clone(&self.stages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
