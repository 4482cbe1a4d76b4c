//! Tasks that take several slots, or memory, at a worker.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_worker_core::Config;

const LARGE: &str = "session\n welcome";

fn bench(slots: u16, memory_bytes: u64) -> Bench {
    let mut bench = Bench::new(Config { memory_bytes, queue_tasks_max: 64, ..config(slots) });
    bench.run(LARGE);
    bench
}

/// What was started, as "SLOT: ATTEMPT".
fn started(log: &str) -> Vec<String> {
    log.lines()
        .filter_map(|line| {
            line.split_once("start on ").map(|(_, what)| what.split('=').next().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn a_wide_task_takes_its_slots_and_gives_them_back() {
    let mut bench = bench(4, 0);
    assert_eq!(
        started(&bench.run("offer 1 0+1 slots 3\n offer 2 1+1 slots 3\n offer 3 2+1 slots 3")).len(),
        1
    );
    assert_eq!(bench.worker.idle_slots(), 1);
    let log = bench.run("part 0 1 0+1\n end 0 1");
    assert_eq!(started(&log), ["0: 2"], "{log}");
    bench.run("part 0 2 1+1\n end 0 2\n part 0 3 2+1\n end 0 3");
    assert_eq!(bench.worker.idle_slots(), 4);
}

#[test]
fn memory_is_claimed_likewise() {
    let mut bench = bench(4, 10);
    let log = bench.run("offer 1 0+1 memory 6\n offer 2 1+1 memory 4\n offer 3 2+1 memory 1");
    assert_eq!(started(&log), ["0: 1", "1: 2"], "{log}");
    assert_eq!(started(&bench.run("end 1 2")), ["1: 3"]);
}

#[test]
fn what_never_fits_is_refused_in_words() {
    let mut bench = bench(4, 10);
    let log = bench.run("offer 1 0+3 slots 5\n at 100");
    assert!(log.contains("Refused 0+3") && started(&log).is_empty(), "{log}");
    assert!(bench.run("offer 2 3+1 memory 11\n at 200").contains("Refused 3+1"));
    assert_eq!(started(&bench.run("offer 3 4+1 slots 4 memory 10")).len(), 1);
}

/// Small tasks come without end. The wide one starts as soon as those are over that ran when it became the first.
#[test]
fn small_tasks_never_keep_a_wide_one_waiting() {
    let mut bench = bench(4, 0);
    bench.run("offer 1 0+1\n offer 2 1+1\n offer 3 2+1\n offer 4 3+1");
    bench.run("offer 5 0+1 job 2 slots 4");
    let mut log = String::new();
    for small in 0..20 {
        log += &bench.run(&format!("offer {} {}+1", small + 6, small + 4));
    }
    for (slot, attempt) in [(0, 1), (1, 2), (2, 3)] {
        log += &bench.run(&format!("end {slot} {attempt}"));
    }
    assert_eq!(started(&log), Vec::<String>::new(), "nothing passes: it would take what the wide one needs");
    let log = bench.run("end 3 4");
    assert_eq!(started(&log).len(), 1, "{log}");
    assert!(log.contains("5=0+1"), "{log}");
}

#[test]
fn small_tasks_fill_what_a_wide_one_leaves_and_delay_no_wide_one() {
    let mut bench = bench(6, 0);
    let log = bench.run(
        "offer 1 0+1 job 2 slots 4\n offer 2 1+1 job 2 slots 4\n offer 3 0+1\n offer 4 1+1\n offer 5 2+1\n offer 6 3+1",
    );
    assert_eq!(started(&log), ["0: 1", "4: 3", "5: 4"], "{log}");
    // One that has passed goes, another comes in its place.
    assert_eq!(started(&bench.run("end 4 3")), ["4: 5"]);
    let log = bench.run("end 0 1");
    assert!(log.contains("2=1+1"), "the next wide one begins at once: {log}");
}

/// Three small ones run when the wide one becomes the first. Two may pass it; a third would still run when those three are
/// over.
#[test]
fn no_more_pass_than_fit_beside_the_first_one() {
    let mut bench = bench(6, 0);
    bench.run("offer 1 0+1\n offer 2 1+1\n offer 3 2+1");
    let log = bench.run("offer 4 0+1 job 2 slots 4\n offer 5 3+1\n offer 6 4+1\n offer 7 5+1\n offer 8 6+1");
    assert_eq!(started(&log), ["3: 5", "4: 6"], "{log}");
    bench.run("end 0 1\n end 1 2");
    let log = bench.run("end 2 3");
    assert!(log.contains("4=0+1"), "{log}");
}

/// The first one that waits needs memory; those that pass it leave it that.
#[test]
fn what_passes_leaves_memory_as_well() {
    let mut bench = bench(4, 10);
    let log = bench.run("offer 1 0+1 memory 5\n offer 2 1+1 memory 6\n offer 3 2+1 job 2 memory 5\n offer 4 2+1 job 3 memory 4");
    assert_eq!(started(&log), ["0: 1", "1: 4"], "{log}");
    let log = bench.run("end 0 1");
    assert!(log.contains("2=1+1"), "{log}");
}

#[test]
fn one_that_is_withdrawn_from_the_head_blocks_nobody() {
    let mut bench = bench(2, 0);
    bench.run("offer 1 0+1\n offer 2 0+1 job 2 slots 2\n offer 3 1+1");
    let log = bench.run("revoke 2 graceful 9");
    assert_eq!(started(&log), ["1: 3"], "{log}");
}

/// Three cards: each run has its own, shares lie together, and one that waits for whole cards is not passed for ever.
#[test]
fn runs_get_cards_of_their_own_or_share_one() {
    let mut bench = Bench::new(Config { gpus: 3, queue_tasks_max: 64, ..config(8) });
    bench.run(LARGE);
    let log = bench
        .run("offer 1 0+1 halves 1\n offer 2 1+1 halves 2\n offer 3 2+1 halves 1\n offer 4 3+1 halves 2");
    for (task, cards) in [("1=0+1", "[0]"), ("2=1+1", "[1]"), ("3=2+1", "[0]"), ("4=3+1", "[2]")] {
        assert!(log.contains(&format!("{task} on cards {cards}")), "{log}");
    }
    // Shares come without end; the run of two cards waits for those that ran when it came, and no longer.
    let log = bench.run("offer 5 4+1 halves 4\n offer 6 5+1\n offer 7 6+1 halves 1\n offer 8 7+1 halves 1");
    assert!(started(&log).iter().all(|started| started.ends_with(": 6")), "{log}");
    assert!(started(&bench.run("end 1 2")).is_empty(), "one card is free, and kept");
    let log = bench.run("end 3 4");
    assert!(log.contains("5=4+1 on cards [1, 2]"), "{log}");
    assert!(bench.run("offer 9 9+9 halves 7\n at 100").contains("Refused 9+9"));
}
