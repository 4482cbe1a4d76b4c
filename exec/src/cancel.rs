//! The flag by which other threads end a task's programs. What is done about it lives in `process`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use starfarm_protocol::wire::Cancel;

const GO_ON: u8 = 0;
const GRACEFUL: u8 = 1;
const FORCED: u8 = 2;

/// A flag shared by a task's slots and whoever may end the task. It is only ever raised; clones are the
/// same flag.
#[derive(Clone, Debug)]
pub struct CancelFlag(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    level: AtomicU8,
    /// An eventfd that is never read: once written, it is readable for all who wait on it, for good.
    wake: OwnedFd,
    /// The same, from the first graceful one on.
    asked: OwnedFd,
}

impl CancelFlag {
    /// A flag that is not raised.
    ///
    /// # Errors
    /// The process or the system has no file descriptor left (`EMFILE`, `ENFILE`), or no memory.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (wake, asked) = (eventfd(0, flags)?, eventfd(0, flags)?);
        Ok(Self(Arc::new(Shared { level: AtomicU8::new(GO_ON), wake, asked })))
    }

    /// Asks to start no other command, and to end the running one: gracefully by itself, which
    /// [`run`](super::run) looks at only where the command tells how far it is; by force with TERM to its process group,
    /// KILL some seconds later. That wakes every [`run`](super::run) that waits with this flag.
    pub fn raise(&self, how: Cancel) {
        let level = if how == Cancel::Forced { FORCED } else { GRACEFUL };
        let before = self.0.level.fetch_max(level, Ordering::Release);
        // A first write of 1 to a counter of 0 has no way to fail.
        if level == FORCED && before != FORCED {
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
        }
        if before == GO_ON {
            let _ = rustix::io::write(&self.0.asked, &1_u64.to_ne_bytes());
        }
    }

    /// Whether no other command is to be started.
    pub fn is_raised(&self) -> bool {
        self.0.level.load(Ordering::Acquire) >= GRACEFUL
    }

    /// Whether the running command is to end now.
    pub fn is_forced(&self) -> bool {
        self.0.level.load(Ordering::Acquire) == FORCED
    }
}

impl CancelFlag {
    /// Readable from the first [`raise`](Self::raise) of any kind on.
    pub fn asked_fd(&self) -> BorrowedFd<'_> {
        self.0.asked.as_fd()
    }
}

impl AsFd for CancelFlag {
    /// Readable from the first [`raise`](Self::raise) by force on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
