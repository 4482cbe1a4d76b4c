//! `starfarm-sim run FILE [--seed N | --seeds A..B]`: runs a scenario and prints what it counted; `starfarm-sim trees` does so
//! with a monitoring tree. Exit code 1 and the broken rule where one is, 2 for bad usage.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use clap::{Parser, Subcommand};
use starfarm_sim::{Scenario, Sim, TreeModel, trees};

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
    /// Run a monitoring tree: machines, links, agents, workers and schedulers fail for a while, then all must be well again.
    Trees(Grow),
}

#[derive(clap::Args)]
struct Grow {
    /// Nodes that are there at first; half as many may join.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Nodes on each machine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    per_host: u32,
    /// Children of a post.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    fanout: u32,
    /// Faults come for so many seconds.
    #[arg(long, default_value_t = 60)]
    faults: u64,
    /// Milliseconds between two faults in the mean.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    every: u64,
    /// Milliseconds between two looks at the links of a process.
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(50..=1_000))]
    look: u64,
    /// Seeds, A..B, B exclusive.
    #[arg(long, default_value = "1..2", value_parser = seeds)]
    seeds: std::ops::Range<u64>,
}

fn grow(grow: Grow) -> ExitCode {
    let Grow { nodes, per_host, fanout, faults: faults_s, every, look, seeds } = grow;
    let (fault_every_us, look_us) = (every * 1_000, look * 1_000);
    let model = TreeModel { nodes, per_host, fanout, faults_s, fault_every_us, look_us };
    for seed in seeds {
        let begin = Instant::now();
        match trees(&model, seed) {
            Ok(tally) => println!("seed {seed}: {tally:?}, {:.2} s", begin.elapsed().as_secs_f64()),
            Err(violation) => {
                println!("seed {seed}: {violation}");
                println!("keep it in tests/seeds/trees/, with: {model:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.filter(|range| !range.is_empty()).ok_or_else(|| "write it as 1..100".to_owned())
}

fn main() -> ExitCode {
    let (file, seed, seeds, threads, short, verbose, log) = match Cli::parse().command {
        Command::Run { file, seed, seeds, threads, short, verbose, log } => {
            (file, seed, seeds, threads, short, verbose, log)
        }
        Command::Trees(trees) => return grow(trees),
    };
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
