//! `starfarm results`: hits, then failed units, then outputs by unit. They are printed as the pages come, but for
//! outputs that are few enough to be put in order first, so that memory does not grow with the job.

mod beneath;
mod files;
mod follow;
pub(crate) mod logs;
mod lost;
pub(crate) mod merged;
mod order;
mod pages;
mod saving;
mod show;
mod source;
mod streams;
mod tree;

use std::path::Path;

use starfarm_events::counted;
use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::unit_set::UnitSet;

use super::Context;
use super::wait::{self, LOOK, Waiting};
use crate::cli::{Results, Wanted};
use crate::client::Client;
use crate::failure::Failure;
use crate::human;
use crate::output::{Format, Printer, say};
pub(crate) use files::Folder;
pub(crate) use follow::{Follower, Sinks};
use lost::lost;
use pages::Pages;
use saving::Saving;
use show::Outputs;
use source::OfJob;
use streams::StreamFiles;

/// Which results are wanted, and where their files go.
#[derive(Default)]
pub(crate) struct Choice<'a> {
    pub(crate) wanted: Wanted,
    /// Only these, if not all.
    pub(crate) units: Option<UnitSet>,
    pub(crate) folder: Option<&'a Folder>,
    /// Files were written there before.
    pub(crate) written: Option<&'a Path>,
}

pub(crate) fn run(context: &mut Context, results: &Results) -> Result<(), Failure> {
    if results.follow && context.printer.format == Format::Json && !results.streams.are_any() {
        return Err(Failure::usage(
            "one JSON document is whole at its end: --follow goes with --output jsonl",
        ));
    }
    let folder = results.dir.as_deref().map(Folder::open).transpose()?;
    let mut client = if results.follow { context.connect()? } else { context.connect_or_look()? };
    let id = results.job.id;
    if results.merged {
        let job = client.job(id)?;
        merged::print(&mut client, &job, folder.as_ref(), &mut context.printer)?;
        return context.printer.flush();
    }
    if results.unit.is_some() {
        check_units(&client.job(id)?, results.unit.as_ref())?;
    }
    if results.follow {
        return follow(&mut client, results, folder, &mut context.printer);
    }
    match folder {
        Some(folder) if results.streams.are_any() => save_streams(&mut client, results, folder),
        folder => {
            let (wanted, units, folder) = (results.wanted, results.unit.clone(), folder.as_ref());
            let choice = Choice { wanted, units, folder, written: None };
            print(&mut client, id, choice, &mut context.printer)
        }
    }
}

/// The folder, and names in it for what units write, where these are asked for.
fn saving(client: &mut Client, results: &Results, folder: Folder) -> Result<Saving, Failure> {
    let id = results.job.id;
    if !results.streams.are_any() {
        return Ok(Saving::new(folder, None));
    }
    let spec = client.job(id)?.spec;
    let streams = StreamFiles::open(&mut OfJob { client, id }, spec, &results.streams)?;
    Ok(Saving::new(folder, Some(streams)))
}

/// Prints results and writes files as they come, until the job has ended.
fn follow(
    client: &mut Client,
    results: &Results,
    folder: Option<Folder>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let (id, units) = (results.job.id, results.unit.clone());
    let saving = folder.map(|folder| saving(client, results, folder)).transpose()?;
    let outputs = Outputs::of_failed(saving.is_some() && units.is_none());
    let outputs = (!results.streams.are_any()).then_some(outputs);
    let sinks = Sinks::results(outputs, results.keep_order).saving_all(saving);
    let rides_out = sinks.can_begin_anew();
    let mut follower = Follower::of_farm(id, sinks, units.clone());
    let waiting = Waiting { look: Some(LOOK), paused: true, rides_out, ..Waiting::of_person(false, None) };
    wait::until_end(client, id, waiting, |client, job| follower.look(client, job, printer))?;
    follower.finish(client, printer, true)?;
    let beside = |outputs| {
        let mut source = OfJob { client: &mut *client, id };
        let pages = Pages::new(&mut source, Wanted::default())?.only(units);
        show::beside(pages, outputs, printer)
    };
    let seen = follower.printed().map(beside).transpose()?.unwrap_or_default();
    printer.flush()?;
    follower.settle(client)?;
    match follower.saved() {
        Some(saving) if results.streams.are_any() => say_saved(&saving.folder, saving.files),
        Some(saving) if printer.format == Format::Table => {
            say_made(saving.folder.dir(), saving.made, results.unit.is_none().then_some(id));
        }
        _ => {}
    }
    lost(client, id, &seen)
}

/// Whoever names a unit means one that there is.
fn check_units(job: &JobInfo, units: Option<&UnitSet>) -> Result<(), Failure> {
    match units.and_then(|units| units.iter().last()) {
        Some((_, hi)) if hi > job.units_total.0 => Err(Failure::usage(format!(
            "job {} has units 0 to {}, and not unit {}",
            job.id.0,
            job.units_total.0 - 1,
            hi - 1
        ))),
        _ => Ok(()),
    }
}

/// Prints the results of job `id`, and writes files into a folder; where there are none, a message says so.
pub(crate) fn print(
    client: &mut Client,
    id: JobId,
    choice: Choice<'_>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut source = OfJob { client, id };
    let dir = choice.folder.map(Folder::dir).or(choice.written);
    let are_of_failed = dir.is_some() && choice.units.is_none();
    // Where only this run has the farm, nobody can ask it for more.
    let left_out = choice.folder.filter(|_| are_of_failed).map(|_| id);
    let pages = Pages::new(&mut source, choice.wanted)?.only(choice.units).into_folder(choice.folder);
    if pages.are_empty() {
        say(&format!("job {} has no hits, failed units or outputs", id.0));
    }
    let seen = show::all(pages, id, Outputs::of_failed(are_of_failed), printer)?;
    printer.flush()?;
    if let Some(words) = wait::cut(seen.cut) {
        say(&format!("{words}; `cut_at` and `total` in JSON say where and how much"));
    }
    match dir {
        Some(dir) if printer.format == Format::Table => say_made(dir, seen.files, left_out),
        None if seen.files > 0 => {
            say(&human::made(seen.files, &format!("starfarm results {} --dir DIR", id.0)));
        }
        _ => {}
    }
    lost(client, id, &seen)
}

/// Writes what units wrote into files of a folder, and the files that they made; prints nothing.
fn save_streams(client: &mut Client, results: &Results, folder: Folder) -> Result<(), Failure> {
    let id = results.job.id;
    let mut saving = saving(client, results, folder)?;
    let units = match &results.unit {
        Some(units) => units.clone(),
        None => UnitSet::from_iter([(0, client.job(id)?.units_total.0)]),
    };
    let seen = saving.settle(&mut OfJob { client, id }, &units)?;
    say_saved(&saving.folder, saving.files);
    lost(client, id, &seen)
}

/// How many files are in the folder, and how to see of job `left_out` what is not printed beside them.
fn say_made(dir: &Path, files: u64, left_out: Option<JobId>) {
    let shown = human::printable(&dir.display().to_string());
    let rest = left_out
        .map_or_else(String::new, |id| format!("; `starfarm results {}` prints what units wrote", id.0));
    say(&format!("{} in {shown}{rest}", counted(files, "file")));
}

fn say_saved(folder: &Folder, files: u64) {
    let shown = human::printable(&folder.dir().display().to_string());
    say(&format!("{} of what units wrote in {shown}", counted(files, "file")));
}
