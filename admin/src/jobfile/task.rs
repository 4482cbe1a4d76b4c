//! The section `[task]`: what is done with the units, by executors with a file each, and how large the tasks are.

mod command;
mod executor;
mod opencl;
mod search;

use std::path::Path;

use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::resources;

use super::error::JobFileError;
use super::job::JobFile;
use super::table::{Item, Section};
use executor::Executor;
pub(super) use executor::SECONDS_MAX;
pub(crate) use executor::milliseconds;

/// All executors, in the order in which a user reads of them.
const EXECUTORS: [Executor; 3] = [command::EXECUTOR, search::EXECUTOR, opencl::EXECUTOR];
/// Keys of every executor.
const COMMON: [&str; 6] =
    ["target_seconds", "units_per_task", "max_failures", "speculative", "max_nodes", "storage_limit"];

/// Their words, as an error lists them.
#[cfg(test)]
pub(super) fn words() -> String {
    EXECUTORS.map(|executor| format!("\"{}\"", executor.kind.name)).join(", ")
}

/// What the keys of the executors mean, for a terminal.
pub(crate) fn help() -> String {
    EXECUTORS.map(|executor| executor.help).concat()
}

/// Reads the section into the job, whose space is known. Paths are relative to `base`.
pub(super) fn read(section: &Section<'_>, job: &mut JobFile, base: &Path) -> Result<(), JobFileError> {
    let chosen = section.select("executor", &EXECUTORS.map(|executor| executor.kind), &COMMON)?;
    (EXECUTORS[chosen].read)(section, job, base)?;
    job.sizing = sizing(section)?;
    job.max_failures = section.read("max_failures", max_failures)?.unwrap_or(MaxFailures::Usual);
    job.speculative = section.read("speculative", Item::boolean)?;
    job.terms.max_nodes = section.read("max_nodes", max_nodes)?;
    job.terms.storage_limit = section.read("storage_limit", storage_limit)?;
    Ok(())
}

fn max_failures(item: &Item<'_>) -> Result<MaxFailures, JobFileError> {
    match item.string() {
        Ok("never") => Ok(MaxFailures::Never),
        Ok(word) => Err(item.error(format!(
            "`max_failures` \"{word}\" is not known: write \"never\", or a number of failed units without quotes"
        ))),
        Err(_) => item.integer_within(1, i64::MAX as u64).map(MaxFailures::Units),
    }
}

fn max_nodes(item: &Item<'_>) -> Result<u32, JobFileError> {
    item.integer_within(1, u64::from(u32::MAX)).map(|nodes| nodes as u32)
}

fn storage_limit(item: &Item<'_>) -> Result<u64, JobFileError> {
    match item.string() {
        Ok(text) => resources::size(text)
            .and_then(|bytes| if bytes == 0 { Err("write 1 byte or more".to_owned()) } else { Ok(bytes) })
            .map_err(|words| item.error(format!("`storage_limit` \"{text}\": {words}"))),
        Err(_) => item.integer_within(1, i64::MAX as u64),
    }
}

fn sizing(section: &Section<'_>) -> Result<Sizing, JobFileError> {
    match (section.get("target_seconds"), section.get("units_per_task")) {
        (None, None) => Ok(Sizing::default()),
        (Some(seconds), None) => Sizing::target(seconds.seconds(SECONDS_MAX)?).map_err(|e| seconds.error(e)),
        (None, Some(units)) => Ok(Sizing::Units(units.integer_within(1, i64::MAX as u64)?)),
        (Some(_), Some(units)) => Err(units.error(
            "a task's size follows either `target_seconds` or `units_per_task`, not both: remove one",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reads_of_each_key_of_each_executor() {
        let page = include_str!("../../../docs/jobs.md");
        for Executor { kind, help, .. } in EXECUTORS {
            let title = format!("### `[task]` with `executor = \"{}\"`\n", kind.name);
            let (_, section) = page.split_once(&title).expect("docs/jobs.md has a section for it");
            let section = section.split("\n### ").next().unwrap_or_default();
            assert!(help.starts_with(&format!("[task] executor = \"{}\": ", kind.name)), "{help}");
            for key in kind.keys {
                assert!(help.lines().any(|line| line.starts_with(&format!("    {key} = "))), "{key}: {help}");
                assert!(section.contains(&format!("\n| `{key}` |")), "{key}: docs/jobs.md: {section}");
            }
        }
    }
}
