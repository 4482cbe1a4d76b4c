//! File descriptors: how many there may be, how many of them connections may take, and what a write to the disk does
//! that finds none.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::threads::command::door::WAITING_MAX;

/// Descriptors that connections never take: files of outputs that are open, what came of contents whose connections
/// broke, the journal, a checkpoint, the log.
const DISK: u64 = 384;
/// Connections that the local socket has for itself, so that whoever sits at the machine is always heard.
pub(crate) const LOCAL_PLACES: usize = 64;
/// A connection has a socket, and a file for a content on its way in.
const OF_PLACE: u64 = 2;
/// Connections over TCP at one time that have shaken hands, where descriptors do not say less.
const REMOTE_PLACES_MAX: usize = 4_096;
/// How many there are where the system gives hardly any descriptors.
const REMOTE_PLACES_MIN: usize = 16;
/// How often it is tried again to have a descriptor.
const AGAIN: Duration = Duration::from_millis(50);

/// Raises the soft limit to the hard one, which needs no rights.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be, the connections follow the limit that there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Connections over TCP that there is room for.
pub(crate) fn remote_places() -> usize {
    remote_places_of(getrlimit(Resource::Nofile).current)
}

fn remote_places_of(limit: Option<u64>) -> usize {
    let taken = DISK + OF_PLACE * LOCAL_PLACES as u64 + WAITING_MAX as u64;
    let left = limit.map_or(usize::MAX, |limit| (limit.saturating_sub(taken) / OF_PLACE) as usize);
    left.clamp(REMOTE_PLACES_MIN, REMOTE_PLACES_MAX)
}

/// Whether there was no descriptor left, of this process or of the whole system. That is no failure of a disk.
pub(crate) fn are_scarce(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(libc::EMFILE) || code == Some(libc::ENFILE)
}

/// Does what needs a descriptor, and waits while there is none.
pub(crate) fn wait_for<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    static SAID: AtomicBool = AtomicBool::new(false);
    loop {
        match work() {
            Err(error) if are_scarce(&error) => {
                if !SAID.swap(true, Ordering::Relaxed) {
                    starfarm_net::say(&format!(
                        "what is to be written waits for a file descriptor ({error}): raise the limit (ulimit -n, \
                         LimitNOFILE=)"
                    ));
                }
                std::thread::sleep(AGAIN);
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_disk() {
        assert_eq!(remote_places_of(Some(1_024)), 192);
        assert_eq!(remote_places_of(Some(256)), REMOTE_PLACES_MIN);
        assert_eq!(remote_places_of(Some(1 << 20)), REMOTE_PLACES_MAX);
        assert_eq!(remote_places_of(None), REMOTE_PLACES_MAX);
    }

    #[test]
    fn want_of_descriptors_is_waited_out_and_other_errors_are_not() {
        let mut codes = vec![libc::ENFILE, libc::EMFILE];
        let opened = wait_for(|| codes.pop().map_or(Ok(7), |code| Err(io::Error::from_raw_os_error(code))));
        assert_eq!((opened.unwrap(), codes.len()), (7, 0));
        let failed = wait_for(|| -> io::Result<()> { Err(io::Error::from_raw_os_error(libc::EIO)) });
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::EIO));
    }
}
