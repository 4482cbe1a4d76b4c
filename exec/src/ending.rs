//! How the end of a program is noticed: by the end of its output, by a pidfd, or by asking now and then.
//! What is done about it lives in `process`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

/// How long to do without a pidfd. A program that ends sooner needs none, which saves some 15 us of CPU
/// time; the end of one that leaves its output open to others is noticed so much later.
const SHORT: Duration = Duration::from_millis(20);
/// How often to ask where there is no pidfd.
const TICK: Duration = Duration::from_millis(10);
/// How often to give way to a program that has closed its output: the kernel does that last but one, so
/// that it has almost always ended by then.
const YIELDS: usize = 16;

/// Looks out for the end of one child. It is not collected here.
#[derive(Debug)]
pub(super) struct Watch {
    pid: Pid,
    by: By,
}

#[derive(Debug)]
enum By {
    /// The end of its output, for as long as the program may be a short one.
    Output { until: Instant },
    /// Readable once the program has ended.
    Pidfd(OwnedFd),
    /// There is no pidfd: before Linux 5.3, forbidden in a container, or no file descriptor is left.
    Asking,
}

impl Watch {
    /// For a child that has just been started.
    pub(super) fn new(pid: Pid) -> Self {
        Self { pid, by: By::Output { until: Instant::now() + SHORT } }
    }

    /// As on a kernel that has no pidfd.
    #[cfg(test)]
    pub(super) fn by_asking(pid: Pid) -> Self {
        Self { pid, by: By::Asking }
    }

    /// What to wait for, beside the program's output.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.by {
            By::Pidfd(fd) => Some(fd.as_fd()),
            By::Output { .. } | By::Asking => None,
        }
    }

    /// When to call [`sees_end`](Self::sees_end) at the latest.
    pub(super) fn alarm(&self) -> Option<Instant> {
        match self.by {
            By::Output { until } => Some(until),
            By::Pidfd(_) => None,
            By::Asking => Some(Instant::now() + TICK),
        }
    }

    /// Whether the program has ended, after a wait in which [`fd`](Self::fd) became `ready` or not.
    /// `is_silent`: its output has ended.
    pub(super) fn sees_end(&mut self, ready: PollFlags, is_silent: bool) -> bool {
        match self.by {
            By::Pidfd(_) => !ready.is_empty(),
            By::Asking => self.has_ended(),
            By::Output { until } if !is_silent && Instant::now() < until => false,
            By::Output { .. } => {
                if is_silent && self.ends_at_once() {
                    return true;
                }
                let pidfd = pidfd_open(self.pid, PidfdFlags::empty());
                self.by = pidfd.map_or(By::Asking, By::Pidfd);
                false
            }
        }
    }

    fn ends_at_once(&self) -> bool {
        (0..YIELDS).any(|_| {
            let ended = self.has_ended();
            if !ended {
                thread::yield_now();
            }
            ended
        })
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error is ECHILD: collected behind our back, so it has ended.
        !matches!(waitid(WaitId::Pid(self.pid), look), Ok(None))
    }
}
