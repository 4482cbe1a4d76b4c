//! `cargo xtask`: the project's own tasks. Here is the command line alone; what each task does lives in
//! the module of its name. What runs in a farm is none of this crate's business.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod check;
mod dashboard;
mod deny;
mod emulated;
mod man;
mod mutants;
mod programs;
mod skips;
mod soak;
mod steps;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use steps::Steps;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what outside programs the tests use, runs all tests, says what was skipped
    Test,
    /// Checks the rules of the house over all files that git tracks
    Tidy,
    /// Format, clippy, tidy and documentation, warnings denied
    Check,
    /// Builds the page of `starfarm log replay --html` from its sources, and keeps it
    Dashboard,
    /// Writes the manual pages and the shells' completions, for who installs or packages
    Man {
        /// Into this folder
        out: PathBuf,
    },
    /// Full-size runs, too long for every day
    Soak {
        /// Which ones; all when none is named
        names: Vec<String>,
        /// Print what would run
        #[arg(long)]
        list: bool,
    },
    /// Plants bugs in a copy of the tree, one at a time, and sees that a test catches each
    Mutants {
        /// Which ones; all when none is named
        names: Vec<String>,
    },
    /// What CI runs: test, then check
    Ci,
}

fn main() -> ExitCode {
    let root = workspace_root();
    let mut steps = Steps::new(root.clone());
    match Arguments::parse().task {
        Task::Test => test::run(&mut steps),
        Task::Tidy => {
            steps.run("tidy", || tidy::run(&root));
        }
        Task::Check => check::run(&mut steps),
        Task::Dashboard => dashboard::build(&mut steps),
        Task::Man { out } => man::write(&mut steps, &out),
        Task::Soak { names, list } => soak::run(&mut steps, &names, list),
        Task::Mutants { names } => mutants::run(&mut steps, &names),
        Task::Ci => {
            test::run(&mut steps);
            check::run(&mut steps);
        }
    }
    steps.finish()
}

/// The repository's top. Cargo names this crate's folder when it runs us; without cargo it is where we stand.
fn workspace_root() -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    crate_folder.and_then(|folder| Some(folder.parent()?.to_owned())).unwrap_or_else(here)
}
