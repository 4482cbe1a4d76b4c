//! Wiring: opens the state directory, binds the sockets, starts the threads. A handle stops them again.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use starfarm_logs::{Limits, LogWriter};
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::join::is_address;
use starfarm_protocol::seal::{EpochProofs, KeyStore, Mode, Responder, StaticKey};
use starfarm_protocol::settings::Given;
use starfarm_scheduler_core::{Config, Farm};

use crate::descriptors;
use crate::error::SchedulerError;
pub use crate::restart::Decisions;
use crate::restart::restart;
use crate::settings;
use crate::store::blobs::Blobs;
use crate::store::checkpoint::{self, Checkpoint};
use crate::store::disk::{self, Ballast, LowWater};
use crate::store::journal::{Journal, SEGMENT_BYTES};
use crate::store::outputs::OutputStore;
use crate::store::state::{StateDir, random, unix_now_us};
use crate::threads::command::bells::Bells;
use crate::threads::command::{Desk, Listeners, Places};
use crate::threads::dispatcher::Links;
use crate::threads::journal::{JournalThread, ToJournal};
use crate::threads::log::{LogThread, RETRY_PERIOD, ToLog};
use crate::threads::result::ResultThread;
use crate::threads::{
    CHANNEL_BATCHES, Input, Shared, checkpoint as checkpoint_thread, command, dispatcher, sender, spawn,
    status,
};

/// How often a thread that receives looks whether it is to stop.
const RECEIVE_WAIT: Duration = Duration::from_millis(200);
/// Longest time between two checkpoints where the user does not say.
const CHECKPOINT_PERIOD: Duration = Duration::from_secs(10);
/// Records after which a checkpoint is due in any case.
pub(crate) const CHECKPOINT_RECORDS: u64 = 1_000_000;
/// Batches of records that wait for the disk at most: a busy dispatcher makes 50 000 a second, and a disk may take
/// a tenth of a second now and then.
const JOURNAL_BATCHES: usize = 8_192;
/// Turns with events that wait for the status thread at most.
const EVENTS_MAX: usize = 4_096;
/// Turns with events that wait for the log at most: a disk that takes a tenth of a second loses nothing.
const LOG_BATCHES: usize = 8_192;

/// How a scheduler is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// State directory; made where it is not there.
    pub state: PathBuf,
    /// Address to listen on, UDP and TCP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Addresses that the join files name; empty: those of this machine.
    pub advertise: Vec<String>,
    /// Seal messages. Off on loopback only.
    pub seal: bool,
    /// Say nothing on standard error.
    pub quiet: bool,
    /// What a person decided about a damaged or an old state directory.
    pub decisions: Decisions,
    /// Keep the state directory on a network file system all the same.
    pub allow_network_file_system: bool,
    /// With less free room than this, in MiB, no job is taken.
    pub low_water_mib: u64,
    /// Longest time between two checkpoints while anything changes (the paper: 30 min).
    pub checkpoint_period: Duration,
    /// Records after which a checkpoint is due in any case.
    pub checkpoint_records: u64,
    /// Save checkpoints and rewrite old segments by processes of this same program, whose `main` begins with
    /// [`keep_if_asked`](crate::keep_if_asked). Without it memory grows with each of them.
    pub keeper_process: bool,
    /// A segment of the journal that has grown to this many bytes gets a successor.
    pub segment_bytes: u64,
    /// The XML log; none: nothing is logged.
    pub log: Option<LogOptions>,
    /// The file with the farm's settings; none: `config.toml` in the state directory, where there is one.
    pub config: Option<PathBuf>,
    /// Settings that win over that file.
    pub settings: Given,
    /// Keep a journal. Off for measuring what it costs: nothing outlives the process then.
    pub journal: bool,
}

impl Options {
    /// The defaults.
    pub fn new(state: PathBuf, listen: SocketAddr) -> Self {
        Self {
            state,
            listen,
            advertise: Vec::new(),
            seal: true,
            quiet: false,
            decisions: Decisions::default(),
            allow_network_file_system: false,
            low_water_mib: disk::LOW_WATER_MIB,
            checkpoint_period: CHECKPOINT_PERIOD,
            checkpoint_records: CHECKPOINT_RECORDS,
            keeper_process: false,
            segment_bytes: SEGMENT_BYTES,
            config: None,
            settings: Given::default(),
            journal: true,
            log: Some(LogOptions::default()),
        }
    }
}

/// How the XML log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Its folder; none: `log` in the state directory.
    pub dir: Option<PathBuf>,
    /// A segment is closed at this size, in MiB ...
    pub segment_mib: u64,
    /// ... or at this age.
    pub segment_period: Duration,
    /// The oldest closed segments go when all are larger than this, in MiB; 0: none ever goes.
    pub keep_mib: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { dir: None, segment_mib: 64, segment_period: Duration::from_secs(3_600), keep_mib: 4_096 }
    }
}

/// A scheduler that runs.
pub struct Handle {
    state: Arc<StateDir>,
    address: SocketAddr,
    shared: Arc<Shared>,
    dispatcher: Sender<Input>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The farm.
    pub fn farm(&self) -> FarmId {
        self.state.farm
    }

    /// This incarnation.
    pub fn epoch(&self) -> u64 {
        self.state.epoch.0
    }

    /// The state directory, as an absolute path.
    pub fn state(&self) -> PathBuf {
        self.state.path().to_owned()
    }

    /// What a person should know about this start.
    pub fn notes(&self) -> &[String] {
        &self.state.notes
    }

    /// Stops all threads. Workers keep what they hold and look for the scheduler's next incarnation.
    pub fn stop(self) {
        self.shared.stop();
        let _ = self.dispatcher.send(Input::Stop);
        // Dropping our end lets threads that wait for the dispatcher go.
        drop(self.dispatcher);
        for thread in self.threads {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(self.state.file("admin.sock"));
    }
}

/// Starts a scheduler.
///
/// # Errors
/// The state directory or the address cannot be used; the sentence says what to do.
pub fn start(options: Options) -> Result<Handle, SchedulerError> {
    if !options.seal && !options.listen.ip().is_loopback() {
        return Err(SchedulerError::Listen(format!(
            "--no-seal is for measuring on loopback only, and {} is not loopback: listen on 127.0.0.1",
            options.listen
        )));
    }
    if let Some(wrong) = options.advertise.iter().find(|address| !is_address(address)) {
        return Err(SchedulerError::Settings(format!(
            "--advertise {wrong:?} is no address: write `HOST:PORT`, or `[HOST]:PORT` for IPv6"
        )));
    }
    let settings = settings::settle(&options.settings, options.config.as_deref(), &options.state)?;
    checkpoint::abort_on_panic();
    descriptors::raise();
    let (mut state, mut keys) = StateDir::open(&options.state)?;
    disk::refuse_network(state.path(), options.allow_network_file_system)?;
    let (socket, listeners) = bind(options.listen, &state)?;
    let address = socket.local_addr().map_err(|e| SchedulerError::Listen(e.to_string()))?;
    let addresses =
        if options.advertise.is_empty() { own_addresses(address) } else { options.advertise.clone() };
    let shared = Shared::new(unix_now_us());
    let (farm, key) = (state.farm, StaticKey::from_secret(state.key.private().clone()));
    let nonce = random()?;
    let receive_datagrams = starfarm_net::receive_buffer_datagrams(&socket);
    let watch = options.log.is_some();
    let config = |epoch| Config {
        proofs: Some(EpochProofs::new(&key, farm, nonce)),
        receive_datagrams,
        watch,
        settings,
        ..Config::new(farm, epoch)
    };
    let restarted = restart(&mut state, (options.decisions, options.segment_bytes), config, shared.now_us())?;
    state.write_join_files(&mut keys, &addresses)?;
    let io = |e: std::io::Error| SchedulerError::State(format!("the state directory cannot be used: {e}"));
    let (blobs, notes) = Blobs::open(&state.file("blobs")).map_err(io)?;
    state.notes.extend(notes);
    for job in restarted.farm.jobs().iter().filter(|job| !job.state.ended()) {
        if blobs.len(&job.spec).map_err(io)?.is_none() {
            state.notes.push(format!(
                "the specification of job {} is gone or damaged, so no worker can go on with it: cancel it, then \
                 submit it again",
                job.id.0
            ));
        }
    }
    let low_water = LowWater::new(state.path(), options.low_water_mib);
    let ballast = Ballast::new(state.path(), low_water.clone());
    shared.no_room.store(options.journal && low_water.lack().is_some(), Ordering::Relaxed);
    let parts = Parts {
        state: Arc::new(state),
        shared,
        keys: Arc::new(Mutex::new(keys)),
        outputs: Arc::new(Mutex::new(restarted.outputs)),
        blobs: Arc::new(Mutex::new(blobs)),
        options,
    };
    let kept = Kept { journal: restarted.journal, checkpoint: restarted.checkpoint, ballast, low_water };
    wire(parts, restarted.farm, kept, socket, address, listeners, addresses)
}

struct Parts {
    state: Arc<StateDir>,
    shared: Arc<Shared>,
    keys: Arc<Mutex<KeyStore>>,
    outputs: Arc<Mutex<OutputStore>>,
    blobs: Arc<Mutex<Blobs>>,
    options: Options,
}

/// What the journal and checkpoint threads own.
struct Kept {
    journal: Journal,
    checkpoint: Checkpoint,
    ballast: Ballast,
    low_water: LowWater,
}

impl Parts {
    fn responder(&self, stream: bool) -> Result<Responder, SchedulerError> {
        let key = StaticKey::from_secret(self.state.key.private().clone());
        // Streams are always sealed: the bulk and admin channels are not what is measured.
        let mode = Mode { stream, plain: !self.options.seal && !stream };
        Ok(Responder::new(key, self.state.farm, self.state.epoch, mode, random()?))
    }
}

fn wire(
    parts: Parts,
    farm: Farm,
    kept: Kept,
    socket: UdpSocket,
    address: SocketAddr,
    listeners: Listeners,
    addresses: Vec<String>,
) -> Result<Handle, SchedulerError> {
    let (to_dispatcher, inputs) = bounded(CHANNEL_BATCHES);
    let (to_sender, batches) = bounded(CHANNEL_BATCHES);
    let (to_journal, records) = bounded(JOURNAL_BATCHES);
    let (to_status, events) = bounded(EVENTS_MAX);
    let (revoke, revoked) = bounded(CHANNEL_BATCHES);
    let bells = Arc::new(Bells::default());
    let clone = || socket.try_clone().map_err(|e| SchedulerError::Listen(e.to_string()));
    let (receiving, answering, sending) = (clone()?, clone()?, clone()?);

    let period = Duration::from_micros(farm.settings().period_us);
    let result = ResultThread::new(
        Arc::clone(&parts.state),
        Arc::clone(&parts.shared),
        Arc::clone(&parts.keys),
        parts.responder(false)?,
        to_dispatcher.clone(),
        revoked,
    )
    .knowing(farm.known_nodes());
    let desk = Arc::new(Desk {
        state: Arc::clone(&parts.state),
        shared: Arc::clone(&parts.shared),
        keys: Arc::clone(&parts.keys),
        responder: Mutex::new(parts.responder(true)?),
        dispatcher: to_dispatcher.clone(),
        revoked: revoke,
        revocations: tokio::sync::Notify::new(),
        blobs: Arc::clone(&parts.blobs),
        outputs: Arc::clone(&parts.outputs),
        bells: Arc::clone(&bells),
        addresses,
        low_water: kept.low_water.clone(),
        broken_off: Mutex::default(),
        door: Mutex::default(),
        places: Places::new(),
    });
    let state = Arc::clone(&parts.state);
    let (log, logged) = open_log(&parts, kept.low_water.clone(), &to_dispatcher)?;
    let links =
        Links { inputs, sender: to_sender, journal: to_journal, state, events: to_status, log, bells };
    let shared = Arc::clone(&parts.shared);
    let mut threads = vec![
        spawn("dispatcher", {
            let shared = Arc::clone(&shared);
            move || dispatcher::run(farm, &links, &shared)
        }),
        spawn("result", move || {
            result.run(starfarm_net::Receiver::new(receiving), starfarm_net::Sender::new(answering));
        }),
        spawn("sender", move || sender::run(&batches, starfarm_net::Sender::new(sending))),
    ];
    threads.extend(spawn_keepers(&parts, kept, records, to_dispatcher.clone()));
    let (dispatcher, shared, quiet) = (to_dispatcher.clone(), Arc::clone(&parts.shared), parts.options.quiet);
    threads.push(spawn("status", move || status::run(&events, &dispatcher, &shared, (period, quiet))));
    threads.extend(logged.map(|log| spawn("log", move || log.run())));
    threads.push(spawn("command", move || command::run(desk, listeners)));
    Ok(Handle { state: parts.state, address, shared: parts.shared, dispatcher: to_dispatcher, threads })
}

/// The log and the way to it, where one is wanted.
fn open_log(
    parts: &Parts,
    low_water: LowWater,
    dispatcher: &Sender<Input>,
) -> Result<(Option<Sender<ToLog>>, Option<LogThread>), SchedulerError> {
    let Some(options) = &parts.options.log else { return Ok((None, None)) };
    let dir = options.dir.clone().unwrap_or_else(|| parts.state.file("log"));
    let limits = Limits {
        segment_bytes: options.segment_mib << 20,
        segment_us: options.segment_period.as_micros() as u64,
        keep_bytes: (options.keep_mib > 0).then_some(options.keep_mib << 20),
    };
    let writer = LogWriter::open(&dir, parts.state.farm, parts.state.epoch, limits).map_err(|e| {
        let dir = dir.display();
        SchedulerError::State(format!(
            "the log directory {dir} cannot be used: {e}; name another with --log DIR, or log nothing with --no-log"
        ))
    })?;
    let (to_log, inputs) = bounded(LOG_BATCHES);
    let (dispatcher, shared) = (dispatcher.clone(), Arc::clone(&parts.shared));
    Ok((
        Some(to_log),
        Some(LogThread {
            writer,
            dir,
            inputs,
            dispatcher,
            shared,
            low_water,
            retry: RETRY_PERIOD,
            missed: 0,
        }),
    ))
}

/// Starts the threads that keep things.
fn spawn_keepers(
    parts: &Parts,
    kept: Kept,
    inputs: Receiver<ToJournal>,
    dispatcher: Sender<Input>,
) -> [JoinHandle<()>; 2] {
    let (to_checkpoint, snapshots) = bounded(1);
    let mut retirer = kept.journal.retirer();
    let journal = JournalThread {
        journal: kept.journal,
        keeps: parts.options.journal,
        epoch: parts.state.epoch.0,
        blobs: Arc::clone(&parts.blobs),
        outputs: Arc::clone(&parts.outputs),
        ballast: kept.ballast,
        low_water: kept.low_water,
        state: Arc::clone(&parts.state),
        inputs,
        dispatcher: dispatcher.clone(),
        shared: Arc::clone(&parts.shared),
        snapshots: to_checkpoint,
        checkpoint_records: parts.options.checkpoint_records,
        checkpoint_period: parts.options.checkpoint_period,
    };
    let (state, outputs, mut checkpoint) =
        (Arc::clone(&parts.state), Arc::clone(&parts.outputs), kept.checkpoint);
    if parts.options.keeper_process {
        checkpoint.by_process();
        retirer.by_process();
    }
    [
        spawn("journal", move || journal.run()),
        spawn("checkpoint", move || {
            checkpoint_thread::run(&snapshots, checkpoint, &retirer, (&state, &outputs), &dispatcher);
        }),
    ]
}

/// Binds UDP and TCP to the same port. With port 0 the system chooses one that is free for UDP; if it is
/// not for TCP, another is tried.
fn bind(address: SocketAddr, state: &StateDir) -> Result<(UdpSocket, Listeners), SchedulerError> {
    let tries = if address.port() == 0 { 16 } else { 1 };
    let mut last = None;
    for _ in 0..tries {
        let socket = starfarm_net::bind(address, RECEIVE_WAIT)
            .map_err(|e| SchedulerError::cannot_listen("UDP", address, &e))?;
        let bound = socket.local_addr().map_err(|e| SchedulerError::Listen(e.to_string()))?;
        match Listeners::bind(bound, state) {
            Ok(listeners) => return Ok((socket, listeners)),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| SchedulerError::Listen(format!("cannot listen on {address}"))))
}

/// Where others can reach us, by what this machine knows of itself.
fn own_addresses(address: SocketAddr) -> Vec<String> {
    if !address.ip().is_unspecified() {
        return vec![address.to_string()];
    }
    let mut ips: Vec<_> = if_addrs::get_if_addrs().unwrap_or_default().iter().map(|i| i.ip()).collect();
    // Loopback last: it is right on this machine only.
    ips.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()));
    ips.retain(|ip| {
        address.is_ipv4() == ip.is_ipv4()
            && !matches!(ip, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local())
    });
    ips.into_iter().map(|ip| SocketAddr::new(ip, address.port()).to_string()).collect()
}
