//! What a log tells, made into something to look at: the farm's state at a moment, and a whole run drawn over time.
//! One pass over the log, in memory that does not grow with it. What is printed of it is the command line's affair.

mod items;
mod page;
mod state;
mod timeline;

use crate::{Item, LogError};

pub use items::{Moment, ReplayError};
pub(crate) use items::{Notes, from_first_moment, straightened};
pub use page::{PAGE_BYTES_MAX, fill, page};
pub use state::State;
use timeline::Timeline;
pub use timeline::{
    Axis, BINS_MAX, DurationBins, EpochLine, JobLine, Mark, NodeLine, Report, SERIES, Shown, Totals,
    by_number,
};

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
        if timeline.is_over {
            break;
        }
    }
    if timeline.last_us < begin || end.is_some_and(|end| end <= first_us) {
        return Err(beside("the window", first_us, timeline.last_us));
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
