//! What a user submits: a job file (TOML), or the same said on the command line, read into a
//! [`JobSpec`](starfarm_protocol::spec::JobSpec) with everything checked that can be checked before a farm is asked.
//! Every error names the file, the line and the column, and says what to do.
//!
//! Not here: what the units are (`starfarm-decomposers`), sending the job to a scheduler.
//!
//! One file per part: [`table`] reads typed values that know their place, [`space`] and [`task`] read the
//! two sections, [`mask`], [`lines`], [`targets`] and [`program`] what they are made of.

mod command_line;
mod error;
mod inputs;
mod job;
mod lines;
mod mask;
mod merge;
mod monitor;
mod needs;
mod notes;
mod parallel;
mod program;
mod space;
mod table;
mod targets;
mod task;
mod terms;
#[cfg(test)]
mod tests;
mod trust;

use std::path::Path;

use starfarm_protocol::job::{JOB_NAME, is_job_name};
use starfarm_protocol::spec::Work;
use starfarm_protocol::unit_set::UnitSet;
use toml::de::DeTable;

pub(crate) use command_line::from_command_line;
pub(crate) use error::JobFileError;
pub(crate) use job::{Held, JobFile};
use lines::{STDIN, content};
pub(crate) use notes::words_in_braces;
pub(crate) use parallel::from_parallel;
use table::{Item, Section, Source};
pub(crate) use task::{help, milliseconds};

/// Reads the job file at `path`; the paths in it are relative to its folder. `-` is standard input, whose folder is the
/// present one. Of units that are `over` nothing needs to be here.
pub(crate) fn read(path: &Path, over: &UnitSet) -> Result<JobFile, JobFileError> {
    let stdin = path == Path::new(STDIN);
    let file_name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    let bytes = content(path).map_err(|e| {
        JobFileError::of_file(&file_name, format!("cannot read the job file: {e}; check the path"))
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let sound = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let source = Source { file: &file_name, text: &sound };
        source.error(sound.len(), "this is not UTF-8 text: save the job file as UTF-8")
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    Ok(parse_rest(text, &file_name, base, over)?.at_home(base))
}

/// Reads the text of a job file. `file_name` stands in the errors, and names a job that has no `name`;
/// paths in the text are relative to `base`.
#[cfg(test)]
pub(crate) fn parse(text: &str, file_name: &str, base: &Path) -> Result<JobFile, JobFileError> {
    parse_rest(text, file_name, base, &UnitSet::default())
}

fn parse_rest(text: &str, file_name: &str, base: &Path, over: &UnitSet) -> Result<JobFile, JobFileError> {
    let source = Source { file: file_name, text };
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(text.len(), |span| span.start);
        source.error(at, format!("this is not TOML: {}", e.message().trim_end()))
    })?;
    let root = Section::root(source, table.get_ref());
    root.only(&["name", "after", "after_any", "labels", "space", "task", "trust", "merge", "monitor"])?;
    let name = root.read("name", job_name)?.unwrap_or_else(|| stem(file_name));
    let units = space::read(&root.section("space", "what the units are, e.g. kind = \"range\"")?, base)?;
    let mut job = JobFile::new(name, units.space, Work::Nothing);
    (job.blobs, job.over) = (units.blobs, over.clone());
    job.terms = terms::read(&root)?;
    let task = root.section("task", "what is done with them, e.g. executor = \"command\"")?;
    task::read(&task, &mut job, base)?;
    if let Some(trust) = root.get("trust") {
        job.trust = trust::read(&trust, &job)?;
    }
    if let Some(section) = root.get("monitor") {
        job.terms.monitor = Some(monitor::read(&section)?);
    }
    if let Some(section) = root.get("merge") {
        merge::read(&section, &mut job, base)?;
    }
    Ok(job)
}

fn job_name(item: &Item<'_>) -> Result<String, JobFileError> {
    let name = item.string()?;
    if !is_job_name(name) {
        return Err(item.error(JOB_NAME));
    }
    Ok(name.to_owned())
}

fn stem(file_name: &str) -> String {
    let stem = Path::new(file_name).file_stem().unwrap_or_default().to_string_lossy();
    if is_job_name(&stem) { stem.into_owned() } else { "job".to_owned() }
}
