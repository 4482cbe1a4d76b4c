//! `starfarm-torture`: the torture by hand and at full size; `cargo xtask soak` calls it.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use starfarm_e2e::hostile::hostile;
use starfarm_e2e::torture::{self, Kills, Kind, Plan, Restarts};

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
    /// How long a run of the monitoring trees takes
    #[arg(long)]
    seconds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Name {
    /// A search with planted targets
    Search,
    /// Programs that append to a file
    Command,
    /// Programs that make a file each from one that came along
    Files,
    /// Programs of a second each, and nothing but a bad network
    Waste,
    /// How long the farm is without its scheduler when that is killed
    Restart,
    /// Forged, replayed, stale and wrong-role datagrams
    Hostile,
    /// The monitoring trees, whose agents, workers and scheduler are killed
    Tree,
    /// The monitoring tree where cables lose a twentieth
    TreeLoss,
}

/// Of what is computed, so much may be computed twice at 20 % loss.
const WASTE_MAX: f64 = 0.1;

fn main() {
    let args = Args::parse();
    let mut plan = match (args.kind, args.quick) {
        (Name::Restart, _) => return restart(&args),
        (Name::Hostile, _) => return println!("{}", hostile(args.units.unwrap_or(1_000_000) / 4)),
        (Name::Tree, _) => return println!("{}", torture::kills(&trees(&args))),
        (Name::TreeLoss, _) => {
            let told = torture::loss(args.seconds.unwrap_or(3_600));
            return println!("{}", told.expect("network namespaces need root"));
        }
        (Name::Search, true) => Plan::quick(Kind::Search),
        (Name::Search, false) => Plan::full(Kind::Search),
        (Name::Command, true) => Plan::quick(Kind::Command),
        (Name::Command, false) => Plan::full(Kind::Command),
        (Name::Files, true) => Plan::quick(Kind::Files),
        (Name::Files, false) => Plan::full(Kind::Files),
        (Name::Waste, true) => Plan::waste(200, 10),
        (Name::Waste, false) => Plan::waste(4_000, 40),
    };
    plan.seed = args.seed;
    plan.units = args.units.unwrap_or(plan.units);
    plan.units_per_task = args.units_per_task.unwrap_or(plan.units_per_task);
    plan.workers = args.workers.unwrap_or(plan.workers);
    plan.worker_kills = args.worker_kills.unwrap_or(plan.worker_kills);
    plan.scheduler_kills = args.scheduler_kills.unwrap_or(plan.scheduler_kills);
    let report = torture::run(&plan);
    println!("{report}");
    let waste = report.waste().filter(|_| args.kind == Name::Waste);
    assert!(waste.is_none_or(|waste| waste <= WASTE_MAX), "more than a tenth was computed twice");
}

fn trees(args: &Args) -> Kills {
    let (workers, seconds) = (args.workers.unwrap_or(40), args.seconds.unwrap_or(600));
    Kills { workers, fanout: 4, seconds, seed: args.seed }
}

fn restart(args: &Args) {
    let wanted = Restarts {
        tasks_done: args.units.unwrap_or(1_000_000),
        outstanding: 10_000,
        repetitions: 5,
        workers: args.workers.unwrap_or(20),
        units_per_task: args.units_per_task.unwrap_or(10_000),
        patience: Duration::from_secs(600),
    };
    println!("{}", torture::restarts(&wanted));
}
