//! The section `[task]`: what is done with the units, and how large the tasks are.

use std::collections::BTreeMap;
use std::path::{self, Path};

use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::spec::{
    Algorithm, CommandWork, OUTPUT_LIMIT_MAX, OutputLimit, SearchWork, Stop, Work,
};

use super::error::JobFileError;
use super::table::{Item, Kind, Section};
use super::{program, targets};

const EXECUTORS: [Kind; 2] = [
    Kind { name: "search", keys: &["algorithm", "targets", "targets_file", "stop"] },
    Kind {
        name: "command",
        keys: &["program", "cwd", "env", "timeout_seconds", "hang_seconds", "retries", "output_limit"],
    },
];
/// Keys of every executor.
const COMMON: [&str; 4] = ["target_seconds", "units_per_task", "max_failures", "speculative"];

/// The longest time that can be asked for, about 31 years: what is longer is a slip.
pub(super) const SECONDS_MAX: f64 = 1e9;

pub(super) struct Task {
    pub(super) work: Work,
    pub(super) sizing: Sizing,
    pub(super) max_failures: MaxFailures,
    pub(super) speculative: Option<bool>,
    pub(super) not_here: Option<JobFileError>,
    pub(super) repeated_targets: usize,
}

/// Reads the section. `names` are the space's own, which a program may be given.
pub(super) fn read(section: &Section<'_>, names: &[String], base: &Path) -> Result<Task, JobFileError> {
    let (work, not_here, repeated_targets) = match section.select("executor", &EXECUTORS, &COMMON)?.name {
        "search" => {
            let (work, repeated) = search(section, base)?;
            (Work::Search(work), None, repeated)
        }
        _ => {
            let (work, not_here) = command(section, names, base)?;
            (Work::Command(work), not_here, 0)
        }
    };
    Ok(Task {
        work,
        not_here,
        repeated_targets,
        sizing: sizing(section)?,
        max_failures: section
            .get("max_failures")
            .map_or(Ok(MaxFailures::Usual), |item| max_failures(&item))?,
        speculative: section.get("speculative").map(|item| item.boolean()).transpose()?,
    })
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

/// The search, and how many of its targets were given before.
fn search(section: &Section<'_>, base: &Path) -> Result<(SearchWork, usize), JobFileError> {
    let algorithm = choice(
        &section.require("algorithm", "the kind of digest, e.g. algorithm = \"md5\"")?,
        &[
            ("md5", Algorithm::Md5),
            ("sha1", Algorithm::Sha1),
            ("sha256", Algorithm::Sha256),
            ("ntlm", Algorithm::Ntlm),
        ],
    )?;
    let targets = match (section.get("targets"), section.get("targets_file")) {
        (Some(list), None) => targets::of_array(&list, algorithm)?,
        (None, Some(file)) => targets::of_file(&file, base, algorithm)?,
        (Some(_), Some(file)) => {
            return Err(file.error("a search has either `targets` or `targets_file`, not both: remove one"));
        }
        (None, None) => {
            return Err(section.error(
                "a search needs `targets` or `targets_file`: add targets = [\"...\"] with digests in \
                 hexadecimal, or targets_file = \"digests.txt\"",
            ));
        }
    };
    let stop = section.get("stop").map(|item| {
        choice(
            &item,
            &[("never", Stop::Never), ("first-hit", Stop::FirstHit), ("all-targets", Stop::AllTargets)],
        )
    });
    let stop = stop.transpose()?.unwrap_or_default();
    Ok((SearchWork { algorithm, targets: targets.list, stop }, targets.repeated))
}

fn choice<T: Copy>(item: &Item<'_>, choices: &[(&str, T)]) -> Result<T, JobFileError> {
    let chosen = item.string()?;
    choices.iter().find(|(name, _)| *name == chosen).map(|(_, value)| *value).ok_or_else(|| {
        let names = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        item.error(format!("`{}` \"{chosen}\" is not known: use one of {names}", item.name()))
    })
}

fn command(
    section: &Section<'_>,
    names: &[String],
    base: &Path,
) -> Result<(CommandWork, Option<JobFileError>), JobFileError> {
    let item =
        section.require("program", "the program and its arguments, e.g. program = [\"echo\", \"{}\"]")?;
    let words = item.array("a list of strings, the program and its arguments")?;
    let mut line = words.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let (Some(first), Some(word)) = (line.first_mut(), words.first()) else {
        return Err(item.error("`program` is empty: name a program, e.g. program = [\"echo\", \"{}\"]"));
    };
    let found = program::find(first, names, base).map_err(|message| word.error(message))?;
    *first = found.word;
    let not_here = found.not_here.map(|message| word.error(message));
    let cwd = section.get("cwd").map(|item| folder(&item, base)).transpose()?;
    let missing = |item: Item<'_>| {
        let path = cwd.as_ref().filter(|path| !Path::new(path).is_dir())?;
        Some(item.error(format!("the directory `{path}` is not here")))
    };
    let not_here = not_here.or(section.get("cwd").and_then(missing));
    let timeout = section.get("timeout_seconds").map(|item| item.seconds(SECONDS_MAX)).transpose()?;
    let hang = section.get("hang_seconds").map(|item| item.seconds(SECONDS_MAX)).transpose()?;
    let retries = section.get("retries").map(|item| item.integer_within(0, u64::from(u32::MAX)));
    let work = CommandWork {
        program: line,
        env: section.get("env").map(|item| environment(&item)).transpose()?.unwrap_or_default(),
        timeout_ms: timeout.map(milliseconds),
        hang_ms: hang.map(milliseconds),
        retries: retries.transpose()?.unwrap_or(0) as u32,
        output_limit: section
            .get("output_limit")
            .map(|item| output_limit(&item))
            .transpose()?
            .unwrap_or_default(),
        cwd,
        cwd_optional: false,
    };
    Ok((work, not_here))
}

fn output_limit(item: &Item<'_>) -> Result<OutputLimit, JobFileError> {
    match item.string() {
        Ok(text) => text.parse().map_err(|words| item.error(format!("`output_limit` \"{text}\": {words}"))),
        Err(_) => {
            let bytes = item.integer_within(1, OUTPUT_LIMIT_MAX)?;
            Ok(OutputLimit { bytes, ..OutputLimit::default() })
        }
    }
}

/// The directory that programs start in: absolute, since a worker's own is another one.
fn folder(item: &Item<'_>, base: &Path) -> Result<String, JobFileError> {
    let name = text(item)?;
    if name.is_empty() {
        return Err(item.error("`cwd` is empty: name a directory, or remove the key"));
    }
    absolute(&base.join(name)).ok_or_else(|| item.error("the directory's path is not UTF-8: use another one"))
}

/// The absolute form of a folder, if it is UTF-8; the present one where `folder` is empty.
pub(super) fn absolute(folder: &Path) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    path::absolute(folder).ok()?.into_os_string().into_string().ok()
}

/// Whole milliseconds, at least 1: 0 would end every unit at once.
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().max(1.0) as u64
}

fn environment(item: &Item<'_>) -> Result<BTreeMap<String, String>, JobFileError> {
    let mut variables = BTreeMap::new();
    for item in item.table()?.items() {
        let name = item.name();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(
                item.error(format!("{name:?} cannot name a variable: it must not be empty or contain `=`"))
            );
        }
        variables.insert(name.to_owned(), text(&item)?);
    }
    Ok(variables)
}

/// A string that the operating system can take as an argument or a variable.
fn text(item: &Item<'_>) -> Result<String, JobFileError> {
    let text = item.string()?;
    if text.contains('\0') {
        return Err(item.error(format!(
            "`{}` holds a NUL character, which no program can be given: remove it",
            item.name()
        )));
    }
    Ok(text.to_owned())
}
