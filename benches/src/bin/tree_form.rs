//! Prints how long the front of a monitoring tree computes until all posts of so many nodes have their places, in milliseconds,
//! median and best of 5, and how long its longest answer to a node took: `cargo run --release -p starfarm-benches --bin
//! tree_form -- [NODES]` (1 000 unless it is said), with a fan-out of 32. Nodes and their processes cost nothing here, and the
//! clock goes on by what the front has computed.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use starfarm_overlay_core::front::Front;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Host, PostOrder, PostReport, PostState, Report};
use starfarm_protocol::seal::{Secret, StaticKey};

const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1000".to_owned());
    let Ok(nodes) = argument.parse::<u64>() else {
        eprintln!("tree_form: NODES is a whole number, not {argument:?}");
        return ExitCode::from(2);
    };
    let mut rounds: Vec<(f64, f64, usize)> = (0..ROUNDS).map(|_| form(nodes)).collect();
    rounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (median, longest, posts) = rounds[ROUNDS / 2];
    println!("{median:>8.1} ms, best {:.1}, longest answer {longest:.2}, {posts} posts", rounds[0].0);
    ExitCode::SUCCESS
}

/// Milliseconds in all, those of the longest answer, and the posts that came of it.
fn form(nodes: u64) -> (f64, f64, usize) {
    let mut front = Front::new(StaticKey::from_secret(Secret([7; 32])), 1, Host::default());
    let mut known = BTreeMap::<u64, Vec<PostOrder>>::new();
    let (mut spent, mut longest, mut now_us) = (Duration::ZERO, Duration::ZERO, 1_000_000);
    let mut waiting: Vec<u64> = (0..nodes).collect();
    let mut quiet = 0;
    while quiet < 10 {
        for n in std::mem::take(&mut waiting) {
            let report = report(n, known.get(&n).map_or(&[], Vec::as_slice));
            let begin = Instant::now();
            let orders = front.on_report(node(n), &n.to_string(), &report, now_us);
            let took = begin.elapsed();
            (spent, longest) = (spent + took, longest.max(took));
            now_us += took.as_micros() as u64;
            // It has another process, and calls again.
            let before = known.insert(n, orders.posts).map_or(0, |posts| posts.len());
            if known[&n].len() > before {
                waiting.push(n);
            }
        }
        now_us += 100_000;
        let begin = Instant::now();
        front.settle(now_us);
        let bells = front.take_bells();
        let took = begin.elapsed();
        spent += took;
        now_us += took.as_micros() as u64;
        quiet = if bells.is_empty() && waiting.is_empty() { quiet + 1 } else { 0 };
        waiting.extend(bells.iter().filter_map(|(name, _)| name.parse::<u64>().ok()));
        waiting.sort_unstable();
        waiting.dedup();
    }
    (spent.as_secs_f64() * 1e3, longest.as_secs_f64() * 1e3, front.posts().count())
}

fn node(n: u64) -> PublicKey {
    key(1 << 40 | n)
}

fn key(n: u64) -> PublicKey {
    let mut bytes = [3; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    PublicKey(bytes)
}

fn report(n: u64, orders: &[PostOrder]) -> Report {
    let address = std::net::SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 4_000));
    let post = |order: &PostOrder| PostReport {
        post: order.post,
        kind: order.kind,
        level: order.level,
        state: PostState::Reported,
        parent: order.lineage.first().map(|parent| parent.post),
        key: Some(key(order.post.0)),
        addresses: vec![address],
        pid: Some(1),
    };
    let host = Host { name: format!("host-{n}"), id: n };
    Report { heard: 0, host, links: true, reacts: false, posts: orders.iter().map(post).collect() }
}
