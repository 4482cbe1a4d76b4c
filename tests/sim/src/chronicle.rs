//! The log of a simulated farm: real segments, written by the writer that a real scheduler uses. Only the scheduler
//! that counts is logged.

use std::io;
use std::path::PathBuf;

use starfarm_events::Event;
use starfarm_logs::{Limits, LogWriter};
use starfarm_protocol::ids::Epoch;

use crate::machine::FARM;
use crate::seat::Seat;
use crate::sim::Sim;
use crate::violation::Broken;

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct Chronicle {
    dir: PathBuf,
    writer: LogWriter,
    epoch: Epoch,
    began_us: u64,
    /// When its scheduler was heard of last.
    last_us: u64,
}

impl Chronicle {
    fn open(dir: PathBuf, epoch: Epoch, now_us: u64) -> io::Result<Self> {
        let writer = LogWriter::open(&dir, FARM, epoch, Limits::default())?;
        Ok(Self { dir, writer, epoch, began_us: now_us, last_us: now_us })
    }

    /// What happened in a turn, and how the farm stands where a segment begins.
    fn turn(&mut self, seat: &mut Seat, events: &[Event], now_us: u64) -> io::Result<()> {
        if seat.epoch != self.epoch {
            // Its scheduler was killed: the next one closes what it left, at its last entry.
            self.writer.flush(self.last_us, self.last_us)?;
            *self = Self::open(std::mem::take(&mut self.dir), seat.epoch, now_us)?;
        }
        self.last_us = now_us;
        if self.writer.wants_snapshot(now_us) {
            self.writer.begin(now_us, now_us, now_us - self.began_us, &seat.farm.picture(now_us))?;
        }
        events.iter().try_for_each(|event| self.writer.event(now_us, event))
    }

    fn close(&mut self, now_us: u64) -> io::Result<()> {
        self.writer.close(now_us, now_us)
    }
}

impl Sim {
    /// What happened in a turn at the scheduler: to the log's hash, to whoever listens, to the log itself. What is
    /// only for pictures is in the log alone, so that a run is the same whether it is watched or not.
    pub(crate) fn tell(&mut self, events: &[Event]) -> Result<(), Broken> {
        for event in events.iter().filter(|event| !event.dense()) {
            self.log.bytes(event.to_string().as_bytes());
            self.say(event);
        }
        let now_us = self.farm_us();
        let Some(dir) = self.scenario.log.as_ref().filter(|_| self.farm.rightful) else { return Ok(()) };
        let chronicle = match &mut self.chronicle {
            Some(chronicle) => chronicle,
            none => none.insert(Chronicle::open(dir.clone(), self.farm.epoch, now_us).map_err(unwritten)?),
        };
        chronicle.turn(&mut self.farm, events, now_us).map_err(unwritten)
    }

    pub(crate) fn close_log(&mut self) -> Result<(), Broken> {
        let now_us = self.farm_us();
        self.chronicle.as_mut().map_or(Ok(()), |chronicle| chronicle.close(now_us)).map_err(unwritten)
    }
}

fn unwritten(error: io::Error) -> Broken {
    ("the log can be written", error.to_string())
}
