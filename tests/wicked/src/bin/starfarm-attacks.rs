//! `starfarm-attacks`: each attack at full length beside an honest worker, and what it costs; `cargo xtask soak` calls it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use starfarm_wicked::Attack;
use starfarm_wicked::soak::{Row, soak};

/// Attacks a farm in each way that a wicked worker knows, and fails where one costs too much
#[derive(Parser, Debug)]
#[command(name = "starfarm-attacks", version)]
struct Args {
    /// Which ones; all when none is named
    #[arg(value_enum)]
    attacks: Vec<Attack>,
    /// How long each lasts
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let all = Attack::ALL.to_vec();
    let (mut rows, mut broken) = (Vec::new(), Vec::new());
    for attack in if args.attacks.is_empty() { all } else { args.attacks } {
        let row = soak(attack, Duration::from_secs(args.seconds));
        eprintln!("{row}");
        broken.extend(row.broken());
        rows.push(row);
    }
    println!("{}", Row::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    broken.iter().for_each(|what| eprintln!("starfarm-attacks: {what}"));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
