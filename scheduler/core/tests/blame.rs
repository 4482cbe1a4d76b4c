//! Blame, told as scripts: whose fault a failure is. Retries and poison of single units are in `stories`, what of it
//! outlives a scheduler in `restarts`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config};
use expect_test::expect;

/// 969 of its units were done, and it was paused since all of those tried again had failed.
#[test]
fn a_job_is_judged_as_a_whole_after_a_retry_and_a_retry_lets_it_go_on() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 command units 50\n join a slots 1\n ack a");
    bench.run(&format!("ran a 0+50 {}\n ack a\n ran a 50+50 {}\n ack a", outcomes(0, 50), outcomes(25, 50)));
    bench.run("retry 1\n return a 100+100");
    for unit in 50..75 {
        bench.run(&format!("ack a\n ran a {unit}+1 exit1"));
    }
    let retried = bench.run("show 1");
    assert!(retried.contains("unit 74 failed"), "{retried}");
    bench.run("pause 1\n retry 1");
    let states = [retried, bench.run("show 1")].map(|line| line.split(':').nth(1).unwrap().to_owned());
    assert_eq!(states, [" job 1 is running", " job 1 is running"]);
}

#[test]
fn a_unit_that_fails_on_every_node_fails_and_no_node_is_sick() {
    check_after(
        "submit 40 command retries 1 units 10 max-failures never\n join a slots 1\n join b slots 1
         ack a\n ack b",
        "ran a 0+10 exit1,exit1,exit1,exit1,exit1,ok,ok,ok,ok,ok\n ack a
         ran b 20+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok\n ack b\n ran b 0+1 exit1\n ack b
         ran b 1+1 exit1\n ack b\n ran b 2+1 exit1\n ack b\n ran b 3+1 exit1\n ack b\n ran b 4+1 exit1\n nodes\n show 1",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+1
            0: unit 0 of job 1 failed on node b: exit 1
            0: to b: ack results [(2, 2)]; offer job 1: 6=1+1
            0: unit 1 of job 1 failed on node b: exit 1
            0: to b: ack results [(3, 3)]; offer job 1: 7=2+1
            0: unit 2 of job 1 failed on node b: exit 1
            0: to b: ack results [(4, 4)]; offer job 1: 8=3+1
            0: unit 3 of job 1 failed on node b: exit 1
            0: to b: ack results [(5, 5)]; offer job 1: 9=4+1
            0: unit 4 of job 1 failed on node b: exit 1
            0: a up, b up
            0: job 1 is running: done 15, out 20, waiting 0, unit 0 failed by exit 1, unit 1 failed by exit 1, unit 2 failed by exit 1, unit 3 failed by exit 1, unit 4 failed by exit 1
        "#]],
    );
}

#[test]
fn a_node_is_sick_too_when_others_pass_the_very_units_that_it_failed() {
    check_after(
        "submit 40 command retries 1 units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "ran a 0+5 exit1,exit1,exit1,exit1,exit1\n ran b 10+5 exit1,exit1,exit1,exit1,exit1\n nodes
         ack b\n ran b 0+1 ok\n ack b\n ran b 1+1 ok\n ack b\n ran b 2+1 ok\n ack b\n ran b 3+1 ok\n ack b\n nodes
         ran b 4+1 ok\n nodes",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=20+5
            0: to b: ack results [(1, 1)]; offer job 1: 6=0+1
            0: a up, b up
            0: to b: ack results [(2, 2)]; offer job 1: 7=1+1
            0: to b: ack results [(3, 3)]; offer job 1: 8=2+1
            0: to b: ack results [(4, 4)]; offer job 1: 9=3+1
            0: to b: ack results [(5, 5)]; offer job 1: 10=4+1
            0: a up, b up
            0: node a quarantined: failed 5 units of job 1 that others pass
            0: to a: withdraw job 1 trim before 11
            0: to b: ack results [(6, 6)]; offer job 1: 11=10+1
            0: a quarantined (failed 5 units of job 1 that others pass), b up
        "#]],
    );
}

#[test]
fn a_sick_nodes_failure_told_again_spends_nothing_of_what_others_run_now() {
    check_after(
        common::A_IS_SICK,
        "again a\n show 1\n ack b\n ran b 31+1 ok\n again a\n show 1\n nodes",
        expect![[r#"
            0: job 1 is running: done 20, out 10, waiting 70, resent tasks 1
            0: job 1 is running: done 20, out 10, waiting 70, resent tasks 1
            0: a quarantined (failed the last 7 units of job 1 that it ran, and others pass), b up
        "#]],
    );
}

#[test]
fn a_failure_that_is_told_again_after_a_person_wanted_it_again_spends_nothing() {
    check_after(
        "submit 2 command units 2 max-failures never\n join a slots 1\n ack a\n ran a 0+2 ok,exit1",
        "retry 1\n ack a\n again a\n show 1\n ran a 1+1 ok\n show 1",
        expect![[r#"
            0: job 1 queued
            0: job 1 running
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+1
            0: job 1 is running: done 1, out 1, waiting 0, duplicate 2
            0: job 1 finished
            0: job 1 is finished: done 2, out 0, waiting 0, duplicate 2
        "#]],
    );
}

#[test]
fn a_job_pauses_when_its_first_twenty_units_all_fail_and_goes_on_when_told() {
    check_after(
        "submit 100 command units 10\n join a slots 1\n ack a",
        "ran a 0+10 exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1\n ack a
         ran a 10+9 exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1\n ack a\n nodes
         ran a 19+1 exit1\n return a 20+10\n at 100\n nodes\n resume 1\n ack a
         ran a 20+10 exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1",
        expect![[r#"
            0: unit 0 of job 1 failed on node a: exit 1
            0: unit 1 of job 1 failed on node a: exit 1
            0: unit 2 of job 1 failed on node a: exit 1
            0: unit 3 of job 1 failed on node a: exit 1
            0: unit 4 of job 1 failed on node a: exit 1
            0: unit 5 of job 1 failed on node a: exit 1
            0: unit 6 of job 1 failed on node a: exit 1
            0: unit 7 of job 1 failed on node a: exit 1
            0: unit 8 of job 1 failed on node a: exit 1
            0: unit 9 of job 1 failed on node a: exit 1
            0: to a: ack results [(1, 1)]; offer job 1: 3=20+10
            0: unit 10 of job 1 failed on node a: exit 1
            0: unit 11 of job 1 failed on node a: exit 1
            0: unit 12 of job 1 failed on node a: exit 1
            0: unit 13 of job 1 failed on node a: exit 1
            0: unit 14 of job 1 failed on node a: exit 1
            0: unit 15 of job 1 failed on node a: exit 1
            0: unit 16 of job 1 failed on node a: exit 1
            0: unit 17 of job 1 failed on node a: exit 1
            0: unit 18 of job 1 failed on node a: exit 1
            0: a up
            0: unit 19 of job 1 failed on node a: exit 1
            0: job 1 paused
            0: to a: ack results [(2, 3)]; withdraw job 1 trim before 4
            20: to a: ack results [(4, 4)]
            100: a up
            100: job 1 running
            100: to a: offer job 1: 4=20+10 5=30+10
            100: unit 20 of job 1 failed on node a: exit 1
            100: unit 21 of job 1 failed on node a: exit 1
            100: unit 22 of job 1 failed on node a: exit 1
            100: unit 23 of job 1 failed on node a: exit 1
            100: unit 24 of job 1 failed on node a: exit 1
            100: unit 25 of job 1 failed on node a: exit 1
            100: unit 26 of job 1 failed on node a: exit 1
            100: unit 27 of job 1 failed on node a: exit 1
            100: unit 28 of job 1 failed on node a: exit 1
            100: unit 29 of job 1 failed on node a: exit 1
            100: to a: ack results [(5, 5)]; offer job 1: 6=40+10
        "#]],
    );
}

#[test]
fn a_job_pauses_at_the_number_of_failures_that_it_says() {
    check_after(
        "submit 100 command units 1 max-failures 2\n join a slots 1\n ack a",
        "ran a 0+1 ok\n ack a\n ran a 1+1 exit7\n ack a\n ran a 2+1 signal9\n at 100",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=2+1
            0: unit 1 of job 1 failed on node a: exit 7
            0: to a: ack results [(2, 2)]; offer job 1: 4=3+1
            0: unit 2 of job 1 failed on node a: signal 9
            0: job 1 paused
            0: to a: ack results [(3, 3)]; withdraw job 1 trim before 5
        "#]],
    );
}

#[test]
fn a_failed_retry_does_not_count_as_a_failed_unit() {
    check_after(
        "submit 100 command retries 1 units 1 max-failures 1\n join a slots 1\n ack a",
        "ran a 0+1 exit1\n ack a\n show 1\n ran a 0+1 exit1\n at 50",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=0+1
            0: job 1 is running: done 0, out 2, waiting 98
            0: unit 0 of job 1 failed on node a: exit 1
            0: job 1 paused
            0: to a: ack results [(2, 2)]; withdraw job 1 trim before 4
        "#]],
    );
}

#[test]
fn failed_units_of_a_running_job_are_wanted_again() {
    check_after(
        "submit 20 command units 5\n join a slots 1\n ack a\n ran a 0+1 exit1\n ran a 2+2 exit1,ok",
        "show 1\n retry 1\n show 1\n tasks a\n ran a 1+1 ok\n ran a 4+1 ok\n ran a 5+5 ok,ok,ok,ok,ok
         ack a\n show 1\n ran a 0+1 ok\n ran a 2+1 ok\n show 1",
        expect![[r#"
            0: job 1 is running: done 1, out 7, waiting 10, unit 0 failed by exit 1, unit 2 failed by exit 1
            0: job 1 is running: done 1, out 7, waiting 12
            0: a has 3 tasks
            0: to a: ack results [(1, 4)]; offer job 1: 3=0+1
            0: to a: ack results [(5, 5)]; offer job 1: 4=2+1
            0: job 1 is running: done 8, out 2, waiting 10
            0: to a: ack results [(6, 6)]; offer job 1: 5=10+5
            0: to a: ack results [(7, 7)]; offer job 1: 6=15+5
            0: job 1 is running: done 10, out 10, waiting 0
        "#]],
    );
}

#[test]
fn failed_units_of_an_ended_job_are_wanted_again_and_it_ends_once_more() {
    check_after(
        "submit 3 command units 3\n submit 10 units 10\n join a slots 1\n ack a\n ran a 0+3 ok,exit1,ok",
        "show 1\n done a 0+10 job 2\n retry 1\n ack a\n show 1\n ran a 1+1 ok\n show 1\n retry 1",
        expect![[r#"
            0: job 1 is failed: done 2, out 0, waiting 0, unit 1 failed by exit 1
            0: job 2 finished
            0: job 1 queued
            0: job 1 running
            0: to a: ack results [(1, 2)]; offer job 1: 3=1+1
            0: job 1 is running: done 2, out 1, waiting 0
            0: job 1 finished
            0: job 1 is finished: done 3, out 0, waiting 0
            0: Retry: Conflict(NoFailedUnit)
        "#]],
    );
}

#[test]
fn a_failed_unit_is_wanted_again_while_its_task_is_still_out() {
    check_after(
        "submit 40 command units 5\n join a slots 1\n ack a\n ran a 0+1 exit1\n ran a 2+1 exit1",
        "retry 1\n join b slots 1\n ack b\n show 1\n tasks a\n ran a 1+1 ok\n ran b 0+1 ok
         ran a 3+2 ok,ok\n ran b 2+1 ok\n show 1\n tasks a",
        expect![[r#"
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 1; offer job 1: 3=0+1 4=2+1
            0: job 1 is running: done 0, out 10, waiting 30
            0: a has 3 tasks
            0: to b: ack results [(1, 1)]; offer job 1: 5=10+5
            0: to a: ack results [(1, 4)]; offer job 1: 6=15+5
            0: to b: ack results [(2, 2)]; offer job 1: 7=20+5
            0: job 1 is running: done 5, out 20, waiting 15
            0: a has 2 tasks
        "#]],
    );
}

#[test]
fn a_failed_unit_of_a_long_task_comes_back_alone_with_the_node_lost() {
    check_after(
        "submit 5 command units 5\n join a slots 1\n ack a\n ran a 2+1 exit1\n retry 1",
        "show 1\n join b slots 1\n ack b\n bye a\n show 1\n ran b 0+2 ok,ok\n ran b 2+1 ok\n ack b\n ran b 3+2 ok,ok\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 4, waiting 1
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 1; offer job 1: 2=2+1
            0: node a left
            0: to b: offer job 1: 3=0+2
            0: job 1 is running: done 0, out 3, waiting 2, resent tasks 2
            0: to b: ack results [(1, 1)]; offer job 1: 4=3+2
            0: job 1 finished
            0: job 1 is finished: done 5, out 0, waiting 0, resent tasks 2
        "#]],
    );
}

#[test]
fn nothing_is_retried_of_a_job_that_was_cancelled_or_has_found_all() {
    check_after(
        "submit 20 command units 5\n submit 20 search 1 targets units 20\n join a slots 1\n ack a
         ran a 0+1 exit1\n cancel 1",
        "show 1\n retry 1\n done a 0+20 job 2 hits 3:0\n retry 2",
        expect![[r#"
            0: job 1 is cancelled: done 0, out 0, waiting 0, abandoned 19, unit 0 failed by exit 1
            0: Retry: Conflict(EndedForGood(Cancelled))
            0: hit in job 2: unit 3, target 0
            0: job 2 finished
            0: Retry: Conflict(NoFailedUnit)
        "#]],
    );
}

#[test]
fn a_result_that_differs_from_what_was_counted_is_a_conflict_and_its_node_is_not_trusted() {
    check_after(
        "submit 60 search 9 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10 hits 3:1\n done b 0+10 hits 4:1\n show 1\n nodes\n tasks b\n ack a\n return b 20+20
         at 100\n tasks b\n undrain b\n nodes",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: conflict in job 1: node b's result for units [0, 10) differs from the one that was counted first
            0: node b quarantined: its results differ from those of others
            0: untrue result in job 1: node b, unit 4: its results differ from those of others
            0: hit in job 1: unit 4, target 1
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 6
            0: job 1 is running: done 10, out 20, waiting 30, duplicate 10, resent tasks 2, hits [(3, 1), (4, 1)], conflict with b in [0, 10), checked 0, untrue at 4: b differs
            0: a up, b quarantined (its results differ from those of others)
            0: b has 0 tasks
            20: to b: ack results [(2, 2)]
            100: b has 0 tasks
            100: node b resumed
            100: to b: offer job 1: 6=20+10 7=30+10
            100: a up, b up
        "#]],
    );
}

#[test]
fn a_result_that_lacks_a_hit_that_was_counted_is_a_conflict_too() {
    check_after(
        "submit 60 search 9 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10 hits 3:1\n done a 10+10\n done b 15+10\n nodes\n done b 0+5\n nodes\n show 1",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: to a: ack results [(2, 2)]; offer job 1: 6=50+10
            0: a up, b up
            0: conflict in job 1: node b's result for units [0, 5) differs from the one that was counted first
            0: node b quarantined: its results differ from those of others
            0: untrue result in job 1: node b, unit 0: its results differ from those of others
            0: to b: ack results [(1, 2)]; withdraw job 1 kill before 7
            0: a up, b quarantined (its results differ from those of others)
            0: job 1 is running: done 20, out 20, waiting 20, duplicate 10, resent tasks 2, hits [(3, 1)], conflict with b in [0, 5), checked 0, untrue at 0: b differs
        "#]],
    );
}

#[test]
fn a_result_that_says_the_same_is_none_however_it_is_cut() {
    check_after(
        "submit 60 search 9 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10 hits 3:1,7:2\n done a 10+10 hits 17:2\n done b 15+10 hits 17:2,22:3\n done b 0+8 hits 3:1,7:2\n nodes\n show 1",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: hit in job 1: unit 7, target 2
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: hit in job 1: unit 17, target 2
            0: to a: ack results [(2, 2)]; offer job 1: 6=50+10
            0: hit in job 1: unit 22, target 3
            0: a up, b up
            0: job 1 is running: done 25, out 35, waiting 0, duplicate 13, hits [(3, 1), (7, 2), (17, 2), (22, 3)]
        "#]],
    );
}

#[test]
fn who_said_the_first_thing_and_says_it_again_after_a_conflict_is_still_trusted() {
    check_after(
        "submit 60 search 9 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10\n done b 0+10 hits 3:1\n again a\n again b\n nodes\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: conflict in job 1: node b's result for units [0, 10) differs from the one that was counted first
            0: node b quarantined: its results differ from those of others
            0: untrue result in job 1: node b, unit 3: its results differ from those of others
            0: hit in job 1: unit 3, target 1
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 6
            0: a up, b quarantined (its results differ from those of others)
            0: job 1 is running: done 10, out 20, waiting 30, duplicate 20, resent tasks 2, hits [(3, 1)], conflict with b in [0, 10), checked 0, untrue at 3: b differs
        "#]],
    );
}

#[test]
fn commands_never_conflict() {
    check_after(
        "submit 20 command units 10\n join a slots 1\n ack a\n join b slots 1",
        "ran a 0+1 ok\n ran b 0+1 exit1\n show 1\n nodes",
        expect![[r#"
            0: job 1 is running: done 1, out 19, waiting 0, duplicate 1
            0: a up, b up
        "#]],
    );
}

#[test]
fn distrust_outlives_another_boot_and_a_drain() {
    check_after(
        "submit 60 search 9 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b
         done a 0+10\n done b 0+10 hits 4:1",
        "hello b boot 2\n nodes\n drain b\n nodes",
        expect![[r#"
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 1
            0: a up, b quarantined (its results differ from those of others)
            0: node b draining
            0: a up, b draining (its results differ from those of others)
        "#]],
    );
}

/// `failed` failures, then as many passes as make `units`.
fn outcomes(failed: usize, units: usize) -> String {
    let words: Vec<&str> = (0..units).map(|unit| if unit < failed { "exit1" } else { "ok" }).collect();
    words.join(",")
}

#[test]
fn a_job_pauses_when_more_than_half_of_a_hundred_units_fail() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 command units 50\n join a slots 1\n ack a");
    bench.run(&format!("ran a 0+50 {}\n ack a", outcomes(25, 50)));
    bench.run(&format!("ran a 50+50 {}\n ack a", outcomes(25, 50)));
    let half = bench.run("nodes");
    bench.run("ran a 100+1 exit1");
    let (paused, job) = (bench.run("at 100"), bench.farm.jobs(0).remove(0));
    expect![[r#"
        0: a up
        paused since 51 of 101 units failed"#]]
    .assert_eq(&format!("{half}{paused}{} since {}", job.state.word(), job.note));
}

#[test]
fn a_job_that_bears_everything_never_pauses() {
    let mut bench = Bench::new(config());
    bench.run("submit 200 command units 20 max-failures never\n join a slots 1\n ack a");
    for lo in (0..160).step_by(20) {
        bench.run(&format!("ran a {lo}+20 {}\n ack a", outcomes(20, 20)));
    }
    let job = bench.farm.jobs(0).remove(0);
    assert_eq!((job.state.word(), job.units_failed.0, job.note.as_str()), ("running", 160, ""));
}

#[test]
fn a_unit_that_failed_on_every_node_is_tried_again_all_the_same() {
    check_after(
        "submit 1 command retries 3 units 1\n join a slots 1\n ack a\n join b slots 1",
        "ran a 0+1 exit1\n ack b\n ran b 0+1 exit1\n ack b\n ran b 0+1 exit1 attempt 3\n ack b\n ran b 0+1 ok attempt 4\n show 1",
        expect![[r#"
            0: to b: offer job 1: 2=0+1
            0: to b: ack results [(1, 1)]; offer job 1: 3=0+1
            0: to b: ack results [(2, 2)]; offer job 1: 4=0+1
            0: job 1 finished
            0: job 1 is finished: done 1, out 0, waiting 0
        "#]],
    );
}

#[test]
fn a_job_whose_last_unit_is_decided_does_not_pause() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command units 50\n join a slots 1\n ack a");
    bench.run(&format!("ran a 0+50 {}", outcomes(25, 50)));
    let told = bench.run(&format!("ran a 50+50 {}", outcomes(41, 50)));
    let told: Vec<&str> = told.lines().filter(|line| line.starts_with("0: job")).collect();
    assert_eq!(told, ["0: job 1 failed"]);
}
