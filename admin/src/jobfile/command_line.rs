//! A job said on the command line: `submit --range 0..100 -- PROGRAM ARGS {}`.

use std::collections::BTreeMap;
use std::path::Path;

use starfarm_decomposers::units;
use starfarm_protocol::admin::MaxFailuresField;
use starfarm_protocol::spec::{Axis, CommandWork, JobSpec, OutputLimit, Space, Work};

use super::error::JobFileError;
use super::{JobFile, STDIN, Sizing, lines, names_of, program, stem, task};

/// What may be said beside the space and the program.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CommandOptions {
    /// The job's name; the program's if it is not given.
    pub(crate) name: Option<String>,
    /// How large the tasks are; about 8 s if it is not given.
    pub(crate) sizing: Option<Sizing>,
    /// A unit that runs longer is ended.
    pub(crate) timeout_seconds: Option<f64>,
    /// Of a unit that hangs.
    pub(crate) hang_seconds: Option<f64>,
    /// A unit that fails is run again up to this many times.
    pub(crate) retries: u32,
    /// How much is kept of what a unit writes.
    pub(crate) output_limit: Option<OutputLimit>,
    /// How many failed units the job bears.
    pub(crate) max_failures: Option<MaxFailuresField>,
    /// Whether idle nodes get copies of its last tasks.
    pub(crate) speculative: Option<bool>,
    /// Added to the worker's environment.
    pub(crate) env: BTreeMap<String, String>,
}

/// The job that runs `program` for each integer of `range` ("A..B", B exclusive), each line of the file
/// `lines`, or each combination of `grid` ("k=v1,v2" each); without any of them once. Paths are relative
/// to `base`, the user's folder.
pub(crate) fn from_command_line(
    range: Option<&str>,
    lines: Option<&Path>,
    grid: &[String],
    program: &[String],
    base: &Path,
    options: &CommandOptions,
) -> Result<JobFile, JobFileError> {
    let (space, blobs) = match (range, lines, grid) {
        (None, None, []) => (Space::Range { from: 0, to: 1, step: 1 }, Vec::new()),
        (Some(range), None, []) => (range_space(range)?, Vec::new()),
        (None, None, grid) => (grid_space(grid)?, Vec::new()),
        (None, Some(file), []) => {
            let path = if file == Path::new(STDIN) { file.to_owned() } else { base.join(file) };
            let lines = lines::of_file(&path).map_err(|e| JobFileError::of_file("--lines", e))?;
            (lines.space, lines.blobs)
        }
        _ => {
            return Err(JobFileError::of_file(
                "the command line",
                "a job has one space: give one of --range, --lines and --grid",
            ));
        }
    };
    let (work, not_here) = command(program, &names_of(&space), base, options)?;
    let work = Work::Command(work);
    let sizing = check_sizing(options.sizing.unwrap_or_default())?;
    let name = options.name.clone().unwrap_or_else(|| stem(program.first().map_or("", String::as_str)));
    let CommandOptions { max_failures, speculative, .. } = *options;
    let spec = JobSpec { space, work };
    Ok(JobFile { name, spec, sizing, max_failures, speculative, blobs, not_here, repeated_targets: 0 })
}

fn range_space(range: &str) -> Result<Space, JobFileError> {
    let flag = format!("--range {range}");
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let ends = range.split_once("..").and_then(|(from, to)| Some((number(from)?, number(to)?)));
    let Some((from, to)) = ends else {
        let message =
            "write two integers of 64 bits with two dots between, e.g. --range 0..100, which ends with 99";
        return Err(JobFileError::of_file(&flag, message));
    };
    checked(Space::Range { from, to, step: 1 }, &flag)
}

fn grid_space(grid: &[String]) -> Result<Space, JobFileError> {
    let axes = grid.iter().map(|text| axis(text)).collect::<Result<_, _>>()?;
    checked(Space::Grid { axes }, "--grid")
}

fn axis(text: &str) -> Result<Axis, JobFileError> {
    match text.split_once('=') {
        Some((name, values)) if !values.is_empty() => {
            Ok(Axis { name: name.to_owned(), values: values.split(',').map(str::to_owned).collect() })
        }
        _ => Err(JobFileError::of_file(
            &format!("--grid {text}"),
            "write a name and its values, e.g. --grid size=1,2,3",
        )),
    }
}

fn checked(space: Space, flag: &str) -> Result<Space, JobFileError> {
    units(&space).map_err(|e| JobFileError::of_file(flag, e.to_string()))?;
    Ok(space)
}

fn command(
    words: &[String],
    names: &[String],
    base: &Path,
    options: &CommandOptions,
) -> Result<(CommandWork, Option<JobFileError>), JobFileError> {
    let Some((first, arguments)) = words.split_first() else {
        let message = "no program is given: name one after `--`, e.g. submit --range 0..10 -- echo {}";
        return Err(JobFileError::of_file("the command line", message));
    };
    let search_path = std::env::var_os("PATH");
    let found = program::find(first, names, base, search_path.as_deref())
        .map_err(|e| JobFileError::of_file("the command line", e))?;
    let timeout = options.timeout_seconds.map(|seconds| seconds_of("the time limit", seconds)).transpose()?;
    let hang = options.hang_seconds.map(|seconds| seconds_of("the time of a hang", seconds)).transpose()?;
    let not_here = found.not_here.map(|e| JobFileError::of_file("the command line", e));
    let work = CommandWork {
        program: std::iter::once(found.word).chain(arguments.iter().cloned()).collect(),
        env: options.env.clone(),
        timeout_ms: timeout.map(task::milliseconds),
        hang_ms: hang.map(task::milliseconds),
        retries: options.retries,
        output_limit: options.output_limit.unwrap_or_default(),
        cwd: None,
        cwd_optional: false,
    };
    Ok((work, not_here))
}

fn check_sizing(sizing: Sizing) -> Result<Sizing, JobFileError> {
    match sizing {
        Sizing::TargetSeconds(seconds) => seconds_of("the target time", seconds).map(Sizing::TargetSeconds),
        Sizing::UnitsPerTask(0) => {
            Err(JobFileError::of_file("the units per task", "0 units are no task: use 1 or more"))
        }
        Sizing::UnitsPerTask(_) => Ok(sizing),
    }
}

fn seconds_of(what: &str, seconds: f64) -> Result<f64, JobFileError> {
    if seconds > 0.0 && seconds <= task::SECONDS_MAX {
        return Ok(seconds);
    }
    let message = format!("{seconds} is not a time: use seconds above 0, up to {}", task::SECONDS_MAX);
    Err(JobFileError::of_file(what, message))
}
