//! The scheduler's core alone: refill, dispatch, send, result and acknowledgement of one-unit tasks, with
//! eight nodes, in microseconds a task. What the nodes do is not counted.
//!
//! `core_rate [TASKS] [ROUNDS]`

use std::time::{Duration, Instant};

use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{Hello, Message, Offer, Outcome, Packer, ResultEntry, messages};
use starfarm_scheduler_core::{
    Config, Deed, Deeds, Farm, MaxFailures, NewJob, NodeId, Place, Sizing, WorkFacts,
};

const NODES: u32 = 8;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (tasks, rounds) = (args.next().unwrap_or(1_000_000), args.next().unwrap_or(5));
    let mut each: Vec<f64> = (0..rounds).map(|_| round(tasks).as_secs_f64() * 1e6 / tasks as f64).collect();
    each.sort_by(f64::total_cmp);
    println!("{tasks} tasks, {rounds} rounds: median {:.3} us a task, all {each:.3?}", each[each.len() / 2]);
}

/// What a worker does: acknowledges offers and answers each with a result.
#[derive(Default)]
struct Node {
    sequence: u64,
}

impl Node {
    fn answer(&mut self, datagram: &[u8], packer: &mut Packer) {
        for message in messages(datagram) {
            let Ok(Message::Offers(offers)) = message else { continue };
            let offers: Vec<Offer> = offers.flatten().collect();
            if let (Some(first), Some(last)) = (offers.first(), offers.last()) {
                packer.task_ack(&[(first.attempt.0, last.attempt.0)]);
            }
            for offer in offers {
                self.sequence += 1;
                packer.result(&ResultEntry {
                    job: offer.job,
                    spec: offer.spec,
                    sequence: self.sequence,
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

fn round(tasks: u64) -> Duration {
    let (mut farm, mut deeds, mut now_us) =
        (Farm::new(Config::new(FarmId([0; 16]), Epoch(1)), 1), Deeds::default(), 1);
    let mut nodes: Vec<Node> = (0..NODES).map(|_| Node::default()).collect();
    for id in 0..NODES {
        let mut packer = Packer::new();
        packer.hello(&Hello {
            version: PROTOCOL_VERSION,
            boot: Boot(u64::from(id) + 1),
            slots: 1,
            queue_tasks_max: 4_096,
            receive_datagrams_max: 1_000,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        });
        farm.on_session(NodeId(id), &format!("n{id}"), now_us);
        farm.on_datagram(NodeId(id), &packer.finish()[0], now_us, &mut deeds);
    }
    let new = NewJob {
        name: "core".into(),
        user: "bench".into(),
        spec: ContentHash([7; 32]),
        units: u128::from(tasks),
        work: WorkFacts::NOTHING,
        sizing: Sizing::Units(1),
        max_failures: MaxFailures::Usual,
        speculative: false,
        place: Place::Tail,
    };
    let job: JobId = farm.submit(new, now_us, &mut deeds).expect("an empty farm takes a job");
    let mut spent = Duration::ZERO;
    let mut arrived: Vec<(NodeId, Vec<u8>)> = Vec::new();
    while !farm.has_ended(job) {
        now_us += 50;
        let start = Instant::now();
        for (node, datagram) in &arrived {
            farm.on_datagram(*node, datagram, now_us, &mut deeds);
        }
        farm.on_durable(farm.last_sequence(), now_us);
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        spent += start.elapsed();
        arrived.clear();
        for deed in deeds.0.drain(..) {
            if let Deed::Send(id, datagrams) = deed {
                let mut packer = Packer::new();
                datagrams.iter().for_each(|datagram| nodes[id.0 as usize].answer(datagram, &mut packer));
                arrived.extend(packer.finish().into_iter().map(|datagram| (id, datagram)));
            }
        }
    }
    let view = farm.job(job, 0).expect("the job was not deleted");
    assert_eq!((view.units_done.0, view.totals.dispatched), (u128::from(tasks), tasks), "each task once");
    spent
}
