//! What a sealed datagram costs: nanoseconds to seal one, and to find its session and open it, at the
//! sizes that occur. The seal turned off stands beside it, so that the cipher's share can be read off;
//! below stands a whole handshake, on which the limits for rekeying and for cookies are based.
//!
//! `cargo run --release -p starfarm-benches --bin seal_rate`

use std::hint::black_box;
use std::time::Instant;

use starfarm_protocol::ids::{Boot, Epoch, FarmId};
use starfarm_protocol::seal::{
    Initiator, Introduction, KeyStore, Mode, Outcome, Reply, Request, Responder, Role, SealError, Secret,
    Session, SessionTable, StaticKey,
};

/// Datagrams in a run: as many as a batched receive takes, so that they stay in the cache.
const BATCH: usize = 64;
const RUNS: usize = 2_000;
const HANDSHAKES: usize = 300;
const OVERHEAD_BYTES: usize = 32;

fn main() -> Result<(), SealError> {
    println!("{:<5} {:>11} {:>9} {:>9}", "seal", "datagram B", "seal ns", "open ns");
    for bytes in [200, 1400] {
        for plain in [false, true] {
            let (seal_ns, open_ns) = datagrams(plain, bytes)?;
            let name = if plain { "off" } else { "on" };
            println!("{name:<5} {bytes:>11} {seal_ns:>9.0} {open_ns:>9.0}");
        }
    }
    let (answer_us, call_us) = handshakes()?;
    println!("handshake: scheduler {answer_us:.0} us, caller {call_us:.0} us");
    Ok(())
}

/// Median nanoseconds to seal and to open a datagram of `bytes`.
fn datagrams(plain: bool, bytes: usize) -> Result<(f64, f64), SealError> {
    let mut farm = Farm::new(plain)?;
    let session = farm.handshake()?.session;
    let message = vec![0x5a; bytes - OVERHEAD_BYTES];
    let mut batch = vec![vec![0; bytes]; BATCH];
    let mut out = vec![0; bytes];
    let (mut sealing, mut opening) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        for datagram in &mut batch {
            session.sealer.seal(black_box(&message), datagram)?;
        }
        sealing.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
        let start = Instant::now();
        for datagram in &batch {
            black_box(farm.table.open(&mut farm.keys, black_box(datagram), &mut out, 0, 0)?);
        }
        opening.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    Ok((median(sealing), median(opening)))
}

/// Median microseconds of a handshake: the scheduler's part, the caller's part.
fn handshakes() -> Result<(f64, f64), SealError> {
    let mut farm = Farm::new(false)?;
    let (mut answering, mut calling) = (Vec::new(), Vec::new());
    for _ in 0..HANDSHAKES {
        let done = farm.handshake()?;
        answering.push(done.answer_us);
        calling.push(done.call_us);
    }
    Ok((median(answering), median(calling)))
}

struct Farm {
    scheduler: StaticKey,
    node: StaticKey,
    mode: Mode,
    responder: Responder,
    keys: KeyStore,
    table: SessionTable,
    next_index: u32,
}

struct Handshake {
    session: Session,
    answer_us: f64,
    call_us: f64,
}

/// Its value does not matter for the time it takes.
const JOIN_SECRET: Secret = Secret([7; 32]);

impl Farm {
    fn new(plain: bool) -> Result<Self, SealError> {
        let (scheduler, node) = (StaticKey::generate()?, StaticKey::generate()?);
        let mode = Mode { plain, ..Mode::default() };
        let mut responder = Responder::new(scheduler.clone(), FarmId([0; 16]), Epoch(1), mode, [0; 32]);
        responder.set_load_limit(u32::MAX);
        let mut keys = KeyStore::default();
        keys.add_join_key(JOIN_SECRET, Role::Worker);
        Ok(Self { scheduler, node, mode, responder, keys, table: SessionTable::default(), next_index: 0 })
    }

    fn handshake(&mut self) -> Result<Handshake, SealError> {
        self.next_index += 1;
        let index = self.table.free_index(self.next_index);
        let who = Introduction {
            key: &self.node,
            scheduler: &self.scheduler.public(),
            join_secret: &JOIN_SECRET,
            name: "bench",
            boot: Boot(1),
            mode: self.mode,
        };
        let start = Instant::now();
        let (mut initiator, datagram) = Initiator::start(&who, self.next_index, None)?;
        let started = start.elapsed();

        let start = Instant::now();
        let request = Request { datagram: &datagram, source: b"loopback", index, now_us: 0 };
        let Reply::Accepted { bytes, pending } = self.responder.answer(&self.keys, &request)? else {
            return Err(SealError::Malformed("the bench itself was refused"));
        };
        self.table.admit(pending, 0);
        let answered = start.elapsed();

        let start = Instant::now();
        let Outcome::Accepted(accepted) = initiator.read_response(&bytes)? else {
            return Err(SealError::Malformed("the bench itself was refused"));
        };
        let session = accepted.into_session(0);
        let call_us = (started + start.elapsed()).as_nanos() as f64 / 1e3;
        Ok(Handshake { session, answer_us: answered.as_nanos() as f64 / 1e3, call_us })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
