//! What results say of speed, and what does not. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_protocol::ids::JobId;

/// Units a second of all slots, as users are told.
fn speed(bench: &Bench) -> f64 {
    bench.farm.job(JobId(1), 0).unwrap().units_per_s
}

#[test]
fn programs_that_fail_at_once_are_not_fast_ones() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1000 command units 1 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b",
    );
    bench.run("ran a 0+1 exit1 ms 1");
    assert!(speed(&bench) > 1_000.0, "where all fail, that is their speed: {}", speed(&bench));
    bench.run("ran b 2+1 ok ms 500");
    assert!((3.0..5.0).contains(&speed(&bench)), "two slots, two a second each: {}", speed(&bench));
    for lo in [1, 4, 5] {
        bench.run(&format!("ack a\n ran a {lo}+1 exit1 ms 1"));
    }
    assert!((3.0..5.0).contains(&speed(&bench)), "failures change nothing any more: {}", speed(&bench));
}

#[test]
fn a_task_that_came_back_unit_by_unit_was_a_large_one_all_the_same() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000 command target 8\n join a slots 1\n ack a\n ran a 0+1 ok ms 10");
    let mut largest = 0;
    // Each task comes back unit by unit, and the next ones may be larger by a factor.
    for _ in 0..6 {
        bench.run("ack a");
        let story = bench.run("tasks a");
        assert!(story.contains("a has"), "{story}");
        let held = bench.farm.picture(bench.now_us).held;
        let first = held.iter().map(|held| (held.lo, held.hi, held.tasks)).min().unwrap();
        let units = (first.1 - first.0) / u128::from(first.2);
        largest = largest.max(units);
        for unit in first.0..first.0 + units {
            bench.run(&format!("ran a {unit}+1 ok ms 10"));
        }
    }
    assert!(largest > 100, "8 s of 10 ms are 800 units; it got no further than {largest}");
}

#[test]
fn a_worker_that_tells_of_endless_times_breaks_no_sum() {
    let mut bench = Bench::new(config());
    bench.run("submit 30 units 10\n join a slots 1\n ack a");
    for lo in [0, 3, 6] {
        bench.run(&format!("done a {lo}+3 ms 18446744073709551"));
    }
    assert_eq!(bench.run("show 1").trim(), "0: job 1 is running: done 9, out 11, waiting 10");
}

/// 1.36 million units a second, said of a job that stood still: one result that took no time had made it that fast.
#[test]
fn no_job_is_faster_than_its_results_come() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000000 units 10\n join a slots 1\n ack a");
    for second in 1..=30_u64 {
        bench.run(&format!("at {}\n ack a\n done a {}+10 ms 0", second * 1_000, (second - 1) * 10));
    }
    let job = bench.farm.job(JobId(1), bench.now_us).unwrap();
    let (out, told) = (job.units_out.0 as f64, job.units_per_s);
    assert!((10.0..=11.0 + out / 10.0).contains(&told), "10 a second come: {told} with {out} out");
}
