//! Prints how long the front of a monitoring tree computes until all posts of so many nodes have their places, in milliseconds,
//! median and best of 5, and how long its longest answer to a node took: `cargo run --release -p starfarm-benches --bin
//! tree_form -- [NODES]` (1 000 unless it is said), with a fan-out of 32. Nodes and their processes cost nothing here, and the
//! clock goes on by what the front has computed.

use std::process::ExitCode;

use starfarm_benches::tree::{self, Formed};

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
    let Formed { front, spent, longest, .. } = tree::form(nodes);
    (spent.as_secs_f64() * 1e3, longest.as_secs_f64() * 1e3, front.posts().count())
}
