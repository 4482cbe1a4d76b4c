//! The log thread: writes what happens as XML. Nobody waits for it: what it has no room for, or the disk, is dropped
//! and told as so many events that are missing. A log that fails never stops the farm.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use starfarm_events::Snapshot;
use starfarm_logs::LogWriter;
use starfarm_net::say;

use super::{Input, Shared, Told};
use crate::store::low_water::LowWater;
use crate::store::state::unix_now_us;

/// What was written is at the disk's door after this.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// A picture that has not come by then had no room in the channel: it is asked for again.
const ASK_PERIOD: Duration = Duration::from_secs(5);
/// A log that failed is tried again after this.
pub(crate) const RETRY_PERIOD: Duration = Duration::from_secs(10);

/// What the log hears.
pub(crate) enum ToLog {
    Events(Arc<Told>),
    /// How the farm stands, to open a segment with.
    Picture(u64, Box<Snapshot>),
}

pub(crate) struct LogThread {
    pub(crate) writer: LogWriter,
    pub(crate) dir: PathBuf,
    pub(crate) inputs: Receiver<ToLog>,
    pub(crate) dispatcher: Sender<Input>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) low_water: LowWater,
    /// See [`RETRY_PERIOD`].
    pub(crate) retry: Duration,
    /// Of [`Shared::unheard`], as many as the writer knows of.
    pub(crate) missed: u64,
}

impl LogThread {
    /// Runs until the dispatcher is gone.
    pub(crate) fn run(mut self) {
        // The first picture comes unasked.
        let (mut flushed, mut asked) = (Instant::now(), Some(Instant::now()));
        // Where the log has failed, it is not tried again before this moment.
        let mut failed_until: Option<Instant> = None;
        loop {
            let outcome = match self.inputs.recv_timeout(FLUSH_PERIOD) {
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Ok(ToLog::Picture(at_us, picture)) => {
                    asked = None;
                    let begun = self.begin(at_us, &picture);
                    if begun.is_ok() && failed_until.take().is_some() {
                        say(&format!("the log in {} is written again", self.dir.display()));
                    }
                    begun
                }
                Ok(ToLog::Events(told)) if failed_until.is_some() => {
                    self.writer.miss(told.events.len() as u64);
                    Ok(())
                }
                Ok(ToLog::Events(told)) => self.write(&told),
            };
            let now_us = self.shared.now_us();
            let outcome = match outcome {
                Ok(()) if flushed.elapsed() >= FLUSH_PERIOD => {
                    flushed = Instant::now();
                    self.writer.flush(now_us, unix_now_us())
                }
                outcome => outcome,
            };
            if let Err(e) = outcome {
                if failed_until.is_none() {
                    let dir = self.dir.display();
                    say(&format!(
                        "the log in {dir} is not written: {e}; the farm goes on, the log is tried again by and by"
                    ));
                }
                failed_until = Some(Instant::now() + self.retry);
            }
            self.count();
            let due = match failed_until {
                None => self.writer.wants_snapshot(now_us),
                Some(until) => Instant::now() >= until,
            };
            if due && asked.is_none_or(|at| at.elapsed() >= ASK_PERIOD) {
                asked = self.dispatcher.try_send(Input::Picture).is_ok().then(Instant::now);
            }
        }
        self.count();
        if let Err(e) = self.writer.close(self.shared.now_us(), unix_now_us()) {
            say(&format!(
                "the log in {} is not closed: {e}; it can be read all the same",
                self.dir.display()
            ));
        }
    }

    fn begin(&mut self, at_us: u64, picture: &Snapshot) -> io::Result<()> {
        if let Some(why) = self.low_water.lacks_disk() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        self.writer.begin(at_us, unix_now_us(), self.shared.up_us(), picture)
    }

    fn write(&mut self, told: &Told) -> io::Result<()> {
        self.count();
        let mut left = told.events.len() as u64;
        for event in &told.events {
            left -= 1;
            let written = self.writer.event(told.at_us, event);
            // The writer counts those that it was given.
            written.inspect_err(|_| self.writer.miss(left))?;
        }
        Ok(())
    }

    /// The writer hears what did not come as far as this thread, and everybody what it did not write.
    fn count(&mut self) {
        let unheard = self.shared.unheard.load(Ordering::Relaxed);
        self.writer.miss(unheard - self.missed);
        self.missed = unheard;
        self.shared.unwritten.store(self.writer.dropped() - unheard, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
