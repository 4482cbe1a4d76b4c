//! `starfarm results`: hits, then failed units, then outputs by unit. They are printed as the pages come, but for
//! outputs that are few enough to be put in order first, so that memory does not grow with the job.

mod beneath;
mod files;
mod follow;
pub(crate) mod logs;
pub(crate) mod merged;
mod pages;
mod show;
mod source;
mod streams;
mod tree;

use std::path::Path;

use starfarm_events::counted;
use starfarm_protocol::admin::{JobInfo, LostOutputs, Request, Response};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::unit_set::UnitSet;

use super::{Context, wait};
use crate::cli::{Results, Streams, Wanted};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::{Printer, say};
pub(crate) use files::Folder;
pub(crate) use follow::{Follower, Sinks};
use pages::{Pages, Seen};

/// Intervals of lost outputs that a message names.
const NAMED_MAX: usize = 8;

/// Which results are wanted, and where their files go.
#[derive(Default)]
pub(crate) struct Choice {
    pub(crate) wanted: Wanted,
    /// Only these, if not all.
    pub(crate) units: Option<UnitSet>,
    pub(crate) folder: Option<Folder>,
}

pub(crate) fn run(context: &mut Context, results: &Results) -> Result<(), Failure> {
    let folder = results.dir.as_deref().map(Folder::open).transpose()?;
    let mut client = context.connect_or_look()?;
    let id = results.job.id;
    if results.merged {
        let job = client.job(id)?;
        merged::print(&mut client, &job, folder, &mut context.printer)?;
        return context.printer.flush();
    }
    let units = results.unit.clone();
    if units.is_some() {
        check_units(&client.job(id)?, units.as_ref())?;
    }
    let choice = Choice { wanted: results.wanted, units, folder };
    match &results.dir {
        Some(dir) if results.streams.are_any() => {
            save_streams(&mut client, id, choice, dir, &results.streams)
        }
        _ => print(&mut client, id, choice, &mut context.printer),
    }
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
    choice: Choice,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut source = source::OfJob { client, id };
    let has_folder = choice.folder.is_some();
    let pages = Pages::new(&mut source, choice.wanted)?.only(choice.units).into_folder(choice.folder);
    if pages.are_empty() {
        say(&format!("job {} has no hits, failed units or outputs", id.0));
    }
    let seen = show::all(pages, id, printer)?;
    printer.flush()?;
    if let Some(words) = wait::cut(seen.cut) {
        say(&format!("{words}; `cut_at` and `total` in JSON say where and how much"));
    }
    if seen.files > 0 && !has_folder {
        say(&format!("{} files were made: `starfarm results {} --dir DIR` writes them", seen.files, id.0));
    }
    lost(client, id, &seen)
}

/// Writes what units wrote into files beneath `dir`, and the files that they made into the same folder; prints nothing.
fn save_streams(
    client: &mut Client,
    id: JobId,
    choice: Choice,
    dir: &Path,
    names: &Streams,
) -> Result<(), Failure> {
    let spec = client.job(id)?.spec;
    let mut source = source::OfJob { client, id };
    let files = streams::StreamFiles::open(&mut source, spec, dir, names)?;
    let mut pages = Pages::new(&mut source, choice.wanted)?.only(choice.units).into_folder(choice.folder);
    let mut written = 0;
    let seen = pages.outputs(|output| {
        written += files.write(&output)?;
        Ok(())
    })?;
    let shown = human::printable(&dir.display().to_string());
    say(&format!("{} of what units wrote in {shown}", counted(written, "file")));
    lost(client, id, &seen)
}

/// Writes the files of job `id` into `folder`, and prints nothing.
pub(crate) fn save(client: &mut Client, id: JobId, folder: Folder) -> Result<(), Failure> {
    let mut source = source::OfJob { client, id };
    let seen = Pages::new(&mut source, Wanted::default())?.into_folder(Some(folder)).outputs(|_| Ok(()))?;
    lost(client, id, &seen)
}

fn lost(client: &mut Client, id: JobId, seen: &Seen) -> Result<(), Failure> {
    match &seen.lost[..] {
        [] => Ok(()),
        lost => {
            let is_whole = has_specification(client, id)?;
            Err(Failure::new(Exit::Conflict, lament(id, lost, is_whole)))
        }
    }
}

/// Whether the job's units could run again: the farm has what the job is made from.
fn has_specification(client: &mut Client, id: JobId) -> Result<bool, Failure> {
    let hash = client.job(id)?.spec;
    Ok(!matches!(client.ask(&Request::Fetch { hash, offset: 0 })?, Response::Lost(_)))
}

/// Which outputs cannot be had, the first of them by name, and what to do.
fn lament(id: JobId, lost: &[LostOutputs], has_specification: bool) -> String {
    let (earlier, counting): (Vec<_>, Vec<_>) = lost.iter().partition(|lost| lost.superseded);
    let mut sentences = Vec::new();
    if !counting.is_empty() {
        let first = match has_specification {
            true => "",
            false => {
                "The job's specification is lost as well: submit the same job file again, which puts it back; then "
            }
        };
        let (words, unit) = are_lost(&counting, &format!("job {}", id.0));
        sentences.push(format!(
            "{words}: the others are printed, and what the job counted is not touched. {first}`starfarm job retry \
             --missing-outputs {}` runs the {unit} again",
            id.0
        ));
    }
    if !earlier.is_empty() {
        let (words, _) = are_lost(&earlier, &format!("runs of job {} that do not count", id.0));
        sentences.push(format!("{words}: nothing brings them back, and nothing needs them"));
    }
    sentences.join(". ")
}

/// How many outputs of `whose` are lost, and the first by name; and what to call their units.
fn are_lost(lost: &[&LostOutputs], whose: &str) -> (String, &'static str) {
    let count: u128 = lost.iter().map(|lost| lost.hi.0.saturating_sub(lost.lo.0)).sum();
    let named: Vec<_> = lost.iter().take(NAMED_MAX).map(|lost| human::interval(lost.lo, lost.hi)).collect();
    let (outputs, are, unit) =
        if count == 1 { ("output", "is", "unit") } else { ("outputs", "are", "units") };
    let more = if lost.len() > NAMED_MAX { ", ..." } else { "" };
    let named = named.join(", ");
    let words = format!(
        "{count} {outputs} of {whose} {are} missing or damaged on the scheduler's disk, {unit} {named}{more}"
    );
    (words, unit)
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::admin::OutputLoss;
    use starfarm_protocol::units::Units;

    use super::*;

    #[test]
    fn the_first_lost_outputs_are_named_and_all_are_counted() {
        let what = OutputLoss::Missing;
        let of = |lo, hi| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded: false };
        let words = lament(JobId(3), &[of(7, 8)], true);
        assert!(words.starts_with("1 output of job 3 is missing or damaged"), "{words}");
        assert!(words.contains("disk, unit 7: the others"), "{words}");
        let all: Vec<_> = (0..30).map(|at| of(at * 10, at * 10 + 3)).collect();
        let words = lament(JobId(3), &all, true);
        assert!(
            words.starts_with("90 outputs of job 3 are") && words.contains("0 to 2, 10 to 12, "),
            "{words}"
        );
        assert!(words.contains(", ...: the others") && words.contains("--missing-outputs 3`"), "{words}");
        let words = lament(JobId(3), &all, false);
        assert!(
            words.contains("submit the same job file again") && words.contains("then `starfarm job"),
            "{words}"
        );
        let earlier = LostOutputs { superseded: true, ..of(7, 8) };
        let words = lament(JobId(3), &[earlier], true);
        assert!(words.starts_with("1 output of runs of job 3 that do not count is missing"), "{words}");
        assert!(!words.contains("--missing-outputs"), "{words}");
        let words = lament(JobId(3), &[of(7, 8), earlier], true);
        assert!(words.contains("--missing-outputs 3` runs the unit again. 1 output of runs"), "{words}");
    }
}
