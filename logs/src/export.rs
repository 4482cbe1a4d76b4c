//! A log in the formats of others: JSON lines, the job log of GNU parallel, and Perfetto's traces. Each is written
//! as the log is read.

mod joblog;
mod jsonl;
mod perfetto;
mod protobuf;
mod sink;

use std::fmt;
use std::io::{self, Write};

use crate::replay::{Notes, ReplayError, from_first_moment, straightened};
use crate::{Item, LogError};

use sink::Sink;

/// A format to write a log in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object a line, for each entry.
    Jsonl,
    /// Tab-separated: the columns of GNU parallel's `--joblog`, a row for each run of results.
    Tsv,
    /// Perfetto's TrackEvent protobuf.
    Perfetto,
}

/// Why an export ends before the log does.
#[derive(Debug)]
pub enum ExportError {
    /// The log cannot be read, or there is nothing in it.
    Log(ReplayError),
    /// What was made of it cannot be written.
    Io(io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "{error}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ExportError {}

/// Writes a log in another format, and says what the reader noted. A trace has one line of time, as a replay; the
/// other formats tell moments as the log does, even where the wall clock was set back between two epochs.
///
/// # Errors
/// The log cannot be read or is empty, or `out` takes no more.
pub fn export(
    items: impl Iterator<Item = Result<Item, LogError>>,
    format: Format,
    out: &mut dyn Write,
) -> Result<Vec<String>, ExportError> {
    // Before a word of it is written.
    let (_, items) = from_first_moment(items).map_err(ExportError::Log)?;
    match format {
        Format::Jsonl => write(items, &mut jsonl::Lines::new(out)),
        Format::Tsv => write(items, &mut joblog::Rows::new(out)?),
        Format::Perfetto => write(straightened(items), &mut perfetto::Trace::new(out)),
    }
}

fn write(
    items: impl Iterator<Item = Result<Item, LogError>>,
    sink: &mut impl Sink,
) -> Result<Vec<String>, ExportError> {
    let mut notes = Notes::default();
    for item in items {
        let item = item.map_err(|error| ExportError::Log(error.into()))?;
        if let Item::Note(note) = &item {
            notes.add(note);
        }
        sink.item(&item)?;
    }
    Ok(notes.told())
}
