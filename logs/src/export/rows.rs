//! The columns of GNU parallel's `--joblog`, so that what reads those reads ours. A row is a run of results of one
//! node that lie side by side; parallel's is a job.

use std::io::{self, Write};

use starfarm_events::{Event, Outcome};

use crate::Item;
use crate::joblog::Row;

/// Writes what comes of an item, behind so many rows.
pub(super) fn item(out: &mut dyn Write, rows: &mut u64, item: &Item) -> io::Result<()> {
    let Item::Event(_, Event::Tasks { node, job, lo, hi, results, outcome, begun_us, ended_us, .. }) = item
    else {
        return Ok(());
    };
    *rows += 1;
    let word = outcome.word();
    let row = Row {
        seq: (*rows).into(),
        host: node,
        start_us: *begun_us,
        took_us: ended_us.saturating_sub(*begun_us),
        received: 0,
        exit: exit_value(*outcome),
        signal: 0,
        command: &format!("job {} units [{lo}, {hi}) {results} results {word}", job.0),
    };
    row.write(out)
}

/// What a run's outcome is as an exit code: units that were not computed are to be tried again (`EX_TEMPFAIL`).
fn exit_value(outcome: Outcome) -> i32 {
    match outcome {
        Outcome::Counted | Outcome::Partly | Outcome::Duplicate => 0,
        Outcome::Returned => 75,
        Outcome::Refused => 1,
    }
}
