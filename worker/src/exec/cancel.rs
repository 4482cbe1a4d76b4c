//! The flag by which other threads end a task's programs. What is done about it lives in `process`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

const GO_ON: u8 = 0;
const TRIM: u8 = 1;
const KILL: u8 = 2;

/// A flag shared by a task's slots and whoever may end the task. It is only ever raised; clones are the
/// same flag.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    level: AtomicU8,
    /// An eventfd that is never read: once written, it is readable for all who wait on it, for good.
    wake: OwnedFd,
}

impl Cancel {
    /// A flag that is not raised.
    ///
    /// # Errors
    /// The process or the system has no file descriptor left (`EMFILE`, `ENFILE`), or no memory.
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Shared { level: AtomicU8::new(GO_ON), wake })))
    }

    /// Asks to finish the running command and start no other. [`run`](super::run) does not look at it.
    pub fn trim(&self) {
        self.0.level.fetch_max(TRIM, Ordering::Release);
    }

    /// Asks to end the running command now: TERM to its process group, KILL some seconds later. Wakes
    /// every [`run`](super::run) that waits with this flag.
    pub fn kill(&self) {
        if self.0.level.fetch_max(KILL, Ordering::Release) != KILL {
            // A first write of 1 to a counter of 0 has no way to fail.
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Whether no other command is to be started: after [`trim`](Self::trim) or [`kill`](Self::kill).
    pub fn is_trimmed(&self) -> bool {
        self.0.level.load(Ordering::Acquire) >= TRIM
    }

    /// Whether the running command is to end now.
    pub fn is_killed(&self) -> bool {
        self.0.level.load(Ordering::Acquire) == KILL
    }
}

impl AsFd for Cancel {
    /// Readable from the first [`kill`](Self::kill) on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
