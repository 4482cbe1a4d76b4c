//! `executor = "command"`: a program for each unit.

use std::collections::BTreeMap;
use std::path::{self, Path};

use starfarm_protocol::spec::{CommandWork, OUTPUT_LIMIT_MAX, OutputLimit, Work};

use super::executor::{Executor, Read, SECONDS_MAX, Surroundings, milliseconds};
use crate::jobfile::error::JobFileError;
use crate::jobfile::program;
use crate::jobfile::table::{Item, Kind, Section};

pub(super) const EXECUTOR: Executor = Executor {
    kind: Kind {
        name: "command",
        keys: &["program", "cwd", "env", "timeout_seconds", "hang_seconds", "retries", "output_limit"],
    },
    read,
    help: r#"[task] executor = "command": a program for each unit, no shell
    program = ["./simulate", "--seed", "{}"]
    cwd = "."                 directory that programs start in
                              [default: the job file's, on nodes that have it]
    env = { MODE = "fast" }   added to the worker's environment
    timeout_seconds = 600     a unit that runs longer is ended [default: none]
    hang_seconds = 600        a unit that runs so long, and 30 times what others
                              took, hangs and is ended [default: none]
    retries = 2               a unit that fails is tried again [default: 0]
    output_limit = 65536      bytes kept of each output stream; or "strict",
                              "strict:BYTES" [default: 1048576]
  In `program` and `env`, {} is the unit's value, {index} its number, {NAME} a
  name of the space's own: a grid's names, `clock` of frames.
"#,
};

fn read(section: &Section<'_>, around: &Surroundings<'_>) -> Result<Read, JobFileError> {
    let &Surroundings { names, base, .. } = around;
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
    let work = Work::Command(CommandWork {
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
    });
    Ok(Read { not_here, ..work.into() })
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
pub(in crate::jobfile) fn absolute(folder: &Path) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    path::absolute(folder).ok()?.into_os_string().into_string().ok()
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
