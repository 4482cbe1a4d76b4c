//! Why a worker ends, in sentences for the person who started it, and with which exit code.

use std::fmt;
use std::path::Path;

/// Why a worker could not start, or had to end.
#[derive(Debug)]
pub enum WorkerError {
    /// What the person gave cannot be used: a flag, the join file.
    Usage(String),
    /// The scheduler refuses this node: a revoked key, a name held by another, another version.
    Refused(String),
    /// Asked to stop twice: running units were ended.
    Interrupted,
    /// The state directory cannot be used, or another worker uses it.
    State(String),
    /// The operating system does not give what a worker needs.
    System(String),
}

impl WorkerError {
    /// The exit code of the process, see the command line's contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            WorkerError::System(_) => 1,
            WorkerError::Usage(_) => 2,
            WorkerError::Refused(_) => 5,
            WorkerError::State(_) => 6,
            WorkerError::Interrupted => 130,
        }
    }

    /// An error of the system about a file in the state directory.
    pub(crate) fn file(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::State(format!("{what} `{}`: {error}", path.display()))
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerError::Usage(words)
            | WorkerError::Refused(words)
            | WorkerError::State(words)
            | WorkerError::System(words) => f.write_str(words),
            WorkerError::Interrupted => f.write_str("stopped at once; running units were ended"),
        }
    }
}

impl std::error::Error for WorkerError {}
