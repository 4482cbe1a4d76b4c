//! `starfarm-worker`: a computing node alone in a binary, for machines that need nothing else.

use std::process::ExitCode;

use clap::Parser;
use starfarm_worker::{Options, host_if_asked, run};

/// A computing node of a starfarm: joins the farm of a join file and runs its tasks.
///
/// Ctrl-C or SIGTERM drains: running units end, their results are delivered. A second one stops at once.
#[derive(Parser)]
#[command(name = "starfarm-worker", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    if host_if_asked() {
        return ExitCode::SUCCESS;
    }
    match run(&Cli::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            starfarm_net::say(&format!("starfarm-worker: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
