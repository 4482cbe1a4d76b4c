//! What a daemon says: lines on standard error. They are for looking at only, so a line that cannot be written (a full
//! disk, a reader that has gone or does not read) is dropped and counted, and nobody waits or ends for it. All that a
//! daemon says goes through here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use starfarm_protocol::foreign;

/// Bytes of a line at most: a pipe that has any room takes so many at once.
const LINE_BYTES_MAX: usize = 4_096;

static LINES: Lines = Lines { dropped: AtomicU64::new(0), told: AtomicU64::new(0) };

/// Says a line, or some, or drops and counts them. What peers gave is a part of many: nothing of it steers the terminal that
/// shows it. Who adds words of a peer makes one line of them: [`foreign::line`].
pub fn say(line: &str) {
    LINES.say(io::stderr().as_fd(), &foreign::escaped(line, |c| matches!(c, '\n' | '\t')));
}

/// Lines that this process has dropped.
pub fn lines_dropped() -> u64 {
    LINES.dropped.load(Ordering::Relaxed)
}

struct Lines {
    dropped: AtomicU64,
    /// Of these, as many as a later line has told.
    told: AtomicU64,
}

impl Lines {
    fn say(&self, to: BorrowedFd<'_>, line: &str) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let mut text = match dropped - self.told.load(Ordering::Relaxed).min(dropped) {
            0 => line.to_owned(),
            untold => format!("({untold} lines before this could not be written)\n{line}"),
        };
        text.truncate(text.floor_char_boundary(LINE_BYTES_MAX - 1));
        text.push('\n');
        if write(to, text.as_bytes()) {
            self.told.store(dropped, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether all of it was written, at once.
fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT);
    ready && rustix::io::retry_on_intr(|| rustix::io::write(to, bytes)) == Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn lines() -> Lines {
        Lines { dropped: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up_and_hears_later_how_much_it_missed() {
        let (lines, (mut reader, writer)) = (lines(), io::pipe().unwrap());
        let mut said = 0_u64;
        while lines.dropped.load(Ordering::Relaxed) < 3 {
            lines.say(writer.as_fd(), &"x".repeat(100_000));
            said += 1;
        }
        let mut whole = vec![0; (said as usize - 3) * LINE_BYTES_MAX];
        reader.read_exact(&mut whole).unwrap();
        assert!(whole.chunks(LINE_BYTES_MAX).all(|line| line.ends_with(b"x\n")), "cut, but whole lines");
        lines.say(writer.as_fd(), "a");
        lines.say(writer.as_fd(), "b");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "(3 lines before this could not be written)\na\nb\n");
    }

    #[test]
    fn a_reader_that_has_gone_and_a_full_disk_cost_lines_only() {
        let (lines, (reader, writer)) = (lines(), io::pipe().unwrap());
        drop(reader);
        lines.say(writer.as_fd(), "nobody hears this");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        lines.say(full.as_fd(), "nor this");
        assert_eq!(lines.dropped.load(Ordering::Relaxed), 2);
    }
}
