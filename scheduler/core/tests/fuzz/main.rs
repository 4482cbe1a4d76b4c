//! Stories that nobody wrote: a seed writes a script in the bench's language, the farm plays it, and all of it is
//! doubted after each line: R6 and state <=> place, replay equals live (by the bench), each unit counted once and
//! acknowledged when it is durable (`ledger`), no node idle while something waits for it (`play`), and that all jobs
//! end once the faults stop (`ending`). A story that fails is made short and printed, to be pasted as a test (`fuzz_found`).
//!
//! `FUZZ_STORIES=100000 FUZZ_SEED=7 cargo test --release -p starfarm-scheduler-core --test fuzz` tells so many from that
//! seed on.
//!
//! To compare two builds of the core: with these same tests on both, `FUZZ_TRANSCRIPTS=/tmp/old` (an absolute path; with
//! `FUZZ_STORIES` as wanted) judges nothing and writes each story there, one file a seed. Its lines stand behind `>`,
//! below each of them all that the farm did: records, events, messages, and behind `=` a hash of all bytes that it sent.
//! A line that fails ends the story, and why stands behind `!`. At the end stands how the farm says that it is (`job:`,
//! `node:`, `farm:`), and its checkpoint. Then `diff -r /tmp/old /tmp/new`: the first line that differs is where the
//! cores do, since the next lines of a story follow from what the farm did before.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod chance;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod ledger;
mod play;
mod shrink;
mod terms;
mod workers;
mod writer;

use std::path::Path;

use play::{Failure, play};
use writer::Writer;

/// Stories in the normal run, from seed 1 on.
const STORIES: u64 = 800;
/// So many ways to fail are enough for one run.
const KINDS_MAX: usize = 4;

/// The story of a seed and its ending.
fn tell(seed: u64, transcribed: bool) -> (String, Result<(), Failure>) {
    play(seed, transcribed, |play| {
        let mut writer = Writer::new(seed);
        while let Some(line) = writer.next(play) {
            play.line(&line);
        }
        ending::end(play, seed);
    })
}

/// These lines, and an ending as that of the seed.
fn replay(lines: &[String], seed: u64) -> Result<(), Failure> {
    let told = play(seed, false, |play| {
        lines.iter().for_each(|line| play.line(line));
        ending::end(play, seed);
    });
    told.1
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |number| number.parse().unwrap())
}

/// Tells the stories of these seeds; panics with the shortest one of each way to fail.
fn judge(seeds: impl Iterator<Item = u64>) {
    let mut kinds: Vec<(String, u64, usize)> = Vec::new();
    for seed in seeds {
        if kinds.len() == KINDS_MAX {
            break;
        }
        let Err(failure) = tell(seed, false).1 else { continue };
        match kinds.iter_mut().find(|(kind, ..)| *kind == failure.kind) {
            Some((.., count)) => *count += 1,
            None => {
                kinds.push((failure.kind.clone(), seed, 1));
                let short = shrink::shrink(seed, &failure);
                eprintln!("seed {seed}\n{}\n{}\n", short.lines.join("\n"), short.why);
            }
        }
    }
    assert!(kinds.is_empty(), "kind, first seed, how often: {kinds:#?}");
}

#[test]
fn stories_end_well() {
    let seeds = number("FUZZ_SEED", 1)..;
    let seeds = seeds.take(number("FUZZ_STORIES", STORIES) as usize);
    let Ok(folder) = std::env::var("FUZZ_TRANSCRIPTS") else {
        return judge(seeds);
    };
    std::fs::create_dir_all(&folder).unwrap();
    for seed in seeds {
        std::fs::write(Path::new(&folder).join(format!("{seed}.txt")), tell(seed, true).0).unwrap();
    }
}
