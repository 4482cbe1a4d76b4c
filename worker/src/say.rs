//! What the person at the worker reads: lines on standard error, and the system's errors in words.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use starfarm_protocol::foreign;

use crate::WorkerError;

static STARTED: OnceLock<Instant> = OnceLock::new();

/// The worker starts now.
pub(crate) fn starts() {
    STARTED.get_or_init(Instant::now);
}

/// A line for the person, with the seconds since the start, as the scheduler's have them.
pub(crate) fn say(words: &str) {
    let seconds = STARTED.get_or_init(Instant::now).elapsed().as_secs_f64();
    starfarm_net::say(&format!("[{seconds:>12.3}] starfarm-worker: {}", foreign::line(words)));
}

/// The system does not give what the worker needs.
pub(crate) fn no(what: &str, error: &io::Error) -> WorkerError {
    WorkerError::System(format!("the system gives no {what}: {error}"))
}
