//! A monitoring tree whose nodes cost nothing: the front alone computes, and the clock goes on by what it has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use starfarm_overlay_core::front::Front;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Host, PostOrder, PostReport, PostState, Report};
use starfarm_protocol::seal::{Secret, StaticKey};

/// A tree whose posts all have their places.
pub struct Formed {
    /// The front.
    pub front: Front,
    /// Its clock.
    pub now_us: u64,
    /// What it has computed, and for its longest answer to a node.
    pub spent: Duration,
    /// See `spent`.
    pub longest: Duration,
}

/// Has so many nodes call until all posts have their places.
pub fn form(nodes: u64) -> Formed {
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
    Formed { front, now_us, spent, longest }
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
        job: order.job,
        state: PostState::Reported,
        parent: order.lineage.first().map(|parent| parent.post),
        key: Some(key(order.post.0)),
        addresses: vec![address],
        pid: Some(1),
    };
    let host = Host { name: format!("host-{n}"), id: n };
    Report {
        heard: 0,
        host,
        links: true,
        reacts: false,
        own_trees: true,
        posts: orders.iter().map(post).collect(),
    }
}
