//! `starfarm job logs`: what units wrote, byte for byte, of those that have ended; with `--follow` as they end.

use starfarm_protocol::admin::{OutputInfo, StreamInfo};
use starfarm_protocol::unit_set::UnitSet;

use super::check_units;
use super::follow::news;
use super::lost::lost;
use super::pages::{Pages, touches};
use super::show::bytes;
use super::source::{OfJob, Source, fill};
use crate::cli::{Logs, Wanted};
use crate::commands::Context;
use crate::commands::wait::{self, LOOK, Waiting};
use crate::failure::Failure;
use crate::output::{Format, Printer, say};

/// Prints the logs.
pub(crate) fn run(context: &mut Context, logs: &Logs) -> Result<(), Failure> {
    let units = logs.unit.map(|unit| UnitSet::from_iter([(unit, unit.saturating_add(1))]));
    let id = logs.job.id;
    let mut client = if logs.follow { context.connect()? } else { context.connect_or_look()? };
    let job = client.job(id)?;
    check_units(&job, units.as_ref())?;
    let mut log = Log { stderr: logs.stderr, units, printed: 0 };
    if logs.follow {
        let mut seen = 0;
        let waiting = Waiting { look: Some(LOOK), paused: true, ..Waiting::of_person(false, None) };
        let printer = &mut context.printer;
        wait::until_end(&mut client, id, waiting, |client, _| {
            log.follow(&mut OfJob { client, id }, &mut seen, printer)
        })?;
        return log.follow(&mut OfJob { client: &mut client, id }, &mut seen, printer);
    }
    let mut source = OfJob { client: &mut client, id };
    let pages = Pages::new(&mut source, Wanted::default())?.only(log.units.clone());
    let seen = pages.into_folder(None).outputs(|output| log.print(&output, &mut context.printer))?;
    context.printer.flush()?;
    if log.printed == 0 && !job.state.ended() {
        say(
            "no such unit has ended yet: what a unit writes is there when it has ended; --follow waits for it",
        );
    }
    lost(&mut client, id, &seen)
}

struct Log {
    stderr: bool,
    /// Only these, if not all.
    units: Option<UnitSet>,
    printed: u64,
}

impl Log {
    /// Prints what has come since the last look.
    fn follow(
        &mut self,
        source: &mut dyn Source,
        seen: &mut u64,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        news(source, seen, None, |source, _, mut output| {
            if self.units.as_ref().is_some_and(|units| !touches(units, &output)) {
                return Ok(());
            }
            fill(source, self.stream(&mut output))?;
            self.print(&output, printer)
        })?;
        printer.flush()
    }

    fn stream<'a>(&self, output: &'a mut OutputInfo) -> &'a mut StreamInfo {
        if self.stderr { &mut output.stderr } else { &mut output.stdout }
    }

    fn print(&mut self, output: &OutputInfo, printer: &mut Printer) -> Result<(), Failure> {
        self.printed += 1;
        let stream = if self.stderr { &output.stderr } else { &output.stdout };
        if let Some(what) = stream.lost {
            say(&format!("what unit {} wrote is {what} on the scheduler's disk", output.unit));
        }
        match printer.format {
            Format::Table | Format::Quiet => printer.bytes(&bytes(&stream.text, stream.hex.as_deref())),
            Format::Json | Format::Jsonl => printer.line_of("output", output),
        }
    }
}
