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
mod paths;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    if let Some(code) = starfarm_scheduler::save_checkpoint_if_asked() {
        return code;
    }
    // Wrong arguments end here, with clap's words and code 2.
    let cli = cli::Cli::parse();
    let exit = commands::dispatch(cli).unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            // Scripts and peers choose some of the words.
            output::say(&format!("starfarm: {}", human::printable_lines(&failure.message)));
        }
        failure.exit
    });
    exit.into()
}
