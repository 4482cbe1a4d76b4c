//! What the worker does at the same time by other ways than its session, in a thread of its own: it stores contents that
//! belong to nothing, or makes handshakes under other names and with other keys.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use starfarm_protocol::bulk::{BULK, CHUNK_BYTES, Chunk, Reply, Request};
use starfarm_protocol::ids::{Boot, ContentHash};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Introduction, Line, Mode, StaticKey};
use starfarm_protocol::wire::Packer;

use crate::attack::{Attack, hello};
use crate::member::Member;

/// Bytes of a content: the longest output that a job keeps as a rule.
const CONTENT_BYTES: usize = 1 << 20;
/// Between two contents: 35 MiB a second.
const CONTENTS_PAUSE: Duration = Duration::from_millis(28);
/// How long an answer about a content may take.
const CONTENT_PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer to a handshake may take: the next one is as good.
const KNOCK_PATIENCE: Duration = Duration::from_millis(20);

/// The thread; it says how often it got what it asked for, and how often not.
pub(crate) struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, u64)>,
}

impl Beside {
    /// A member of the farm begins what its attack has beside its datagrams; none where that is nothing.
    pub(crate) fn begin(
        attack: Attack,
        (join, address): (&JoinFile, SocketAddr),
        (key, name): (&StaticKey, &str),
        boot: Boot,
    ) -> io::Result<Option<Self>> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = match attack {
            Attack::Contents => {
                let line = open((join, address), (key, name), boot)?;
                std::thread::spawn(move || store(line, &stopped))
            }
            Attack::Renames | Attack::Joins => {
                let (join, own) = (join.clone(), (attack == Attack::Renames).then(|| key.clone()));
                std::thread::spawn(move || knock((&join, address), own.as_ref(), &stopped))
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { stop, thread }))
    }

    /// It stops: how often it got what it asked for, and how often not.
    pub(crate) fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// A line for contents.
fn open(
    (join, address): (&JoinFile, SocketAddr),
    (key, name): (&StaticKey, &str),
    boot: Boot,
) -> io::Result<Line<TcpStream>> {
    let who = Introduction {
        key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name,
        boot,
        mode: Mode::default(),
    };
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(CONTENT_PATIENCE))?;
    Line::open(socket, &who, join.farm, &[BULK]).map_err(|e| io::Error::other(e.to_string()))
}

/// Stores contents until it is to stop, or is hung up on.
fn store(mut line: Line<TcpStream>, stop: &AtomicBool) -> (u64, u64) {
    let (mut stored, mut waits, mut content) = (0, 0, vec![0; CONTENT_BYTES]);
    for nth in 0_u64.. {
        content[..8].copy_from_slice(&nth.to_le_bytes());
        match put(&mut line, &content) {
            Ok(true) => stored += 1,
            Ok(false) => waits += 1,
            Err(_) => break,
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(CONTENTS_PAUSE);
    }
    (stored, waits)
}

/// Puts a content; false where it is to wait.
fn put(line: &mut Line<TcpStream>, content: &[u8]) -> io::Result<bool> {
    line.send(&Request::Put { hash: ContentHash::of(content), total: content.len() as u64 }.to_bytes())?;
    let Some(true) = stands(line.receive()?) else { return Ok(false) };
    for (nth, bytes) in content.chunks(CHUNK_BYTES).enumerate() {
        let chunk = Chunk { offset: (nth * CHUNK_BYTES) as u64, bytes };
        line.send(&Request::Chunk(chunk).to_bytes())?;
    }
    Ok(stands(line.receive()?) == Some(true))
}

/// What was asked for is granted; none where that cannot be read.
fn stands(record: &[u8]) -> Option<bool> {
    Reply::read(record).ok().map(|reply| matches!(reply, Reply::Have { .. } | Reply::Stored))
}

/// Makes handshakes under ever-new names until it is to stop: with its `own` key, or with a new one each time.
fn knock(to: (&JoinFile, SocketAddr), own: Option<&StaticKey>, stop: &AtomicBool) -> (u64, u64) {
    let (mut joined, mut refused) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let boot = Boot(1_000 + joined + refused);
        let name = format!("stranger-{}", joined + refused);
        let fresh = if own.is_none() { StaticKey::generate().ok() } else { None };
        let Some(key) = own.or(fresh.as_ref()) else { break };
        let Ok(mut member) = Member::join_within(KNOCK_PATIENCE, to, key, &name, boot) else {
            refused += 1;
            continue;
        };
        joined += 1;
        let mut packer = Packer::new();
        packer.hello(&hello(boot));
        member.say(&packer.finish());
    }
    (joined, refused)
}
