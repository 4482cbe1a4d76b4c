//! The bulk channel under virtual time: both halves of the protocol's core speak their real records over streams that
//! are slow, break, fall silent and damage what they carry, with a scheduler that dies, is full, or sits behind a
//! firewall. Workers fetch specifications and store outputs, many of them equal. Sockets, seals and disks are no part
//! of it.

mod store;
mod stream;
mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_protocol::bulk::{
    CHUNK_BYTES, Client, Deed, Few, Health, IDLE_US, Incoming, Next, PATIENCE_US, Reply, Request, Server,
    Work,
};
use starfarm_protocol::ids::ContentHash;

use self::store::Memory;
use self::stream::{Lane, Stream, send};
pub use self::tally::Transfers;
use crate::random::Random;
use crate::violation::{Broken, Violation, rule};

const SECOND_US: u64 = 1_000_000;
/// Faults and orders come until then ...
const FAULTS_US: u64 = 300 * SECOND_US;
/// ... and all is done and closed by then: the longest firewall, waits and silences are over.
const END_US: u64 = FAULTS_US + 300 * SECOND_US;
/// What was given up is given to another worker after this.
const AGAIN_US: u64 = 5 * SECOND_US;
const WORKERS: usize = 3;
/// Few, so that equal outputs meet.
const CONTENTS: u64 = 6;
/// A chunk's body begins here, behind kind, offset and CRC.
const CHUNK_BODY: usize = 13;
/// More deeds at one instant than any content has chunks.
const SPINS_MAX: u32 = 1_000;

/// What a worker waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Next,
    Rest(u64),
    Connect(u64, bool),
    Receive(u64),
}

#[derive(Debug)]
struct Worker {
    client: Client<u64>,
    health: Health,
    stream: Option<usize>,
    doing: Doing,
    tried_us: u64,
}

/// An order: which content, and whether it is to be fetched.
#[derive(Clone, Copy, Debug)]
struct Order {
    worker: usize,
    content: usize,
    fetch: bool,
}

/// A run.
#[derive(Debug)]
struct Bulk {
    now_us: u64,
    random: Random,
    memory: Memory,
    contents: Vec<(ContentHash, Vec<u8>)>,
    workers: Vec<Worker>,
    streams: Vec<Stream>,
    /// Those that are wanted and not settled.
    orders: BTreeMap<u64, Order>,
    settled: BTreeSet<u64>,
    /// Given up, to be given anew at that time.
    later: VecDeque<(u64, Order)>,
    ordered: u64,
    next_order_us: u64,
    next_fault_us: u64,
    /// The scheduler is away, the disk is full, the firewall is shut until then.
    away_us: u64,
    full_us: u64,
    shut_us: u64,
}

/// Runs transfers under faults by a seed.
///
/// # Errors
/// The first rule that was broken.
pub fn transfers(seed: u64) -> Result<Transfers, Violation> {
    let mut bulk = Bulk::new(seed);
    bulk.run().map_err(|(rule, found)| Violation { rule, at_us: bulk.now_us, found })?;
    Ok(bulk.memory.0.borrow().tally)
}

impl Bulk {
    fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        let contents: Vec<_> = (0..CONTENTS)
            .map(|number| {
                let bytes: Vec<u8> = (0..1 + random.below(400_000)).map(|i| (i / 5 + number) as u8).collect();
                (ContentHash::of(&bytes), bytes)
            })
            .collect();
        let memory = Memory::default();
        // The first ones are specifications.
        let specifications = contents.iter().take(2).cloned();
        memory.0.borrow_mut().contents.extend(specifications);
        let worker = |_| {
            let mut health = Health::default();
            health.set_scheduler(([10, 0, 0, 1], 7117).into(), 0);
            Worker { client: Client::default(), health, stream: None, doing: Doing::Next, tried_us: 0 }
        };
        let workers = (0..WORKERS).map(worker).collect();
        Self {
            now_us: 0,
            random,
            memory,
            contents,
            workers,
            streams: Vec::new(),
            orders: BTreeMap::new(),
            settled: BTreeSet::new(),
            later: VecDeque::new(),
            ordered: 0,
            next_order_us: 0,
            next_fault_us: 0,
            away_us: 0,
            full_us: 0,
            shut_us: 0,
        }
    }

    fn run(&mut self) -> Result<(), Broken> {
        while self.now_us < END_US {
            self.happen();
            for at in 0..self.streams.len() {
                self.serve(at)?;
            }
            for at in 0..WORKERS {
                self.work(at)?;
            }
            self.now_us = self.next_us();
        }
        rule(
            self.orders.is_empty() && self.later.is_empty(),
            "every order is settled once the faults stop",
            || {
                format!(
                    "{:?} of {:?}",
                    self.orders.keys(),
                    self.workers.iter().map(|worker| worker.doing).collect::<Vec<_>>()
                )
            },
        )?;
        let open = self.streams.iter().filter(|stream| stream.server.is_some()).count();
        let held = self.workers.iter().filter(|worker| worker.stream.is_some()).count();
        rule(open == 0 && held == 0, "a stream that nobody needs is closed", || format!("{open}, {held}"))
    }

    /// When anything happens next. What has just happened makes more happen at the same time only through a step.
    fn next_us(&self) -> u64 {
        let worker_us = |worker: &Worker| match worker.doing {
            Doing::Next => self.now_us + 1,
            Doing::Rest(at_us) | Doing::Connect(at_us, _) => at_us,
            Doing::Receive(at_us) => at_us.min(worker.stream.map_or(u64::MAX, |at| {
                let stream = &self.streams[at];
                let arrives_us = stream.down.front().map_or(u64::MAX, |record| record.0);
                arrives_us.min(stream.ends_us[0])
            })),
        };
        let stream_us = |stream: &Stream| {
            let arrives_us = stream.up.front().map_or(u64::MAX, |record| record.0);
            arrives_us.min(stream.ends_us[1]).min(stream.heard_us + IDLE_US)
        };
        let workers = self.workers.iter().map(worker_us);
        let streams = self.streams.iter().filter(|stream| stream.server.is_some()).map(stream_us);
        let later_us = self.later.front().map_or(END_US, |later| later.0);
        let outside = [self.next_order_us, self.next_fault_us, self.full_us, later_us, END_US];
        let outside = outside.into_iter().filter(|at_us| *at_us > self.now_us);
        workers.chain(streams).chain(outside).min().unwrap_or(END_US).max(self.now_us + 1)
    }

    /// Orders and faults whose time has come.
    fn happen(&mut self) {
        let now_us = self.now_us;
        self.memory.0.borrow_mut().full = now_us < self.full_us;
        while self.later.front().is_some_and(|later| later.0 <= now_us) {
            self.later.pop_front().into_iter().for_each(|(_, order)| self.order(order));
        }
        if now_us >= FAULTS_US {
            return;
        }
        if now_us >= self.next_order_us {
            self.next_order_us = now_us + self.random.wait_us(1e6);
            let content = self.random.below(CONTENTS) as usize;
            let worker = self.random.below(WORKERS as u64) as usize;
            let order = Order { worker, content, fetch: content < 2 };
            if !order.fetch && self.orders.values().all(|other| other.content != content) {
                // The job that it was stored for was deleted.
                self.memory.0.borrow_mut().contents.remove(&self.contents[content].0);
                self.order(Order { worker: (worker + 1) % WORKERS, ..order });
            }
            self.order(order);
        }
        if now_us >= self.next_fault_us {
            self.next_fault_us = now_us + self.random.wait_us(2e6);
            self.fault();
        }
    }

    fn order(&mut self, order: Order) {
        let (hash, bytes) = &self.contents[order.content];
        let alike = |other: &Order| other.content == order.content && other.worker != order.worker;
        self.memory.0.borrow_mut().tally.equal += u64::from(!order.fetch && self.orders.values().any(alike));
        let work = match order.fetch {
            true => Work::Get(Incoming::new(*hash)),
            false => {
                // Short ones travel together with others.
                let mut few = Vec::new();
                let is_short = Few::add(&mut few, bytes) && Few::add(&mut few, b"another");
                if is_short {
                    Work::PutAll(few)
                } else {
                    Work::Put { hash: *hash, content: Box::new(bytes.clone()) }
                }
            }
        };
        self.ordered += 1;
        self.orders.insert(self.ordered, order);
        self.workers[order.worker].client.order(work, self.ordered);
        self.workers[order.worker].wake();
    }

    fn fault(&mut self) {
        let now_us = self.now_us;
        let lasts_us = 1 + self.random.below(10 * SECOND_US);
        match self.random.below(12) {
            0 => {
                self.memory.0.borrow_mut().tally.restarts += 1;
                self.away_us = now_us + lasts_us;
                for stream in &mut self.streams {
                    stream.server = None;
                    stream.reset(now_us);
                }
                // The heir has the disk and nothing else.
                self.memory.0.borrow_mut().broken_off.clear();
            }
            1 => self.full_us = now_us + lasts_us,
            2 => {
                self.shut_us = now_us + 9 * lasts_us;
                self.streams.iter_mut().for_each(Stream::fall_silent);
            }
            3 | 4 => {
                let which = self.random.below(self.orders.len() as u64) as usize;
                let ticket = self.orders.keys().nth(which).copied();
                let dropped = ticket.and_then(|ticket| self.orders.remove(&ticket));
                self.memory.0.borrow_mut().tally.dropped += u64::from(dropped.is_some());
            }
            kind => self.befall_a_stream(kind),
        }
    }

    fn befall_a_stream(&mut self, kind: u64) {
        let open: Vec<usize> =
            (0..self.streams.len()).filter(|at| self.streams[*at].server.is_some()).collect();
        let Some(&at) = open.get(self.random.below(open.len() as u64) as usize) else { return };
        let stream = &mut self.streams[at];
        stream.hurt = true;
        match kind {
            5 => stream.fall_silent(),
            6 | 7 => {
                // Bad memory: the seal vouches for the way alone.
                let lane = if kind == 6 { &mut stream.up } else { &mut stream.down };
                if let Some((_, record)) = lane.iter_mut().find(|(_, record)| record.len() > CHUNK_BODY + 40)
                {
                    record[CHUNK_BODY] ^= 4;
                }
            }
            _ => stream.reset(self.now_us + 1 + self.random.below(10_000)),
        }
    }

    /// The scheduler's end of a stream.
    fn serve(&mut self, at: usize) -> Result<(), Broken> {
        let (now_us, stream) = (self.now_us, &mut self.streams[at]);
        let Some(server) = &mut stream.server else { return Ok(()) };
        let mut over = now_us >= stream.ends_us[1] || now_us >= stream.heard_us + IDLE_US;
        while !over && stream.up.front().is_some_and(|record| record.0 <= now_us) {
            let (_, record) = stream.up.pop_front().unwrap_or_default();
            stream.heard_us = now_us;
            server.on_record(&record);
            loop {
                match server.step() {
                    Next::Say(record) => {
                        let on = matches!(Reply::read(&record), Ok(Reply::Have { bytes }) if goes_on(bytes));
                        self.memory.0.borrow_mut().tally.resumed += u64::from(on);
                        send(&mut stream.down, stream.silent, record, now_us, &mut self.random);
                    }
                    Next::Listen => break,
                    Next::HangUp => {
                        rule(stream.hurt, "a scheduler that nothing befell answers", || {
                            format!("stream {at}")
                        })?;
                        over = true;
                        break;
                    }
                }
            }
        }
        if over {
            stream.server = None;
            // Behind what it said last.
            let last_us = stream.down.back().map_or(now_us, |record| record.0);
            if !stream.silent {
                stream.ends_us[0] = stream.ends_us[0].min(last_us + 1);
            }
        }
        Ok(())
    }

    /// A worker does what its core wants, until it has to wait.
    fn work(&mut self, at: usize) -> Result<(), Broken> {
        let now_us = self.now_us;
        if now_us >= self.away_us {
            self.workers[at].health.heard(now_us);
        }
        self.give_up(at);
        for _ in 0..SPINS_MAX {
            let (worker, orders) = (&mut self.workers[at], &self.orders);
            match worker.doing {
                Doing::Rest(at_us) | Doing::Connect(at_us, _) if now_us < at_us => return Ok(()),
                Doing::Next | Doing::Rest(_) => {}
                Doing::Connect(_, opens) => {
                    self.connected(at, opens);
                    continue;
                }
                Doing::Receive(until_us) => {
                    let stream = worker.stream.map(|stream| &mut self.streams[stream]);
                    let Some(stream) = stream else { return Err(("it listens to a stream", String::new())) };
                    if stream.down.front().is_some_and(|record| record.0 <= now_us) {
                        let (_, record) = stream.down.pop_front().unwrap_or_default();
                        stream.used_us = now_us;
                        worker.client.on_record(&record, now_us);
                    } else if now_us >= stream.ends_us[0].min(until_us) {
                        worker.client.on_broken(now_us);
                    } else {
                        return Ok(());
                    }
                }
            }
            worker.doing = Doing::Next;
            let wanted = |ticket: &u64| orders.contains_key(ticket);
            match worker.client.next(now_us, wanted) {
                Deed::Rest(until_us) => worker.doing = Doing::Rest(until_us),
                Deed::Receive(patience_us) => worker.doing = Doing::Receive(now_us + patience_us),
                Deed::Settle(ticket, result) => self.settled(ticket, result)?,
                deed => self.perform(at, deed)?,
            }
        }
        Err(("a worker's core does not spin", format!("worker {at}")))
    }

    fn perform(&mut self, at: usize, deed: Deed<u64>) -> Result<(), Broken> {
        let (now_us, worker) = (self.now_us, &mut self.workers[at]);
        let stream = worker.stream.map(|stream| &mut self.streams[stream]);
        match (deed, stream) {
            (Deed::Connect, None) => {
                let opens = now_us >= self.away_us && now_us >= self.shut_us;
                let takes_us =
                    if now_us < self.shut_us { PATIENCE_US } else { 1 + self.random.below(50_000) };
                worker.tried_us = now_us;
                worker.doing = Doing::Connect(now_us + takes_us, opens);
            }
            (Deed::Look, Some(stream)) => {
                let arrived = stream.down.front().is_some_and(|record| record.0 <= now_us);
                worker.client.on_looked(!arrived && now_us < stream.ends_us[0], now_us);
            }
            (Deed::Send(_), Some(stream)) if now_us >= stream.ends_us[0] => worker.client.on_broken(now_us),
            (Deed::Send(record), Some(stream)) => {
                let on = matches!(Request::read(&record), Ok(Request::Get { offset, .. }) if goes_on(offset));
                self.memory.0.borrow_mut().tally.resumed += u64::from(on);
                stream.used_us = now_us;
                send(&mut stream.up, stream.silent, record, now_us, &mut self.random);
            }
            (Deed::Close, stream) => {
                let unused = |stream: &Stream| now_us >= stream.ends_us[0].min(stream.used_us + IDLE_US);
                rule(
                    stream.as_ref().is_none_or(|stream| stream.hurt || unused(stream)),
                    "a worker keeps a stream that nothing befell",
                    || format!("worker {at}"),
                )?;
                if let Some(stream) = stream.filter(|stream| !stream.silent) {
                    let last_us = stream.up.back().map_or(now_us, |record| record.0);
                    stream.ends_us[1] = stream.ends_us[1].min(last_us + 1);
                }
                worker.stream = None;
            }
            (deed, stream) => {
                return Err((
                    "one stream, open while it is used",
                    format!("{deed:?} of worker {at}, {}", stream.is_some()),
                ));
            }
        }
        Ok(())
    }

    fn connected(&mut self, at: usize, opens: bool) {
        let (now_us, worker) = (self.now_us, &mut self.workers[at]);
        let opens = opens && now_us >= self.away_us;
        worker.health.tried((!opens).then_some("no answer"), worker.tried_us, now_us);
        worker.client.on_opened(if opens { Ok(()) } else { Err(None) }, now_us);
        worker.doing = Doing::Next;
        if opens {
            worker.stream = Some(self.streams.len());
            self.memory.0.borrow_mut().tally.streams += 1;
            let server = Some(Server::new(self.memory.clone()));
            let (up, down, ends_us) = (Lane::new(), Lane::new(), [u64::MAX; 2]);
            let silent = now_us < self.shut_us;
            self.streams.push(Stream {
                up,
                down,
                server,
                ends_us,
                silent,
                heard_us: now_us,
                used_us: now_us,
                hurt: silent,
            });
        }
    }

    /// Whoever waits hears that there is no use in it, and what was computed is computed again: so it comes once more.
    fn give_up(&mut self, at: usize) {
        if self.workers[at].health.hopeless(self.now_us).is_none() {
            return;
        }
        let waiting = self.orders.iter().filter(|(_, order)| order.worker == at);
        let waiting: Vec<(u64, Order)> = waiting.map(|(ticket, order)| (*ticket, *order)).collect();
        for (ticket, order) in waiting {
            self.memory.0.borrow_mut().tally.hopeless += 1;
            self.orders.remove(&ticket);
            self.later.push_back((self.now_us + AGAIN_US, Order { worker: (at + 1) % WORKERS, ..order }));
            self.workers[at].client.probe();
            self.workers[at].wake();
        }
    }

    fn settled(&mut self, ticket: u64, result: Result<Vec<u8>, String>) -> Result<(), Broken> {
        rule(self.settled.insert(ticket), "an order is settled once", || format!("order {ticket}"))?;
        // It may have been given up while its answer was on the way.
        let Some(order) = self.orders.remove(&ticket) else { return Ok(()) };
        let (hash, bytes) = &self.contents[order.content];
        let store = &mut *self.memory.0.borrow_mut();
        let found =
            || format!("order {ticket}, {order:?}: {}", result.as_ref().err().cloned().unwrap_or_default());
        let expected: &[u8] = if order.fetch { bytes } else { &[] };
        rule(result.as_deref() == Ok(expected), "a content arrives whole, as it was put", found)?;
        rule(store.contents.get(hash) == Some(bytes), "what is settled is kept", found)?;
        match order.fetch {
            true => store.tally.fetched += 1,
            false => store.tally.stored += 1,
        }
        Ok(())
    }
}

impl Worker {
    fn wake(&mut self) {
        if let Doing::Rest(_) = self.doing {
            self.doing = Doing::Next;
        }
    }
}

/// A transfer begins in the middle: no content of these ends where a chunk does.
fn goes_on(offset: u64) -> bool {
    offset > 0 && offset.is_multiple_of(CHUNK_BYTES as u64)
}
