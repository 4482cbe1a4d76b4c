//! Which results the scheduler acknowledged: a listener to the datagrams between it and its workers, whose
//! seal is off. The packets are those of `docs/protocol.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use starfarm_chaos::{Direction, Proxy};
use starfarm_protocol::seal::Kind;
use starfarm_protocol::seal::packet::{DATA_HEADER_BYTES, TAG_BYTES, kind};
use starfarm_protocol::wire::{Message, Outcome, messages};

/// A computed result on its way: job, first unit, units.
type Claim = (u64, u128, u64);

/// Units, as intervals from a first one up to, not including, a last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals(BTreeMap<u128, u128>);

impl Intervals {
    /// Adds an interval, some of which may be there.
    fn add(&mut self, mut lo: u128, mut hi: u128) {
        while let Some((&other_lo, &other_hi)) = self.0.range(..=hi).next_back() {
            if other_hi < lo {
                break;
            }
            (lo, hi) = (lo.min(other_lo), hi.max(other_hi));
            self.0.remove(&other_lo);
        }
        self.0.insert(lo, hi);
    }

    /// How many units there are.
    pub(crate) fn count(&self) -> u128 {
        self.0.iter().map(|(lo, hi)| hi - lo).sum()
    }

    /// Each unit.
    pub(crate) fn units(&self) -> impl Iterator<Item = u128> {
        self.0.iter().flat_map(|(&lo, &hi)| lo..hi)
    }

    /// All from 0 on.
    pub(crate) fn up_to(units: u64) -> Self {
        Self([(0, u128::from(units))].into())
    }
}

#[derive(Debug, Default)]
struct Heard {
    /// Computed results that each worker has sent, by their sequence.
    claims: BTreeMap<(SocketAddr, u64), Claim>,
    acknowledged: BTreeMap<u64, Intervals>,
    /// Tasks that each worker was offered since [`Wiretap::forget_offers`], by their attempts.
    offered: BTreeSet<(SocketAddr, u64)>,
    /// When the first of them was acknowledged.
    first_task: Option<Instant>,
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
    pub(crate) fn acknowledged(&self) -> BTreeMap<u64, Intervals> {
        self.lock().acknowledged.clone()
    }

    /// Offers so far are of no interest any more.
    pub(crate) fn forget_offers(&self) {
        let mut heard = self.lock();
        heard.offered.clear();
        heard.first_task = None;
    }

    /// When a worker first acknowledged one of the tasks that were offered since then.
    pub(crate) fn first_task(&self) -> Option<Instant> {
        self.lock().first_task
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
                (Direction::Up, Message::TaskAck(ranges)) if self.first_task.is_none() => {
                    let offered = |(first, last)| self.offered.range((worker, first)..=(worker, last)).next();
                    if ranges.into_iter().any(|range| offered(range).is_some()) {
                        self.first_task = Some(Instant::now());
                    }
                }
                (Direction::Down, Message::Offers(offers)) if self.first_task.is_none() => {
                    self.offered.extend(offers.flatten().map(|offer| (worker, offer.attempt.0)));
                }
                (Direction::Down, Message::ResultAck(_, ranges)) => {
                    for (first, last) in ranges {
                        self.acknowledge(worker, first, last);
                    }
                }
                _ => {}
            }
        }
    }

    /// A range may be wider than what was sent.
    fn acknowledge(&mut self, worker: SocketAddr, first: u64, last: u64) {
        let meant = self.claims.extract_if((worker, first)..=(worker, last), |_, _| true);
        for (_, (job, lo, units)) in meant {
            self.acknowledged.entry(job).or_default().add(lo, lo + u128::from(units));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_what_a_set_of_units_is() {
        let mut random = starfarm_chaos::Random::new(1);
        let (mut intervals, mut units) = (Intervals::default(), std::collections::BTreeSet::new());
        for _ in 0..300 {
            let lo = u128::from(random.below(2_000));
            let hi = lo + 1 + u128::from(random.below(9));
            intervals.add(lo, hi);
            units.extend(lo..hi);
            assert!(intervals.units().eq(units.iter().copied()));
            assert_eq!(intervals.count(), units.len() as u128);
        }
    }
}
