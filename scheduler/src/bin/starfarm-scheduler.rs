//! The scheduling node as a binary of its own; the same as `starfarm scheduler`.

use std::process::ExitCode;

use clap::Parser;

/// starfarm's scheduling node.
#[derive(Parser)]
#[command(name = "starfarm-scheduler", version)]
struct Cli {
    #[command(flatten)]
    args: starfarm_scheduler::Options,
}

fn main() -> ExitCode {
    if let Some(code) = starfarm_scheduler::keep_if_asked() {
        return code;
    }
    match starfarm_scheduler::run(Cli::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            starfarm_net::say(&format!("starfarm-scheduler: {e}"));
            ExitCode::from(e.exit_code())
        }
    }
}
