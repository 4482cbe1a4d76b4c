//! Slots that hang on nodes that live, told as scripts. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::{Expect, expect};

/// From second `from` to `to` the nodes beat every other second with these lines; what they are told is left out.
fn beats(bench: &mut Bench, (from, to): (u64, u64), beats: &str, expected: Expect) {
    let mut story = String::new();
    for at in (from..=to).step_by(2) {
        story += &bench.run(&format!("at {at}000\n {beats}"));
    }
    let told: Vec<&str> = story.lines().filter(|line| !line.contains(": answer")).collect();
    expected.assert_eq(&(told.join("\n") + "\n"));
}

/// Of two nodes the first has run unit 10 for a minute, of a job with these `flags` of which much waits.
fn hangs_on_a(flags: &str) -> Bench {
    let mut bench = Bench::new(config());
    bench.run(&format!(
        "submit 100000 search 1 targets never units 10 {flags}\n join a slots 1\n join b slots 1\n ack a\n ack b
         done a 0+10\n done b 20+10\n ack a\n ack b"
    ));
    beats(
        &mut bench,
        (2, 70),
        "beat a 10+10,40+10 running 10 queued 1\n beat b 30+10,50+10 queued 1",
        expect![[r#"
            62000: unit 10 of job 1 hangs on node a: it runs for 60 s, such a task takes 1.0 s
        "#]],
    );
    bench
}

#[test]
fn what_hangs_is_copied_at_once_while_others_of_the_job_wait() {
    let mut bench = hangs_on_a("copies");
    expect![[r#"
        70000: copy of [10, 20) of job 1 to node b
        70000: to b: ack results [(2, 2)]; offer job 1: 19=10+10
        70000: job 1 is running: done 30, out 150, waiting 99820, copies 1
        70000: to a: offer job 1: 20=180+10
        70000: to b: ack results [(3, 3)]; offer job 1: 21=190+10
        70000: job 1 is running: done 40, out 160, waiting 99800, copies 1
        70000: a has 8 tasks
    "#]]
    .assert_eq(&bench.run("done b 30+10\n ack b\n show 1\n done b 10+10\n show 1\n tasks a"));
}

#[test]
fn a_job_that_allows_no_copies_gets_none_of_what_hangs() {
    let mut bench = hangs_on_a("");
    expect![[r#"
        70000: to b: ack results [(2, 2)]; offer job 1: 19=180+10
    "#]]
    .assert_eq(&bench.run("done b 30+10\n"));
}

#[test]
fn a_search_that_hangs_before_anything_was_measured_is_told_by_the_target_time() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000000 search 1 targets never target 4\n join a slots 1\n ack a");
    beats(
        &mut bench,
        (2, 200),
        "beat a 0+131072 running 0 queued 1",
        expect![[r#"
            122000: unit 0 of job 1 hangs on node a: it runs for 120 s, such a task takes 4.0 s
        "#]],
    );
}

#[test]
fn programs_that_nobody_knows_the_time_of_are_told_to_hang_after_an_hour_and_one_stands_for_all() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command\n join a slots 1\n join b slots 1\n ack a\n ack b");
    beats(
        &mut bench,
        (2, 4_000),
        "beat a 0+2 running 0 queued 1\n beat b 2+2 running 2 queued 1",
        expect![[r#"
            3602000: unit 0 of job 1 hangs on node a: it runs for 3600 s, no unit of the job has ended yet
        "#]],
    );
    // Now it is known.
    let story = bench.run("ran a 0+1 ok ms 1000\n beat b 2+2 running 2 queued 1");
    let told = "4000000: unit 2 of job 1 hangs on node b: it runs for 3998 s, such a task takes";
    assert!(story.contains(told), "{story}");
}

#[test]
fn what_waits_for_room_at_the_scheduler_does_not_hang() {
    let mut bench = Bench::new(config());
    bench
        .run("submit 1000 command units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok ms 1000\n ack a\n full");
    let beat = "beat a 2+2,4+2 running 2 queued 1";
    beats(
        &mut bench,
        (2, 300),
        beat,
        expect![[r#"
        80000: task [6, 8) of job 1 expired on node a
        80000: task [8, 10) of job 1 expired on node a
        80000: task [10, 12) of job 1 expired on node a
        80000: task [12, 14) of job 1 expired on node a
        80000: task [14, 16) of job 1 expired on node a
        80000: task [16, 18) of job 1 expired on node a
    "#]],
    );
    bench.run("room");
    beats(
        &mut bench,
        (302, 400),
        beat,
        expect![[r#"
        360000: unit 2 of job 1 hangs on node a: it runs for 60 s, such a task takes 1.0 s
    "#]],
    );
}

/// A node that was lost had the task before, and tells late of two units in its midst.
#[test]
fn what_hangs_is_copied_up_to_what_is_done_in_its_midst_and_then_behind_it() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 100000 search 1 targets never units 10 copies\n join c slots 1\n ack c\n at 20000
         join a slots 1\n ack a\n join b slots 1\n ack b\n done b 20+10\n ack b",
    );
    beats(
        &mut bench,
        (22, 90),
        "beat a 0+10,10+10 running 0 queued 1\n beat b 30+10,40+10 queued 1",
        expect![[r#"
            82000: unit 0 of job 1 hangs on node a: it runs for 60 s, such a task takes 1.0 s
        "#]],
    );
    expect![[r#"
        90000: node c is back
        90000: copy of [0, 3) of job 1 to node c
        90000: copy of [5, 10) of job 1 to node c
        90000: to c: ack results [(1, 1)]; offer job 1: 14=0+3 15=5+5 16=110+10 17=120+10 18=130+10 19=140+10 20=150+10 21=160+10
        90000: job 1 is running: done 12, out 158, waiting 99830, resent tasks 2, copies 2
        90000: to c: ack results [(2, 2)]; offer job 1: 22=170+10
        90000: to a: offer job 1: 23=180+10
        90000: to c: ack results [(3, 3)]; offer job 1: 24=190+10
        90000: job 1 is running: done 20, out 180, waiting 99800, resent tasks 2, copies 2
    "#]].assert_eq(&bench.run("done c 3+2\n show 1\n ack c\n done c 0+3\n done c 5+5\n show 1"));
}
