//! What a log tells, made into something to look at: the farm's state at a moment, and a whole run drawn over time.
//! One pass over the log, in memory that does not grow with it. What is printed of it is the command line's affair.

mod ahead;
mod bins;
mod blob;
mod changes;
mod clock;
mod grown;
mod held;
mod jobs;
mod marks;
mod moment;
mod node;
mod nodes;
mod notes;
mod page;
mod report;
mod runs;
mod series;
mod shown;
mod state;
mod timeline;

use std::fmt;

use crate::{Item, LogError, Opening};

pub use bins::{Axis, BINS_MAX};
pub(crate) use clock::straightened;
pub use jobs::{DurationBins, JobLine};
pub use marks::Mark;
pub use moment::Moment;
pub use node::NodeLine;
pub use nodes::by_number;
pub(crate) use notes::Notes;
pub use page::{PAGE_BYTES_MAX, PageError, fill, page};
pub use report::{EpochLine, Report, Totals};
pub(crate) use runs::varint;
pub use series::SERIES;
pub use shown::Shown;
pub use state::State;
use timeline::Timeline;

/// Why a log cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Log(LogError),
    /// There is nothing in it, not even the beginning of a segment.
    Empty,
    /// A moment that the log does not reach, in words.
    Moment(String),
}

impl From<LogError> for ReplayError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "{error}"),
            Self::Empty => f.write_str("the log is empty: its scheduler ended before it wrote anything"),
            Self::Moment(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The part of a log that is wanted; all of it by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Its begin.
    pub from: Option<Moment>,
    /// Its end.
    pub to: Option<Moment>,
}

/// Draws a log, or a part of it, over time. What lies behind the part is not read.
///
/// # Errors
/// The log cannot be read or is empty, or the window lies beside it.
pub fn replay(
    items: impl Iterator<Item = Result<Item, LogError>>,
    window: Window,
) -> Result<Report, ReplayError> {
    let (first_us, items) = from_first_moment(straightened(items))?;
    let begin = window.from.map_or(first_us, |moment| moment.resolve(first_us));
    let end = window.to.map(|moment| moment.resolve(first_us));
    if end.is_some_and(|end| end <= begin) {
        return Err(ReplayError::Moment("the end of the window is not after its begin".to_owned()));
    }
    // Before the log there is nothing to draw.
    let mut timeline = Timeline::new(begin.max(first_us), end);
    for item in items {
        timeline.feed(&item?);
        if timeline.is_over() {
            break;
        }
    }
    if timeline.last_us() < begin || end.is_some_and(|end| end <= first_us) {
        return Err(beside("the window", first_us, timeline.last_us()));
    }
    Ok(timeline.finish())
}

/// The farm's state at a moment of its log; behind the log's end, its state at that end.
///
/// # Errors
/// The log cannot be read or is empty, or the moment lies before it.
pub fn state_at(
    items: impl Iterator<Item = Result<Item, LogError>>,
    moment: Moment,
) -> Result<State, ReplayError> {
    let (first_us, items) = from_first_moment(straightened(items))?;
    let at_us = moment.resolve(first_us);
    if at_us < first_us {
        return Err(beside("the moment", first_us, first_us));
    }
    let mut state = State::default();
    for item in items {
        state.feed(&item?, at_us);
        if state.is_settled() {
            break;
        }
    }
    state.end(at_us);
    Ok(state)
}

fn beside(what: &str, first_us: u64, last_us: u64) -> ReplayError {
    let (first, last) = (crate::Utc(first_us), crate::Utc(last_us));
    ReplayError::Moment(match first_us == last_us {
        true => format!("{what} lies before the log, which begins at {first}"),
        false => format!("{what} lies beside the log, which goes from {first} to {last}"),
    })
}

/// The first moment that the log tells of, and all items again.
pub(crate) fn from_first_moment(
    mut items: impl Iterator<Item = Result<Item, LogError>>,
) -> Result<(u64, impl Iterator<Item = Result<Item, LogError>>), ReplayError> {
    // Notes may come first; they have no time.
    let mut read = Vec::new();
    for item in items.by_ref() {
        let item = item?;
        let first_us = at_us(&item);
        read.push(Ok(item));
        if let Some(first_us) = first_us {
            return Ok((first_us, read.into_iter().chain(items)));
        }
    }
    Err(ReplayError::Empty)
}

/// Whether a segment goes on where another ended: in between, the farm was watched.
fn follows(last: &Opening, next: &Opening) -> bool {
    last.epoch == next.epoch && last.segment.checked_add(1) == Some(next.segment)
}

/// The farm's clock at an item.
fn at_us(item: &Item) -> Option<u64> {
    match item {
        Item::Opened(opening) => Some(opening.at_us),
        Item::Snapshot(at_us, _) | Item::Event(at_us, _) => Some(*at_us),
        Item::Closed(closing) => Some(closing.at_us),
        Item::Note(_) => None,
    }
}
