//! `starfarm results`: hits, then failed units, then outputs by unit. They are printed as the pages come, but for
//! outputs that are few enough to be put in order first, so that memory does not grow with the job.

mod pages;
mod show;

use starfarm_protocol::admin::LostOutputs;
use starfarm_protocol::ids::JobId;

use super::{Context, wait};
use crate::cli::{Results, Wanted};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::{Printer, say};
use pages::Pages;

/// Intervals of lost outputs that a message names.
const NAMED_MAX: usize = 8;

pub(crate) fn run(context: &mut Context, results: &Results) -> Result<(), Failure> {
    let mut client = context.connect_or_look()?;
    print(&mut client, results.job.id, results.wanted, &mut context.printer)
}

/// Prints the results of job `id`; where there are none, a message says so.
pub(crate) fn print(
    client: &mut Client,
    id: JobId,
    wanted: Wanted,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut source = pages::OfJob { client, id };
    let pages = Pages::new(&mut source, wanted)?;
    if pages.are_empty() {
        say(&format!("job {} has no hits, failed units or outputs", id.0));
    }
    let seen = show::all(pages, id, printer)?;
    printer.flush()?;
    if let Some(words) = wait::cut(seen.cut) {
        say(&format!("{words}; `cut_at` and `total` in JSON say where and how much"));
    }
    match &seen.lost[..] {
        [] => Ok(()),
        lost => Err(Failure::new(Exit::Conflict, lament(id, lost))),
    }
}

/// Which outputs cannot be had, the first of them by name, and what to do.
fn lament(id: JobId, lost: &[LostOutputs]) -> String {
    let count: u128 = lost.iter().map(|lost| lost.hi.0.saturating_sub(lost.lo.0)).sum();
    let named: Vec<_> = lost.iter().take(NAMED_MAX).map(|lost| human::interval(lost.lo, lost.hi)).collect();
    let outputs = if count == 1 { "output" } else { "outputs" };
    let are = if count == 1 { "is" } else { "are" };
    let unit = if count == 1 { "unit" } else { "units" };
    let more = if lost.len() > NAMED_MAX { ", ..." } else { "" };
    format!(
        "{count} {outputs} of job {id} {are} missing or damaged on the scheduler's disk, {unit} {}{more}: the others are \
         printed, and what the job counted is not touched. `starfarm job retry --missing-outputs {id}` runs the {unit} \
         again",
        named.join(", "),
        id = id.0
    )
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::admin::OutputLoss;
    use starfarm_protocol::units::Units;

    use super::*;

    #[test]
    fn the_first_lost_outputs_are_named_and_all_are_counted() {
        let of = |lo, hi| LostOutputs { lo: Units(lo), hi: Units(hi), what: OutputLoss::Missing };
        let words = lament(JobId(3), &[of(7, 8)]);
        assert!(words.starts_with("1 output of job 3 is missing or damaged"), "{words}");
        assert!(words.contains("disk, unit 7: the others"), "{words}");
        let all: Vec<_> = (0..30).map(|at| of(at * 10, at * 10 + 3)).collect();
        let words = lament(JobId(3), &all);
        assert!(
            words.starts_with("90 outputs of job 3 are") && words.contains("0 to 2, 10 to 12, "),
            "{words}"
        );
        assert!(words.contains(", ...: the others") && words.contains("--missing-outputs 3`"), "{words}");
    }
}
