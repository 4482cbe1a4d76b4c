//! The columns of GNU parallel's `--joblog`, so that what reads those reads ours. A row is a run of results of one
//! node that lie side by side; parallel's is a job.

use std::io::{self, Write};

use starfarm_events::{Event, Outcome};
use starfarm_protocol::foreign::is_hidden;

use crate::Item;

/// The names of the columns.
pub(super) const HEAD: &[u8] = b"Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

/// Writes what comes of an item, behind so many rows.
pub(super) fn item(out: &mut dyn Write, rows: &mut u64, item: &Item) -> io::Result<()> {
    let Item::Event(_, Event::Tasks { node, job, lo, hi, results, outcome, begun_us, ended_us, .. }) = item
    else {
        return Ok(());
    };
    *rows += 1;
    let host = cell(node);
    let (start, took) = (seconds(*begun_us), seconds(ended_us.saturating_sub(*begun_us)));
    let (exit, word) = (exit_value(*outcome), outcome.word());
    writeln!(
        out,
        "{rows}\t{host}\t{start}\t{took}\t0\t0\t{exit}\t0\tjob {} units [{lo}, {hi}) {results} results {word}",
        job.0
    )
}

/// What a run's outcome is as an exit code: units that were not computed are to be tried again (`EX_TEMPFAIL`).
fn exit_value(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Counted | Outcome::Partly | Outcome::Duplicate => 0,
        Outcome::Returned => 75,
        Outcome::Refused => 1,
    }
}

/// Seconds with three decimals, as parallel writes them.
fn seconds(us: u64) -> String {
    format!("{}.{:03}", us / 1_000_000, us / 1_000 % 1_000)
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}
