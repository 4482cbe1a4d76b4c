//! `starfarm log`: what a log tells. It is read and understood in `starfarm-logs`; here it is printed.

mod at;
mod out;
mod plot;
mod text;
mod validate;

use std::io::Write;
use std::path::Path;

use starfarm_logs::export::{self, ExportError};
use starfarm_logs::replay::{self, PageError, ReplayError, Report, Window};
use starfarm_logs::{Item, LogError};

use super::Context;
use crate::cli::{Export, ExportFormat, Log, Replay};
use crate::failure::{Exit, Failure};
use crate::human::printable;
use crate::output::{Format, say};
use out::File;

/// Does what `starfarm log` is asked for. None of it needs a farm.
///
/// # Errors
/// [`Exit::Usage`] where the log or what is made of it is at fault; as the printer.
pub(crate) fn run(context: &mut Context, command: &Log) -> Result<Exit, Failure> {
    match command {
        Log::Replay(replay) => self::replay(context, replay)?,
        Log::Validate(log) => {
            let report = starfarm_logs::validate(&log.log).map_err(|error| of_log(&error))?;
            context.printer.document(&validate::Valid(report))?;
        }
        Log::Export(export) => self::export(context, export)?,
        Log::Schema => context.printer.text(starfarm_logs::schema())?,
    }
    Ok(Exit::Ok)
}

fn replay(context: &mut Context, asked: &Replay) -> Result<(), Failure> {
    let path = &asked.log.log;
    if let Some(moment) = asked.at {
        let state = replay::state_at(items(path)?, moment).map_err(of_replay)?;
        tell(&state.notes);
        return context.printer.document(&at::At(&state));
    }
    let page = asked.html.as_deref().map(|out| File::create(out, path)).transpose()?;
    let report =
        replay::replay(items(path)?, Window { from: asked.from, to: asked.to }).map_err(of_replay)?;
    let is_printed = asked.text || page.is_none();
    // What is printed holds them itself.
    if !is_printed || context.printer.format() == Format::Quiet {
        tell(&report.notes);
    }
    if is_printed {
        let width = out::terminal_width();
        context.printer.document(&text::Replayed { report: &report, width })?;
    }
    match page {
        Some(page) => write_page(report, page),
        None => Ok(()),
    }
}

fn write_page(report: Report, mut page: File) -> Result<(), Failure> {
    replay::page(report, page.writer()).map_err(|error| match error {
        PageError::Io(error) => page.failure(&error),
        error => Failure::usage(error.to_string()),
    })?;
    page.finish()
}

fn export(context: &mut Context, asked: &Export) -> Result<(), Failure> {
    let path = &asked.log.log;
    let format = match asked.format {
        ExportFormat::Jsonl => export::Format::Jsonl,
        ExportFormat::Tsv => export::Format::Tsv,
        ExportFormat::Perfetto => export::Format::Perfetto,
    };
    let notes = match &asked.out {
        Some(out) => {
            let mut file = File::create(out, path)?;
            let notes = export::export(items(path)?, format, file.writer()).map_err(|error| match error {
                ExportError::Io(error) => file.failure(&error),
                error => Failure::usage(printable(&error.to_string())),
            })?;
            file.finish()?;
            notes
        }
        None => {
            let out: &mut dyn Write = context.printer.writer();
            export::export(items(path)?, format, out).map_err(|error| match error {
                ExportError::Io(error) => Failure::of_stdout(&error),
                error => Failure::usage(printable(&error.to_string())),
            })?
        }
    };
    tell(&notes);
    Ok(())
}

fn items(path: &Path) -> Result<impl Iterator<Item = Result<Item, LogError>>, Failure> {
    starfarm_logs::open(path).map_err(|error| of_log(&error))
}

/// What a reading lacks, and why.
fn tell(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("starfarm: {}", printable(note))));
}

fn of_log(error: &LogError) -> Failure {
    Failure::usage(printable(&error.to_string()))
}

fn of_replay(error: ReplayError) -> Failure {
    Failure::usage(printable(&error.to_string()))
}
