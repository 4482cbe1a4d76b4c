//! What the schema cannot say of one entry: its numbers fit each other.

use starfarm_events::Event;

/// How far a moment may be ahead of the entry that tells it, microseconds: clocks are brought together by estimate.
const AHEAD_US: u64 = 1_000_000;

/// # Errors
/// What is wrong, in words.
pub(super) fn of_event(event: &Event, at_us: u64) -> Result<(), String> {
    match event {
        Event::Tasks { lo, hi, begun_us, ended_us, .. } => {
            interval(*lo, *hi)?;
            moment("begun_us", *begun_us, "ended_us", *ended_us)?;
            moment("ended_us", *ended_us, "at", at_us.saturating_add(AHEAD_US))
        }
        Event::TaskExpired { lo, hi, .. }
        | Event::TaskCopied { lo, hi, .. }
        | Event::Conflict { lo, hi, .. } => interval(*lo, *hi),
        _ => Ok(()),
    }
}

/// # Errors
/// It holds no unit, in words.
pub(super) fn interval(lo: u128, hi: u128) -> Result<(), String> {
    if lo < hi {
        Ok(())
    } else {
        Err(format!("the interval [{lo}, {hi}) holds no unit: `lo` must be below `hi`"))
    }
}

fn moment(name: &str, us: u64, bound: &str, bound_us: u64) -> Result<(), String> {
    if us <= bound_us { Ok(()) } else { Err(format!("`{name}` is {us}, which is later than `{bound}`")) }
}
