//! The body of a result, read: it fits the work and the interval, or it is none. And what a result says of speed.

use starfarm_protocol::job::Per;
use starfarm_protocol::wire::{CommandUnit, FailReason, HitEntry, ResultEntry, Stream};

use crate::job::{Body, WorkFacts};

/// The body of a result that was computed, by the kind of work.
pub(crate) enum Found {
    Nothing,
    Hits(Vec<HitEntry>),
    Ran(Vec<CommandUnit>),
    Together(CommandUnit),
}

impl Found {
    /// Outcomes of so many units, one of each.
    fn of_each(outcomes: Vec<CommandUnit>, units: u64) -> Option<Self> {
        let is_each = outcomes.len() as u64 == units && outcomes.iter().all(|outcome| outcome.units == 1);
        is_each.then_some(Self::Ran(outcomes))
    }

    /// The node had no room for the files of any of its units: nothing ran.
    pub(crate) fn lacks_all_room(&self) -> bool {
        matches!(self, Self::Ran(ran) if ran.iter().all(|unit| unit.failed == Some(FailReason::Room)))
    }

    /// What the node says of the last unit that it has no room for; empty where it says nothing.
    pub(crate) fn why_no_room(&self) -> String {
        let Self::Ran(ran) = self else { return String::new() };
        let last = ran.iter().rev().find(|unit| unit.failed == Some(FailReason::Room));
        match last.map(|unit| &unit.outputs.stderr) {
            Some(Stream::Inline(words)) => String::from_utf8_lossy(words).trim().to_owned(),
            _ => String::new(),
        }
    }
}

/// Reads the body; `None` where it does not fit the work and the interval.
pub(crate) fn read_body(work: WorkFacts, entry: &ResultEntry<'_>) -> Option<Found> {
    match work.body {
        Body::Hits { targets, .. } => {
            let hits = HitEntry::read_all(entry.body).ok()?;
            let fits = hits.iter().all(|hit| hit.offset < entry.units && hit.target < targets);
            fits.then_some(Found::Hits(hits))
        }
        Body::Outcomes { .. } => {
            let units = CommandUnit::read_all(entry.body).ok()?;
            match <[CommandUnit; 1]>::try_from(units) {
                Ok([all]) if work.per == Per::Task && all.units == entry.units && all.units > 1 => {
                    Some(Found::Together(all))
                }
                Ok(units) => Found::of_each(units.into(), entry.units),
                Err(units) => Found::of_each(units, entry.units),
            }
        }
        Body::Nothing => entry.body.is_empty().then_some(Found::Nothing),
    }
}

/// What a result says of speed.
pub(crate) enum Speed {
    /// So many units took so long, in microseconds.
    Of(u64, u64),
    /// Programs that fail at once are no fast ones, unless all of them do.
    OfFailures,
}

pub(crate) fn speed_of(entry: &ResultEntry<'_>, found: &Found) -> Speed {
    let Found::Ran(ran) = found else { return Speed::Of(entry.units, entry.duration_us) };
    let failed = ran.iter().filter(|unit| unit.failed.is_some());
    let (failed, failed_us) =
        failed.fold((0, 0_u64), |(units, sum_us), unit| (units + 1, sum_us.saturating_add(unit.duration_us)));
    match entry.units.checked_sub(failed).expect("its body was read as one outcome a unit") {
        0 => Speed::OfFailures,
        passed => Speed::Of(passed, entry.duration_us.saturating_sub(failed_us)),
    }
}
