//! What a user looks up: the keys of a job file, the JSON schemas of what is printed; manual pages and completions, made
//! from the definitions of the command line and from nothing else.

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Context;
use crate::cli::Cli;
use crate::failure::{Exit, Failure};

/// What a job file may say, for a terminal. `docs/jobs.md` says the same at length.
pub(crate) fn job_file_text() -> String {
    include_str!("reference/job-file.txt").replace("{executors}\n", &crate::jobfile::help())
}

macro_rules! schemas {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../schemas/", $name, ".json")))),*]
    };
}

/// The schemas by name. What is printed on one line keeps to that of the list that it would stand in.
const SCHEMAS: &[(&str, &str)] = schemas! {
    "alarm-change" "alarms" "audit" "bench-dispatch" "bench-tree" "bench-udp" "dry-run" "error" "events" "explanation" "jobs" "join-file" "keys" "labelled-status"
    "log-replay" "log-state" "log-validation" "nodes" "plan" "probe" "results" "series" "status" "submitted"
    "trace" "tree" "tree-plan" "graph"
};

pub(crate) fn job_file(context: &mut Context) -> Result<(), Failure> {
    context.printer.text(&job_file_text())
}

/// Prints the schema `name`, or the names of all.
pub(crate) fn schema(context: &mut Context, name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        SCHEMAS.iter().try_for_each(|(name, _)| context.printer.line(name))?;
        return Ok(());
    };
    // As a document or a line names its own: `starfarm/jobs/1`, `starfarm/job/1`.
    let own = name.strip_prefix("starfarm/").and_then(|own| own.split_once('/')).map_or(name, |(own, _)| own);
    let Some(schema) = schema_of(own) else {
        let words = format!("there is no schema `{name}`: `starfarm schema` lists them");
        return Err(Failure::new(Exit::NotFound, words));
    };
    context.printer.text(schema)
}

/// The schema that is called so, or that describes the documents or lines that are.
fn schema_of(own: &str) -> Option<&'static str> {
    let by_name = SCHEMAS.iter().find(|(name, _)| *name == own);
    let describes = |(_, text): &&(&str, &str)| text.contains(&format!("\"starfarm/{own}/"));
    by_name.or_else(|| SCHEMAS.iter().find(describes)).map(|(_, text)| *text)
}

pub(crate) fn completions(context: &mut Context, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut offered(), "starfarm", &mut script);
    context.printer.bytes(&script)
}

/// What Tab offers: what the help shows. Completions know of nothing hidden.
fn offered() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|child| !child.is_hide_set()).cloned();
    Command::new("starfarm")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(whole.get_arguments().cloned())
        .subcommands(shown)
}

/// Prints the page of `starfarm`, or writes a page for each command into `out`.
pub(crate) fn pages(context: &mut Context, out: Option<&Path>) -> Result<(), Failure> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let Some(out) = out else {
        let mut first = Vec::new();
        // Writing into memory does not fail.
        page(whole).render(&mut first).map_err(|error| Failure::usage(error.to_string()))?;
        return context.printer.bytes(&first);
    };
    std::fs::create_dir_all(out).and_then(|()| write_pages(whole, out)).map_err(|error| {
        Failure::usage(format!("--out {}: {error}: name a directory of yours", out.display()))
    })
}

/// A page for the command and for each below it that is shown.
fn write_pages(command: Command, out: &Path) -> io::Result<()> {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        write_pages(child.clone(), out)?;
    }
    page(command).generate_to(out).map(drop)
}

/// The page of a command that is built.
fn page(command: Command) -> Man {
    let synopsis = synopsis(&command);
    Man::new(command.override_usage(synopsis)).source(concat!("starfarm ", env!("CARGO_PKG_VERSION")))
}

/// What the command line looks like, with the values of each flag.
fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or(command.get_name()).to_owned()];
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let is_last = |argument: &&Arg| argument.is_positional();
    for argument in shown().filter(|argument| !is_last(argument)).chain(shown().filter(is_last)) {
        let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let values = values.unwrap_or_default().join(" ");
        let dashes = if argument.is_last_set() { "-- " } else { "" };
        let flag = argument.get_long().map_or_else(String::new, |long| format!("--{long} "));
        let form = format!("{dashes}{flag}{values}");
        let many = if matches!(argument.get_action(), ArgAction::Append) { "..." } else { "" };
        let form = form.trim_end();
        words.push(match argument.is_required_set() {
            true => format!("{form}{many}"),
            false => format!("[{form}]{many}"),
        });
    }
    if command.has_subcommands() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command that is shown, with the name of its page.
    fn commands(command: &Command, page: &str, all: &mut Vec<(String, Command)>) {
        all.push((page.to_owned(), command.clone()));
        for child in
            command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help")
        {
            commands(child, &format!("{page}-{}", child.get_name()), all);
        }
    }

    fn all_commands() -> Vec<(String, Command)> {
        let mut whole = Cli::command();
        whole.build();
        let mut all = Vec::new();
        commands(&whole, "starfarm", &mut all);
        all
    }

    fn text(command: &Command) -> String {
        let mut page = Vec::new();
        super::page(command.clone()).render(&mut page).unwrap();
        // Hyphens are escaped, so that they can be copied.
        String::from_utf8(page).unwrap().replace("\\-", "-")
    }

    #[test]
    fn the_pages_name_every_command_and_every_flag() {
        let all = all_commands();
        assert!(all.iter().any(|(name, _)| name == "starfarm-job-explain"), "the walk goes down");
        for (name, command) in all {
            let page = text(&command);
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let flag = argument.get_long().map(|long| format!("--{long}"));
                let value = argument.get_value_names().unwrap_or_default().join(" ");
                let word = flag.unwrap_or(value);
                assert!(page.contains(&word), "{name} does not tell of {word}:\n{page}");
                let variable = argument.get_env().unwrap_or_default().to_string_lossy();
                assert!(page.contains(&*variable), "{name} does not tell of {variable}:\n{page}");
            }
            for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
                assert!(page.contains(child.get_name()), "{name} does not tell of {}", child.get_name());
            }
            let program = concat!(" \"starfarm ", env!("CARGO_PKG_VERSION"), "\"");
            assert!(page.contains(program), "{name} is of another program:\n{page}");
        }
    }

    /// A line of `events --follow` or `results --output jsonl` is not called as the list that it would stand in.
    #[test]
    fn whatever_a_document_or_line_calls_its_schema_finds_it() {
        for (name, text) in SCHEMAS {
            let own: Vec<_> =
                text.split("\"starfarm/").skip(1).filter_map(|rest| rest.split('/').next()).collect();
            assert!(own.contains(name), "{name} describes itself");
            assert!(own.iter().all(|own| schema_of(own) == Some(text)), "{name}: {own:?}");
        }
        assert!(schema_of("hit").is_some() && schema_of("").is_none());
    }

    #[test]
    fn a_synopsis_tells_the_values() {
        let all = all_commands();
        let synopsis_of = |wanted: &str| synopsis(&all.iter().find(|(name, _)| name == wanted).unwrap().1);
        let everywhere = "[--farm DIR|FILE] [--output FORMAT] [--color WHEN]";
        let top = synopsis_of("starfarm-top");
        assert!(top.starts_with("starfarm top [--interval SECONDS] [--read-only] "), "{top}");
        assert!(everywhere.split_inclusive(']').all(|flag| top.contains(flag)), "{top}");
        assert!(synopsis_of("starfarm-job-show").ends_with(" ID"));
        let submit = synopsis_of("starfarm-submit");
        assert!(submit.contains(" [--grid k=v1,v2]... "), "{submit}");
        assert!(submit.ends_with(" [JOB.toml] [-- PROGRAM]..."), "{submit}");
        assert!(synopsis_of("starfarm-key").ends_with(" COMMAND"));
    }

    #[test]
    fn completions_offer_what_the_help_shows() {
        let names: Vec<String> =
            offered().get_subcommands().map(|child| child.get_name().to_owned()).collect();
        assert!(names.iter().any(|name| name == "top"), "{names:?}");
        assert!(!names.iter().any(|name| name == "man"), "{names:?}");
    }
}
