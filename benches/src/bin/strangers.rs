//! What strangers at the ports cost a farm that is busy: TCP connections that say nothing or begin a handshake and stop, from
//! one address and from many; datagrams that are no messages; handshakes of somebody who has a join file, with and without
//! the cookie. Each is measured by turns with quiet windows of the same run. It fails where one costs too much.
//!
//! ```text
//! cargo build --release --workspace --bins
//! target/release/strangers [ROUNDS]
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use starfarm_benches::median;
use starfarm_chaos::Random;
use starfarm_e2e::{Farm, connect_from};
use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Cookie, Initiator, Introduction, Mode, StaticKey};

/// Seconds of a window.
const WINDOW: f64 = 10.0;
/// Units of a task: so few that tasks, not units, are the work.
const TASK_UNITS: u64 = 1_000;
/// Datagrams between two pauses of a millisecond.
const BURST_MAX: u64 = 64;
/// First packets that are made beforehand.
const PACKETS: u32 = 500;

/// Who is at the ports in a window.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Strangers {
    Nobody,
    /// So many connections are held open, each opened again when it is cut, from so many addresses.
    Connections(usize, u8),
    /// The same, but each has sent half of a handshake.
    HalfOpen(usize, u8),
    /// So many first packets a second of somebody who has a join file; with the cookie, if he is asked for one.
    Initiations(u64, bool),
    /// So many datagrams a second.
    Datagrams(u64),
}

/// What a window showed.
struct Seen {
    tasks_per_s: f64,
    /// The slowest of all `status` commands, process and all.
    status_seconds: f64,
}

/// All that come, one kind after another.
const ALL: [Strangers; 9] = [
    Strangers::Initiations(5_000, false),
    Strangers::Initiations(5_000, true),
    Strangers::Connections(1_100, 1),
    Strangers::Connections(5_000, 1),
    Strangers::Connections(5_000, 200),
    Strangers::HalfOpen(5_000, 200),
    Strangers::Datagrams(10_000),
    Strangers::Datagrams(20_000),
    Strangers::Datagrams(40_000),
];
/// The farm keeps at least so much of its dispatch rate, in percent, ...
const SHARE_MIN: f64 = 80.0;
/// ... `status` answers within so many seconds, ...
const STATUS_SECONDS_MAX: f64 = 1.0;
/// ... and the scheduler takes so much memory, in KiB.
const RESIDENT_KIB_MAX: u64 = 64 << 10;

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).map_or(3, |n| n.parse().expect("a number of rounds"));
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).expect("up to the hard limit");
    let farm = Farm::with_workers(2, 1);
    let id = farm.submit_text(&format!(
        "name = \"busy\"\n[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         stop = \"never\"\nunits_per_task = {TASK_UNITS}\ntargets = [\"{}\"]\n",
        "?d".repeat(18),
        "0".repeat(32)
    ));
    window(&farm, &id, Strangers::Nobody);
    let mut is_harmed = false;
    for strangers in ALL {
        let (mut shares, mut slowest, mut sent) = (Vec::new(), 0.0_f64, 0);
        for _ in 0..rounds {
            let quiet = window(&farm, &id, Strangers::Nobody).0;
            let (busy, count) = window(&farm, &id, strangers);
            shares.push(busy.tasks_per_s / quiet.tasks_per_s * 100.0);
            slowest = slowest.max(busy.status_seconds);
            sent += count;
        }
        let (share, resident) = (median(shares.clone()), peak_kib(&farm));
        println!(
            "{strangers:?}: {share:.0} % of the dispatch rate beside nobody (median of {rounds} windows of {WINDOW} s, {shares:.0?}); \
             slowest status {slowest:.2} s; {sent} sent or opened; {resident} KiB resident at most so far"
        );
        if share < SHARE_MIN || slowest > STATUS_SECONDS_MAX || resident > RESIDENT_KIB_MAX {
            is_harmed = true;
            println!("{strangers:?}: that is too much");
        }
    }
    let status = farm.status();
    println!("refused {}, dropped {}", status["datagrams_refused"], status["datagrams_dropped"]);
    farm.cli(&["job", "cancel", &id]).exits(0);
    ExitCode::from(u8::from(is_harmed))
}

/// The most memory that the scheduler ever had resident.
fn peak_kib(farm: &Farm) -> u64 {
    let path = format!("/proc/{}/status", farm.scheduler.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("the scheduler runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.expect("a process that runs has memory")
}

/// A window with `strangers`; also how much they sent or opened.
fn window(farm: &Farm, id: &str, strangers: Strangers) -> (Seen, u64) {
    let done = || {
        let units = farm.job(id)["units_done"].as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        units / TASK_UNITS
    };
    let crowd = Crowd::at(farm, strangers);
    std::thread::sleep(Duration::from_secs(1));
    let (start, before) = (Instant::now(), done());
    let mut status_seconds = 0.0_f64;
    while start.elapsed().as_secs_f64() < WINDOW {
        let asked = Instant::now();
        farm.status();
        status_seconds = status_seconds.max(asked.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_secs(1));
    }
    let tasks_per_s = (done() - before) as f64 / start.elapsed().as_secs_f64();
    (Seen { tasks_per_s, status_seconds }, crowd.go())
}

/// The strangers: threads of this process, which share the machine with the farm.
struct Crowd {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn at(farm: &Farm, strangers: Strangers) -> Self {
        let address = farm.address();
        let join = std::fs::read_to_string(farm.state().join("worker.join")).expect("a farm has one");
        let join = JoinFile::from_text(&join).expect("it is the scheduler's");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a socket");
        socket.set_nonblocking(true).expect("a socket of ours");
        let packets = match strangers {
            Strangers::Initiations(_, cookie) => first_packets(address, &join, &socket, cookie),
            _ => Vec::new(),
        };
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || match strangers {
            Strangers::Nobody => {}
            Strangers::Connections(wanted, from) => hold(address, (wanted, from), &[], &stopped, &counted),
            Strangers::HalfOpen(wanted, from) => {
                // The length of a first frame, and half of it.
                let half = [&384_u32.to_le_bytes()[..], &[1; 192]].concat();
                hold(address, (wanted, from), &half, &stopped, &counted);
            }
            Strangers::Initiations(per_s, _) => {
                knock((&socket, address), &packets, per_s, &stopped, &counted);
            }
            Strangers::Datagrams(per_s) => shout(address, per_s, &stopped, &counted),
        });
        Self { stop, count, thread: Some(thread) }
    }

    /// They go; says how much they did.
    fn go(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it goes once").join().expect("strangers do not panic");
        self.count.load(Ordering::Relaxed)
    }
}

fn hold(
    address: SocketAddr,
    (wanted, addresses): (usize, u8),
    first: &[u8],
    stop: &AtomicBool,
    opened: &AtomicU64,
) {
    let is_open = |socket: &mut TcpStream| match socket.read(&mut [0]) {
        Err(e) => e.kind() == ErrorKind::WouldBlock,
        Ok(bytes) => bytes > 0,
    };
    let mut held: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        held.retain_mut(is_open);
        while held.len() < wanted {
            let from = 1 + (opened.load(Ordering::Relaxed) % u64::from(addresses)) as u8;
            let Ok(mut socket) = connect_from([127, 0, 0, from].into(), address) else { break };
            let _ = socket.write_all(first);
            socket.set_nonblocking(true).expect("a socket of ours");
            held.push(socket);
            opened.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// First packets, each with an index of its own. They are made beforehand: it is the scheduler that is measured.
fn first_packets(address: SocketAddr, join: &JoinFile, socket: &UdpSocket, cookie: bool) -> Vec<Vec<u8>> {
    let key = StaticKey::generate().expect("the system has random numbers");
    let who = Introduction {
        key: &key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name: "stranger",
        boot: Boot(1),
        mode: Mode::default(),
    };
    let start = |index, cookie| Initiator::start(&who, index, cookie).expect("the name is a good one");
    let (mut shown, mut buffer) = (None::<Cookie>, [0; 2_048]);
    while cookie && shown.is_none() {
        let (initiator, packet) = start(0, None);
        for _ in 0..1_000 {
            let _ = socket.send_to(&packet, address);
        }
        std::thread::sleep(Duration::from_millis(50));
        while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
            shown = initiator.read_cookie(&buffer[..bytes], 0).ok().or(shown);
        }
    }
    (1..=PACKETS).map(|index| start(index, shown.as_ref()).1).collect()
}

fn knock(
    (socket, address): (&UdpSocket, SocketAddr),
    packets: &[Vec<u8>],
    per_s: u64,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let (start, mut count, mut buffer) = (Instant::now(), 0_u64, [0; 2_048]);
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * per_s as f64) as u64;
        for _ in 0..due.saturating_sub(count).min(BURST_MAX) {
            let _ = socket.send_to(&packets[count as usize % packets.len()], address);
            count += 1;
            while socket.recv_from(&mut buffer).is_ok() {}
        }
        sent.store(count, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn shout(address: SocketAddr, per_s: u64, stop: &AtomicBool, sent: &AtomicU64) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a socket");
    let (mut random, start, mut count) = (Random::new(1), Instant::now(), 0_u64);
    let mut noise = [0_u8; 256];
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * per_s as f64) as u64;
        for _ in 0..due.saturating_sub(count).min(BURST_MAX) {
            noise.iter_mut().step_by(8).for_each(|byte| *byte = random.bits() as u8);
            // What does not go out is lost, as strangers' datagrams may be.
            let _ = socket.send_to(&noise, address);
            count += 1;
        }
        sent.store(count, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}
