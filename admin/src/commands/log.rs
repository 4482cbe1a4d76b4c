//! `starfarm log`: what a log tells. It is read and understood in `starfarm-logs`; here it is printed.

mod at;
mod out;
pub(super) mod plot;
mod text;

use std::fmt::Display;
use std::io;
use std::path::Path;

use starfarm_logs::export;
use starfarm_logs::replay::{self, ReplayError, Window};
use starfarm_logs::{Item, LogError, Validation};

use super::Context;
use crate::cli::{Export, Log, Replay};
use crate::failure::Failure;
use crate::human::printable;
use crate::output::{Document, Format, Style, say};
use out::File;

/// Does what `starfarm log` is asked for. None of it needs a farm.
///
/// # Errors
/// `Exit::Usage` where the log or what is made of it is at fault; as the printer.
pub(crate) fn run(context: &mut Context, command: &Log) -> Result<(), Failure> {
    match command {
        Log::Replay(replay) => self::replay(context, replay)?,
        Log::Validate(log) => {
            context.printer.document(&starfarm_logs::validate(&log.log).map_err(at_fault)?)?;
        }
        Log::Export(export) => self::export(context, export)?,
        Log::Schema => context.printer.text(starfarm_logs::schema())?,
    }
    Ok(())
}

fn replay(context: &mut Context, asked: &Replay) -> Result<(), Failure> {
    let path = &asked.log.log;
    if let Some(moment) = asked.at {
        let state = replay::state_at(items(path)?, moment).map_err(at_fault)?;
        tell(&state.notes);
        return context.printer.document(&at::At(&state));
    }
    let page = asked.html.as_deref().map(|out| File::create(out, path)).transpose()?;
    let report = replay::replay(items(path)?, Window { from: asked.from, to: asked.to }).map_err(at_fault)?;
    let is_printed = asked.text || page.is_none();
    // What is printed holds them itself.
    if !is_printed || context.printer.format == Format::Quiet {
        tell(&report.notes);
    }
    if is_printed {
        let width = out::terminal_width();
        context.printer.document(&text::Replayed { report: &report, width })?;
    }
    match page {
        Some(mut page) => {
            replay::page(report, page.writer()).map_err(|error| page.failure(&error))?;
            page.finish()
        }
        None => Ok(()),
    }
}

fn export(context: &mut Context, asked: &Export) -> Result<(), Failure> {
    let path = &asked.log.log;
    // Why it ends early: the log, or where it goes, which `of_io` knows.
    let failed = |error, of_io: &dyn Fn(&io::Error) -> Failure| match error {
        ReplayError::Io(error) => of_io(&error),
        error => at_fault(error),
    };
    let notes = match &asked.out {
        Some(out) => {
            let mut file = File::create(out, path)?;
            let exported = export::export(items(path)?, asked.format, file.writer());
            let notes = exported.map_err(|error| failed(error, &|error| file.failure(error)))?;
            file.finish()?;
            notes
        }
        None => export::export(items(path)?, asked.format, context.printer.writer())
            .map_err(|error| failed(error, &Failure::of_stdout))?,
    };
    tell(&notes);
    Ok(())
}

fn items(path: &Path) -> Result<impl Iterator<Item = Result<Item, LogError>>, Failure> {
    starfarm_logs::open(path).map_err(at_fault)
}

/// What a reading lacks, and why.
fn tell(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("starfarm: {}", printable(note))));
}

fn at_fault(error: impl Display) -> Failure {
    Failure::usage(printable(&error.to_string()))
}

impl Document for Validation {
    const NAME: &'static str = "log-validation";

    fn table(&self, _: Style) -> String {
        self.to_string()
    }
}
