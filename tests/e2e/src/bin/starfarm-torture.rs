//! `starfarm-torture`: the torture by hand and at full size; `cargo xtask soak` calls it.

use clap::{Parser, ValueEnum};
use starfarm_e2e::torture::{self, Kind, Plan};

/// Kills, stops and cuts a farm of real processes while a job runs, and checks that all of it is exact.
#[derive(Parser, Debug)]
#[command(name = "starfarm-torture", version)]
struct Args {
    /// What runs meanwhile
    #[arg(value_enum)]
    kind: Name,
    /// The size for every day
    #[arg(long)]
    quick: bool,
    /// The same seed chooses the same faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Units of the job; a power of ten for a search
    #[arg(long)]
    units: Option<u64>,
    /// Units of a task
    #[arg(long)]
    units_per_task: Option<u64>,
    /// Workers
    #[arg(long)]
    workers: Option<usize>,
    /// Kills of workers
    #[arg(long)]
    worker_kills: Option<usize>,
    /// Kills of the scheduler
    #[arg(long)]
    scheduler_kills: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Name {
    /// A search with planted targets
    Search,
    /// Programs that append to a file
    Command,
}

fn main() {
    let args = Args::parse();
    let kind = match args.kind {
        Name::Search => Kind::Search,
        Name::Command => Kind::Command,
    };
    let mut plan = if args.quick { Plan::quick(kind) } else { Plan::full(kind) };
    plan.seed = args.seed;
    plan.units = args.units.unwrap_or(plan.units);
    plan.units_per_task = args.units_per_task.unwrap_or(plan.units_per_task);
    plan.workers = args.workers.unwrap_or(plan.workers);
    plan.worker_kills = args.worker_kills.unwrap_or(plan.worker_kills);
    plan.scheduler_kills = args.scheduler_kills.unwrap_or(plan.scheduler_kills);
    println!("{}", torture::run(&plan));
}
