//! Why a scheduler does not start or stops.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use starfarm_protocol::ids::Epoch;

/// An error for a person; the text says what to do.
#[derive(Debug)]
pub enum SchedulerError {
    /// The state directory cannot be used.
    State(String),
    /// The address cannot be listened on, or settings cannot be.
    Usage(String),
}

impl SchedulerError {
    /// The address is taken, or not ours.
    pub(crate) fn cannot_listen(protocol: &str, address: SocketAddr, error: &std::io::Error) -> Self {
        Self::Usage(format!(
            "cannot listen on {protocol} {address}: {error}; stop what uses the port, or choose another with \
             --listen"
        ))
    }

    /// The directory is an old copy: its farm went on elsewhere.
    pub(crate) fn superseded(later: Epoch, ours: Epoch, state: &Path) -> Self {
        Self::State(format!(
            "workers of this farm know epoch {}, and {} is at epoch {}: it is an old copy, or another scheduler \
             has this farm. Start the newer directory; or, if that is gone for good, take over from here with \
             --take-over: what was done since then is computed again",
            later.0,
            state.display(),
            ours.0
        ))
    }

    /// Exit code of the command line: 6, it does not fit the state of things; 2 where the arguments are
    /// wrong.
    pub fn exit_code(&self) -> u8 {
        match self {
            SchedulerError::State(_) => 6,
            SchedulerError::Usage(_) => 2,
        }
    }
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SchedulerError::State(text) | SchedulerError::Usage(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for SchedulerError {}
