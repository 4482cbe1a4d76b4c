//! What a rule finds.

use std::fmt;

/// A broken rule: where, what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Problem {
    pub(super) file: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) what: String,
}

impl Problem {
    pub(super) fn at(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}
