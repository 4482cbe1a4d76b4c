//! Prints how long the plan of a monitoring tree takes for each strategy, in milliseconds, median and best of 21:
//! `cargo run --release -p starfarm-benches --bin tree_plan -- [HOSTS]` (10 000 unless it is said) with one to three back ends a
//! host and a fan-out of 32.

use std::process::ExitCode;
use std::time::Instant;

use starfarm_overlay_core::plan::{Features, Host, Strategy, Weights, plan};

const ROUNDS: usize = 21;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "10000".to_owned());
    let Ok(hosts) = argument.parse::<u64>() else {
        eprintln!("tree_plan: HOSTS is a whole number, not {argument:?}");
        return ExitCode::from(2);
    };
    for (name, strategy) in [("average", Strategy::Average), ("fuzzy", Strategy::Fuzzy(Weights::default()))] {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| time(hosts, &strategy)).collect();
        times.sort_unstable_by(f64::total_cmp);
        println!("{name:<8} {:>8.2} ms, best {:.2}", times[ROUNDS / 2], times[0]);
    }
    ExitCode::SUCCESS
}

fn time(hosts: u64, strategy: &Strategy) -> f64 {
    let hosts: Vec<Host> = (0..hosts).map(host).collect();
    let begin = Instant::now();
    let planned = plan(hosts, strategy, 32);
    let took = begin.elapsed().as_secs_f64() * 1e3;
    std::hint::black_box(planned);
    took
}

/// Hosts of all kinds, in no order of their names.
fn host(number: u64) -> Host {
    let features = Features {
        free_cores: number * 7 % 6_000,
        idle: number * 13 % 1_001,
        free_memory: number * 31 % 20_000,
        link: 10_000,
        accelerators_idle: None,
    };
    let name = format!("n{:05}", number * 7_919 % 100_003);
    Host { name, backends: 1 + (number % 3) as u32, cps_max: u32::MAX, carries_only: false, features }
}
