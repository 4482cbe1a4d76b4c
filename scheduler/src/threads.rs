//! The threads of the scheduling node, one file each, each the same three beats: wait, step, perform. They
//! talk over bounded channels in batches; the dispatcher alone owns the farm.

pub(crate) mod checkpoint;
pub(crate) mod command;
pub(crate) mod decomposers;
pub(crate) mod dispatcher;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod result;
pub(crate) mod sender;
pub(crate) mod status;
pub(crate) mod tasks;
pub(crate) mod tree;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::Sender;
use starfarm_events::Event;
use starfarm_protocol::admin::{KeyKind, NodeInfo, Response};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::seal::{KeyStore, Peer};
use starfarm_scheduler_core::{Deeds, Farm, NodeId, Traced};
use tokio::sync::oneshot;

use self::tasks::TaskLines;
use crate::args::Options;
use crate::evidence::OnDisk;
use crate::merge::Merges;
use crate::rate::Rate;
use crate::ring::Ring;
use crate::store::arrivals;
use crate::store::blobs::Blobs;
use crate::store::journal::Lister;
use crate::store::low_water::LowWater;
use crate::store::outputs::OutputStore;
use crate::store::state::StateDir;
use crate::store::transfers::{Transfers, Whole};
use crate::store::unnamed::Unnamed;
use crate::tree::Tree;

/// Batches that a channel between threads holds.
pub(crate) const CHANNEL_BATCHES: usize = 256;

/// Exit code of a scheduler that had to stop.
const STOPPED: i32 = 7;

/// What the dispatcher hears.
pub(crate) enum Input {
    Session(NodeId, String),
    /// What the sender must hear, behind all that the farm has packed so far: a datagram for an incarnation that
    /// has gone, sealed for the next one, would mean other things there.
    Outgoing(Vec<Outgoing>),
    Datagrams(Vec<(NodeId, Vec<u8>)>),
    /// A node's key was revoked, its session is gone.
    Revoked(NodeId),
    Overflow,
    /// More is durable: see [`Shared::durable`].
    Durable,
    Snapshot,
    /// The log opens a segment: how does the farm stand?
    Picture,
    Ask(Question),
    /// What the records say of who computed what.
    Traced(Traced),
    /// Something that the core does not know of happened: who watches is told.
    Event(Box<Event>),
    /// The same of several.
    Events(Vec<Event>),
    Stop,
}

/// What the sender hears.
pub(crate) enum Outgoing {
    Datagrams(NodeId, Vec<Vec<u8>>),
    /// One that is not to be cut, however long it is: what becomes of it is the question.
    Whole(NodeId, Vec<u8>),
    /// So large may datagrams for a node be from now on.
    Size(NodeId, usize),
    /// With what and where to send to a node from now on.
    Peer(NodeId, starfarm_protocol::seal::Sealer, std::net::SocketAddr),
}

/// What a user's request does to the farm; `now_us` is the second argument.
pub(crate) type Act = Box<dyn FnOnce(&mut Farm, u64, &mut Deeds) -> Response + Send>;

/// A user's request; answered once all that it changed is durable.
pub(crate) struct Question {
    pub(crate) act: Act,
    pub(crate) reply: oneshot::Sender<Response>,
}

/// The farm's belongings, which several threads reach for.
pub(crate) struct House {
    pub(crate) state: Arc<StateDir>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) keys: Mutex<KeyStore>,
    pub(crate) outputs: Mutex<OutputStore>,
    /// Hits that the farm does not keep in memory.
    pub(crate) hits: Lister,
    pub(crate) blobs: Arc<Mutex<Blobs>>,
    pub(crate) evidence: Arc<OnDisk>,
    pub(crate) unnamed: Mutex<Unnamed>,
    pub(crate) transfers: Mutex<Transfers>,
    /// Of contents to and from workers.
    pub(crate) rate: Rate,
    pub(crate) low_water: LowWater,
    pub(crate) merges: Merges,
    /// None where nobody wants to see.
    pub(crate) tree: Option<Arc<Tree>>,
    pub(crate) options: Options,
}

impl House {
    /// Says how much these jobs store: the dispatcher hears it in its next turn.
    pub(crate) fn tell_stored(&self, jobs: impl IntoIterator<Item = JobId>) {
        let outputs = self.outputs.lock().expect("a panic under the lock ends the process");
        let files: Vec<_> = jobs.into_iter().map(|job| (job, outputs.bytes_of(job))).collect();
        drop(outputs);
        let blobs = self.blobs.lock().expect("a panic under the lock ends the process");
        let all: Vec<_> =
            files.into_iter().map(|(job, bytes)| (job, bytes + blobs.names.bytes(job))).collect();
        drop(blobs);
        let all = all.into_iter().map(|(job, bytes)| (job, bytes + self.merges.bytes_of(job)));
        self.shared.stored.lock().expect("a panic under the lock ends the process").extend(all);
    }

    /// How much all jobs store.
    pub(crate) fn count_stored(&self) {
        let contents = self.blobs.lock().expect("a panic under the lock ends the process").bytes();
        let outputs = self.outputs.lock().expect("a panic under the lock ends the process").bytes();
        self.low_water.note_stored(contents + outputs + self.merges.bytes());
    }

    /// Puts a content on the disk that a job names.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn keep(&self, bytes: &[u8]) -> io::Result<ContentHash> {
        let kept = arrivals::of_job(self.arrivals(), |blobs| blobs.put_for_job(bytes).map(Some))?;
        Ok(kept.expect("it was put there"))
    }

    /// The same of a content that came in piece by piece.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn keep_incoming(&self, incoming: &Whole) -> io::Result<()> {
        let kept = arrivals::of_job(self.arrivals(), |blobs| {
            blobs.put_incoming(incoming)?;
            blobs.keep_for_job(&incoming.hash)?;
            Ok(Some(incoming.hash))
        });
        kept.map(drop)
    }

    /// Whether a content is on the disk as [`House::keep`] would put it there; it stays for a job that is about to name it.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn has_kept(&self, hash: &ContentHash) -> io::Result<bool> {
        let kept = arrivals::of_job(self.arrivals(), |blobs| Ok(blobs.keep_for_job(hash)?.then_some(*hash)))?;
        Ok(kept.is_some())
    }

    /// The books of what comes in.
    pub(crate) fn arrivals(&self) -> (&Mutex<Unnamed>, &Mutex<Blobs>) {
        (&self.unnamed, &self.blobs)
    }
}

/// Asks the dispatcher, and waits until all that was changed is durable; none where the scheduler stops.
pub(crate) fn ask<T: Send + 'static>(
    dispatcher: &Sender<Input>,
    act: impl FnOnce(&mut Farm, u64, &mut Deeds) -> T + Send + 'static,
) -> Option<T> {
    let (send, found) = std::sync::mpsc::channel();
    let (reply, answer) = oneshot::channel();
    let act = Box::new(move |farm: &mut Farm, now_us: u64, deeds: &mut Deeds| {
        // It is taken once the answer has come.
        let _ = send.send(act(farm, now_us, deeds));
        Response::Done
    });
    dispatcher.send(Input::Ask(Question { act, reply })).ok()?;
    answer.blocking_recv().ok()?;
    found.try_recv().ok()
}

/// What all threads share: the clock, the word to stop, and counters that people ask for.
pub(crate) struct Shared {
    started: Instant,
    /// The farm's clock at that moment.
    started_us: u64,
    stop: AtomicBool,
    /// Records up to this sequence are durable. Beside the channel, since a journal thread that waited for room
    /// there would wait for a dispatcher that waits for room in its own.
    durable: AtomicU64,
    /// The disk is below its low-water mark, or the farm stores as much as it may.
    pub(crate) no_room: AtomicBool,
    /// How much jobs store, where that has changed.
    pub(crate) stored: Mutex<BTreeMap<JobId, u64>>,
    /// Jobs may want units of the programs that name them.
    pub(crate) units_wanted: AtomicBool,
    /// A job waits for the place of another one's program.
    pub(crate) decomposers_wait: AtomicBool,
    /// Datagrams that did not open.
    pub(crate) refused: AtomicU64,
    /// Datagrams that the receive buffer had no room for.
    pub(crate) dropped: AtomicU64,
    /// Events that there was no room for on the way to the log.
    pub(crate) unheard: AtomicU64,
    /// Other events that the log does not have, as far as it knows.
    pub(crate) unwritten: AtomicU64,
    /// Bytes of the largest datagram that a node of that name is sent, where its path ever swallowed large ones.
    pub(crate) sizes: Mutex<HashMap<String, usize>>,
    pub(crate) lines: Mutex<Ring>,
    /// The same task by task, where somebody asked.
    pub(crate) tasks: TaskLines,
}

/// What happened in a turn.
pub(crate) struct Told {
    pub(crate) at_us: u64,
    pub(crate) events: Vec<Event>,
}

impl Shared {
    pub(crate) fn new(started_us: u64) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            started_us,
            stop: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            no_room: AtomicBool::new(false),
            stored: Mutex::default(),
            units_wanted: AtomicBool::new(true),
            decomposers_wait: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            sizes: Mutex::default(),
            lines: Mutex::default(),
            tasks: TaskLines::default(),
        })
    }

    /// The farm's clock: microseconds since 1970 by the wall clock at the start, and monotonic from there.
    pub(crate) fn now_us(&self) -> u64 {
        self.started_us + self.started.elapsed().as_micros() as u64
    }

    /// There is a job whose units a program names.
    pub(crate) fn want_units(&self) {
        self.units_wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable(&self, sequence: u64) {
        self.durable.store(sequence, Ordering::Release);
    }

    /// Events that the log had no room or no disk for: as many as it says.
    pub(crate) fn unlogged(&self) -> u64 {
        self.unheard.load(Ordering::Relaxed).saturating_add(self.unwritten.load(Ordering::Relaxed))
    }

    /// Says of each node how large a datagram it is sent.
    pub(crate) fn fill_sizes(&self, nodes: &mut [NodeInfo]) {
        let sizes = self.sizes.lock().expect("a panic under the lock ends the process");
        for node in nodes {
            if let Some(&bytes) = sizes.get(&node.name) {
                node.datagram_bytes = Some(bytes as u32);
            }
        }
    }

    pub(crate) fn up_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn up_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A machine's own key came in with a join key.
pub(crate) fn enrolled(peer: &Peer) -> Event {
    let Peer { claim, role, .. } = peer;
    Event::KeyAdded {
        key_kind: KeyKind::Enrolled,
        key: claim.key.to_string(),
        role: *role,
        name: Some(claim.name.clone()),
    }
}

/// Ends the process: it cannot keep what it promised, or must not go on.
pub(crate) fn stop_with(why: &str) -> ! {
    starfarm_net::say(&format!("starfarm scheduler stops: {why}"));
    std::process::exit(STOPPED)
}

/// Where the state directory is gone, that is why nothing can be written in it, and all of it may be lost.
pub(super) fn stop_if_gone(state: &StateDir) {
    if !state.is_there() {
        stop_gone("the state directory", state);
    }
}

fn stop_gone(what: &str, state: &StateDir) -> ! {
    stop_with(&format!(
        "{what} {} was deleted or moved away, and what is written now would be lost with it. Put it back, then start the \
         scheduler again with the same --state",
        state.path().display()
    ))
}

/// Starts a thread. One that panics takes the process with it, by the hook that the start has set: no farm that only
/// looks alive.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .expect("a machine that has no room for six threads cannot run a farm")
}
