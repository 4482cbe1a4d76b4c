//! `executor = "command"`: a program for each unit.

use std::collections::BTreeMap;
use std::path::Path;

use starfarm_decomposers::template::TASK_NAMES;
use starfarm_protocol::job::Per;
use starfarm_protocol::limits::SLOTS_MAX;
use starfarm_protocol::resources::{self, MEMORY_MAX};
use starfarm_protocol::spec::{CommandWork, FILES_LIMIT, OUTPUT_LIMIT_MAX, OutputLimit, Work};

use super::executor::{Executor, SECONDS_MAX, milliseconds};
use crate::jobfile::error::JobFileError;
use crate::jobfile::job::{JobFile, absolute, names_of};
use crate::jobfile::table::{Item, Kind, Section};
use crate::jobfile::{inputs, program};

pub(super) const EXECUTOR: Executor = Executor {
    kind: Kind {
        name: "command",
        keys: &[
            "program",
            "per",
            "inputs",
            "outputs",
            "files_limit",
            "stdin",
            "cwd",
            "env",
            "timeout_seconds",
            "hang_seconds",
            "retries",
            "output_limit",
            "slots",
            "memory",
            "needs",
        ],
    },
    read,
    help: r#"[task] executor = "command": a program for each unit, no shell
    program = ["./simulate", "--seed", "{}"]
    per = "task"              one run for all units of a task, which is told of
                              them by {lo}, {hi}, {last}, {count} and {file}
                              [default: "unit", a run for each]
    inputs = ["scene.pov", "textures/**"]
                              files beneath the job file's folder; each unit
                              finds them in the directory that it starts in, and
                              of "in/{}.jpg" its own one
    outputs = ["frame{}.png"] files that each unit makes there
    files_limit = 1000000     bytes of a unit's outputs [default: 268435456]
    stdin = "{}.in"           file that a unit reads as standard input, from the
                              directory that it starts in [default: empty]
    cwd = "."                 directory that programs start in
                              [default: the job file's, on nodes that have it]
    env = { MODE = "fast" }   added to the worker's environment
    timeout_seconds = 600     a unit that runs longer is ended [default: none]
    hang_seconds = 600        a unit that runs this long, and 30 times as long as
                              others, hangs and is ended [default: none]
    retries = 2               a unit that fails is tried again [default: 0]
    output_limit = 65536      bytes kept of each output stream; or "strict",
                              "strict:BYTES" [default: 1048576]
    slots = 4                 slots of a worker that a unit takes [default: 1]
    memory = "2GiB"           memory that a unit claims: units start where it is
                              free; nothing keeps them from using more
                              [default: none]
    needs = { gpus = 1 }      GPUs that a unit has to itself, or its share of one:
                              0.5 for two units on a card. It sees its own cards
                              and no others [default: none]
  In `program`, `inputs`, `outputs`, `stdin` and `env`, {} is the unit's value, {index} its number, {NAME} a
  value that the space names: the names of a grid, `clock` of frames.
"#,
};

fn read(section: &Section<'_>, job: &mut JobFile, base: &Path) -> Result<(), JobFileError> {
    let item =
        section.require("program", "the program and its arguments, e.g. program = [\"echo\", \"{}\"]")?;
    let words = item.array("a list of strings, the program and its arguments")?;
    let mut line = words.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let (Some(first), Some(word)) = (line.first_mut(), words.first()) else {
        return Err(item.error("`program` is empty: name a program, e.g. program = [\"echo\", \"{}\"]"));
    };
    let per = section.read("per", per)?.unwrap_or_default();
    let names = match per {
        Per::Unit => names_of(&job.spec.space),
        Per::Task => TASK_NAMES.map(str::to_owned).into(),
    };
    let list = |key, what| section.get(key).map_or_else(|| Ok(Vec::new()), |item: Item<'_>| item.array(what));
    let found = inputs::read(&list("inputs", "a list of files or patterns")?, base, &job.units_of_inputs())?;
    job.inputs = found.files;
    let outputs = inputs::outputs(&list("outputs", "a list of names of files")?, &names)?;
    let not_here = match job.inputs.iter().any(|file| file.input.path == first.trim_start_matches("./")) {
        // It is brought along.
        true => {
            *first = format!("./{}", first.trim_start_matches("./"));
            None
        }
        false => {
            let found = program::find(first, &names, base).map_err(|message| word.error(message))?;
            *first = found.word;
            found.not_here.map(|message| word.error(message))
        }
    };
    let cwd = section.read("cwd", |item| folder(item, base))?;
    if let Some(cwd) = section.get("cwd").filter(|_| !(job.inputs.is_empty() && outputs.is_empty())) {
        return Err(cwd.error("a job with `inputs` or `outputs` runs where these are: remove `cwd`"));
    }
    let missing = |item: Item<'_>| {
        let path = cwd.as_ref().filter(|path| !Path::new(path).is_dir())?;
        Some(item.error(format!("the directory `{path}` is not here")))
    };
    job.not_here = not_here.or(section.get("cwd").and_then(missing));
    let time = |key| Ok(section.read(key, |item| item.seconds(SECONDS_MAX))?.map(milliseconds));
    let retries = section.read("retries", |item| item.integer_within(0, u64::from(u32::MAX)))?;
    job.spec.work = Work::Command(CommandWork {
        program: line,
        per,
        parallel: false,
        stdin: section.read("stdin", stdin)?,
        env: section.read("env", environment)?.unwrap_or_default(),
        timeout_ms: time("timeout_seconds")?,
        hang_ms: time("hang_seconds")?,
        retries: retries.unwrap_or(0) as u32,
        output_limit: section.read("output_limit", output_limit)?.unwrap_or_default(),
        cwd,
        cwd_optional: false,
        merge: None,
        inputs: job.inputs.iter().map(|file| file.input.clone()).collect(),
        unit_inputs: found.of_units,
        outputs,
        slots: section.read("slots", |item| item.integer_within(1, SLOTS_MAX.into()))?.unwrap_or(1) as u16,
        memory_bytes: section.read("memory", memory)?.unwrap_or(0),
        gpus: section.read("needs", needs)?.unwrap_or(0.0),
        files_limit: section
            .read("files_limit", |item| item.integer_within(1, OUTPUT_LIMIT_MAX))?
            .unwrap_or(FILES_LIMIT),
    });
    job.templates_fit().and_then(|()| job.no_nul_in_line()).map_err(|trouble| item.error(trouble))
}

fn per(item: &Item<'_>) -> Result<Per, JobFileError> {
    let word = item.string()?;
    Per::from_word(word).ok_or_else(|| {
        item.error(format!("`per` \"{word}\" is not known: write \"unit\", a run for each, or \"task\", one for all of a task"))
    })
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

fn memory(item: &Item<'_>) -> Result<u64, JobFileError> {
    match item.string() {
        Ok(text) => {
            resources::memory(text).map_err(|words| item.error(format!("`memory` \"{text}\": {words}")))
        }
        Err(_) => item.integer_within(0, MEMORY_MAX),
    }
}

/// What a unit needs beside slots and memory: its GPUs.
fn needs(item: &Item<'_>) -> Result<f64, JobFileError> {
    let needs = item.table()?;
    needs.only(&["gpus"])?;
    let gpus = |item: &Item<'_>| {
        let cards = item.number("a number of GPUs")?;
        resources::gpus(cards).map_err(|words| item.error(format!("`gpus` is {cards}: {words}")))?;
        Ok(cards)
    };
    Ok(needs.read("gpus", gpus)?.unwrap_or(0.0))
}

fn stdin(item: &Item<'_>) -> Result<String, JobFileError> {
    match text(item)? {
        name if name.is_empty() => Err(item.error("`stdin` is empty: name a file, or remove the key")),
        name => Ok(name),
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

fn environment(item: &Item<'_>) -> Result<BTreeMap<String, String>, JobFileError> {
    let mut variables = BTreeMap::new();
    for item in item.table()?.items() {
        let name = &item.name;
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(
                item.error(format!("{name:?} cannot name a variable: it must not be empty or contain `=`"))
            );
        }
        variables.insert(name.clone(), text(&item)?);
    }
    Ok(variables)
}

/// A string that the operating system can take as an argument or a variable.
fn text(item: &Item<'_>) -> Result<String, JobFileError> {
    let text = item.string()?;
    if text.contains('\0') {
        return Err(item.error(format!(
            "`{}` holds a NUL character, which no program can be given: remove it",
            item.name
        )));
    }
    Ok(text.to_owned())
}
