//! The one error of this module: where, and what to do.

use std::fmt;

use crate::failure::Failure;

/// A job that cannot be submitted as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobFileError {
    /// The file at fault as the user named it, or the flag of the command line.
    pub(crate) file: String,
    /// Line and column, from 1, if the file could be read; columns are characters.
    pub(crate) place: Option<(usize, usize)>,
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
            Some((line, column)) => write!(f, "{file}:{line}:{column}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

impl From<JobFileError> for Failure {
    fn from(error: JobFileError) -> Self {
        Self::usage(error.to_string())
    }
}
