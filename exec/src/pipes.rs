//! The ends of a program's pipes that are ours: waiting for them and what else wakes a run, reading
//! them. When to stop reading is decided in `process`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::capture::{Captured, Keep};

/// Bytes per read: what a pipe holds by default, so that one read empties it.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Stream {
    /// Closed at the end of the stream.
    pipe: Option<OwnedFd>,
    kept: Keep,
}

impl Stream {
    pub(super) fn new(pipe: Option<OwnedFd>, limit: u64) -> Self {
        Self { pipe, kept: Keep::new(limit) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes in what `poll` has reported, with at most one read: the pipe is in blocking mode, and after
    /// `IN` exactly one read is sure to return. `buffer` is scratch space. Returns the bytes read.
    pub(super) fn take(&mut self, ready: PollFlags, buffer: &mut Vec<u8>) -> usize {
        let Some(pipe) = self.pipe.as_ref().filter(|_| !ready.is_empty()) else { return 0 };
        if !ready.contains(PollFlags::IN) {
            // All writers are gone and the pipe is empty.
            self.pipe = None;
            return 0;
        }
        buffer.clear();
        buffer.reserve(READ_BYTES);
        match rustix::io::read(pipe, spare_capacity(buffer)) {
            Ok(0) => self.pipe = None,
            Ok(_) => self.kept.push(buffer),
            Err(Errno::INTR) => {}
            Err(_) => self.pipe = None,
        }
        buffer.len()
    }

    /// Closes the pipe; a writer that is still there gets SIGPIPE.
    pub(super) fn finish(self) -> Captured {
        self.kept.finish()
    }
}

/// Waits until one of `fds` can be read or `until` has come (`None`: for ever), and says what each is ready
/// for; all empty when time ran out, and sometimes for no reason.
pub fn wait<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], until: Option<Instant>) -> [PollFlags; N] {
    wait_for(PollFlags::IN, fds, until)
}

/// As [`wait`], until one of them is ready for `what`.
pub fn wait_for<const N: usize>(
    what: PollFlags,
    fds: [Option<BorrowedFd<'_>>; N],
    until: Option<Instant>,
) -> [PollFlags; N] {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, what)).collect();
    // A wait that is too long to be told is one for ever.
    let timeout = until.and_then(|at| Timespec::try_from(at.saturating_duration_since(Instant::now())).ok());
    if let Err(error) = poll(&mut polled, timeout.as_ref())
        && error != Errno::INTR
    {
        // The kernel is out of memory for a moment. Do not make it worse by spinning.
        std::thread::sleep(Duration::from_millis(10));
        return [PollFlags::empty(); N];
    }
    let mut ready = polled.iter().map(PollFd::revents);
    fds.map(|fd| fd.and_then(|_| ready.next()).unwrap_or(PollFlags::empty()))
}
