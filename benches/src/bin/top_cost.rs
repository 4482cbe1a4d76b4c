//! What `starfarm top` costs with many nodes: the scheduler's processor time with and without it, its own, and the
//! bytes that it sends to the terminal. The nodes are made up, all in this process: each has a session of its own and
//! beats as a real worker does, with facts and a load that changes.
//!
//! ```sh
//! cargo build --release --bins --workspace
//! target/release/top_cost [NODES] [SECONDS]   # 1 000 nodes, three rounds of 20 s without and with
//! ```

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use starfarm_benches::{cpu_seconds, median};
use starfarm_e2e::{Farm, Pid, Pty, program};
use starfarm_protocol::ids::{Boot, Epoch};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::seal::handshake::Introduction;
use starfarm_protocol::seal::{Initiator, Mode, Outcome, Sealer, StaticKey};
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::{Facts, Heartbeat, Hello, Load, Packer};

/// Between two that join: a scheduler that hears more than 200 in a second asks for cookies.
const JOIN_PAUSE: Duration = Duration::from_millis(8);
const JOBS: usize = 20;
const SLOTS: u16 = 8;
const ROUNDS: usize = 3;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let nodes = args.next().unwrap_or(1_000);
    let time = Duration::from_secs(args.next().unwrap_or(20));
    let farm = Farm::start();
    for number in 0..JOBS {
        let id = farm.submit(&["--name", &format!("job-{number}"), "--range", "0..1000000", "--", "true"]);
        farm.cli(&["job", "pause", &id]).exits(0);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let members = std::thread::spawn({
        let (stop, join, address) = (Arc::clone(&stop), farm.state().join("worker.join"), farm.address());
        let text = std::fs::read_to_string(join).expect("the farm has a join file");
        let join = JoinFile::from_text(&text).expect("it is one");
        move || beat(nodes, &join, address, &stop)
    });
    farm.until_nodes_up(nodes as usize);
    let (mut without, mut with, mut screen, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(share_of_core(farm.scheduler.pid(), time));
        let mut command = program("starfarm", farm.temp().path());
        command
            .arg("--farm")
            .arg(farm.state())
            .arg("top")
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR");
        let mut top = Pty::start(&command, farm.temp().path(), 120, 40);
        top.until_shows(&format!("nodes {nodes}/{nodes}"));
        let (before, written) = (cpu_seconds(top.program.pid(), |_| true), top.bytes());
        with.push(share_of_core(farm.scheduler.pid(), time));
        screen.push((cpu_seconds(top.program.pid(), |_| true) - before) / time.as_secs_f64());
        bytes.push((top.bytes() - written) as f64 / time.as_secs_f64());
        top.press("q");
        assert_eq!(top.program.wait(), 0, "{}", top.program.log());
    }
    stop.store(true, Ordering::Relaxed);
    members.join().expect("the members have no reason to fail");
    println!("scheduler without {without:.4?}, with {with:.4?}, screen {screen:.4?}, shares of a core");
    let percent = |shares: &[f64]| median(shares.to_vec()) * 100.0;
    let (without, with) = (percent(&without), percent(&with));
    println!("{nodes} nodes, {JOBS} jobs, a look a second, 120 x 40; medians of {ROUNDS} rounds of {time:?}");
    println!(
        "scheduler: {without:.2} % of a core without top, {with:.2} % with: top costs {:.2} %",
        with - without
    );
    println!("screen: {:.2} % of a core, {:.0} bytes/s to the terminal", percent(&screen), median(bytes));
}

/// Processor time of a process in that time, as a share of a core.
fn share_of_core(pid: Pid, time: Duration) -> f64 {
    let (before, start) = (cpu_seconds(pid, |_| true), Instant::now());
    std::thread::sleep(time);
    (cpu_seconds(pid, |_| true) - before) / start.elapsed().as_secs_f64()
}

struct Member {
    sealer: Sealer,
    socket: UdpSocket,
}

/// Joins so many nodes, and beats for each of them.
fn beat(nodes: u64, join: &JoinFile, address: std::net::SocketAddr, stop: &AtomicBool) {
    let mut members: Vec<Member> = Vec::new();
    let (start, mut round) = (Instant::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        // The others beat while one joins.
        let missing = nodes - members.len() as u64;
        for number in (nodes - missing..nodes).take(100) {
            members.push(member(number, join, address));
            std::thread::sleep(JOIN_PAUSE);
        }
        round += 1;
        let due = start + Duration::from_micros(Settings::DEFAULT.heartbeat_us) * round;
        let pause = due.saturating_duration_since(Instant::now()) / members.len() as u32;
        for (at, member) in members.iter().enumerate() {
            member.say(|packer| say_load(packer, round, at as u64));
            // A real farm's heartbeats do not come all at once.
            if at % 8 == 0 {
                std::thread::sleep(pause * 8);
            }
        }
    }
}

fn say_load(packer: &mut Packer, round: u32, node: u64) {
    if round % 60 == 1 {
        packer.facts(&Facts {
            system: format!("host-{node}, Debian GNU/Linux 12 (bookworm), Linux 6.1.0"),
            cpu: "A processor @ 2.00GHz".to_owned(),
            cores: u32::from(SLOTS),
            memory_bytes: 1 << 34,
            accelerators: String::new(),
        });
    }
    let load = |slot: u64| ((u64::from(round) * 7_919 + node * 104_729 + slot * 1_299_709) % 1_000) as u16;
    packer.load(&Load { idle_us: 0, slots: (0..u64::from(SLOTS)).map(load).collect() });
    packer.heartbeat(&Heartbeat {
        number: round,
        part: 0,
        parts: 1,
        queued_tasks: 0,
        draining: false,
        running: Vec::new(),
        held: Vec::new(),
    });
}

impl Member {
    fn say(&self, what: impl FnOnce(&mut Packer)) {
        let mut packer = Packer::new();
        what(&mut packer);
        for clear in packer.finish() {
            let mut sealed = vec![0; clear.len() + 64];
            let bytes = self.sealer.seal(&clear, &mut sealed).expect("there is room");
            // What is lost is repeated in a second.
            let _ = self.socket.send(&sealed[..bytes]);
        }
    }
}

/// Joins as a worker does.
fn member(number: u64, join: &JoinFile, address: std::net::SocketAddr) -> Member {
    let key = StaticKey::generate().expect("the system has random numbers");
    let (name, boot) = (format!("node-{number:04}"), Boot(number + 1));
    let who = Introduction {
        key: &key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name: &name,
        boot,
        mode: Mode::default(),
    };
    let index = number as u32 + 1;
    let (mut initiator, datagram) = Initiator::start(&who, index, None).expect("the name is a good one");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a socket");
    socket.connect(address).expect("the loopback is there");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time above 0");
    socket.send(&datagram).expect("the scheduler listens");
    let mut buffer = [0; 2_000];
    let bytes = socket.recv(&mut buffer).expect("the scheduler answers");
    let Ok(Outcome::Accepted(accepted)) = initiator.read_response(&buffer[..bytes]) else {
        panic!("{name} is not accepted");
    };
    let member = Member { sealer: accepted.into_session(0).sealer, socket };
    member.say(|packer| {
        packer.hello(&Hello {
            version: PROTOCOL_VERSION,
            boot,
            slots: SLOTS,
            queue_tasks_max: 8,
            receive_datagrams_max: 92,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        });
    });
    member
}
