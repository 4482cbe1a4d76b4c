//! `starfarm log`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use starfarm_logs::export::Format;
use starfarm_logs::replay::Moment;

use super::value::log_format;

#[derive(Subcommand, Debug)]
pub(crate) enum Log {
    /// Show what a log tells: in the terminal, as a page, or the farm's state at a moment
    Replay(Replay),
    /// Check a log against its schema
    Validate(LogArg),
    /// Write a log in another format
    Export(Export),
    /// Print the XML schema of logs
    Schema,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LogArg {
    /// A segment, or the directory that the scheduler logs to
    #[arg(value_name = "FILE|DIR")]
    pub(crate) log: PathBuf,
}

const REPLAY_EXAMPLES: &str = "\
Examples, for a farm whose state directory is farm:
  starfarm log replay farm/log
  starfarm log replay farm/log --html report.html
  starfarm log replay farm/log --at +15m
  starfarm log replay farm/log --from 13:00 --to 13:30 --html half-an-hour.html";

#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) log: LogArg,
    /// Write a page that shows it in a browser; it needs nothing else
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
    /// Show it in the terminal [default unless --html or --at is given]
    #[arg(long)]
    pub(crate) text: bool,
    /// Print the farm's state at a moment: 2026-11-21T13:05:00Z, 13:05 of the log's first day, or +15m from its begin
    #[arg(long, value_name = "TIME", conflicts_with_all = ["html", "text", "from", "to"])]
    pub(crate) at: Option<Moment>,
    /// Begin there
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Moment>,
    /// End there
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Moment>,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) log: LogArg,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = log_format())]
    pub(crate) format: Format,
    /// Write it here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
