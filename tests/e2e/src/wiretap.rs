//! Which results the scheduler acknowledged: a listener to the datagrams between it and its workers, whose
//! seal is off. The packets are those of `docs/protocol.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use starfarm_chaos::{Direction, Proxy};
use starfarm_protocol::seal::Kind;
use starfarm_protocol::seal::packet::{DATA_HEADER_BYTES, TAG_BYTES, kind};
use starfarm_protocol::wire::{Message, Outcome, messages};

/// A computed result on its way: job, first unit, units.
type Claim = (u64, u128, u64);

#[derive(Debug, Default)]
struct Heard {
    /// Computed results that each worker has sent, by their sequence.
    claims: HashMap<(SocketAddr, u64), Claim>,
    acknowledged: BTreeMap<u64, BTreeSet<u128>>,
    task_acks: u64,
}

/// What was heard so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wiretap(Arc<Mutex<Heard>>);

impl Wiretap {
    /// Listens from now on.
    pub(crate) fn on(proxy: &Proxy) -> Self {
        let tap = Self::default();
        let heard = tap.clone();
        proxy.set_tap(move |direction, worker, datagram| heard.lock().hear(direction, worker, datagram));
        tap
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Units of each job of which a computed result was acknowledged.
    pub(crate) fn acknowledged(&self) -> BTreeMap<u64, BTreeSet<u128>> {
        self.lock().acknowledged.clone()
    }

    /// Acknowledgements of tasks that workers sent.
    pub(crate) fn task_acks(&self) -> u64 {
        self.lock().task_acks
    }
}

impl Heard {
    fn hear(&mut self, direction: Direction, worker: SocketAddr, datagram: &[u8]) {
        if kind(datagram) != Some(Kind::Data) || datagram.len() < DATA_HEADER_BYTES + TAG_BYTES {
            return;
        }
        let clear = &datagram[DATA_HEADER_BYTES..datagram.len() - TAG_BYTES];
        for message in messages(clear).flatten() {
            match (direction, message) {
                (Direction::Up, Message::Results(entries)) => {
                    for entry in entries.flatten().filter(|entry| entry.outcome == Outcome::Done) {
                        let claim = (entry.job.0, entry.lo, entry.units);
                        self.claims.insert((worker, entry.sequence), claim);
                    }
                }
                (Direction::Up, Message::TaskAck(_)) => self.task_acks += 1,
                (Direction::Down, Message::ResultAck(_, ranges)) => {
                    for (first, last) in ranges {
                        (first..=last).for_each(|sequence| self.acknowledge(worker, sequence));
                    }
                }
                _ => {}
            }
        }
    }

    fn acknowledge(&mut self, worker: SocketAddr, sequence: u64) {
        if let Some((job, lo, units)) = self.claims.remove(&(worker, sequence)) {
            self.acknowledged.entry(job).or_default().extend(lo..lo + u128::from(units));
        }
    }
}
