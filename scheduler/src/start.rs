//! Wiring: opens the state directory, binds the sockets, starts the threads. A handle stops them again.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use starfarm_logs::{Limits, LogWriter};
use starfarm_net::say;
use starfarm_overlay::Reactor;
use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::foreign;
use starfarm_protocol::join::is_address;
use starfarm_protocol::seal::{EpochProofs, KeyStore, Mode, Responder, StaticKey};
use starfarm_scheduler_core::{Config, Evidence, Farm};

use crate::args::Options;
use crate::descriptors;
use crate::error::SchedulerError;
use crate::evidence::OnDisk;
use crate::guard;
use crate::host_program::end_left;
use crate::merge::Merges;
use crate::rate::Rate;
use crate::restart::restart;
use crate::settings;
use crate::store::blobs::{AGAIN, Blobs};
use crate::store::checkpoint::Checkpoint;
use crate::store::disk::{self, Ballast};
use crate::store::journal::{Journal, Lister};
use crate::store::low_water::LowWater;
use crate::store::outputs::OutputStore;
use crate::store::state::{StateDir, random, unix_now_us};
use crate::threads::command::bells::Bells;
use crate::threads::command::{Desk, Listeners, PerKey, Places};
use crate::threads::dispatcher::Links;
use crate::threads::journal::{JournalThread, ToJournal};
use crate::threads::log::{LogThread, RETRY_PERIOD, ToLog};
use crate::threads::result::ResultThread;
use crate::threads::{
    CHANNEL_BATCHES, House, Input, Shared, checkpoint as checkpoint_thread, command, decomposers, dispatcher,
    merge as merge_thread, sender, spawn, status, tree as tree_thread,
};
use crate::tree::Arrival;

/// How often a thread that receives looks whether it is to stop.
const RECEIVE_WAIT: Duration = Duration::from_millis(200);
/// Batches of records that wait for the disk at most: a busy dispatcher makes 50 000 a second, and a disk may take
/// a tenth of a second now and then.
const JOURNAL_BATCHES: usize = 8_192;
/// Turns with events that wait for the status thread at most.
const EVENTS_MAX: usize = 4_096;
/// Turns with events that wait for the log at most: a disk that takes a tenth of a second loses nothing.
const LOG_BATCHES: usize = 8_192;
/// Nodes or jobs that one note names.
const NAMED_MAX: usize = 8;

/// A scheduler that runs.
pub struct Handle {
    house: Arc<House>,
    address: SocketAddr,
    dispatcher: Sender<Input>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// What a person should know about this start.
    pub fn notes(&self) -> &[String] {
        &self.house.state.notes
    }

    /// Stops all threads. Workers keep what they hold and look for the scheduler's next incarnation.
    pub fn stop(self) {
        self.house.shared.stop();
        let _ = self.dispatcher.send(Input::Stop);
        // Dropping our end lets threads that wait for the dispatcher go.
        drop(self.dispatcher);
        for thread in self.threads {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(self.house.state.file("admin.sock"));
    }
}

/// # Errors
/// Options that do not go together, or an address that is none; the sentence says what to do.
fn usable(options: &Options) -> Result<(), SchedulerError> {
    if options.no_seal && !options.listen.ip().is_loopback() {
        return Err(SchedulerError::Usage(format!(
            "--no-seal is for measuring on loopback only, and {} is not loopback: listen on 127.0.0.1",
            options.listen
        )));
    }
    match options.advertise.iter().find(|address| !is_address(address)) {
        None => Ok(()),
        Some(wrong) => Err(SchedulerError::Usage(format!(
            "--advertise {wrong:?} is no address: write `HOST:PORT`, or `[HOST]:PORT` for IPv6"
        ))),
    }
}

/// Runs the daemon. Ctrl-C and SIGTERM stop it cleanly, a second one at once.
///
/// # Errors
/// The state directory or the address cannot be used.
pub fn run(options: Options) -> Result<(), SchedulerError> {
    let (stop, stopped) = crossbeam_channel::bounded(1);
    let signals = AtomicU32::new(0);
    let heard = ctrlc::set_handler(move || {
        if signals.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(130);
        }
        let _ = stop.try_send(());
    });
    heard.map_err(|e| SchedulerError::State(format!("signals cannot be heard: {e}")))?;
    let handle = start(Options { keeper_process: true, ..options })?;
    let (state, address) = (&handle.house.state, handle.address);
    say(&format!("scheduler of farm {} listens on {address}, epoch {}", state.farm.id, state.farm.epoch.0));
    let state = state.path().display();
    say(&format!("workers: copy {state}/worker.join, then `starfarm worker --join worker.join`"));
    say(&format!("admin commands here: `starfarm --farm {state} status`"));
    handle.notes().iter().for_each(|note| say(&format!("note: {note}")));
    // The sender lives in the signal handler, for ever.
    let _ = stopped.recv();
    say("stopping; workers keep what they hold");
    handle.stop();
    Ok(())
}

/// Starts a scheduler.
///
/// # Errors
/// The state directory or the address cannot be used; the sentence says what to do.
pub fn start(options: Options) -> Result<Handle, SchedulerError> {
    usable(&options)?;
    let settings = settings::settle(&options.settings.0, options.config.as_deref(), &options.state)?;
    guard::abort_on_panic();
    descriptors::raise();
    let (mut state, mut keys) = StateDir::open(&options.state)?;
    disk::refuse_network(state.path(), options.allow_network_file_system)?;
    let (socket, address, listeners, addresses) = listen(&options, &state)?;
    let shared = Shared::new(unix_now_us());
    let (farm, key) = (state.farm.id, StaticKey::from_secret(state.key.private().clone()));
    let (nonce, secret) = (random()?, random()?);
    let receive_datagrams = starfarm_net::receive_buffer_datagrams(&socket);
    let watch = !options.no_log;
    let path = state.file("blobs");
    let cannot_use = |e| SchedulerError::State(format!("{} cannot be used: {e}", path.display()));
    let (blobs, notes) = Blobs::open(&path).map_err(cannot_use)?;
    let blobs = Arc::new(Mutex::new(blobs));
    let evidence = Arc::new(OnDisk::new(Arc::clone(&blobs)));
    let shown: Arc<dyn Evidence> = Arc::<OnDisk>::clone(&evidence);
    let config = |epoch| Config {
        secret,
        hits_kept: options.hits_kept(),
        evidence: Some(shown),
        proofs: Some(EpochProofs::new(&key, farm, nonce)),
        receive_datagrams,
        watch,
        settings,
        ..Config::new(farm, epoch)
    };
    let mut restarted =
        restart(&mut state, (options.decisions, options.journal_segment_kib << 10), config, shared.now_us())?;
    state.notes.extend(back_from_a_copy(&restarted.farm, &keys));
    state.write_join_files(&mut keys, &addresses)?;
    state.notes.extend(notes);
    let jobs = restarted.farm.jobs(shared.now_us());
    state.notes.extend(
        without_specification(&jobs, &mut blobs.lock().expect("nobody else has it yet"))
            .map_err(cannot_use)?,
    );
    let lacking = without_outputs(&restarted.farm, &jobs, &mut restarted.outputs);
    let unreadable = |e| SchedulerError::State(format!("the outputs cannot be read: {e}"));
    state.notes.extend(lacking.map_err(unreadable)?);
    let merges = merges_of(&state, &mut restarted.farm, &blobs).map_err(cannot_use)?;
    let contents = blobs.lock().expect("nobody else has it yet").bytes() + restarted.outputs.bytes();
    let low_water = room(&state, &options, contents + merges.bytes(), &shared);
    let (tree, links) = tree_thread::tree_of(&options, &key, &state)?.unzip();
    let house = Arc::new(House {
        hits: Lister::new(state.path().to_owned(), state.farm.id),
        state: Arc::new(state),
        shared,
        keys: Mutex::new(keys),
        outputs: Mutex::new(restarted.outputs),
        blobs,
        evidence,
        unnamed: Mutex::default(),
        transfers: Mutex::default(),
        rate: Rate::new(options.transfer_rate, Instant::now()),
        low_water,
        merges,
        tree,
        options,
    });
    wire(
        house,
        (restarted.farm, (restarted.journal, restarted.checkpoint)),
        (socket, address),
        (listeners, addresses),
        links,
    )
}

/// How much room there is on the disk, beside what jobs store already.
fn room(state: &StateDir, options: &Options, stored: u64, shared: &Shared) -> LowWater {
    let low_water = LowWater::new(state.path(), options.low_water_mib).with_limit(options.storage_limit);
    low_water.note_stored(stored);
    shared.no_room.store(!options.no_journal && low_water.lack().is_some(), Ordering::Relaxed);
    low_water
}

/// What is to be merged of the farm's jobs. What a scheduler that was killed had begun is begun anew.
fn merges_of(state: &StateDir, farm: &mut Farm, blobs: &Mutex<Blobs>) -> io::Result<Merges> {
    let merges = Merges::new(state.file("merged"));
    merges.end_left();
    merges.retain_only(&farm.specs_with_outcomes().map(|(job, _)| job).collect())?;
    let mut blobs = blobs.lock().expect("nobody else has it yet");
    for (job, spec) in farm.specs_with_outcomes() {
        let spec = blobs.read(&spec, 0, usize::MAX)?;
        spec.into_iter().for_each(|spec| merges.learn(job, &spec));
    }
    merges.tell(farm);
    Ok(merges)
}

/// Says which jobs lost what they are made from. Of those that have ended nobody needs the bytes, so they are not read.
fn without_specification(jobs: &[JobInfo], blobs: &mut Blobs) -> io::Result<Vec<String>> {
    let (mut notes, mut ended) = (Vec::new(), Vec::new());
    for job in jobs {
        if job.state.ended() {
            ended.extend((!blobs.knows(&job.spec)?).then(|| job.id.0.to_string()));
        } else if blobs.len(&job.spec)?.is_none() {
            notes.push(format!(
                "the specification of job {} is gone or damaged, so no worker can go on with it: {AGAIN}, and the job goes \
                 on; with `submit --resume` it does not become a second job",
                job.id.0
            ));
        }
    }
    if !ended.is_empty() {
        notes.push(format!(
            "ended jobs that lost their specification ({}): {}. What they counted stays; to see the values of hits, or to run \
             units again, {AGAIN}",
            ended.len(),
            first_of(&ended)
        ));
    }
    Ok(notes)
}

/// Says which jobs lack outputs since their file was deleted or emptied, and the journal did not have all that was in it.
fn without_outputs(farm: &Farm, jobs: &[JobInfo], outputs: &mut OutputStore) -> io::Result<Option<String>> {
    let mut lacking = Vec::new();
    for job in jobs.iter().map(|job| job.id) {
        let owed = farm.owed_outputs(job).unwrap_or_default();
        if outputs.was_found(job) || owed.is_empty() {
            continue;
        }
        let lost = outputs.snapshot(job)?.lost(&owed, false, |_| Ok(None))?;
        let units: u128 = lost.iter().map(|lost| lost.hi.0 - lost.lo.0).sum();
        lacking.extend((units > 0).then(|| format!("{} ({units})", job.0)));
    }
    Ok((!lacking.is_empty()).then(|| {
        format!(
            "jobs whose file of outputs was deleted or emptied ({}), with how many outputs are missing: {}. Put the files back \
             while no scheduler runs, or let the units run again with `starfarm job retry --missing-outputs ID`",
            lacking.len(),
            first_of(&lacking)
        )
    }))
}

/// The first few of many, for a note.
fn first_of(named: &[String]) -> String {
    let more = if named.len() > NAMED_MAX { ", ..." } else { "" };
    format!("{}{more}", named[..named.len().min(NAMED_MAX)].join(", "))
}

/// The journal says of some keys that they were revoked, and the file of keys does not: it may be an older copy.
fn back_from_a_copy(farm: &Farm, keys: &KeyStore) -> Option<String> {
    let mut names = farm.revoked_nodes();
    names.retain(|name| keys.holder(name).is_some());
    names.sort_unstable();
    names.dedup();
    let names: Vec<_> = names.iter().map(|name| foreign::name(name).to_string()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "keys were revoked whose nodes have valid ones in keys.json: {}. If that file is an older copy, revoke \
             again what was revoked since, join keys as well: `starfarm key revoke NAME`",
            first_of(&names)
        )
    })
}

fn responder(House { state, options, .. }: &House, stream: bool) -> Result<Responder, SchedulerError> {
    let key = StaticKey::from_secret(state.key.private().clone());
    // Streams are always sealed: the bulk and admin channels are not what is measured.
    let mode = Mode { stream, plain: options.no_seal && !stream };
    Ok(Responder::new(key, state.farm.id, state.farm.epoch, mode, random()?))
}

fn wire(
    house: Arc<House>,
    (farm, kept): (Farm, (Journal, Checkpoint)),
    (socket, address): (UdpSocket, SocketAddr),
    (listeners, addresses): (Listeners, Vec<String>),
    links: Option<(Reactor, Receiver<Arrival>)>,
) -> Result<Handle, SchedulerError> {
    end_left(&house.state.file("decomposers"));
    let (to_dispatcher, inputs) = bounded(CHANNEL_BATCHES);
    let (to_sender, batches) = bounded(CHANNEL_BATCHES);
    let (to_journal, records) = bounded(JOURNAL_BATCHES);
    let (to_status, events) = bounded(EVENTS_MAX);
    let (revoke, revoked) = bounded(CHANNEL_BATCHES);
    let bells = Arc::new(Bells::default());
    let clone = || socket.try_clone().map_err(|e| SchedulerError::Usage(e.to_string()));
    let (receiving, answering, sending) = (clone()?, clone()?, clone()?);

    let period = Duration::from_micros(farm.settings().period_us);
    let result = ResultThread::new(
        Arc::clone(&house),
        responder(&house, false)?,
        to_dispatcher.clone(),
        revoked,
        farm.known_nodes(),
    );
    let desk = Arc::new(Desk {
        house: Arc::clone(&house),
        responder: Mutex::new(responder(&house, true)?),
        dispatcher: to_dispatcher.clone(),
        revoked: revoke,
        revocations: tokio::sync::Notify::new(),
        bells: Arc::clone(&bells),
        addresses,
        door: Mutex::default(),
        places: Places::new(),
        contents: Mutex::default(),
        bulk: PerKey::default(),
        orders: PerKey::default(),
    });
    let tree = house.tree.clone().zip(links);
    let tree = tree.map(|(tree, links)| tree_thread::spawn(&house, tree, links, &to_dispatcher));
    let state = Arc::clone(&house.state);
    let (log, logged) = open_log(&house, &to_dispatcher)?.unzip();
    let links =
        Links { inputs, sender: to_sender, journal: to_journal, state, events: to_status, log, bells };
    let shared = Arc::clone(&house.shared);
    let mut threads = vec![
        spawn("dispatcher", move || dispatcher::run(farm, links, &shared)),
        spawn("result", move || {
            result.run(starfarm_net::Receiver::new(receiving), starfarm_net::Sender::new(answering));
        }),
        spawn("sender", move || sender::run(&batches, starfarm_net::Sender::new(sending))),
    ];
    threads.extend(spawn_keepers(&house, kept, records, to_dispatcher.clone()));
    let (merging, asked, rung) = (Arc::clone(&house), to_dispatcher.clone(), Arc::clone(&desk.bells));
    threads.push(spawn("merge", move || merge_thread::run(&merging, &asked, &rung)));
    let (growing, asked) = (Arc::clone(&house), to_dispatcher.clone());
    threads.push(spawn("decomposers", move || decomposers::run(&growing, &asked)));
    let (dispatcher, shared, quiet) = (to_dispatcher.clone(), Arc::clone(&house.shared), house.options.quiet);
    threads.push(spawn("status", move || status::run(&events, &dispatcher, &shared, (period, quiet))));
    threads.extend(logged.map(|log| spawn("log", move || log.run())));
    threads.extend(tree);
    threads.push(spawn("command", move || command::run(desk, listeners)));
    Ok(Handle { house, address, dispatcher: to_dispatcher, threads })
}

/// The log and the way to it, where one is wanted.
fn open_log(
    House { state, shared, low_water, options, .. }: &House,
    dispatcher: &Sender<Input>,
) -> Result<Option<(Sender<ToLog>, LogThread)>, SchedulerError> {
    if options.no_log {
        return Ok(None);
    }
    let dir = options.log.clone().unwrap_or_else(|| state.file("log"));
    let limits = Limits {
        segment_bytes: options.log_segment_mib << 20,
        segment_us: options.log_segment_seconds * 1_000_000,
        keep_bytes: (options.log_keep_mib > 0).then_some(options.log_keep_mib << 20),
    };
    let writer = LogWriter::open(&dir, state.farm.id, state.farm.epoch, limits).map_err(|e| {
        let dir = dir.display();
        SchedulerError::State(format!(
            "the log directory {dir} cannot be used: {e}; name another with --log DIR, or log nothing with --no-log"
        ))
    })?;
    let (to_log, inputs) = bounded(LOG_BATCHES);
    let (dispatcher, shared) = (dispatcher.clone(), Arc::clone(shared));
    let (low_water, retry) = (low_water.clone(), RETRY_PERIOD);
    Ok(Some((to_log, LogThread { writer, dir, inputs, dispatcher, shared, low_water, retry, missed: 0 })))
}

fn spawn_keepers(
    house: &Arc<House>,
    (journal, mut checkpoint): (Journal, Checkpoint),
    inputs: Receiver<ToJournal>,
    dispatcher: Sender<Input>,
) -> [JoinHandle<()>; 2] {
    let (to_checkpoint, snapshots) = bounded(1);
    let (lookups, looked_up) = unbounded();
    let mut retirer = journal.retirer();
    let journal = JournalThread {
        journal,
        ballast: Ballast::new(house.state.path(), house.low_water.clone()),
        house: Arc::clone(house),
        inputs,
        dispatcher: dispatcher.clone(),
        snapshots: to_checkpoint,
        lookups,
    };
    checkpoint.process = house.options.keeper_process;
    retirer.process = house.options.keeper_process;
    let house = Arc::clone(house);
    [
        spawn("journal", move || journal.run()),
        spawn("checkpoint", move || {
            checkpoint_thread::run(&snapshots, &looked_up, checkpoint, &retirer, &house, &dispatcher);
        }),
    ]
}

/// Binds the sockets: where they are bound, and how others reach them.
fn listen(
    options: &Options,
    state: &StateDir,
) -> Result<(UdpSocket, SocketAddr, Listeners, Vec<String>), SchedulerError> {
    let (socket, listeners) = bind(options.listen, state)?;
    let address = socket.local_addr().map_err(|e| SchedulerError::Usage(e.to_string()))?;
    let advertised = Some(options.advertise.clone()).filter(|addresses| !addresses.is_empty());
    Ok((socket, address, listeners, advertised.unwrap_or_else(|| own_addresses(address))))
}

/// Binds UDP and TCP to the same port. With port 0 the system chooses one that is free for UDP; if it is
/// not for TCP, another is tried.
fn bind(address: SocketAddr, state: &StateDir) -> Result<(UdpSocket, Listeners), SchedulerError> {
    let tries = if address.port() == 0 { 16 } else { 1 };
    let mut last = None;
    for _ in 0..tries {
        let socket = starfarm_net::bind(address, RECEIVE_WAIT)
            .map_err(|e| SchedulerError::cannot_listen("UDP", address, &e))?;
        let bound = socket.local_addr().map_err(|e| SchedulerError::Usage(e.to_string()))?;
        match Listeners::bind(bound, state) {
            Ok(listeners) => return Ok((socket, listeners)),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| SchedulerError::Usage(format!("cannot listen on {address}"))))
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
