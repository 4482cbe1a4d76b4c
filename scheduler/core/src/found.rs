//! The body of a result, by the kind of work.

use starfarm_protocol::job::Body;
use starfarm_protocol::wire::{CommandUnit, HitEntry, ResultEntry};

/// The body of a result that was computed, by the kind of work.
pub(crate) enum Found {
    Nothing,
    Hits(Vec<HitEntry>),
    Ran(Vec<CommandUnit>),
}

/// Reads the body; `None` where it does not fit the work and the interval.
pub(crate) fn read(body: Body, entry: &ResultEntry<'_>) -> Option<Found> {
    match body {
        Body::Hits { targets, .. } => {
            let hits = HitEntry::read_all(entry.body).ok()?;
            let fits = hits.iter().all(|hit| hit.offset < entry.units && hit.target < targets);
            fits.then_some(Found::Hits(hits))
        }
        Body::Outcomes { .. } => {
            let units = CommandUnit::read_all(entry.body).ok()?;
            (units.len() as u64 == entry.units).then_some(Found::Ran(units))
        }
        Body::Nothing => entry.body.is_empty().then_some(Found::Nothing),
    }
}
