//! `starfarm-wicked`: a wicked worker by hand, for a farm of your own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use starfarm_protocol::join::JoinFile;
use starfarm_wicked::{Attack, Wicked};

/// A worker that joins a farm and then does what a worker must not do
#[derive(Parser, Debug)]
#[command(name = "starfarm-wicked", version)]
struct Args {
    /// The farm's worker.join
    #[arg(long, value_name = "FILE")]
    join: PathBuf,
    /// Its name in the farm
    #[arg(long, default_value = "wick")]
    name: String,
    /// How long it does so
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// What it does
    #[arg(value_enum)]
    attack: Attack,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("starfarm-wicked: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let text = std::fs::read_to_string(&args.join).map_err(|e| format!("{}: {e}", args.join.display()))?;
    let join = JoinFile::from_text(&text).map_err(|e| format!("{}: {e}", args.join.display()))?;
    let worker = Wicked::join(&join, &args.name, args.attack).map_err(|e| e.to_string())?;
    println!("{}", worker.run(Duration::from_secs(args.seconds)));
    Ok(())
}
