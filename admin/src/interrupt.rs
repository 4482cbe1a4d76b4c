//! Ctrl-C and the signals that ask a program to end. A command that holds nothing ends at once; one that
//! has processes to put away counts the signals and looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{Exit, Failure};

/// How many signals to end have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals(Arc<AtomicU32>);

impl Signals {
    /// Counts from now on, instead of ending.
    pub(crate) fn count() -> Result<Self, Failure> {
        let signals = Self::default();
        let counter = Arc::clone(&signals.0);
        set_handler(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok(signals)
    }

    pub(crate) fn so_far(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Goes on, or ends a piece of work, after the first.
    ///
    /// # Errors
    /// [`Exit::Interrupted`] where a signal has come.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        // No words: the user knows.
        if self.so_far() == 0 { Ok(()) } else { Err(Failure::new(Exit::Interrupted, "")) }
    }
}

/// Ends the program with code 130 at the first signal.
pub(crate) fn end_at_once() -> Result<(), Failure> {
    set_handler(|| std::process::exit(Exit::Interrupted as i32))
}

fn set_handler(handler: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    ctrlc::set_handler(handler).map_err(|error| Failure::usage(format!("cannot watch for Ctrl-C: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_on_until_the_first_signal() {
        let signals = Signals::default();
        assert_eq!(signals.check(), Ok(()));
        signals.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(signals.check(), Err(Failure::new(Exit::Interrupted, "")));
    }
}
