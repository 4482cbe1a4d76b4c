//! Prints what the front of a monitoring tree computes in a second in which all nodes tell of their machines, and of 20 jobs that
//! run on all of them, once a second: milliseconds, median of 20 seconds, and the memory of this process, which holds what the
//! front does and the messages. `cargo run --release -p starfarm-benches --bin front_cost -- [NODES]` (1 000 unless it is said),
//! below CPs with a fan-out of 32. What seals, sockets and the command line cost comes on top.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use starfarm_agent_core::{Picture, Summary, Triple, Triples, ValueId, ids, without_others};
use starfarm_benches::{median, tree};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;

const JOBS: u64 = 20;
const SECONDS: u64 = 20;
/// Machines of a message: a link takes no longer ones.
const MACHINES: usize = 32;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1000".to_owned());
    let Ok(nodes) = argument.parse::<u64>() else {
        eprintln!("front_cost: NODES is a whole number, not {argument:?}");
        return ExitCode::from(2);
    };
    let formed = tree::form(nodes);
    let (mut front, mut now_us) = (formed.front, formed.now_us + 10_000_000);
    let mut below = BTreeMap::<PostId, Vec<PostId>>::new();
    for (post, of) in front.posts().filter(|(_, of)| of.level == 0) {
        below.entry(of.parent.expect("all have places")).or_default().push(post);
    }
    let (mut picture, mut seconds) = (Picture::default(), Vec::new());
    for _ in 0..SECONDS {
        now_us += 1_000_000;
        let of = |(cp, below): (&PostId, &Vec<PostId>)| (*cp, said(below, now_us));
        let all: Vec<_> = below.iter().map(of).collect();
        let mut spent = Duration::ZERO;
        for (cp, bytes) in all.iter().flat_map(|(cp, all)| all.iter().map(move |bytes| (cp, bytes))) {
            let begin = Instant::now();
            let triples = Triples::read(bytes).expect("they were written as triples");
            let own = without_others(triples, |about| front.may_speak(*cp, about, now_us));
            assert!(own.is_none() && picture.take(*cp, now_us, triples, now_us), "it is news");
            front.settle(now_us);
            drop(front.take_bells());
            spent += begin.elapsed();
        }
        let begin = Instant::now();
        picture.step(now_us);
        assert_eq!(picture.jobs(now_us).len() as u64, JOBS);
        spent += begin.elapsed();
        seconds.push(spent.as_secs_f64() * 1e3);
    }
    let messages = below.len() * (JOBS as usize + 1);
    let (ms, mib) = (median(seconds), memory_kib().unwrap_or_default() / 1_024);
    println!("{ms:>8.2} ms a second, {messages} messages from {} CPs, {mib} MiB", below.len());
    ExitCode::SUCCESS
}

/// What a CP says in a second: its machines, and a sum for each job.
fn said(below: &[PostId], now_us: u64) -> Vec<Vec<u8>> {
    let one = |n: u64| n.to_le_bytes().to_vec();
    let write = |values: &[(ValueId, Vec<u8>)]| {
        Triples::written(values.iter().map(|(id, value)| Triple { id: *id, value }))
    };
    let machines = |machines: &[PostId]| {
        let mut values = vec![(ids::AT, one(now_us))];
        for post in machines {
            values.push((ids::POST, one(post.0)));
            values.extend(Metric::ALL.iter().map(|metric| (ids::of(*metric), one(now_us % 1_000 + post.0))));
            values.push((ids::CPU_TIMES, one(now_us).repeat(8)));
        }
        write(&values)
    };
    let job = |job: u64| {
        let summary = Summary { count: 32, sum: 32 * now_us, min: 0, max: now_us }.write();
        let heads = [(ids::AT, now_us), (ids::JOB, job), (ids::UNITS, 32), (ids::FROM, 32), (ids::OF, 32)];
        let heads = heads.into_iter().map(|(id, n)| (id, one(n)));
        let metrics = [Metric::Cpu, Metric::Memory, Metric::Io, Metric::Gpu];
        let figures = metrics.map(|metric| (ids::of(metric), summary.clone()));
        write(&heads.chain(figures).collect::<Vec<_>>())
    };
    below.chunks(MACHINES).map(machines).chain((1..=JOBS).map(job)).collect()
}

/// What this process has in memory.
fn memory_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}
