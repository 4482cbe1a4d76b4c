//! A job as a line of GNU parallel: `COMMAND ::: VALUES`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use starfarm_decomposers::template::Rules;
use starfarm_decomposers::units;
use starfarm_protocol::job::MaxFailures;
use starfarm_protocol::spec::{Axis, CommandWork, OutputLimit, Space, Work};

use super::error::JobFileError;
use super::job::JobFile;
use super::lines::{self, Listing, STDIN};
use super::{program, stem};
use crate::output::say;

/// Who reads the output of a one-liner wants it whole: one that writes more has failed.
const OUTPUT_LIMIT: OutputLimit = OutputLimit { bytes: 64 << 20, strict: true };

/// The values of one list.
type Values = Vec<Vec<u8>>;

/// The job of a line; files are relative to `base`.
pub(crate) fn from_parallel(words: &[OsString], base: &Path) -> Result<JobFile, JobFileError> {
    let begin = words.iter().position(|word| is_separator(word)).unwrap_or(words.len());
    let (command, lists) = words.split_at(begin);
    let line = line(command)?;
    let listing = listing(lists, base)?;
    let shell = program::find("sh", &[], base).map_err(at_fault)?;
    let name = line.split_whitespace().next().unwrap_or_default().to_owned();
    let work = CommandWork {
        program: vec![shell.word, "-c".to_owned(), line],
        parallel: true,
        env: [("PARALLEL_SEQ".to_owned(), "{#}".to_owned())].into(),
        output_limit: OUTPUT_LIMIT,
        ..CommandWork::default()
    };
    let not_here = shell.not_here.map(at_fault);
    let job = JobFile::new(stem(&name), listing.space, Work::Command(work));
    // GNU parallel goes on, whatever fails.
    Ok(JobFile { blobs: listing.blobs, not_here, max_failures: MaxFailures::Never, ..job })
}

fn at_fault(message: impl Into<String>) -> JobFileError {
    JobFileError::of_file("the command line", message)
}

fn is_separator(word: &OsStr) -> bool {
    matches!(word.as_bytes(), b":::" | b"::::" | b":::+" | b"::::+")
}

/// What the shell is given. Without a command each value is one; without a placeholder the values go to its end.
fn line(command: &[OsString]) -> Result<String, JobFileError> {
    let words = command.iter().map(|word| {
        word.to_str().ok_or_else(|| at_fault(format!("the word {} is not UTF-8: rewrite it", word.display())))
    });
    let line = words.collect::<Result<Vec<_>, _>>()?.join(" ");
    if line.trim().is_empty() {
        return Ok("eval {}".to_owned());
    }
    for unknown in ["{%}", "{=", "{+/}", "{..}", "{...}", "{0}", "{0.}", "{0/}", "{0//}", "{0/.}"] {
        if line.contains(unknown) {
            return Err(at_fault(format!(
                "`{unknown}` is not known here: use {{}}, {{.}}, {{/}}, {{//}}, {{/.}}, {{#}}, or these with a list's \
                 number such as {{1.}}"
            )));
        }
    }
    let rules = Rules::of(&CommandWork { parallel: true, ..CommandWork::default() }, &[]);
    Ok(if rules.word(&line).is_fixed() { line + " {}" } else { line })
}

fn listing(words: &[OsString], base: &Path) -> Result<Listing, JobFileError> {
    let mut lists = Vec::new();
    for (separator, values) in lists_of(words) {
        match separator.as_bytes() {
            b":::" if values.is_empty() => {
                return Err(at_fault("no value follows `:::`: give at least one"));
            }
            b":::" => lists.push(values.iter().map(|value| value.as_bytes().to_vec()).collect()),
            b"::::" if values.is_empty() => {
                return Err(at_fault("no file follows `::::`: name one, or `-` for standard input"));
            }
            b"::::" => {
                for file in values {
                    lists.push(of_file(Path::new(file), base)?);
                }
            }
            _ => {
                let separator = separator.display();
                return Err(at_fault(format!(
                    "`{separator}` is not known here: lists are combined, not linked"
                )));
            }
        }
    }
    if lists.is_empty() {
        if std::io::stdin().is_terminal() {
            say("note: the list is read from this terminal: type a value a line, Ctrl-D ends it");
        }
        lists.push(of_file(Path::new(STDIN), base)?);
    }
    let listing = match &lists[..] {
        [one] if !one.iter().any(|value| value.contains(&b'\n')) => list(one),
        lists => Listing { space: grid(lists)?, blobs: Vec::new() },
    };
    units(&listing.space).map_err(at_fault)?;
    Ok(listing)
}

/// Each separator and what follows it.
fn lists_of(words: &[OsString]) -> Vec<(&OsString, &[OsString])> {
    let at: Vec<_> = (0..words.len()).filter(|at| is_separator(&words[*at])).collect();
    let ends = at.iter().skip(1).copied().chain([words.len()]);
    at.iter().zip(ends).map(|(&at, end)| (&words[at], &words[at + 1..end])).collect()
}

fn of_file(file: &Path, base: &Path) -> Result<Values, JobFileError> {
    let path = if file == Path::new(STDIN) { file.to_owned() } else { base.join(file) };
    let content = lines::list_content(&path).map_err(at_fault)?;
    let content = content.strip_suffix(b"\n").unwrap_or(&content);
    Ok(content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}

fn list(values: &Values) -> Listing {
    let mut content = values.join(&b'\n');
    content.push(b'\n');
    lines::cut(&content)
}

/// All combinations. The lists are called by their numbers.
fn grid(lists: &[Values]) -> Result<Space, JobFileError> {
    let text = |value: &Vec<u8>| {
        String::from_utf8(value.clone()).map_err(|e| {
            let shown = String::from_utf8_lossy(e.as_bytes()).into_owned();
            at_fault(format!("the value {shown:?} is not UTF-8: only a single list may have such values"))
        })
    };
    let axis = |(number, values): (usize, &Values)| {
        let values = values.iter().map(text).collect::<Result<_, _>>()?;
        Ok(Axis { name: (number + 1).to_string(), values })
    };
    Ok(Space::Grid { axes: lists.iter().enumerate().map(axis).collect::<Result<_, JobFileError>>()? })
}
