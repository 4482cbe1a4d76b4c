//! A log in the formats of others: JSON lines, the job log of GNU parallel, and Perfetto's traces. Each is written
//! as the log is read.

mod joblog;
mod jsonl;
mod perfetto;
mod protobuf;

use std::fmt;
use std::io::{self, Write};

use starfarm_events::{Form, Value};

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

/// Why an export ends before the log does.
#[derive(Debug)]
pub enum ExportError {
    /// The log cannot be read.
    Log(LogError),
    /// What was made of it cannot be written.
    Io(io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LogError> for ExportError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
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

/// Writes a log in another format; each of the reader's notes is passed to `note`.
///
/// # Errors
/// The log cannot be read, or `out` takes no more.
pub fn export(
    items: impl Iterator<Item = Result<Item, LogError>>,
    format: Format,
    out: &mut dyn Write,
    note: &mut dyn FnMut(&crate::Note),
) -> Result<(), ExportError> {
    let mut sink: Box<dyn Sink + '_> = match format {
        Format::Jsonl => Box::new(jsonl::Lines::new(out)),
        Format::Tsv => Box::new(joblog::Rows::new(out)?),
        Format::Perfetto => Box::new(perfetto::Trace::new(out)),
    };
    for item in items {
        let item = item?;
        if let Item::Note(about) = &item {
            note(about);
        }
        sink.item(&item)?;
    }
    Ok(())
}

/// What writes a format.
trait Sink {
    /// Writes what comes of an item.
    fn item(&mut self, item: &Item) -> io::Result<()>;
}

/// A value as JSON: what may pass 2^53 is decimal text.
pub(crate) fn json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Number(number) => number.into(),
        Value::Real(real) => real.into(),
        Value::Flag(flag) => flag.into(),
        Value::Numbers(numbers) => numbers.into(),
        Value::Text(text) => text.into(),
        Value::Units(_) | Value::Hex(_) | Value::Hash(_) => value.to_string().into(),
    }
}

/// The fields of a form as a JSON object.
pub fn json_object(form: &dyn Form) -> serde_json::Map<String, serde_json::Value> {
    let mut object = serde_json::Map::new();
    form.each(&mut |name, value| {
        object.insert(name.to_owned(), json(value));
    });
    object
}
