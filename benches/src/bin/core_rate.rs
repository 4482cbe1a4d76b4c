//! The scheduler's core alone: refill, dispatch, send, result and acknowledgement of one-unit tasks, in microseconds
//! of CPU a task. What the nodes do is not counted.
//!
//! `core_rate [TASKS] [ROUNDS]`: with eight nodes, each of which is heard in each turn.
//!
//! `CORE_RATE_UNTIMED=1 valgrind --tool=callgrind core_rate 100000 1`: its instructions, which no other process changes.
//!
//! `core_rate curve [TASKS] [nodes|jobs|fragments]`: with ever more nodes, jobs, or tasks that stay out among units that are done. A turn hears
//! eight datagrams, however large the farm is, so what it costs beyond these shows.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{Hello, Message, Offer, Outcome, Packer, ResultEntry, messages};
use starfarm_scheduler_core::{
    Config, Deed, Deeds, Farm, MaxFailures, NewJob, NodeId, Place, Sizing, Terms, Trust, WorkFacts,
};

/// Rounds of a point of the curve.
const ROUNDS: usize = 3;
/// Datagrams that a turn of the curve hears.
const HEARD: usize = 8;
/// Tasks that a node of the curve has beside those that it keeps.
const WINDOW: u64 = 64;

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let is_curve = args.next_if(|arg| arg == "curve").is_some();
    let mut number = |usual| args.next().map_or(usual, |arg| arg.parse().expect("a number"));
    if is_curve {
        return curve(number(200_000), args.next());
    }
    let (tasks, rounds) = (number(1_000_000), number(5));
    let each: Vec<f64> = (0..rounds).map(|_| round(tasks).as_secs_f64() * 1e6 / tasks as f64).collect();
    println!("{tasks} tasks, {rounds} rounds: median {:.3} us a task, all {each:.3?}", median(&each));
}

fn median(each: &[f64]) -> f64 {
    let mut sorted = each.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// All of a job with eight nodes.
fn round(tasks: u64) -> Duration {
    let mut bench = Bench::new(8, 4_096);
    let job = bench.submit(tasks);
    while !bench.farm.has_ended(job) {
        bench.turn(50, usize::MAX);
    }
    let view = bench.farm.job(job, 0).expect("the job was not deleted");
    assert_eq!((view.units_done.0, view.totals.dispatched), (u128::from(tasks), tasks), "each task once");
    bench.spent
}

fn curve(tasks: u64, only: Option<String>) {
    let point = |what: &str, many: u64, (nodes, jobs, kept)| {
        if only.as_ref().is_none_or(|only| only == what) {
            let each: Vec<f64> = (0..ROUNDS).map(|_| steady(tasks, nodes, jobs, kept)).collect();
            println!("{many:>9} {what:<9} median {:.3} us a task, all {each:.3?}", median(&each));
        }
    };
    [10, 100, 1_000, 10_000].into_iter().for_each(|nodes| point("nodes", nodes.into(), (nodes, 1, 0)));
    [1, 10, 100, 1_000].into_iter().for_each(|jobs| point("jobs", jobs, (10, jobs, 0)));
    // As many nodes at each point: they have room for all that they keep.
    [10, 100, 1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .for_each(|kept| point("fragments", kept, (5_000, 1, kept)));
}

/// Microseconds a task where `jobs` jobs of equal size are done by `nodes` nodes, after these have kept every second task
/// until they keep `kept`.
fn steady(tasks: u64, nodes: u32, jobs: u64, kept: u64) -> f64 {
    let share = kept.div_ceil(nodes.into());
    let mut bench = Bench::new(nodes, (WINDOW + share) as u32);
    let warm = 2 * kept + 4 * WINDOW * u64::from(nodes);
    for _ in 0..jobs {
        bench.submit((warm + kept + 2 * tasks) / jobs);
    }
    bench.keeps = kept;
    bench.nodes.iter_mut().for_each(|node| node.keeps = share);
    while bench.results < warm || bench.keeps > 0 {
        bench.turn(5, HEARD);
    }
    (bench.results, bench.spent) = (0, Duration::ZERO);
    while bench.results < tasks {
        bench.turn(5, HEARD);
    }
    bench.spent.as_secs_f64() * 1e6 / bench.results as f64
}

/// CPU time of this thread: what runs beside it does not count. Nothing is timed for `callgrind`, which knows no such clock.
fn cpu() -> Duration {
    if std::env::var_os("CORE_RATE_UNTIMED").is_some() {
        return Duration::ZERO;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a worker knows.
#[derive(Default)]
struct Node {
    sequence: u64,
    offers: u64,
    /// Tasks that it keeps for ever, of every second one that it gets, before it does all.
    keeps: u64,
}

struct Bench {
    farm: Farm,
    now_us: u64,
    nodes: Vec<Node>,
    /// What was said and not heard yet.
    arriving: VecDeque<(NodeId, Vec<u8>)>,
    /// Tasks that are still to be kept.
    keeps: u64,
    results: u64,
    /// In the farm.
    spent: Duration,
}

impl Bench {
    fn new(nodes: u32, queue_tasks_max: u32) -> Self {
        let mut farm = Farm::new(Config::new(FarmId([0; 16]), Epoch(1)), 1);
        for id in 0..nodes {
            let mut packer = Packer::new();
            packer.hello(&Hello {
                version: PROTOCOL_VERSION,
                boot: Boot(u64::from(id) + 1),
                slots: 1,
                queue_tasks_max,
                receive_datagrams_max: 1_000,
                known_epoch: Epoch(0),
                known_proof: [0; 16],
                died_running: Vec::new(),
            });
            farm.on_session(NodeId(id), &format!("n{id}"), 1);
            farm.on_datagram(NodeId(id), &packer.finish()[0], 1, &mut Deeds::default());
        }
        Self {
            farm,
            now_us: 1,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            arriving: VecDeque::new(),
            keeps: 0,
            results: 0,
            spent: Duration::ZERO,
        }
    }

    fn submit(&mut self, units: u64) -> JobId {
        let new = NewJob {
            name: "core".into(),
            user: "bench".into(),
            spec: ContentHash([7; 32]),
            units: units.into(),
            work: WorkFacts::NOTHING,
            sizing: Sizing::Units(1),
            max_failures: MaxFailures::Usual,
            speculative: false,
            trust: Trust::default(),
            terms: Terms::default(),
            place: Place::Tail,
        };
        self.farm.submit(new, self.now_us, &mut Deeds::default()).expect("the farm takes a job")
    }

    /// A turn that hears up to `most` datagrams, `after_us` after the one before.
    fn turn(&mut self, after_us: u64, most: usize) {
        self.now_us += after_us;
        let heard: Vec<_> = self.arriving.drain(..self.arriving.len().min(most)).collect();
        assert!(self.now_us < 10_000_000, "no node is silent for long");
        let (farm, now_us, mut deeds) = (&mut self.farm, self.now_us, Deeds::default());
        let began = cpu();
        for (node, datagram) in &heard {
            farm.on_datagram(*node, datagram, now_us, &mut deeds);
        }
        farm.on_durable(farm.last_sequence(), now_us);
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        self.spent += cpu() - began;
        for deed in deeds.0 {
            if let Deed::Send(id, datagrams) = deed {
                let mut packer = Packer::new();
                datagrams.iter().for_each(|datagram| self.answer(id, datagram, &mut packer));
                self.arriving.extend(packer.finish().into_iter().map(|datagram| (id, datagram)));
            }
        }
    }

    /// A worker acknowledges offers and answers each with a result, but for those that it keeps.
    fn answer(&mut self, id: NodeId, datagram: &[u8], packer: &mut Packer) {
        let node = &mut self.nodes[id.0 as usize];
        for message in messages(datagram) {
            let Ok(Message::Offers(offers)) = message else { continue };
            let offers: Vec<Offer> = offers.flatten().collect();
            if let (Some(first), Some(last)) = (offers.first(), offers.last()) {
                packer.task_ack(&[(first.attempt.0, last.attempt.0)]);
            }
            for offer in offers {
                node.offers += 1;
                if node.offers % 2 == 1 && node.keeps > 0 && self.keeps > 0 {
                    (node.keeps, self.keeps) = (node.keeps - 1, self.keeps - 1);
                    continue;
                }
                node.sequence += 1;
                self.results += 1;
                packer.result(&ResultEntry {
                    job: offer.job,
                    spec: offer.spec,
                    sequence: node.sequence,
                    attempt: Attempt(offer.attempt.0),
                    lo: offer.lo,
                    units: offer.units,
                    duration_us: 1,
                    outcome: Outcome::Done,
                    body: &[],
                });
            }
        }
    }
}
