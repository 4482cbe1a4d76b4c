//! The log of a simulated farm: real segments, written by the writer that a real scheduler uses. Only the scheduler
//! that counts is logged.

use std::io;
use std::path::PathBuf;

use starfarm_events::Event;
use starfarm_logs::{Limits, LogWriter};
use starfarm_protocol::ids::Epoch;

use crate::machine::FARM;
use crate::seat::Seat;
use crate::violation::Broken;

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct FarmLog {
    dir: PathBuf,
    writer: LogWriter,
    epoch: Epoch,
    began_us: u64,
    /// When its scheduler was heard of last.
    last_us: u64,
}

impl FarmLog {
    pub(crate) fn open(dir: PathBuf, epoch: Epoch, now_us: u64) -> Result<Self, Broken> {
        let writer = LogWriter::open(&dir, FARM, epoch, Limits::default()).map_err(unwritten)?;
        Ok(Self { dir, writer, epoch, began_us: now_us, last_us: now_us })
    }

    /// What happened in a turn, and how the farm stands where a segment begins.
    pub(crate) fn turn(&mut self, seat: &mut Seat, events: &[Event], now_us: u64) -> Result<(), Broken> {
        if seat.epoch != self.epoch {
            // Its scheduler was killed: the next one closes what it left, at its last entry.
            self.writer.flush(self.last_us, self.last_us).map_err(unwritten)?;
            *self = Self::open(std::mem::take(&mut self.dir), seat.epoch, now_us)?;
        }
        self.last_us = now_us;
        if self.writer.wants_snapshot(now_us) {
            let picture = seat.farm.picture(now_us);
            self.writer.begin(now_us, now_us, now_us - self.began_us, &picture).map_err(unwritten)?;
        }
        events.iter().try_for_each(|event| self.writer.event(now_us, event)).map_err(unwritten)
    }

    pub(crate) fn close(&mut self, now_us: u64) -> Result<(), Broken> {
        self.writer.close(now_us, now_us).map_err(unwritten)
    }
}

fn unwritten(error: io::Error) -> Broken {
    ("the log can be written", error.to_string())
}
