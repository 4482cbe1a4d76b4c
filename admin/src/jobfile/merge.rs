//! The section `[merge]`: what becomes of the results of all units.

use std::path::Path;

use starfarm_protocol::spec::{Fold, Merge, MergeProgram, Work, is_inside};

use super::error::JobFileError;
use super::inputs;
use super::job::JobFile;
use super::program;
use super::table::Item;
use super::task::{SECONDS_MAX, milliseconds};

/// Reads the section of a job whose task is known. Paths are relative to `base`.
pub(super) fn read(merge: &Item<'_>, job: &mut JobFile, base: &Path) -> Result<(), JobFileError> {
    let section = merge.table()?;
    section.only(&["kind", "program", "timeout_seconds", "outputs"])?;
    let into = match &mut job.spec.work {
        Work::Command(command) => &mut command.merge,
        Work::OpenCl(kernel) => &mut kernel.merge,
        Work::Search(_) | Work::Nothing => {
            let words = "only what programs and kernels write is merged: remove [merge], or use executor = \"command\"";
            return Err(section.error(words));
        }
    };
    let what =
        section.either("[merge]", ["kind", "program"], "kind = \"concat\", or program = [\"./merge\"]")?;
    if what.name == "kind" {
        let word = what.string()?;
        let fold = Fold::from_word(word).ok_or_else(|| {
            let known: Vec<&str> = Fold::ALL.iter().map(|fold| fold.word()).collect();
            what.error(format!("`kind` \"{word}\" is not known: write one of {}", known.join(", ")))
        })?;
        section.only(&["kind"])?;
        *into = Some(Merge::Fold(fold));
        return Ok(());
    }
    let line = program::here(&what, base, "./merge")?;
    let timeout = section.read("timeout_seconds", |item| item.seconds(SECONDS_MAX))?;
    let mut outputs = Vec::new();
    for item in section
        .get("outputs")
        .map_or_else(|| Ok(Vec::new()), |item| item.array("a list of names of files"))?
    {
        let name = item.string()?;
        if !is_inside(name) {
            return Err(item.error(format!(
                "the output `{name}` is no path inside of the directory that the program runs in: write plain names, \
                 parted by /"
            )));
        }
        inputs::not_a_pattern(name).map_err(|words| item.error(words))?;
        outputs.push(name.to_owned());
    }
    let timeout_ms = timeout.map(milliseconds);
    *into = Some(Merge::Program(Box::new(MergeProgram { program: line, timeout_ms, outputs })));
    Ok(())
}
