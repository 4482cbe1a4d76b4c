//! Stands in for the log's writer until it is there.
#![allow(dead_code, missing_docs, clippy::unnecessary_wraps, clippy::unused_self)]
use starfarm_events::{Event, Snapshot};
use starfarm_protocol::ids::{Epoch, FarmId};
use std::io;
use std::path::Path;
pub(crate) struct Limits {
    pub(crate) segment_bytes: u64,
    pub(crate) segment_us: u64,
    pub(crate) keep_bytes: Option<u64>,
}
pub(crate) struct LogWriter;
impl LogWriter {
    pub(crate) fn open(_: &Path, _: FarmId, _: Epoch, _: Limits) -> io::Result<Self> {
        Ok(Self)
    }
    pub(crate) fn wants_snapshot(&self, _: u64) -> bool {
        false
    }
    pub(crate) fn begin(&mut self, _: u64, _: u64, _: u64, _: &Snapshot) -> io::Result<()> {
        Ok(())
    }
    pub(crate) fn event(&mut self, _: u64, _: &Event) -> io::Result<()> {
        Ok(())
    }
    pub(crate) fn flush(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    pub(crate) fn close(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
