//! `starfarm-sim run FILE [--seed N | --seeds A..B]`: runs a scenario and prints what it counted. Exit code
//! 1 and the broken rule where one is, 2 for bad usage.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use clap::{Parser, Subcommand};
use starfarm_sim::{Scenario, Sim};

/// The real cores of starfarm under virtual time and seeded faults.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario.
    Run {
        /// The scenario, a TOML file.
        file: PathBuf,
        /// One seed.
        #[arg(long, default_value_t = 1, conflicts_with = "seeds")]
        seed: u64,
        /// A range of seeds, A..B, B exclusive.
        #[arg(long, value_parser = seeds)]
        seeds: Option<std::ops::Range<u64>>,
        /// Threads that take the seeds of a range.
        #[arg(long, default_value_t = 1, requires = "seeds")]
        threads: usize,
        /// The shortened form that the tests run.
        #[arg(long)]
        short: bool,
        /// Say what happens on the farm, on stderr.
        #[arg(long)]
        verbose: bool,
        /// Write the farm's XML log into this folder.
        #[arg(long, conflicts_with = "seeds")]
        log: Option<PathBuf>,
    },
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.filter(|range| !range.is_empty()).ok_or_else(|| "write it as 1..100".to_owned())
}

fn main() -> ExitCode {
    let Command::Run { file, seed, seeds, threads, short, verbose, log } = Cli::parse().command;
    if let Some(dir) =
        log.as_deref().filter(|dir| dir.read_dir().is_ok_and(|mut files| files.next().is_some()))
    {
        eprintln!(
            "starfarm-sim: {} is not empty, and two runs would be read as one: remove it first",
            dir.display()
        );
        return ExitCode::from(2);
    }
    let scenario = match Scenario::load(&file) {
        Ok(scenario) if short => Scenario { log, ..scenario.shortened() },
        Ok(scenario) => Scenario { log, ..scenario },
        Err(error) => {
            eprintln!("starfarm-sim: {error}");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let broken = |seed, violation| {
        println!("{}: seed {seed}: {violation}", file.display());
        println!("keep it in tests/seeds/: scenario = \"{}\", seed = {seed}", file.display());
        ExitCode::FAILURE
    };
    let Some(seeds) = seeds else {
        let sim = Sim::new(&scenario, seed);
        return match if verbose { sim.verbose() } else { sim }.run() {
            Ok(tally) => {
                println!("wall time        {:.2} s\n{tally}", begin.elapsed().as_secs_f64());
                ExitCode::SUCCESS
            }
            Err(violation) => broken(seed, violation),
        };
    };
    let (left, failed, count) = (Mutex::new(seeds.clone()), AtomicBool::new(false), seeds.end - seeds.start);
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(seed) = left.lock().ok().and_then(|mut left| left.next()) else { return };
            match Sim::new(&scenario, seed).run() {
                Ok(tally) => println!("seed {seed}: log {:016x}, {} events", tally.log, tally.events),
                Err(violation) => {
                    broken(seed, violation);
                    failed.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    if failed.into_inner() {
        return ExitCode::FAILURE;
    }
    println!("{count} seeds, 0 violations, {:.1} s", begin.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
