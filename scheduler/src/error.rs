//! Why a scheduler does not start or stops.

use std::fmt;
use std::net::SocketAddr;

/// An error for a person; the text says what to do.
#[derive(Debug)]
pub enum SchedulerError {
    /// The state directory cannot be used.
    State(String),
    /// The address cannot be listened on.
    Listen(String),
}

impl SchedulerError {
    /// The address is taken, or not ours.
    pub(crate) fn cannot_listen(protocol: &str, address: SocketAddr, error: &std::io::Error) -> Self {
        Self::Listen(format!(
            "cannot listen on {protocol} {address}: {error}; stop what uses the port, or choose another with \
             --listen"
        ))
    }

    /// Exit code of the command line: 6, it does not fit the state of things; 2 where the arguments are
    /// wrong.
    pub fn exit_code(&self) -> u8 {
        match self {
            SchedulerError::State(_) => 6,
            SchedulerError::Listen(_) => 2,
        }
    }
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulerError::State(text) | SchedulerError::Listen(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SchedulerError {}
