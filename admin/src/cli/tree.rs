//! The flags of `starfarm tree`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, value_parser};

/// Children of a post, unless somebody says otherwise.
const FANOUT: u32 = 32;

const PLAN_HELP: &str = "\
A table of hosts has a line for each and names its columns in the first, in any order; `#` begins a comment:
host  be  cores  idle  memory  link  accelerators  cp_max  slots
n1    1   3.5    0.9   12      10    0.8           -       8

`host` is needed, and for `fuzzy` also cores (free ones), idle (share of CPU time), memory (free, GiB) and link (Gbit/s).
be: back ends on it [1]; accelerators: share of their time that is idle, `-` where there are none; cp_max: CPs it may
take, `-` for any number; slots: a host of 0 slots carries posts only, and gets all CPs.

Examples:
  starfarm tree plan
  starfarm tree plan --hosts hosts.txt
  starfarm tree plan --hosts hosts.txt --strategy fuzzy --fanout 16 --topology > tree.top";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Tree {
    #[command(subcommand)]
    pub(crate) command: Option<TreeCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TreeCommand {
    /// Say where communication processes (CPs) would stand, and start none
    Plan(TreePlan),
    /// Give the tree another shape while it runs: no job notices
    Form(TreeForm),
}

#[derive(Args, Debug)]
pub(crate) struct TreeForm {
    /// How CPs are dealt to hosts
    #[arg(long, value_enum, default_value_t)]
    pub(crate) strategy: Strategy,
    /// Children of a post, at most, unless it takes in those of a lost one
    #[arg(long, value_name = "F", default_value_t = FANOUT, value_parser = value_parser!(u32).range(2..=1_024))]
    pub(crate) fanout: u32,
    /// CPs where this file says, in the syntax of MRNet, as `tree plan --topology` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "strategy")]
    pub(crate) topology: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = PLAN_HELP)]
pub(crate) struct TreePlan {
    /// A table of hosts [default: those of the farm]
    #[arg(long, value_name = "FILE")]
    pub(crate) hosts: Option<PathBuf>,
    /// How CPs are dealt to hosts
    #[arg(long, value_enum, default_value_t)]
    pub(crate) strategy: Strategy,
    /// Children of a post, at most
    #[arg(long, value_name = "F", default_value_t = FANOUT, value_parser = value_parser!(u32).range(2..))]
    pub(crate) fanout: u32,
    /// Print the tree as a topology file, in the syntax of MRNet
    #[arg(long)]
    pub(crate) topology: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Strategy {
    /// As many processes on each host as on any other
    #[default]
    Average,
    /// By what the hosts are good for
    Fuzzy,
}
