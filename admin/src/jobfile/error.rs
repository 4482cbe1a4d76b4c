//! The one error of this module: where, and what to do.

use std::fmt;

/// A line and a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Counted from 1, in characters.
    pub(crate) column: usize,
}

impl Place {
    /// The place of byte `at` of `text`, which is where a character begins; else the end of the text.
    pub(super) fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A job that cannot be submitted as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobFileError {
    /// The file at fault as the user named it, or the flag of the command line.
    pub(crate) file: String,
    /// Where in the file, if it could be read.
    pub(crate) place: Option<Place>,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl JobFileError {
    /// An error of the file, or the flag, as a whole.
    pub(super) fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: None, message: message.into() }
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, message } = self;
        match place {
            Some(Place { line, column }) => write!(f, "{file}:{line}:{column}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

impl std::error::Error for JobFileError {}
