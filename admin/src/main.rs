//! `starfarm`, the command line. Here: from the arguments to the exit code. What is said on the command
//! line is in `cli`, what is done about it in `commands`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cli;
mod client;
mod commands;
mod config;
mod daemon;
mod failure;
mod human;
mod interrupt;
mod jobfile;
mod output;
mod progress;

use std::process::ExitCode;

use clap::ValueEnum;

use config::Config;
use failure::{Exit, Failure};
use output::{Format, say};

fn main() -> ExitCode {
    if let Some(code) = starfarm_scheduler::keep_if_asked() {
        return code;
    }
    if starfarm_worker::host_if_asked() {
        return ExitCode::SUCCESS;
    }
    let cli = match cli::Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && is_json(asked_for()) => {
            // clap's words begin with what it puts before each.
            let words = error.to_string();
            let words = words.trim_start_matches("error: ").trim_end();
            say(&Failure::usage(words).to_json());
            return Exit::Usage.into();
        }
        // Wrong arguments end here, with clap's words and code 2. A script may have taken them from elsewhere.
        Err(error) if error.use_stderr() => {
            say(error.to_string().trim_end());
            return Exit::Usage.into();
        }
        Err(asked_for_help) => asked_for_help.exit(),
    };
    let format = cli.global.output;
    let exit = commands::dispatch(cli).unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            if is_json(format) {
                say(&failure.to_json());
            } else {
                // Scripts and peers choose some of the words.
                say(&format!("starfarm: {}", human::printable_lines(&failure.message)));
            }
        }
        failure.exit
    });
    exit.into()
}

/// Whether errors are to be JSON too. `format` is what the command line and the environment say.
fn is_json(format: Option<Format>) -> bool {
    let format = format.or_else(|| Config::read().ok()?.output);
    matches!(format, Some(Format::Json | Format::Jsonl))
}

/// The form that a command line asked for which cannot be read.
fn asked_for() -> Option<Format> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words = words.skip(1).take_while(|word| word != "--");
    let mut said = None;
    while let Some(word) = words.next() {
        match word.strip_prefix("--output") {
            Some("") => said = words.next(),
            Some(value) => said = value.strip_prefix('=').map(str::to_owned),
            None => {}
        }
    }
    let said = said.or_else(|| std::env::var("STARFARM_OUTPUT").ok())?;
    Format::from_str(&said, false).ok()
}
