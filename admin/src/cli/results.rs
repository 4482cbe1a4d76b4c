//! `starfarm results`: which results are wanted, and in which form.

use std::path::PathBuf;

use clap::Args;
use starfarm_protocol::unit_set::UnitSet;

use super::job::JobArg;
use super::value::units;

const EXAMPLES: &str = "\
Examples:
  starfarm results 7
  starfarm results 7 --unit 3,10..20
  starfarm results 7 --follow --dir frames --keep-order
  starfarm results 7 --dir out --stdout '{}.txt' --stderr 'errors/{index}.txt'";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Results {
    #[command(flatten)]
    pub(crate) job: JobArg,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Only these units: numbers, and ranges A..B up to, not including, B; with commas between
    #[arg(long, value_name = "N|A..B", value_parser = units)]
    pub(crate) unit: Option<UnitSet>,
    /// Print what came of merging the results, byte for byte, and nothing else; with --dir write its files
    #[arg(long, conflicts_with_all = ["all", "arrival", "unit", "stdout", "stderr"])]
    pub(crate) merged: bool,
    /// Write the files that units made into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Go on until the job has ended: print outputs and write files as units end, then hits and failed units
    #[arg(long, conflicts_with_all = ["merged", "all", "arrival"])]
    pub(crate) follow: bool,
    /// What a unit wrote and made comes only after that of all units before it is there, or they have failed
    #[arg(long, short = 'k', requires = "follow")]
    pub(crate) keep_order: bool,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// Files for what units wrote.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Streams {
    /// Write the standard output of each unit into a file of this name in DIR, such as `{}.txt`, and print no results
    #[arg(long, value_name = "NAME", requires = "dir", conflicts_with = "all")]
    pub(crate) stdout: Option<String>,
    /// The same for standard error
    #[arg(long, value_name = "NAME", requires = "dir", conflicts_with = "all")]
    pub(crate) stderr: Option<String>,
}

impl Streams {
    /// Some are wanted.
    pub(crate) fn are_any(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }
}

/// Which outputs are wanted, and how.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Also the outputs of runs before a `job retry`
    #[arg(long)]
    pub(crate) all: bool,
    /// Outputs as they came in, not by unit; so they come anyway where there are more than 100 000
    #[arg(long)]
    pub(crate) arrival: bool,
}
