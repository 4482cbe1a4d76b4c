//! The flags of those who come from GNU parallel, and how a line of theirs is read.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

/// What users of GNU parallel know.
#[derive(Args, Debug, Default)]
pub(crate) struct Parallel {
    /// What follows the flags is a line of GNU parallel: a command for `sh`, then lists behind `:::` or in files behind
    /// `::::`, or none where standard input is the list. It knows {} {.} {/} {//} {/.} {#} {1} {2}
    #[arg(long, conflicts_with_all = ["range", "lines", "grid"])]
    pub(crate) parallel: bool,
    /// With --parallel or --dir, print outputs and write files in the order of the units, not as they come. Other results
    /// are in that order in any case
    #[arg(long, short = 'k')]
    pub(crate) keep_order: bool,
    /// Append a row to this file for each unit that ended: the columns of GNU parallel's --joblog. Without --resume or
    /// --resume-failed, the file is written anew
    #[arg(long, value_name = "FILE")]
    pub(crate) joblog: Option<PathBuf>,
    /// Run only the units that the file of --joblog lacks or says failed
    #[arg(long, requires = "joblog")]
    pub(crate) resume_failed: bool,
    /// End early, when so many units failed, passed or ended: `now` kills the running ones, `soon` lets them end
    #[arg(long, value_name = "now|soon,fail|success|done=N")]
    pub(crate) halt: Option<Halt>,
    /// Write what units print into DIR/1/VALUE/stdout and stderr, and seq beside them, instead of printing it
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_dir))]
    pub(crate) results: Option<PathBuf>,
}

/// GNU parallel writes one table where the name is that of a table, and puts values into a name with braces.
fn results_dir(dir: PathBuf) -> Result<PathBuf, &'static str> {
    let name = dir.to_string_lossy();
    match [".csv", ".tsv", ".json"].iter().any(|end| name.ends_with(end)) || name.contains(['{', '}']) {
        true => Err("name a folder: here --results knows neither tables nor values in its name; \
                     `starfarm results ID --output jsonl` prints one line for each unit"),
        false => Ok(dir),
    }
}

/// What GNU parallel takes and is so in any case here.
const IN_ANY_CASE: [&str; 7] =
    ["will-cite", "no-notice", "group", "no-run-if-empty", "bar", "eta", "progress"];

/// When a job ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Halt {
    Never,
    At {
        /// Running units are killed.
        now: bool,
        why: HaltWhy,
        /// So many, 1 or more.
        units: u128,
    },
}

/// Which units count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HaltWhy {
    Fail,
    Success,
    Done,
}

impl FromStr for Halt {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = "write now or soon, then fail, success or done with a number of units, such as now,fail=1; or never";
        if text == "never" {
            return Ok(Self::Never);
        }
        let parts = text.split_once(',').and_then(|(when, rest)| Some((when, rest.split_once('=')?)));
        let (when, (why, units)) = parts.ok_or(words)?;
        let now = match when {
            "now" => true,
            "soon" => false,
            _ => return Err(words),
        };
        let why = match why {
            "fail" => HaltWhy::Fail,
            "success" => HaltWhy::Success,
            "done" => HaltWhy::Done,
            _ => return Err(words),
        };
        match units.parse() {
            Ok(units @ 1..) => Ok(Self::At { now, why, units }),
            _ => Err(words),
        }
    }
}

/// The words as a line of GNU parallel, if one of them asks for that; behind the flags everything is the user's command
/// and its lists, as if `--` stood before it.
pub(super) fn try_as_parallel(
    command: &Command,
    words: &[OsString],
) -> Option<Result<ArgMatches, clap::Error>> {
    if !words.iter().any(|word| word == "--parallel") {
        return None;
    }
    let line = |command: Command| {
        let command =
            command.mut_arg("job", |job| job.long("job-file").hide(true)).mut_arg("program", |program| {
                program.last(false).trailing_var_arg(true).value_name("COMMAND ::: VALUE")
            });
        let same = IN_ANY_CASE.map(|flag| Arg::new(flag).long(flag).hide(true).action(ArgAction::SetTrue));
        command.args(same).mut_arg("no-run-if-empty", |flag| flag.short('r'))
    };
    let command = command.clone().mut_subcommand("run", line).mut_subcommand("submit", line);
    let read = command.clone().try_get_matches_from(words).map_err(|why| unknown(why, &command));
    let is_line = |matches: &ArgMatches| {
        matches.subcommand().is_some_and(|(_, of)| matches!(of.try_get_one("parallel"), Ok(Some(true))))
    };
    match read {
        Ok(matches) if !is_line(&matches) => None,
        read => Some(read),
    }
}

/// A flag that is not known is one of GNU parallel's: what looks like it here is something else.
fn unknown(why: clap::Error, command: &Command) -> clap::Error {
    match (why.kind(), why.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(flag)) => {
            let words = format!(
                "`{flag}` is not known here with --parallel: \"Coming from GNU parallel\" in docs/jobs.md lists what is; \
                 flags of the command itself belong behind its name\n"
            );
            clap::Error::raw(ErrorKind::UnknownArgument, words).with_cmd(command)
        }
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::read(line.split(' ').map(Into::into))
    }

    #[test]
    fn flags_of_gnu_parallel_are_taken_or_refused_in_words() {
        read("starfarm run --parallel --will-cite --bar -r --eta --progress echo ::: a").unwrap();
        assert!(read("starfarm run --bar -- echo").is_err(), "another line has none");
        for (line, words) in [
            ("--tag echo ::: a", "`--tag` is not known here with --parallel: "),
            ("--results out.csv echo ::: a", "name a folder: "),
            ("--results out/{} echo ::: a", "name a folder: "),
        ] {
            let error = read(&format!("starfarm run --parallel {line}")).unwrap_err();
            assert!(error.to_string().contains(words) && error.exit_code() == 2, "{error}");
        }
        read("starfarm run --parallel --results out.d echo --tag ::: a").unwrap();
    }
}
