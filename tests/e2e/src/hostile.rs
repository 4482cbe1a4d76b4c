//! Strangers, eavesdroppers and members of the farm who overstep: datagrams of four kinds that a scheduler
//! must refuse, in numbers. All of them claim units of a job that nobody has computed.
//!
//! | kind | what is sent |
//! | --- | --- |
//! | forged | datagrams of a real worker with a bit turned, and noise under its session's index |
//! | replayed | datagrams of a real worker, again, from elsewhere |
//! | stale | results sealed by a worker's keys of the scheduler's incarnation before |
//! | wrong role | results sealed by an observer's keys of this incarnation |

use std::fmt;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use starfarm_chaos::{Direction, Random};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, JobId};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::seal::handshake::Introduction;
use starfarm_protocol::seal::packet::{DATA_HEADER_BYTES, kind};
use starfarm_protocol::seal::{Initiator, Kind, Mode, Outcome, Sealer, StaticKey};
use starfarm_protocol::wire::{self, Hello, Packer, ResultEntry};

use crate::patience::{GUARD, until};
use crate::torture::Stage;

/// Datagrams that are sent before the scheduler has its turn: fewer than its receive buffer holds.
const BURST: u64 = 64;
/// Bursts between two looks; each look is a process.
const LOOK_BURSTS: u64 = 32;
/// Units of the job that nobody computes.
const UNITS: u64 = 1_000_000;

/// The incarnation of those who joined to overstep.
const BOOT: Boot = Boot(7);

/// What became of them.
#[derive(Clone, Debug, Default)]
pub struct HostileReport {
    /// Each kind, and how many were sent and refused.
    pub kinds: Vec<(&'static str, u64, u64)>,
    /// Datagrams that the receive buffer had no room for.
    pub dropped: u64,
}

impl fmt::Display for HostileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, sent, refused) in &self.kinds {
            writeln!(f, "{kind}: {sent} sent, {refused} refused, 0 accepted")?;
        }
        write!(f, "dropped before they were looked at: {}", self.dropped)
    }
}

/// Sends so many of each kind.
///
/// # Panics
/// One of them changed something, or was not counted as refused.
pub fn hostile(count: u64) -> HostileReport {
    let mut stage = Stage::set(1, 1, &[]);
    let captured = Arc::new(Mutex::new(Vec::new()));
    let tap = Arc::clone(&captured);
    stage.proxy.set_tap(move |direction, _, datagram| {
        if direction == Direction::Up && kind(datagram) == Some(Kind::Data) {
            tap.lock().unwrap_or_else(PoisonError::into_inner).push(datagram.to_vec());
        }
    });
    let stale = member(&stage, "worker", "turncoat");
    until("the turncoat is a node", || !stage.node_state("turncoat").is_empty());
    stage.kill_scheduler();
    stage.start_scheduler();
    until("the scheduler is ready", || stage.is_ready());
    let observer = member(&stage, "observer", "eyes");
    stage.start_workers();
    let id = stage.submit(&["--range", "0..200", "--units-per-task", "5", "--", "true"]);
    stage.cli(&["job", "wait", &id, "--timeout", "50"]).exits(0);
    // Nobody takes any of this one.
    stage.cli(&["node", "drain", &Stage::name(0)]).exits(0);
    let range = format!("0..{UNITS}");
    let id = stage.submit(&["--range", &range, "--", "true"]);
    stage.cli(&["job", "pause", &id]).exits(0);
    let job = stage.job(&id);
    let real = captured.lock().unwrap_or_else(PoisonError::into_inner).clone();

    let mut attack = Attack { stage, job, count, random: Random::new(1), report: HostileReport::default() };
    attack.send("forged", |random, _| forged(&real, random));
    attack.send("replayed", |random, _| real[random.below(real.len() as u64) as usize].clone());
    let claims = claim(&attack.job);
    attack.send("stale", |_, number| sealed(&stale, &claims(number)));
    attack.send("wrong role", |_, number| sealed(&observer, &claims(number)));
    attack.still_works();
    attack.report
}

struct Attack {
    stage: Stage,
    job: Value,
    count: u64,
    random: Random,
    report: HostileReport,
}

/// What an accepted datagram would change.
fn traces(stage: &Stage, job: &Value) -> Value {
    let status = stage.ask(&["status"]);
    let job = stage.job(&job["id"].to_string());
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let nodes: Vec<_> = nodes.map(|node| [node["name"].clone(), node["units_done"].clone()]).collect();
    let results = ["results_counted", "results_duplicate"].map(|key| status[key].clone());
    let units = ["units_done", "units_out", "units_failed", "units_duplicate"].map(|key| job[key].clone());
    serde_json::json!([results, units, nodes])
}

impl Attack {
    fn counters(&self) -> (u64, u64) {
        let status = self.stage.ask(&["status"]);
        let count = |key: &str| status[key].as_u64().unwrap_or_else(|| panic!("no {key} in {status}"));
        (count("datagrams_refused"), count("datagrams_dropped"))
    }

    fn send(&mut self, name: &'static str, mut make: impl FnMut(&mut Random, u64) -> Vec<u8>) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a socket");
        socket.connect(self.stage.address()).expect("the loopback is there");
        let before = traces(&self.stage, &self.job);
        let (refused, dropped) = self.counters();
        for number in 0..self.count {
            let datagram = make(&mut self.random, number);
            // A hint that nobody took makes the next call fail: it is sent again.
            while socket.send(&datagram).is_err() {}
            if number % BURST == BURST - 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            if number % (BURST * LOOK_BURSTS) == 0 || number + 1 == self.count {
                self.until_counted(refused + dropped + number + 1);
            }
        }
        let (now_refused, now_dropped) = self.counters();
        assert_eq!(traces(&self.stage, &self.job), before, "{name} datagrams changed something");
        self.report.kinds.push((name, self.count, now_refused - refused));
        self.report.dropped += now_dropped - dropped;
        assert!(now_dropped - dropped <= self.count / 20, "too many were never looked at");
    }

    /// Waits until so many were refused or dropped.
    fn until_counted(&self, sum: u64) {
        let start = Instant::now();
        loop {
            let (refused, dropped) = self.counters();
            if refused + dropped >= sum {
                return;
            }
            let missing = sum - refused - dropped;
            assert!(start.elapsed() < GUARD, "{missing} were neither refused nor dropped: {:?}", self.report);
        }
    }

    /// The job that was claimed all the time is still to be done, and work is done.
    fn still_works(&mut self) {
        assert_eq!(self.job["units_done"], "0");
        self.stage.cli(&["node", "resume", &Stage::name(0)]).exits(0);
        let id = self.stage.submit(&["--range", "0..20", "--", "true"]);
        self.stage.cli(&["job", "wait", &id, "--timeout", "50"]).exits(0);
    }
}

/// A real one with a bit turned, or noise with the index of a real session.
fn forged(real: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut datagram = real[random.below(real.len() as u64) as usize].clone();
    // Its counter and what is sealed; another index is another session's matter.
    let from = DATA_HEADER_BYTES / 2;
    if random.chance(0.5) {
        let place = from + random.below((datagram.len() - from) as u64) as usize;
        datagram[place] ^= 1 << random.below(8);
    } else {
        datagram[from..].iter_mut().for_each(|byte| *byte = random.bits() as u8);
    }
    datagram
}

/// Somebody who has joined by a fresh join file of that role, and said hello.
fn member(stage: &Stage, role: &str, name: &str) -> Sealer {
    let file = stage.dir.path().join(format!("{name}.join"));
    stage.cli(&["key", "add", "--role", role, "--out", &file.to_string_lossy()]).exits(0);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let join = JoinFile::from_text(&text).unwrap_or_else(|error| panic!("{error}"));
    let key = StaticKey::generate().expect("the system has random numbers");
    let who = Introduction {
        key: &key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name,
        boot: BOOT,
        mode: Mode::default(),
    };
    let (mut initiator, datagram) = Initiator::start(&who, 77, None).expect("the name is a good one");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a socket");
    socket.connect(stage.address()).expect("the loopback is there");
    socket.set_read_timeout(Some(GUARD)).expect("a time above 0");
    let _ = socket.send(&datagram);
    let mut buffer = [0; 2_000];
    let bytes = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{name} is not answered: {error}"));
    let Ok(Outcome::Accepted(accepted)) = initiator.read_response(&buffer[..bytes]) else {
        panic!("{name} is not accepted");
    };
    let sealer = accepted.into_session(0).sealer;
    let mut packer = Packer::new();
    packer.hello(&Hello {
        version: PROTOCOL_VERSION,
        boot: BOOT,
        slots: 1,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        known_epoch: Epoch(0),
        known_proof: [0; 16],
        died_running: Vec::new(),
    });
    packer.finish().iter().for_each(|clear| drop(socket.send(&sealed(&sealer, clear))));
    sealer
}

fn sealed(sealer: &Sealer, clear: &[u8]) -> Vec<u8> {
    let mut out = vec![0; clear.len() + 64];
    let bytes = sealer.seal(clear, &mut out).expect("there is room");
    out.truncate(bytes);
    out
}

/// Results that say that units of the job are done.
fn claim(job: &Value) -> impl Fn(u64) -> Vec<u8> + use<> {
    let spec: ContentHash = serde_json::from_value(job["spec"].clone()).expect("a job has a hash");
    let id = JobId(job["id"].as_u64().expect("a job has a number"));
    move |number| {
        let mut packer = Packer::new();
        packer.result(&ResultEntry {
            job: id,
            spec,
            sequence: number + 1,
            attempt: Attempt(number + 1),
            lo: u128::from(number % UNITS),
            units: 1,
            duration_us: 1_000,
            outcome: wire::Outcome::Done,
            body: &[],
        });
        packer.finish().remove(0)
    }
}
