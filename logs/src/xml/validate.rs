//! Whether a log is as its schema says: names, types, order, and what a schema cannot say (ascending time, counts).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use starfarm_events::{Form, counted};

use super::open::Log;
use super::{Item, LogError, NoteKind, Utc};

/// What a valid log holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Validation {
    /// Bytes of its files.
    #[serde(skip)]
    pub bytes: u64,
    /// The earliest moment as it is logged, by the farm's clock.
    pub from: Utc,
    /// The latest moment as it is logged, by the farm's clock.
    pub to: Utc,
    /// Incarnations of the scheduler.
    pub epochs: u64,
    /// Its segments.
    pub segments: u64,
    /// Of these, how many are not closed yet.
    #[serde(rename = "segments_in_use")]
    pub in_use: u64,
    /// Of these, how many somebody else than their scheduler closed.
    #[serde(rename = "segments_cut")]
    pub cut: u64,
    /// Segments that are missing between those that are there.
    pub gaps: u64,
    /// Events, by kind.
    pub events: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events: u64 = self.events.values().sum();
        if self.segments == 0 {
            return writeln!(f, "valid: a segment was begun, and nothing is in it yet");
        }
        writeln!(
            f,
            "valid: {} ({} in use, {} cut) of {}, {}, {}, {} to {}",
            counted(self.segments, "segment"),
            self.in_use,
            self.cut,
            counted(self.epochs, "epoch"),
            counted(self.bytes, "byte"),
            counted(events, "event"),
            self.from,
            self.to
        )?;
        if self.gaps > 0 {
            writeln!(f, "segments are missing at {}", counted(self.gaps, "place"))?;
        }
        self.events.iter().try_for_each(|(kind, count)| writeln!(f, "{count:>12} {kind}"))
    }
}

/// Checks the log at `path`, a file or a folder, against all that its schema says, and says what it holds. Only the
/// segment in use need not be closed.
///
/// # Errors
/// The first place where it is not valid.
pub fn validate(path: &Path) -> Result<Validation, LogError> {
    let mut log = Log::new(path, true)?;
    let mut report = Validation::default();
    let (mut last_epoch, mut closed, mut from_us) = (None, 0, u64::MAX);
    for item in log.by_ref() {
        let item = item?;
        if let Some(at_us) = item.at_us() {
            from_us = from_us.min(at_us);
            report.to = Utc(report.to.0.max(at_us));
        }
        match item {
            Item::Opened(opening) => {
                report.segments += 1;
                report.epochs += u64::from(last_epoch.replace(opening.epoch) != Some(opening.epoch));
            }
            Item::Snapshot(..) => {}
            Item::Event(_, event) => *report.events.entry(event.kind()).or_default() += 1,
            Item::Closed(_) => closed += 1,
            Item::Note(note) => {
                report.cut += u64::from(note.kind == NoteKind::Stopped);
                report.gaps += u64::from(note.kind == NoteKind::Missing);
            }
        }
    }
    report.from = Utc(from_us.min(report.to.0));
    report.bytes = log.bytes;
    report.in_use = report.segments - closed;
    Ok(report)
}
