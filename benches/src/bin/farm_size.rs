//! The scheduler's core with very many simulated nodes: the longest turn, in CPU time, of a few stories, and what the
//! farm costs while nothing changes. What the nodes do is not counted. A turn is what the dispatcher does between two
//! waits: up to 2 048 datagrams, timers, what is given out, and once a second the checks of a live scheduler.
//!
//! `farm_size [NODES] [SLOTS] [JOBS]`

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{
    Heartbeat, Held, Hello, Message, Offer, Outcome, Packer, ResultEntry, messages,
};
use starfarm_scheduler_core::{
    Config, Deed, Deeds, Farm, JobCommand, MaxFailures, NewJob, NodeId, Place, Sizing, Terms, Trust,
    WorkFacts,
};

/// Virtual time from one turn to the next, at least.
const STEP_US: u64 = 10_000;
/// Turns in a heartbeat's period: each hears as large a part of the nodes.
const STEPS_A_BEAT: u64 = 100;
/// Datagrams of one turn.
const DATAGRAMS_A_TURN: usize = 2_048;
/// Intervals that a part of a heartbeat lists.
const HELD_A_PART: usize = 40;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("a number"));
    let (nodes, slots) = (args.next().unwrap_or(10_000), args.next().unwrap_or(32) as u16);
    let jobs = args.next().unwrap_or(1_000);
    println!("{nodes} nodes of {slots} slots");
    let mut bench = Bench::new();
    bench.story("all join", |bench| {
        bench.nodes = (0..nodes).map(|_| Node::default()).collect();
        for id in 0..nodes {
            bench.hello(id, slots);
        }
        bench.run(20);
    });
    bench.story("idle, no job, 10 s", |bench| bench.run(10 * STEPS_A_BEAT));
    bench.story("jobs of one unit, one a turn, each done", |bench| {
        let last = (0..jobs).map(|_| bench.submit_and_step()).last().expect("a job");
        bench.until(|bench| bench.farm.has_ended(last));
    });
    bench.computing = false;
    let job = bench.fill(slots);
    bench.story("all busy, nothing changes, 10 s", |bench| bench.run(10 * STEPS_A_BEAT));
    bench.story("half are silent for 16 s", |bench| {
        bench.nodes.iter_mut().step_by(2).for_each(|node| node.silent = true);
        bench.run(16 * STEPS_A_BEAT);
    });
    bench.story("they are back, 5 s", |bench| {
        bench.nodes.iter_mut().for_each(|node| node.silent = false);
        bench.run(5 * STEPS_A_BEAT);
    });
    bench.story("a checkpoint's records", |bench| bench.checkpoint());
    bench.story("it is cancelled, 2 s", |bench| bench.cancel(job));
    let job = bench.fill(slots);
    bench.run(STEPS_A_BEAT);
    bench.story("half start again, with other boots, 5 s", |bench| {
        for id in (0..nodes).step_by(2) {
            bench.hello(id, slots);
        }
        bench.run(5 * STEPS_A_BEAT);
    });
    bench.story("a checkpoint's records, with what each of them died of", |bench| bench.checkpoint());
    bench.story("it is cancelled with all that, 2 s", |bench| bench.cancel(job));
    bench.submit(4_000, WorkFacts::NOTHING, 1);
    bench.story("a job's end: 4 000 tasks out, the other nodes idle, 10 s", |bench| {
        bench.run(10 * STEPS_A_BEAT);
    });
}

/// What a simulated worker knows.
#[derive(Default)]
struct Node {
    boot: u64,
    beats: u32,
    results: u64,
    silent: bool,
    /// Units that it holds: first unit, job, end.
    held: BTreeMap<(JobId, u128), u128>,
}

struct Bench {
    farm: Farm,
    now_us: u64,
    step: u64,
    nodes: Vec<Node>,
    /// Workers are done at once with what they get.
    computing: bool,
    /// What was said and not heard yet.
    arriving: Vec<(NodeId, Vec<u8>)>,
    checked_us: u64,
    turns: u64,
    spent_us: u64,
    longest_us: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            farm: Farm::new(Config::new(FarmId([0; 16]), Epoch(1)), 1),
            now_us: 1,
            step: 0,
            nodes: Vec::new(),
            computing: true,
            arriving: Vec::new(),
            checked_us: 0,
            turns: 0,
            spent_us: 0,
            longest_us: 0,
        }
    }

    fn story(&mut self, what: &str, tell: impl FnOnce(&mut Self)) {
        (self.turns, self.spent_us, self.longest_us) = (0, 0, 0);
        let from_us = self.now_us;
        tell(self);
        let cpu_s = self.spent_us as f64 / 1e6;
        let virtual_s = (self.now_us - from_us) as f64 / 1e6;
        println!(
            "{what}: {cpu_s:.3} s of CPU in {} turns, the longest {:.1} ms; {:.1} % of a core",
            self.turns,
            self.longest_us as f64 / 1e3,
            100.0 * cpu_s / virtual_s.max(1e-9)
        );
    }

    /// All nodes get as much as they hold of a job that is larger than that.
    fn fill(&mut self, slots: u16) -> JobId {
        let most = 2 * self.nodes.len() * usize::from(slots);
        let job = self.submit(50 * most as u128, WorkFacts::command(0), 1);
        // A node that lacks little is left to lack more first.
        self.story("all windows are filled", |bench| {
            bench.until(|bench| bench.farm.tasks()[1] >= most - most / 8);
        });
        job
    }

    fn cancel(&mut self, job: JobId) {
        let now_us = self.now_us;
        self.turn(
            |farm, deeds| farm.command_job(job, JobCommand::Cancel, now_us, deeds).expect("it runs"),
            now_us,
        );
        self.nodes.iter_mut().for_each(|node| node.held.clear());
        self.run(2 * STEPS_A_BEAT);
    }

    /// The records are dropped by another thread in a live scheduler.
    fn checkpoint(&mut self) {
        let (now_us, mut records) = (self.now_us, Vec::new());
        self.turn(|farm, _| records = farm.snapshot(&mut Deeds::default()).1, now_us);
        println!("{} records", records.len());
    }

    fn submit(&mut self, units: u128, work: WorkFacts, size: u64) -> JobId {
        let new = NewJob {
            name: "size".into(),
            user: "bench".into(),
            spec: ContentHash([7; 32]),
            units,
            work,
            sizing: Sizing::Units(size),
            max_failures: MaxFailures::Usual,
            speculative: true,
            trust: Trust::default(),
            terms: Terms::default(),
            place: Place::Tail,
        };
        let (mut id, now_us) = (None, self.now_us);
        self.turn(|farm, deeds| id = farm.submit(new, now_us, deeds).ok(), now_us);
        id.expect("the farm takes a job")
    }

    fn submit_and_step(&mut self) -> JobId {
        let id = self.submit(1, WorkFacts::NOTHING, 1);
        self.run(1);
        id
    }

    fn hello(&mut self, id: u32, slots: u16) {
        let node = &mut self.nodes[id as usize];
        *node = Node { boot: node.boot + 1, ..Node::default() };
        let mut packer = Packer::new();
        packer.hello(&Hello {
            version: PROTOCOL_VERSION,
            boot: Boot(node.boot),
            slots,
            queue_tasks_max: 4_096,
            receive_datagrams_max: 1_000,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        });
        self.farm.on_session(NodeId(id), &format!("n{id}"), self.now_us);
        self.say(id, packer);
    }

    fn say(&mut self, id: u32, mut packer: Packer) {
        self.arriving.extend(packer.finish().into_iter().map(|datagram| (NodeId(id), datagram)));
    }

    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.run(1);
        }
        panic!("it does not come to its end");
    }

    /// Time goes on for so many steps.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step += 1;
            self.now_us += STEP_US;
            for id in (self.step % STEPS_A_BEAT..self.nodes.len() as u64).step_by(STEPS_A_BEAT as usize) {
                self.beat(id as u32);
            }
            let now_us = self.now_us;
            self.turn(|_, _| (), now_us);
            // The farm says that it has more to do, or more was said than one turn hears.
            while self.farm.next_deadline_us() <= self.now_us || self.arriving.len() > DATAGRAMS_A_TURN {
                self.turn(|_, _| (), now_us);
            }
        }
    }

    fn beat(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        if node.silent {
            return;
        }
        node.beats += 1;
        let mut held: Vec<Held> = Vec::new();
        for (&(job, lo), &hi) in &node.held {
            match held.last_mut() {
                Some(last) if last.job == job && last.lo + u128::from(last.units) == lo => {
                    last.units += (hi - lo) as u64;
                }
                _ => held.push(Held { job, lo, units: (hi - lo) as u64 }),
            }
        }
        let running = node.held.keys().copied().take(32).collect();
        let mut beat = Heartbeat {
            number: node.beats,
            part: 0,
            parts: held.len().div_ceil(HELD_A_PART).max(1) as u16,
            queued_tasks: node.held.len().saturating_sub(32) as u32,
            draining: false,
            running,
            held: Vec::new(),
        };
        let mut parts = held.chunks(HELD_A_PART);
        for part in 0..beat.parts {
            (beat.part, beat.held) = (part, parts.next().unwrap_or_default().to_vec());
            let mut packer = Packer::new();
            packer.heartbeat(&beat);
            self.say(id, packer);
        }
    }

    fn turn(&mut self, act: impl FnOnce(&mut Farm, &mut Deeds), now_us: u64) {
        let heard: Vec<_> = self.arriving.drain(..self.arriving.len().min(DATAGRAMS_A_TURN)).collect();
        let (mut deeds, farm) = (Deeds::default(), &mut self.farm);
        let began_us = cpu_us();
        act(farm, &mut deeds);
        for (node, datagram) in &heard {
            farm.on_datagram(*node, datagram, now_us, &mut deeds);
        }
        farm.on_durable(farm.last_sequence(), now_us);
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        if now_us >= self.checked_us + 1_000_000 {
            self.checked_us = now_us;
            farm.check_standstill(now_us, &mut deeds);
            farm.check_counters().expect("the books add up");
        }
        let spent_us = cpu_us() - began_us;
        self.turns += 1;
        self.spent_us += spent_us;
        self.longest_us = self.longest_us.max(spent_us);
        for deed in deeds.0 {
            if let Deed::Send(id, datagrams) = deed {
                datagrams.iter().for_each(|datagram| self.hear(id, datagram));
            }
        }
    }

    fn hear(&mut self, id: NodeId, datagram: &[u8]) {
        let node = &mut self.nodes[id.0 as usize];
        if node.silent {
            return;
        }
        let mut packer = Packer::new();
        for message in messages(datagram) {
            let Ok(Message::Offers(offers)) = message else { continue };
            let offers: Vec<Offer> = offers.flatten().collect();
            if let (Some(first), Some(last)) = (offers.first(), offers.last()) {
                packer.task_ack(&[(first.attempt.0, last.attempt.0)]);
            }
            for offer in offers {
                if !self.computing {
                    node.held.insert((offer.job, offer.lo), offer.lo + u128::from(offer.units));
                    continue;
                }
                node.results += 1;
                packer.result(&ResultEntry {
                    job: offer.job,
                    spec: offer.spec,
                    sequence: node.results,
                    attempt: Attempt(offer.attempt.0),
                    lo: offer.lo,
                    units: offer.units,
                    duration_us: 60_000_000,
                    outcome: Outcome::Done,
                    body: &[],
                });
            }
        }
        self.say(id.0, packer);
    }
}

/// CPU time of this thread in microseconds.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
