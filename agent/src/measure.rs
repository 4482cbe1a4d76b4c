//! `udp_receive` measured, as an agent runs it: the same runtime, the same stages, the same loop around them. Who sends is another
//! process. The clock of the thread alone counts as its cost.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use starfarm_agent_core::{
    Context, Hook, Order, Refusal, Runtime, Stage, Summary, Triples, When, Who, Word, ids,
};
use starfarm_overlay::{Happening, Reactor};

use crate::{graph, watched};

/// The longest pause of the loop, and how often it is asked whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// What was sent last has come by then.
const LAST: Duration = Duration::from_millis(300);

/// What a receiving stage has done.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Received {
    /// Datagrams that it has taken.
    pub messages: u64,
    /// Datagrams that came from elsewhere.
    pub refused: u64,
    /// Datagrams that it could not read.
    pub malformed: u64,
    /// Datagrams that the socket's buffer had no room for.
    pub lost: u64,
    /// Values that a mean was made of, and the mean of all.
    pub values: u64,
    /// See `values`.
    pub mean: f64,
    /// Processor time of the thread, in seconds.
    pub cpu_seconds: f64,
    /// Time between the first look and the last.
    pub seconds: f64,
}

/// A graph that runs on this thread, without a farm: its clock is that of the process.
pub struct Graph {
    /// What it is made of.
    pub runtime: Runtime,
    reactor: Reactor,
    start: Instant,
}

impl Graph {
    /// One without stages, which can have all that an agent's can.
    ///
    /// # Errors
    /// The system has no more of what it takes.
    pub fn new() -> io::Result<Self> {
        let (runtime, reactor) = (Runtime::new(&graph::modules()), Reactor::new()?);
        Ok(Self { runtime, reactor, start: Instant::now() })
    }

    /// Waits for something to happen, `patience` at most, and has the stages do what comes of it.
    ///
    /// # Errors
    /// The system's.
    pub fn turn(&mut self, patience: Duration) -> io::Result<()> {
        let start = self.start;
        let clock = || start.elapsed().as_micros() as u64;
        let timer_us = self.runtime.next_due_us().unwrap_or(u64::MAX);
        let due_us = watched::due_us().unwrap_or(u64::MAX).min(timer_us).saturating_sub(clock());
        let mut happenings = Vec::new();
        self.reactor.turn(patience.min(Duration::from_micros(due_us)), clock, &mut happenings)?;
        for happening in happenings {
            if let Happening::Readable(watch) = happening {
                watched::readable(watch);
            }
        }
        let now_us = clock();
        watched::serve(&mut self.runtime, &self.reactor, now_us, now_us);
        if self.runtime.next_due_us().is_some_and(|due_us| due_us <= now_us) {
            self.runtime.on_time(now_us);
        }
        Ok(())
    }
}

/// A stage that waits for datagrams on this machine's own network.
pub struct UdpStage {
    graph: Graph,
    address: SocketAddr,
    received: Rc<RefCell<Received>>,
}

impl UdpStage {
    /// Makes it, with so many bytes of receive buffer, or as many as it has by itself. With `ids` all values are summed up behind
    /// it, by their ids from 1 to this; at 0 they are thrown away.
    ///
    /// # Errors
    /// The system has no more of what it takes.
    pub fn new(buffer: Option<usize>, ids: u32) -> io::Result<Self> {
        // A port that is free now is free in a moment.
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (mut graph, received) = (Graph::new()?, Rc::<RefCell<Received>>::default());
        let made = make(&mut graph.runtime, address, buffer, ids, &received);
        made.map_err(|refusal| io::Error::other(refusal.to_string()))?;
        Ok(Self { graph, address, received })
    }

    /// Where it receives.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Receives until `is_over`, which is asked ten times a second, and a little longer.
    ///
    /// # Errors
    /// The system's.
    pub fn run(mut self, mut is_over: impl FnMut() -> bool) -> io::Result<Received> {
        let (mut asked, mut over) = (Instant::now(), None);
        let (cpu_before, begin) = (thread_seconds(), Instant::now());
        while over.is_none_or(|over: Instant| over.elapsed() < LAST) {
            self.graph.turn(LOOK)?;
            if over.is_none() && asked.elapsed() >= LOOK {
                asked = Instant::now();
                over = is_over().then(Instant::now);
            }
        }
        let (cpu_seconds, seconds) = (thread_seconds() - cpu_before, begin.elapsed().as_secs_f64());
        self.graph.runtime.on_time(u64::MAX);
        let received = *self.received.borrow();
        let mean = received.mean / received.values.max(1) as f64;
        Ok(Received { cpu_seconds, seconds, mean, ..received })
    }
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The graph: `in`, what is behind it, and who hears the counts at the end.
fn make(
    runtime: &mut Runtime,
    address: SocketAddr,
    buffer: Option<usize>,
    numbers: u32,
    received: &Rc<RefCell<Received>>,
) -> Result<(), Refusal> {
    let mut order = |order| runtime.order(order, 0).map(drop);
    let behind = if numbers > 0 { "aggregate" } else { "blackhole" };
    for (name, of) in [("in", "udp_receive"), ("behind", behind)] {
        order(Order::Create { type_name: of.to_owned(), name: Some(name.to_owned()) })?;
    }
    let buffer = buffer.map(|bytes| ("buffer", bytes.to_string()));
    let settings = [("from", "127.0.0.0/8".to_owned()), ("listen", address.to_string())];
    // As DiMMon has them, and as numbers that can be summed up.
    let ids = (1..=numbers).map(|id| format!("{id}={id}:u32")).collect::<Vec<_>>();
    let ids = (numbers > 0).then(|| ("ids", ids.join(",")));
    for (key, value) in ids.into_iter().chain(buffer).chain(settings) {
        order(Order::Tell(Who::from("in"), Word::Set { key: key.to_owned(), value }))?;
    }
    runtime.add("ledger", Box::new(Ledger(Rc::clone(received))), Some("ledger"))?;
    let mut link = |from: &str, output: &str, to: &str| {
        let (from, to) = ((Who::from(from), output.to_owned()), (Who::from(to), "in".to_owned()));
        runtime.order(Order::Link(from, to), 0).map(drop)
    };
    link("in", "out", "behind")?;
    link("in", "counts", "ledger")?;
    link("behind", "out", "ledger")?;
    runtime.order(Order::Timer("end".to_owned(), When::At(u64::MAX)), 0)?;
    runtime.order(Order::Subscribe("end".to_owned(), Who::from("in"), true), 0)?;
    Ok(())
}

/// Writes down what the others tell.
struct Ledger(Rc<RefCell<Received>>);

impl Stage for Ledger {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        let mut received = self.0.borrow_mut();
        for triple in values {
            match (triple.id, triple.number()) {
                (ids::MESSAGES, Some(count)) => received.messages = count,
                (ids::REFUSED, Some(count)) => received.refused = count,
                (ids::MALFORMED, Some(count)) => received.malformed = count,
                (ids::LOST, Some(count)) => received.lost = count,
                _ => {
                    for summary in Summary::read_each(triple.value).unwrap_or_default() {
                        received.values += summary.count;
                        received.mean += summary.sum as f64;
                    }
                }
            }
        }
    }
}
