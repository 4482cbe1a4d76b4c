//! A job said on the command line: `submit --range 0..100 -- PROGRAM ARGS {}`.

use std::path::Path;

use starfarm_decomposers::units;
use starfarm_protocol::spec::{Axis, CommandWork, Space, Work};

use super::error::JobFileError;
use super::job::{JobFile, names_of};
use super::lines::STDIN;
use super::{lines, program, stem};

/// The job that runs `program` for each integer of `range` ("A..B", B exclusive), each line of the file
/// `lines`, or each combination of `grid` ("k=v1,v2" each); without any of them once. Paths are relative
/// to `base`, the user's folder.
pub(crate) fn from_command_line(
    range: Option<&str>,
    lines: Option<&Path>,
    grid: &[String],
    program: &[String],
    base: &Path,
) -> Result<JobFile, JobFileError> {
    let at_fault = |message: String| JobFileError::of_file("the command line", message);
    // Before a list is read, which may be standard input.
    let Some((first, arguments)) = program.split_first() else {
        let message = "no program is given: name one after `--`, e.g. submit --range 0..10 -- echo {}";
        return Err(at_fault(message.to_owned()));
    };
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
            let message = "a job has one space: give one of --range, --lines and --grid";
            return Err(at_fault(message.to_owned()));
        }
    };
    let found = program::find(first, &names_of(&space), base).map_err(at_fault)?;
    let work = Work::Command(CommandWork {
        program: std::iter::once(found.word).chain(arguments.iter().cloned()).collect(),
        ..CommandWork::default()
    });
    let not_here = found.not_here.map(at_fault);
    Ok(JobFile { blobs, not_here, ..JobFile::new(stem(first), space, work) })
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
    units(&space).map_err(|e| JobFileError::of_file(flag, e))?;
    Ok(space)
}
