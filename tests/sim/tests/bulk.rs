//! The bulk channel in the simulator, over a range of seeds: each run must keep the rules, and all of them together
//! must have seen what they are for.

use starfarm_sim::{Transfers, transfers};

#[test]
fn contents_arrive_whole_over_streams_that_break_and_schedulers_that_die() {
    let mut sum = Transfers::default();
    for seed in 0..60 {
        let run = transfers(seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        sum.fetched += run.fetched;
        sum.stored += run.stored;
        sum.resumed += run.resumed;
        sum.equal += run.equal;
        sum.hopeless += run.hopeless;
        sum.dropped += run.dropped;
        sum.no_room += run.no_room;
        sum.together += run.together;
        sum.restarts += run.restarts;
        sum.streams += run.streams;
    }
    println!("{sum:?}");
    let seen = [
        sum.fetched,
        sum.stored,
        sum.resumed,
        sum.equal,
        sum.hopeless,
        sum.dropped,
        sum.no_room,
        sum.together,
        sum.restarts,
    ];
    assert!(seen.iter().all(|count| *count >= 20), "{sum:?}");
}

#[test]
fn one_seed_is_one_run() {
    let text = |seed| format!("{:?}", transfers(seed));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}
