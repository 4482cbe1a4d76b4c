//! What a log holds: the items that are written to it and read from it, as values.

use std::fmt;

use serde::Serialize;
use starfarm_events::{Event, Snapshot};

use super::error::Place;

/// What a segment says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Opening {
    /// Version of the format.
    pub version: u32,
    /// The farm, as hexadecimal digits.
    pub farm: String,
    /// The scheduler's incarnation.
    pub epoch: u64,
    /// Number of the segment in its epoch, from 1.
    pub segment: u64,
    /// What wrote it.
    pub program: String,
    /// The farm's clock, microseconds.
    #[serde(skip)]
    pub at_us: u64,
    /// The wall clock at the same moment, microseconds since 1970.
    #[serde(rename = "wall_us")]
    pub utc_us: u64,
    /// Microseconds since the scheduler's start.
    pub mono_us: u64,
}

/// How a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Closing {
    /// The farm's clock, microseconds.
    #[serde(skip)]
    pub at_us: u64,
    /// When the log was last saved: the wall clock, microseconds since 1970.
    #[serde(rename = "wall_us")]
    pub utc_us: u64,
    /// Events in the segment.
    pub entries: u64,
}

/// What a note is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// The segment ends in the middle, or without being closed.
    Cut,
    /// The segment was closed by a later scheduler, or by its own once the disk had room again, behind what had been
    /// written.
    Stopped,
    /// The farm's clock went back within an epoch.
    TimeBack,
    /// The wall clock was set back between two epochs, and a replay has moved the later one.
    SetBack,
    /// The wall clock was set within an epoch, whose times do not follow it.
    ClockSet,
    /// Entries that this version does not understand.
    Skipped,
    /// Entries or segments that should be there and are not.
    Missing,
}

impl NoteKind {
    /// Whether something of the log is missing.
    pub fn is_loss(self) -> bool {
        match self {
            Self::Cut | Self::Stopped | Self::Skipped | Self::Missing => true,
            Self::TimeBack | Self::SetBack | Self::ClockSet => false,
        }
    }
}

/// Something about the reading itself: what comes of the log is partial, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Note {
    /// What it is about.
    #[serde(skip)]
    pub kind: NoteKind,
    /// Where; no file where it is about the log as a whole.
    #[serde(flatten)]
    pub place: Place,
    /// In words.
    pub what: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.file.is_empty() {
            true => f.write_str(&self.what),
            false => write!(f, "{}: {}", self.place, self.what),
        }
    }
}

/// What a log holds, in order: of each segment its opening, a snapshot, events, its closing. Notes come wherever
/// there is something to note.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are events, and there is one at a time")]
pub enum Item {
    /// A segment begins.
    Opened(Opening),
    /// How the farm stood at a moment, microseconds of the farm's clock.
    Snapshot(u64, Box<Snapshot>),
    /// What happened at a moment, microseconds of the farm's clock.
    Event(u64, Event),
    /// A segment ends.
    Closed(Closing),
    /// About the reading itself.
    Note(Note),
}

impl Item {
    /// The farm's clock at it; a note has no time.
    pub(crate) fn at_us(&self) -> Option<u64> {
        match self {
            Item::Opened(opening) => Some(opening.at_us),
            Item::Snapshot(at_us, _) | Item::Event(at_us, _) => Some(*at_us),
            Item::Closed(closing) => Some(closing.at_us),
            Item::Note(_) => None,
        }
    }
}
