//! The items of a log as every replay takes them: from the first moment on, on one line of time, and with the reader's
//! notes in few words.

mod clock;
mod moment;
mod notes;

use std::io;

use crate::{Item, LogError, Opening};

pub(crate) use clock::straightened;
pub use moment::Moment;
pub(crate) use notes::Notes;

/// Why a log cannot be replayed or exported.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is nothing in it, not even the beginning of a segment.
    #[error("the log is empty: its scheduler ended before it wrote anything")]
    Empty,
    /// A moment that the log does not reach, in words.
    #[error("{0}")]
    Moment(String),
    /// What is made of it cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The first moment that the log tells of, and all items again.
pub(crate) fn from_first_moment(
    mut items: impl Iterator<Item = Result<Item, LogError>>,
) -> Result<(u64, impl Iterator<Item = Result<Item, LogError>>), ReplayError> {
    // Notes may come first; they have no time.
    let mut read = Vec::new();
    for item in items.by_ref() {
        let item = item?;
        let first_us = item.at_us();
        read.push(Ok(item));
        if let Some(first_us) = first_us {
            return Ok((first_us, read.into_iter().chain(items)));
        }
    }
    Err(ReplayError::Empty)
}

/// Whether a segment goes on where another ended: in between, the farm was watched.
pub(super) fn follows(last: &Opening, next: &Opening) -> bool {
    last.epoch == next.epoch && last.segment.checked_add(1) == Some(next.segment)
}
