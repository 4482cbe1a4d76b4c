//! `starfarm results`: hits, then failed units, then outputs. They are printed as the pages come, so that
//! memory does not grow with the job.

mod pages;
mod show;

use starfarm_protocol::ids::JobId;

use super::Context;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{Printer, say};
use pages::Pages;

/// Prints a job's results.
///
/// # Errors
/// As the client and the printer; also below.
pub(crate) fn run(context: &mut Context, id: JobId) -> Result<Exit, Failure> {
    let mut client = context.connect()?;
    print(&mut client, id, &mut context.printer)?;
    Ok(Exit::Ok)
}

/// Prints the results of job `id`; where there are none, a message says so.
pub(crate) fn print(client: &mut Client, id: JobId, printer: &mut Printer) -> Result<(), Failure> {
    let mut source = pages::OfJob { client, id };
    let pages = Pages::new(&mut source)?;
    if pages.are_empty() {
        say(&format!("job {} has no results so far", id.0));
    }
    show::all(pages, id, printer)
}
