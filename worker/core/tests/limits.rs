//! Workers that leave by themselves, told as scripts. Times in the logs are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::expect;
use starfarm_worker_core::{Config, Limits};

const SECOND: u64 = 1_000_000;

fn bench(deadline_s: Option<u64>, idle_exit_s: Option<u64>) -> Bench {
    let limits =
        Limits { deadline_us: deadline_s.map(|s| s * SECOND), idle_exit_us: idle_exit_s.map(|s| s * SECOND) };
    Bench::new(Config { limits, ..config(1) })
}

#[test]
fn near_its_deadline_it_gives_back_what_waits_and_later_ends_what_runs_and_delivers() {
    let mut bench = bench(Some(30), None);
    let log = bench.run("session\n welcome\n answer\n offer 1 0+10\n offer 2 10+10\n at 30\n at 26000");
    assert!(
        log.starts_with("0: send hello slots 1; faster 0 slower 0; left 30000 ms, work 27000; beat 1"),
        "{log}"
    );
    bench.run("part 0 1 0+4\n ack 1 1\n answer");
    expect![[r#"
        26920: Handshake
        27000: say draining: the deadline is near; what waits goes back
        27000: cancel 0 job 1 graceful
        27000: send results #2 Returned 10+10; faster 1 slower 0; left 3000 ms, work 0; beat 28 waiting 0 holds [1:4+6] draining
        28000: send faster 1 slower 0; left 2000 ms, work 0; beat 29 waiting 0 holds [1:4+6] draining
        29000: cancel 0 job 1 forced
        29000: send faster 1 slower 0; left 1000 ms, work 0; beat 30 waiting 0 holds [1:4+6] draining
        29000: send results #3 Returned 4+6
        29050: send results #3 Returned 4+6
        29150: send ages [(3, 150000)]; results #3 Returned 4+6
        29350: send ages [(3, 350000)]; results #3 Returned 4+6
        29500: send bye
        29500: Drained
    "#]]
    .assert_eq(&bench.run("at 27000\n ack 2 2\n at 29000\n end 0 1\n at 29500\n ack 3 3"));
}

#[test]
fn at_its_deadline_it_goes_whatever_still_runs_or_is_not_acknowledged() {
    let mut bench = bench(Some(30), None);
    bench.run("session\n welcome\n answer\n offer 1 0+10\n at 28500\n part 0 1 0+4\n at 28600");
    let log = bench.run("at 60000");
    assert!(log.contains("29000: cancel 0 job 1 forced\n"), "{log}");
    assert!(log.contains("30000: send bye\n30000: Drained\n"), "{log}");
    assert!(!bench.worker.unacknowledged().is_empty(), "it goes into the spool");
}

#[test]
fn a_worker_that_a_person_drains_still_ends_by_its_deadline() {
    let mut bench = bench(Some(30), None);
    bench.run("session\n welcome\n answer\n offer 1 0+10\n at 5000\n drain");
    let log = bench.run("at 60000");
    assert!(!log.contains("say") && log.contains("29000: cancel 0 job 1 forced\n"), "{log}");
    assert!(log.contains("30000: send bye\n30000: Drained\n"), "{log}");
}

#[test]
fn a_deadline_that_is_over_at_the_start_ends_it_at_once() {
    let log = bench(Some(0), None).run("at 0");
    assert!(log.ends_with("0: Drained\n"), "{log}");
}

#[test]
fn a_worker_with_nothing_to_do_leaves_after_a_while_and_work_puts_that_off() {
    let mut bench = bench(None, Some(10));
    let log = bench.run("session\n welcome\n answer\n at 9000\n offer 1 0+10\n at 25000");
    assert!(!log.contains("Drained"), "{log}");
    // Until its result is acknowledged it has something to do.
    assert!(!bench.run("part 0 1 0+10\n end 0 1\n at 40000").contains("Drained"));
    let log = bench.run("ack 1 1\n at 49000\n answer\n at 60000");
    assert!(log.contains("50000: say draining: there was nothing to run"), "{log}");
    assert!(log.contains("50000: send bye\n50000: Drained\n"), "{log}");
}

#[test]
fn a_worker_that_never_reached_its_scheduler_leaves_too() {
    let log = bench(None, Some(10)).run("at 60000");
    assert!(log.contains("10000: Drained\n") && !log.contains("send"), "{log}");
}
