//! Whether a merge goes on: looked at now and then while it works by itself, so that neither a scheduler that stops nor who
//! deletes the job waits for its end.

use std::cell::Cell;
use std::io::{self, Read};

use crate::host_program::Stopped;

/// So much is done between two looks, in bytes.
const LOOK_BYTES: usize = 1 << 20;
/// What each step counts beside its bytes: many short outputs take their time as well.
const STEP_BYTES: usize = 4 << 10;

/// What says so, and how much was done since it was last asked.
pub(super) struct GoesOn<'a> {
    stopped: Stopped<'a>,
    done: Cell<usize>,
}

impl<'a> GoesOn<'a> {
    pub(super) fn new(stopped: Stopped<'a>) -> Self {
        Self { stopped, done: Cell::new(0) }
    }

    /// Asks now.
    ///
    /// # Errors
    /// It does not, and why, in words.
    pub(super) fn look(&self) -> io::Result<()> {
        self.done.set(0);
        (self.stopped)().map_or(Ok(()), |why| Err(io::Error::other(format!("it {why}"))))
    }

    /// The same where enough was done with this step, of so many bytes.
    pub(super) fn after_one(&self, bytes: usize) -> io::Result<()> {
        self.done.set(self.done.get().saturating_add(bytes).saturating_add(STEP_BYTES));
        if self.done.get() < LOOK_BYTES { Ok(()) } else { self.look() }
    }

    /// Reads from there as long as it goes on.
    pub(super) fn reads<R: Read>(&self, from: R) -> Reads<'_, R> {
        Reads { goes_on: self, from }
    }
}

/// What [`GoesOn::reads`].
pub(super) struct Reads<'a, R> {
    goes_on: &'a GoesOn<'a>,
    from: R,
}

impl<R: Read> Read for Reads<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.goes_on.after_one(read)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn many_short_steps_are_looked_up_from_like_few_long_ones() {
        for (bytes, steps) in [(0, 1_024), (512 << 10, 8)] {
            let looks = AtomicU64::new(0);
            let stopped = || {
                looks.fetch_add(1, Relaxed);
                None
            };
            let goes_on = GoesOn::new(&stopped);
            (0..steps).for_each(|_| goes_on.after_one(bytes).unwrap());
            assert_eq!(looks.load(Relaxed), 4, "{bytes} bytes each");
        }
    }
}
