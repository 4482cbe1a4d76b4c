//! `starfarm-power-cut`: cuts the power under a scheduler, again and again, and looks for what was
//! acknowledged. It needs root, and mounts in a namespace of its own: whatever happens to it, no mount is
//! left behind.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use starfarm_e2e::power::{Cuts, Lack, cut_power, fill_disk, fill_transfers};

/// Set once the mounts are our own.
const INSIDE: &str = "STARFARM_OWN_MOUNTS";
/// This machine cannot do it.
const LACKS: u8 = 77;

/// Cuts the power under a scheduler. Exit code 77: not possible on this machine.
#[derive(Parser, Debug)]
#[command(name = "starfarm-power-cut", version)]
struct Args {
    /// Fill the disk instead
    #[arg(long)]
    full_disk: bool,
    /// Fill disks that files come to instead
    #[arg(long, conflicts_with = "full_disk")]
    full_transfers: bool,
    /// So many times
    #[arg(long, default_value_t = 100)]
    cuts: usize,
    /// Chooses the moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A hit every so many units of 10^6 in the job that fills the state
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    fill_step: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().expect("a running program has an executable");
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(own).args(std::env::args_os().skip(1)).env(INSIDE, "1");
        eprintln!("no mounts of our own: {}", command.exec());
        return ExitCode::from(LACKS);
    }
    match report(&args) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(lack) => {
            eprintln!("{}", lack.0);
            ExitCode::from(LACKS)
        }
    }
}

fn report(args: &Args) -> Result<String, Lack> {
    if args.full_disk {
        return fill_disk().map(|report| report.to_string());
    }
    if args.full_transfers {
        return fill_transfers().map(|report| report.to_string());
    }
    let cuts = Cuts { count: args.cuts, seed: args.seed, fill_step: args.fill_step as usize };
    cut_power(&cuts).map(|report| report.to_string())
}
