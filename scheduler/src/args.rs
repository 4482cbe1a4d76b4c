//! The daemon's command line, shared by `starfarm scheduler` and `starfarm-scheduler`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use starfarm_net::say;

use crate::{Decisions, Flags, LogOptions, Options, SchedulerError, start};

/// Run the scheduling node until it is told to stop.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// State directory: keys, join files and the local socket live here
    #[arg(long, value_name = "DIR", env = "STARFARM_STATE")]
    pub state: PathBuf,
    /// Address to listen on, UDP and TCP
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7117")]
    pub listen: SocketAddr,
    /// Address that the join files name, HOST:PORT; may be repeated. Default: the addresses of this machine
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
    /// Cut a damaged journal where it can still be read, and give up what lies behind; nothing is deleted
    #[arg(long)]
    pub salvage: bool,
    /// Go on from this directory although workers know a later epoch: it is a copy, and the newer one is gone
    #[arg(long)]
    pub take_over: bool,
    /// Keep the state directory on a network file system, which may lose what it said it wrote
    #[arg(long)]
    pub allow_network_file_system: bool,
    /// Take no new job and start no program with less free room than this, in MiB; 0: no such mark
    #[arg(long, value_name = "MIB", default_value_t = crate::store::disk::LOW_WATER_MIB)]
    pub low_water_mib: u64,
    /// Longest time between two checkpoints while anything changes
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub checkpoint_seconds: u64,
    /// Save a checkpoint after so many records in any case: for measuring
    #[arg(long, hide = true, default_value_t = crate::start::CHECKPOINT_RECORDS)]
    pub checkpoint_records: u64,
    /// Close a segment of the journal at this size: for measuring
    #[arg(long, hide = true, value_name = "KIB", default_value_t = crate::store::journal::SEGMENT_BYTES >> 10)]
    pub journal_segment_kib: u64,
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
}

/// Runs the daemon. Ctrl-C and SIGTERM stop it cleanly, a second one at once.
///
/// # Errors
/// The state directory or the address cannot be used.
pub fn run(args: Args) -> Result<(), SchedulerError> {
    let log = LogOptions {
        dir: args.log,
        segment_mib: args.log_segment_mib,
        segment_period: Duration::from_secs(args.log_segment_seconds),
        keep_mib: args.log_keep_mib,
    };
    let options = Options {
        log: (!args.no_log).then_some(log),
        advertise: args.advertise,
        seal: !args.no_seal,
        decisions: Decisions { salvage: args.salvage, take_over: args.take_over },
        allow_network_file_system: args.allow_network_file_system,
        low_water_mib: args.low_water_mib,
        checkpoint_period: Duration::from_secs(args.checkpoint_seconds),
        checkpoint_records: args.checkpoint_records,
        keeper_process: true,
        segment_bytes: args.journal_segment_kib << 10,
        journal: !args.no_journal,
        config: args.config,
        settings: args.settings.0,
        ..Options::new(args.state, args.listen)
    };
    let (stop, stopped) = crossbeam_channel::bounded(1);
    let signals = AtomicU32::new(0);
    let heard = ctrlc::set_handler(move || {
        if signals.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(130);
        }
        let _ = stop.try_send(());
    });
    heard.map_err(|e| SchedulerError::State(format!("signals cannot be heard: {e}")))?;
    let handle = start(options)?;
    let state = handle.state();
    let state = state.display();
    let (farm, address, epoch) = (handle.farm(), handle.address(), handle.epoch());
    say(&format!("scheduler of farm {farm} listens on {address}, epoch {epoch}"));
    say(&format!("workers: copy {state}/worker.join, then `starfarm worker --join worker.join`"));
    say(&format!("admin commands here: `starfarm --farm {state} status`"));
    handle.notes().iter().for_each(|note| say(&format!("note: {note}")));
    // The sender lives in the signal handler, for ever.
    let _ = stopped.recv();
    say("stopping; workers keep what they hold");
    handle.stop();
    Ok(())
}
