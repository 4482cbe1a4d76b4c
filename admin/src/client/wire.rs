//! What a connection to a scheduler is, whatever it goes over.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// A scheduler that says nothing for this long, beyond the time it was asked to wait, has gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection that carries bytes of frames.
pub(super) trait Wire: Send + AsFd {
    /// Sends a whole frame.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Waits for more bytes, for at most `patience`; none at the end of the stream.
    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>>;
}
