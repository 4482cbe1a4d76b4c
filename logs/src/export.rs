//! A log in the formats of others: JSON lines, the job log of GNU parallel, and Perfetto's traces. Each is written
//! as the log is read.

mod jsonl;
mod perfetto;
mod protobuf;
mod rows;

use std::io::{self, Write};

use crate::joblog;
use crate::replay::{Notes, ReplayError, from_first_moment, straightened};
use crate::{Item, LogError};

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

/// Writes a log in another format, and says what the reader noted. A trace has one line of time, as a replay; the
/// other formats tell moments as the log does, even where the wall clock was set back between two epochs.
///
/// # Errors
/// The log cannot be read or is empty, or `out` takes no more.
pub fn export(
    items: impl Iterator<Item = Result<Item, LogError>>,
    format: Format,
    out: &mut dyn Write,
) -> Result<Vec<String>, ReplayError> {
    // Before a word of it is written.
    let (_, items) = from_first_moment(items)?;
    match format {
        Format::Jsonl => write(items, |item| jsonl::item(out, item)),
        Format::Tsv => {
            out.write_all(joblog::HEAD.as_bytes())?;
            let mut rows = 0;
            write(items, |item| rows::item(out, &mut rows, item))
        }
        Format::Perfetto => {
            let mut trace = perfetto::Trace::new(out)?;
            write(straightened(items), |item| trace.item(item))
        }
    }
}

fn write(
    items: impl Iterator<Item = Result<Item, LogError>>,
    mut sink: impl FnMut(&Item) -> io::Result<()>,
) -> Result<Vec<String>, ReplayError> {
    let mut notes = Notes::default();
    for item in items {
        let item = item?;
        if let Item::Note(note) = &item {
            notes.add(note);
        }
        sink(&item)?;
    }
    Ok(notes.told())
}
