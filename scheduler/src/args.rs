//! How a scheduler is started: what a person says to `starfarm scheduler` or `starfarm-scheduler`, and what a program that
//! has one inside adds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use starfarm_protocol::resources::size;
use starfarm_scheduler_core::limits::HITS_KEPT;
use starfarm_scheduler_core::{HitsKept, Retention};

use crate::rate::RATE_MIN;
use crate::restart::Decisions;
use crate::settings::Flags;
use crate::store::{journal, low_water};

/// The longest time that somebody may mean: 1 000 years.
const SECONDS_MAX: u64 = 1_000 * 365 * 86_400;

/// Run the scheduling node until it is told to stop.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// State directory: keys, join files and the local socket live here
    #[arg(long, value_name = "DIR", env = "STARFARM_STATE")]
    pub state: PathBuf,
    /// Address to listen on, UDP and TCP
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7117")]
    pub listen: SocketAddr,
    /// Address that the join files name, HOST:PORT; may be repeated. Default: the addresses of this machine
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
    /// What a person decided about a damaged or an old state directory.
    #[command(flatten)]
    pub decisions: Decisions,
    /// Keep the state directory on a network file system, which may lose what it said it wrote
    #[arg(long)]
    pub allow_network_file_system: bool,
    /// Take no new job and start no program with less free room than this, in MiB; 0: no such mark
    #[arg(long, value_name = "MIB", default_value_t = low_water::LOW_WATER_MIB)]
    pub low_water_mib: u64,
    /// Take no new job and start no program while what all jobs store has as many bytes as this, such as 500G
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub storage_limit: Option<u64>,
    /// Move contents to and from workers at so many bytes a second at most, all together, such as 50M: 1M or more [default: as
    /// fast as the network takes them]
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub transfer_rate: Option<u64>,
    /// Delete a job so long after its end, such as 30d, 12h or 90s [default: never]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub keep_jobs_for: Option<Duration>,
    /// Delete the jobs that ended first while what all jobs store has more bytes than this, such as 400G [default: never]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub keep_jobs_below: Option<u64>,
    /// Longest time between two checkpoints while anything changes
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub checkpoint_seconds: u64,
    /// Save a checkpoint after so many records in any case: for measuring
    #[arg(long, hide = true, default_value_t = 1_000_000)]
    pub checkpoint_records: u64,
    /// Close a segment of the journal at this size: for measuring
    #[arg(long, hide = true, value_name = "KIB", default_value_t = journal::SEGMENT_BYTES >> 10)]
    pub journal_segment_kib: u64,
    /// Hits of a job that are in memory at most, the others are in the journal alone: for tests
    #[arg(long, hide = true, value_name = "N", default_value_t = HITS_KEPT.running)]
    pub hits_kept: usize,
    /// Directory of the XML log [default: log in the state directory]
    #[arg(long, value_name = "DIR", conflicts_with = "no_log")]
    pub log: Option<PathBuf>,
    /// Write no XML log: there will be nothing to replay
    #[arg(long)]
    pub no_log: bool,
    /// Close a segment of the log at this size
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    pub log_segment_mib: u64,
    /// Close a segment of the log at this age
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub log_segment_seconds: u64,
    /// Remove the oldest closed segments when all are larger than this; 0: never
    #[arg(long, value_name = "MIB", default_value_t = 4_096)]
    pub log_keep_mib: u64,
    /// Keep no tree of monitoring posts: nobody sees what jobs and nodes use
    #[arg(long)]
    pub no_monitor: bool,
    /// File with the farm's settings [default: config.toml in the state directory, where there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings, which win over that file.
    #[command(flatten)]
    pub settings: Flags,
    /// Keep nothing: for measuring what the journal costs
    #[arg(long, hide = true)]
    pub no_journal: bool,
    /// Do not seal messages: for measuring on loopback only
    #[arg(long, hide = true)]
    pub no_seal: bool,
    /// Say nothing on standard error.
    #[arg(skip)]
    pub quiet: bool,
    /// Save checkpoints and rewrite old segments by processes of this same program, whose `main` begins with
    /// [`keep_if_asked`](crate::keep_if_asked). Without it memory grows with each of them.
    #[arg(skip)]
    pub keeper_process: bool,
}

/// A size of which one second has enough.
fn rate(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < RATE_MIN {
        Err("write 1M or more: workers give up on slower transfers".to_owned())
    } else {
        Ok(bytes)
    }
}

/// `30d`, `12h`, `15m`, `90s`.
fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
    let of =
        |&(unit, seconds): &(char, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds);
    let seconds = UNITS.iter().find_map(of).filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "write a time as 30d, 12h, 15m or 90s".to_owned())
}

impl Options {
    /// How long ended jobs are kept.
    pub(crate) fn retention(&self) -> Retention {
        let for_us = self.keep_jobs_for.map(|time| time.as_micros() as u64);
        Retention { for_us, below: self.keep_jobs_below }
    }

    /// Hits of a job that are in memory. Without a journal there is no other place.
    pub(crate) fn hits_kept(&self) -> HitsKept {
        let running = self.hits_kept;
        match self.no_journal {
            true => HitsKept::ALL,
            false => HitsKept { running, ended: HITS_KEPT.ended.min(running) },
        }
    }

    /// The defaults.
    pub fn new(state: PathBuf, listen: SocketAddr) -> Self {
        let command = Self::augment_args(Command::new("scheduler"));
        let matches = command.try_get_matches_from(["scheduler", "--state", "."]);
        let options = matches.and_then(|matches| Self::from_arg_matches(&matches));
        Self { state, listen, ..options.expect("nothing but the state directory has to be given") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_mebibyte_a_second_or_more() {
        assert_eq!((rate("1M"), rate("2GiB")), (Ok(1 << 20), Ok(2 << 30)));
        for wrong in ["0", "1023K", "", "fast"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_has_a_unit_and_is_no_nothing() {
        let seconds = |text| time(text).map(|time| time.as_secs());
        assert_eq!(["30d", "12h", "15m", "1s"].map(seconds), [2_592_000, 43_200, 900, 1].map(Ok));
        for wrong in ["", "30", "d", "0s", "-1d", "1.5h", "1w", "99999999999999999999d", "9999999d"] {
            assert!(seconds(wrong).is_err_and(|why| why.contains("30d, 12h")), "{wrong}");
        }
    }
}
