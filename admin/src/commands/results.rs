//! `starfarm results`: hits, then failed units, then outputs by unit. They are printed as the pages come, but for
//! outputs that are few enough to be put in order first, so that memory does not grow with the job.

mod pages;
mod show;

use starfarm_protocol::ids::JobId;

use super::{Context, wait};
use crate::cli::{Results, Wanted};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{Printer, say};
use pages::Pages;

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
    match seen.missing {
        0 => Ok(()),
        missing => Err(Failure::new(
            Exit::Conflict,
            format!(
                "{missing} or more outputs of job {} are missing or damaged on the scheduler's disk, the others are \
                 printed. What the job counted is not touched; submit it again for its outputs",
                id.0
            ),
        )),
    }
}
