//! The worker against a model of the scheduler over a bad network: whatever is lost, doubled, delayed,
//! revoked or restarted, every offered unit is reported exactly once for each time it was offered.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::{config, packed, spec, welcome};
use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::wire::{
    Cancel, HeartbeatAnswer, Message, Offer, Outcome, Packer, ResultEntry, Revoke, messages,
};
use starfarm_worker_core::{Deed, Part, Task, Worker};

const FAULTS_END_US: u64 = 20_000_000;
const END_US: u64 = 200_000_000;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A scheduler in as few lines as possible: one job, units handed out from a cursor.
#[derive(Default)]
struct Peer {
    epoch: u64,
    next_attempt: u64,
    cursor: u128,
    unacked: BTreeMap<u64, Offer>,
    /// How often a unit was offered and not reported. Removed at 0.
    out: BTreeMap<u128, i32>,
    /// How often a restart forgot a unit's offer: it may be reported that often more.
    loose: BTreeMap<u128, u32>,
    heard: BTreeSet<u64>,
    done: u64,
    returned: u64,
    bye: bool,
}

impl Peer {
    fn offer(&mut self, lo: u128, units: u64) {
        self.next_attempt += 1;
        let job = JobId(1);
        let offer = Offer { job, spec: spec(job), attempt: Attempt(self.next_attempt), lo, units };
        self.unacked.insert(self.next_attempt, offer);
        (lo..lo + u128::from(units)).for_each(|unit| *self.out.entry(unit).or_default() += 1);
    }

    fn hear(&mut self, datagram: &[u8], dice: &mut Dice) -> Vec<u8> {
        let mut reply = Packer::new();
        for message in messages(datagram) {
            match message.unwrap() {
                Message::Hello(_) => reply.welcome(&welcome(3, self.epoch)),
                Message::TaskAck(ranges) => {
                    for (first, last) in ranges {
                        self.unacked.retain(|attempt, _| !(first..=last).contains(attempt));
                    }
                }
                Message::Results(results) => {
                    for result in results {
                        let result = result.unwrap();
                        if self.heard.insert(result.sequence) {
                            self.count(&result, dice);
                        }
                        reply.result_ack(3, &[(result.sequence, result.sequence)]);
                    }
                }
                Message::Heartbeat(beat) => {
                    let (number, epoch) = (beat.number, Epoch(self.epoch));
                    reply.heartbeat_answer(&HeartbeatAnswer { number, credit: 3, epoch });
                }
                Message::Bye => self.bye = true,
                _ => {}
            }
        }
        reply.finish().concat()
    }

    fn count(&mut self, result: &ResultEntry<'_>, dice: &mut Dice) {
        for unit in result.lo..result.lo + u128::from(result.units) {
            let left = self.out.entry(unit).or_default();
            *left -= 1;
            let fair = *left >= 0 || self.loose.get_mut(&unit).is_some_and(forgive);
            assert!(fair, "unit {unit} was reported more often than offered: {result:?}");
            if *left <= 0 {
                self.out.remove(&unit);
            }
        }
        if result.outcome == Outcome::Returned {
            self.returned += result.units;
            if dice.below(3) > 0 {
                self.offer(result.lo, result.units);
            }
        } else {
            self.done += result.units;
        }
    }

    fn speak(&mut self, dice: &mut Dice, faults: bool) -> Vec<u8> {
        let mut packer = Packer::new();
        if faults && dice.below(3) == 0 {
            let units = 1 + dice.below(20);
            let lo = self.cursor;
            self.cursor += u128::from(units + dice.below(2));
            self.offer(lo, units);
        }
        if faults && dice.below(40) == 0 {
            let cancel = if dice.below(2) == 0 { Cancel::Graceful } else { Cancel::Forced };
            let before = Attempt(self.next_attempt + 1 - dice.below(3).min(self.next_attempt));
            packer.revoke(&Revoke { job: JobId(1), cancel, before });
        }
        self.unacked.values().take(20).for_each(|offer| packer.offer(offer));
        packer.finish().concat()
    }

    fn restart(&mut self) {
        self.epoch += 1;
        self.next_attempt = 0;
        for (_, lost) in std::mem::take(&mut self.unacked) {
            self.offer(lost.lo, lost.units);
            for unit in lost.lo..lost.lo + u128::from(lost.units) {
                *self.loose.entry(unit).or_default() += 1;
                *self.out.get_mut(&unit).unwrap() -= 1;
            }
        }
    }
}

fn forgive(times: &mut u32) -> bool {
    let fair = *times > 0;
    *times = times.saturating_sub(1);
    fair
}

/// A network that loses, doubles and delays.
#[derive(Default)]
struct Net {
    flying: Vec<Flying>,
}

struct Flying {
    at: u64,
    to_worker: bool,
    /// The incarnation of the scheduler whose session sealed it.
    epoch: u64,
    datagram: Vec<u8>,
}

impl Net {
    fn send(&mut self, flying: Flying, dice: &mut Dice, faults: bool) {
        if flying.datagram.is_empty() {
            return;
        }
        let copies = if faults { [0, 1, 1, 1, 2][dice.below(5) as usize] } else { 1 };
        for _ in 0..copies {
            let delay = if faults { dice.below(120_000) } else { 1_000 };
            self.flying.push(Flying { at: flying.at + delay, datagram: flying.datagram.clone(), ..flying });
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<Flying> {
        let flying = std::mem::take(&mut self.flying);
        let (here, flying) = flying.into_iter().partition(|flight| flight.at <= now);
        self.flying = flying;
        here
    }
}

#[derive(Default)]
struct Slot {
    tasks: VecDeque<(Task, u128)>,
    stop: bool,
}

struct World {
    dice: Dice,
    worker: Worker,
    peer: Peer,
    net: Net,
    slots: Vec<Slot>,
    now: u64,
    /// The incarnation of the scheduler that the worker's present session was made with, if it has one.
    session: u64,
    drained: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let slots = 1 + dice.below(4) as u16;
        let worker = Worker::new(config(slots), 0);
        let peer = Peer { epoch: 1, ..Peer::default() };
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Self { dice, worker, peer, net: Net::default(), slots, now: 0, session: 0, drained: false }
    }

    fn faults(&self) -> bool {
        self.now < FAULTS_END_US
    }

    fn step(&mut self) {
        self.now += 5_000;
        for Flying { to_worker, epoch, datagram, .. } in self.net.arrived(self.now) {
            if to_worker {
                let epoch = Epoch(epoch);
                self.tell(|worker, now, deeds| worker.on_datagram(&datagram, epoch, now, deeds));
            } else if epoch == self.peer.epoch {
                let reply = self.peer.hear(&datagram, &mut self.dice);
                self.send(true, reply);
            }
        }
        if self.now.is_multiple_of(50_000) {
            let faults = self.faults();
            let words = self.peer.speak(&mut self.dice, faults);
            // Nobody shares keys with a new incarnation until the worker shakes hands.
            if self.session == self.peer.epoch {
                self.send(true, words);
            }
        }
        (0..self.slots.len()).for_each(|slot| self.run_slot(slot));
        if self.worker.next_deadline() <= self.now {
            self.tell(Worker::on_tick);
        }
    }

    fn send(&mut self, to_worker: bool, datagram: Vec<u8>) {
        let (at, epoch, faults) = (self.now, self.session, self.faults());
        self.net.send(Flying { at, to_worker, epoch, datagram }, &mut self.dice, faults);
    }

    fn tell(&mut self, event: impl FnOnce(&mut Worker, u64, &mut Vec<Deed>)) {
        let mut deeds = Vec::new();
        event(&mut self.worker, self.now, &mut deeds);
        for deed in deeds {
            let faults = self.faults();
            match deed {
                Deed::Send(datagram) => self.send(false, datagram),
                Deed::Start { slot, tasks, .. } => {
                    let slot = &mut self.slots[usize::from(slot)];
                    assert!(slot.tasks.is_empty(), "a slot gets work only when it is idle");
                    *slot = Slot { tasks: tasks.into_iter().map(|t| (t, t.lo)).collect(), stop: false };
                }
                Deed::Cancel { slot, .. } => self.slots[usize::from(slot)].stop = true,
                Deed::Handshake if self.dice.below(3) > 0 || !faults => {
                    self.session = self.peer.epoch;
                    self.tell(Worker::on_session);
                }
                Deed::Handshake => {}
                Deed::Drained => self.drained = true,
                Deed::Remember(known) => assert!(known.epoch <= Epoch(self.peer.epoch)),
                Deed::Refused(why) | Deed::Say(why) => panic!("{why}"),
            }
        }
    }

    fn run_slot(&mut self, number: usize) {
        let Some((task, next)) = self.slots[number].tasks.front().copied() else { return };
        let (stop, slot) = (self.slots[number].stop, number as u16);
        if !stop && self.dice.below(4) > 0 {
            return;
        }
        if !stop && next < task.hi() {
            let units = 1 + self.dice.below((task.hi() - next) as u64);
            let Task { job, spec, attempt, .. } = task;
            let (duration_us, outcome, body) = (self.dice.below(3_000), Outcome::Done, vec![7; 100]);
            let part = Part { job, spec, attempt, lo: next, units, duration_us, outcome, body };
            self.tell(|worker, now, deeds| worker.on_part(slot, part, now, deeds));
            self.slots[number].tasks[0].1 += u128::from(units);
        } else {
            self.slots[number].tasks.pop_front();
            self.tell(|worker, now, deeds| worker.on_task_end(slot, task.attempt, now, deeds));
        }
    }
}

fn run(seed: u64, restarts: bool, drain: bool) -> Peer {
    let mut world = World::new(seed);
    while world.now < END_US {
        world.step();
        if restarts && world.faults() && world.dice.below(1_000) == 0 {
            world.peer.restart();
        }
        if drain && world.now == FAULTS_END_US / 2 {
            world.tell(Worker::drain);
        }
        let idle = world.worker.held().is_empty() && world.worker.unacknowledged_results() == 0;
        if !world.faults() && world.peer.out.is_empty() && idle {
            break;
        }
    }
    assert!(world.peer.out.is_empty(), "seed {seed}: never reported: {:?}", world.peer.out);
    assert_eq!(world.worker.held(), [], "seed {seed}");
    assert_eq!(world.worker.counters().malformed + world.worker.counters().stray_parts, 0, "seed {seed}");
    assert_eq!(world.drained, drain, "seed {seed}");
    world.peer
}

#[test]
fn every_unit_is_reported_once_for_each_time_it_was_offered() {
    let (mut done, mut returned) = (0, 0);
    for seed in 0..80 {
        let peer = run(seed, false, false);
        done += peer.done;
        returned += peer.returned;
    }
    assert!(done > 1_000 && returned > 1_000, "the model does little: {done} done, {returned} returned");
}

#[test]
fn restarts_of_the_scheduler_lose_no_unit() {
    (100..130).for_each(|seed| drop(run(seed, true, false)));
}

#[test]
fn a_drain_reports_everything() {
    (200..220).for_each(|seed| drop(run(seed, false, true)));
}

#[test]
fn random_datagrams_change_nothing_and_never_panic() {
    let mut dice = Dice(5);
    let mut worker = Worker::new(config(2), 0);
    let offer = packed(|p| {
        let job = JobId(1);
        p.offer(&Offer { job, spec: spec(job), attempt: Attempt(1), lo: 0, units: 1 });
        p.welcome(&welcome(8, 1));
        p.result_ack(8, &[(0, u64::MAX), (5, 5)]);
        p.revoke(&Revoke { job, cancel: Cancel::Forced, before: Attempt(u64::MAX) });
    });
    let mut deeds = Vec::new();
    worker.on_session(0, &mut deeds);
    for step in 0..20_000_u64 {
        let mut datagram = offer.clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(datagram.len() as u64) as usize;
            datagram[at] = dice.below(256) as u8;
        }
        datagram.truncate(dice.below(datagram.len() as u64 * 2) as usize);
        deeds.clear();
        worker.on_datagram(&datagram, Epoch(1), step * 100, &mut deeds);
        if worker.next_deadline() <= step * 100 {
            worker.on_tick(step * 100, &mut deeds);
        }
        worker.held();
    }
    assert!(worker.counters().malformed > 1_000);
}
