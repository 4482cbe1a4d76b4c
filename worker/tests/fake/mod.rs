//! A scheduler in few lines, over real sockets on loopback: it offers what a test tells it to, counts what
//! comes back, serves and takes contents. It decides nothing.
#![allow(dead_code)] // each test file uses some of it

mod bulk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::{Attempt, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::seal::packet::{Kind, Mode, kind};
use starfarm_protocol::seal::{
    Hints, KeyStore, Reply, Request, Responder, Role, SealError, Sealer, Secret, SessionTable, StaticKey,
};
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::wire::{
    Cancel, Heartbeat, HeartbeatAnswer, Hello, Message, Offer, Outcome, Packer, Revoke, Welcome, messages,
};

/// Nothing in a test may take longer; a hang ends here.
pub const LONG: Duration = Duration::from_secs(60);

/// Set in the number of an incarnation that has gone.
const AWAY: u64 = 1 << 63;

/// What the scheduler heard of one result.
#[derive(Clone, Debug)]
pub struct Heard {
    pub job: JobId,
    pub attempt: Attempt,
    pub lo: u128,
    pub units: u64,
    pub outcome: Outcome,
    pub body: Vec<u8>,
}

/// What tests and the scheduler's threads share.
#[derive(Default)]
pub struct Shared {
    pub contents: HashMap<ContentHash, Vec<u8>>,
    /// Where units lie that a program named, by job.
    pub located: Vec<(JobId, Located)>,
    pub offers: BTreeMap<u64, Offer>,
    pub results: Vec<Heard>,
    pub hellos: Vec<Hello>,
    pub beat: Heartbeat,
    pub byes: u32,
    pub revoke: Option<Revoke>,
    /// The heartbeat that was the last one when that was said first. It is said every 20 ms.
    pub revoked_at: u32,
    /// Results are heard and not acknowledged.
    pub deaf: bool,
    pub gets: u32,
    /// Where fetches began.
    pub offsets: Vec<u64>,
    /// The next stream breaks after so many chunks.
    pub cut_after: Option<usize>,
    /// Bulk streams that were opened, and those of them that the worker closed.
    pub streams: (u32, u32),
    /// From the next incarnation on: every handshake needs a cookie.
    pub cautious: bool,
    pub keys: KeyStore,
    farm: Option<FarmId>,
    heard: BTreeSet<(u64, u64)>,
    next_attempt: u64,
}

pub struct Fake {
    pub dir: PathBuf,
    pub shared: Arc<Mutex<Shared>>,
    pub key: StaticKey,
    pub address: SocketAddr,
    /// Another one for each scheduler of a test.
    pub farm: FarmId,
    secret: Secret,
    plain: bool,
    epoch: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Fake {
    pub fn start() -> Self {
        Self::start_as(false)
    }

    /// `plain`: with the seal off.
    pub fn start_as(plain: bool) -> Self {
        let (fake, tcp) = Self::start_without_tcp(plain);
        fake.open_tcp(tcp);
        fake
    }

    /// As behind a firewall that lets only UDP through: the port takes connections and nobody serves them, until
    /// [`Fake::open_tcp`].
    pub fn start_without_tcp(plain: bool) -> (Self, TcpListener) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("starfarm-fake-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (udp, tcp) = sockets();
        let address = udp.local_addr().unwrap();
        let (key, secret) = (StaticKey::generate().unwrap(), Secret([7; 32]));
        let shared = Arc::new(Mutex::new(Shared::default()));
        shared.lock().unwrap().keys.add_join_key(secret.clone(), Role::Worker);
        let (epoch, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
        let farm = FarmId([number as u8 + 1; 16]);
        shared.lock().unwrap().farm = Some(farm);
        let fake = Self { dir, shared, key, address, farm, secret, plain, epoch, stop };
        fake.write_join(address.to_string());
        fake.serve(udp);
        (fake, tcp)
    }

    /// Serves TCP from now on.
    pub fn open_tcp(&self, tcp: TcpListener) {
        bulk::serve(tcp, Arc::clone(&self.shared), self.key.clone());
    }

    /// Writes `worker.join`, which names that address.
    pub fn write_join(&self, address: String) {
        let (key, secret) = (self.key.public(), self.secret.clone());
        let join = JoinFile::new(self.farm, vec![address], key, secret, Role::Worker);
        std::fs::write(self.dir.join("worker.join"), join.to_text().as_bytes()).unwrap();
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// The scheduler forgets its sessions and comes back as another incarnation.
    pub fn restart(&self) {
        self.epoch.store((self.epoch.load(Ordering::SeqCst) & !AWAY) + 1, Ordering::SeqCst);
    }

    /// The same as the incarnation of that number, which may be an older one.
    pub fn restart_as(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Nobody listens at the scheduler's address any more, until [`Fake::restart`].
    pub fn go_away(&self) {
        self.epoch.fetch_or(AWAY, Ordering::SeqCst);
        while UdpSocket::bind(self.address).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stores a specification and returns its hash.
    pub fn spec(&self, spec: &JobSpec) -> ContentHash {
        self.content(spec.to_bytes())
    }

    pub fn content(&self, bytes: Vec<u8>) -> ContentHash {
        let hash = ContentHash::of(&bytes);
        self.lock().contents.insert(hash, bytes);
        hash
    }

    /// Offers units of a job as one task.
    pub fn offer(&self, job: u64, spec: ContentHash, lo: u128, units: u64) {
        let mut shared = self.lock();
        shared.next_attempt += 1;
        let attempt = shared.next_attempt;
        shared.offers.insert(attempt, Offer { job: JobId(job), spec, attempt: Attempt(attempt), lo, units });
    }

    pub fn revoke(&self, job: u64, cancel: Cancel) {
        let mut shared = self.lock();
        shared.revoked_at = shared.beat.number;
        shared.revoke = Some(Revoke { job: JobId(job), cancel, before: Attempt(u64::MAX) });
    }

    /// Waits until `ready`, and fails after a long while.
    #[track_caller]
    pub fn until(&self, what: &str, ready: impl Fn(&Shared) -> bool) {
        let start = Instant::now();
        while !ready(&self.lock()) {
            assert!(start.elapsed() < LONG, "still waiting for: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Units of a job by what became of them.
    pub fn units(&self, job: u64, outcome: Outcome) -> u64 {
        let shared = self.lock();
        let results = shared.results.iter().filter(|r| r.job == JobId(job) && r.outcome == outcome);
        results.map(|r| r.units).sum()
    }

    /// Starts a worker process with its state below our folder.
    pub fn worker(&self, name: &str, more: &[&str]) -> Process {
        self.worker_in(name, name, more)
    }

    /// The same with a state folder of another name.
    pub fn worker_in(&self, state: &str, name: &str, more: &[&str]) -> Process {
        let join = self.dir.join("worker.join");
        let mut command = Command::new(env!("CARGO_BIN_EXE_starfarm-worker"));
        command.arg("--join").arg(join).args(["--name", name, "--state"]).arg(self.dir.join(state));
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(self.dir.join(format!("{state}.err"))).unwrap());
        Process { child: command.spawn().unwrap(), err: self.dir.join(format!("{state}.err")) }
    }

    fn serve(&self, udp: UdpSocket) {
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        let (epoch, stop) = (Arc::clone(&self.epoch), Arc::clone(&self.stop));
        let (mode, address) = (Mode { stream: false, plain: self.plain }, self.address);
        std::thread::spawn(move || {
            let mut udp = Some(udp);
            while !stop.load(Ordering::SeqCst) {
                let incarnation = epoch.load(Ordering::SeqCst);
                if incarnation & AWAY != 0 {
                    udp = None;
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                let udp = udp.get_or_insert_with(|| UdpSocket::bind(address).unwrap());
                udp.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                Serving::new(udp, &shared, &key, mode, incarnation).run(&epoch, &stop);
            }
        });
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// UDP and TCP on one port.
fn sockets() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both");
}

/// One incarnation on the UDP side.
struct Serving<'a> {
    udp: &'a UdpSocket,
    shared: &'a Mutex<Shared>,
    responder: Responder,
    hints: Hints,
    table: SessionTable,
    sealers: HashMap<SocketAddr, Sealer>,
    epoch: u64,
    start: Instant,
    spoke: Instant,
}

impl<'a> Serving<'a> {
    fn new(udp: &'a UdpSocket, shared: &'a Mutex<Shared>, key: &StaticKey, mode: Mode, epoch: u64) -> Self {
        let mut responder = Responder::new(
            key.clone(),
            shared.lock().unwrap().farm.unwrap(),
            Epoch(epoch),
            mode,
            [epoch as u8; 32],
        );
        if shared.lock().unwrap().cautious {
            responder.set_load_limit(0);
        }
        let (table, sealers, start) = (SessionTable::default(), HashMap::new(), Instant::now());
        Self { udp, shared, responder, hints: Hints::default(), table, sealers, epoch, start, spoke: start }
    }

    fn run(mut self, epoch: &AtomicU64, stop: &AtomicBool) {
        let mut buffer = [0; 2048];
        while epoch.load(Ordering::SeqCst) == self.epoch && !stop.load(Ordering::SeqCst) {
            if let Ok((bytes, from)) = self.udp.recv_from(&mut buffer) {
                self.hear(&buffer[..bytes], from);
            }
            if self.spoke.elapsed() > Duration::from_millis(20) {
                self.spoke = Instant::now();
                self.speak();
            }
        }
    }

    fn hear(&mut self, datagram: &[u8], from: SocketAddr) {
        let now_us = self.start.elapsed().as_micros() as u64;
        let mut shared = self.shared.lock().unwrap();
        match kind(datagram) {
            Some(Kind::Initiation) => {
                let index = self.table.free_index(now_us as u32);
                let source = from.to_string();
                let request = Request { datagram, source: source.as_bytes(), index, now_us };
                let Ok(reply) = self.responder.answer(&shared.keys, &request) else { return };
                self.udp.send_to(reply.bytes(), from).unwrap();
                if let Reply::Accepted { pending, .. } = reply {
                    self.table.admit(pending, now_us);
                }
            }
            Some(Kind::Data) => {
                let mut plain = vec![0; datagram.len()];
                let opened = self.table.open(&mut shared.keys, datagram, &mut plain, now_us, 0);
                if let Err(SealError::UnknownSession) = opened
                    && let Some(hint) = self.hints.answer(datagram, now_us)
                {
                    self.udp.send_to(&hint, from).unwrap();
                }
                let Ok(opened) = opened else { return };
                if let Some(sealer) = opened.confirmed.and_then(|confirmed| confirmed.sealer) {
                    self.sealers.insert(from, sealer);
                }
                let reply = shared.hear(&plain[..opened.bytes], self.epoch);
                drop(shared);
                reply.iter().for_each(|plain| self.send(plain, from));
            }
            _ => {}
        }
    }

    fn speak(&mut self) {
        let shared = self.shared.lock().unwrap();
        let mut packer = Packer::new();
        shared.offers.values().take(200).for_each(|offer| packer.offer(offer));
        shared.revoke.iter().for_each(|revoke| packer.revoke(revoke));
        drop(shared);
        let words = packer.finish();
        let peers: Vec<_> = self.sealers.keys().copied().collect();
        peers.iter().for_each(|peer| words.iter().for_each(|plain| self.send(plain, *peer)));
    }

    fn send(&self, plain: &[u8], to: SocketAddr) {
        let Some(sealer) = self.sealers.get(&to) else { return };
        let mut datagram = vec![0; plain.len() + 32];
        let bytes = sealer.seal(plain, &mut datagram).unwrap();
        self.udp.send_to(&datagram[..bytes], to).unwrap();
    }
}

impl Shared {
    fn hear(&mut self, plain: &[u8], epoch: u64) -> Vec<Vec<u8>> {
        let mut reply = Packer::new();
        for message in messages(plain) {
            match message.unwrap() {
                Message::Hello(hello) => {
                    self.hellos.push(hello);
                    let (farm, version) = (self.farm.unwrap(), PROTOCOL_VERSION);
                    let (heartbeat_ms, credit, proof) = (200, 16, [epoch as u8; 16]);
                    let epoch = Epoch(epoch);
                    reply.welcome(&Welcome { farm, epoch, heartbeat_ms, credit, version, proof });
                }
                Message::TaskAck(ranges) => ranges.for_each(|(first, last)| {
                    self.offers.retain(|attempt, _| !(first..=last).contains(attempt));
                }),
                Message::Results(results) => {
                    for r in results.map(Result::unwrap) {
                        let boot = self.hellos.last().map_or(0, |hello| hello.boot.0);
                        if self.heard.insert((boot, r.sequence)) {
                            let (job, attempt, lo, units) = (r.job, r.attempt, r.lo, r.units);
                            let (outcome, body) = (r.outcome, r.body.to_vec());
                            self.results.push(Heard { job, attempt, lo, units, outcome, body });
                        }
                        if !self.deaf {
                            reply.result_ack(16, &[(r.sequence, r.sequence)]);
                        }
                    }
                }
                Message::Heartbeat(beat) => {
                    let (number, epoch) = (beat.number, Epoch(epoch));
                    reply.heartbeat_answer(&HeartbeatAnswer { number, credit: 16, epoch });
                    self.beat = beat;
                }
                Message::Bye => self.byes += 1,
                _ => {}
            }
        }
        reply.finish()
    }
}

/// A worker process, killed at the latest when the test ends.
pub struct Process {
    child: Child,
    err: PathBuf,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// What was said on stderr so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Waits for the end; exit code and what was said on stderr.
    #[track_caller]
    pub fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), std::fs::read_to_string(&self.err).unwrap());
            }
            assert!(
                start.elapsed() < LONG,
                "the worker does not end: {:?}",
                std::fs::read_to_string(&self.err)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
