//! What outlives a scheduler, told as scripts: results, commands, blame, nodes. What was given out before the crash
//! is in `leases`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::check_after;
use expect_test::expect;

#[test]
fn results_that_were_computed_meanwhile_count_once() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "restart\n at 3000\n hello a\n beat a 0+10,10+10\n done a 0+10\n done a 10+10\n again a\n beat a none\n at 3100
         show 1",
        expect![[r#"
            3000: node a is back
            3000: to a: welcome epoch 2
            3000: to a: answer 1
            3000: to a: answer 2; ack results [(1, 2), (2, 2)]
            3000: to a: offer job 1: 1099511627777=20+10 1099511627778=30+10
            3100: job 1 is running: done 20, out 20, waiting 0, duplicate 10, resent tasks 1
        "#]],
    );
}

#[test]
fn a_result_that_was_acknowledged_before_the_crash_and_comes_again_is_a_duplicate() {
    check_after(
        "submit 40 search 2 targets never units 10\n join a slots 1\n ack a\n done a 0+10 hits 3:1
         at 50",
        "restart\n hello a\n again a\n at 100\n show 1",
        expect![[r#"
            50: node a is back
            50: to a: welcome epoch 2
            70: to a: ack results [(1, 1)]
            100: job 1 is running: done 10, out 30, waiting 0, duplicate 10, hits [(3, 1)]
        "#]],
    );
}

#[test]
fn a_result_whose_record_was_not_durable_counts_when_it_is_offered_again() {
    check_after(
        "submit 20 search 2 targets never units 10\n join a slots 1\n ack a",
        "hold\n done a 0+10 hits 3:1\n at 50\n show 1\n restart\n show 1\n hello a\n beat a 0+10,10+10\n again a
         beat a 10+10\n at 100\n show 1",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            50: job 1 is running: done 10, out 10, waiting 0, hits [(3, 1)]
            50: job 1 is running: done 0, out 20, waiting 0
            50: node a is back
            50: to a: welcome epoch 2
            50: to a: answer 1
            50: hit in job 1: unit 3, target 1
            50: to a: answer 2; ack results [(1, 1)]
            100: job 1 is running: done 10, out 10, waiting 0, hits [(3, 1)]
        "#]],
    );
}

#[test]
fn work_whose_record_was_not_durable_is_done_again_where_nobody_has_it() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "hold\n done a 0+20\n show 1\n restart\n hello a boot 2\n beat a none\n at 60\n show 1",
        expect![[r#"
            0: job 1 finished
            0: job 1 is finished: done 20, out 0, waiting 0
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=0+10 1099511627778=10+10
            60: job 1 is running: done 0, out 20, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_job_whose_record_was_not_durable_was_never_submitted() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "hold\n submit 30 units 10\n show 2\n restart\n show 1\n show 2\n submit 40 units 10\n show 2",
        expect![[r#"
            0: job 2 submitted: 30 units
            0: job 2 is queued: done 0, out 0, waiting 30
            0: job 1 is running: done 0, out 20, waiting 0
            0: job 2 is unknown
            0: job 2 submitted: 40 units
            0: job 2 is queued: done 0, out 0, waiting 40
        "#]],
    );
}

#[test]
fn an_end_that_was_not_durable_comes_again_with_its_results() {
    check_after(
        "submit 10 units 10\n join a slots 1\n ack a",
        "hold\n done a 0+10\n show 1\n restart\n show 1\n hello a\n beat a 0+10\n again a\n at 60\n show 1",
        expect![[r#"
            0: job 1 finished
            0: job 1 is finished: done 10, out 0, waiting 0
            0: job 1 is running: done 0, out 10, waiting 0
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: job 1 finished
            20: to a: ack results [(1, 1)]
            60: job 1 is finished: done 10, out 0, waiting 0
        "#]],
    );
}

#[test]
fn retries_that_were_spent_stay_spent() {
    check_after(
        "submit 1 command retries 1 units 1\n join a slots 1\n ack a\n ran a 0+1 exit3",
        "restart\n hello a\n beat a none\n at 1\n ack a\n ran a 0+1 exit4\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=0+1
            1: unit 0 of job 1 failed on node a: exit 4
            1: job 1 failed
            1: job 1 is failed: done 0, out 0, waiting 0, resent tasks 1, unit 0 failed by exit 4
        "#]],
    );
}

#[test]
fn a_failure_told_again_after_the_restart_spends_nothing() {
    check_after(
        "submit 1 command retries 1 units 1\n join a slots 1\n ack a\n ran a 0+1 exit3",
        "restart\n hello a\n beat a 0+1\n again a\n show 1\n beat a none\n at 1\n ack a\n ran a 0+1 ok\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: ack results [(1, 1)]; offer job 1: 1099511627777=0+1
            0: job 1 is running: done 0, out 1, waiting 0, duplicate 1, resent tasks 1
            0: to a: answer 2
            1: job 1 finished
            1: job 1 is finished: done 1, out 0, waiting 0, duplicate 1, resent tasks 1
        "#]],
    );
}

#[test]
fn attempts_of_two_schedulers_are_told_apart() {
    check_after(
        "submit 1 command retries 2 units 1\n join a slots 1\n ack a\n ran a 0+1 exit3",
        "restart\n hello a\n beat a none\n at 1\n ack a\n ran a 0+1 exit4\n ack a\n show 1
         ran a 0+1 exit5\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=0+1
            1: to a: ack results [(2, 2)]; offer job 1: 1099511627778=0+1
            1: job 1 is running: done 0, out 1, waiting 0, resent tasks 1
            1: unit 0 of job 1 failed on node a: exit 5
            1: job 1 failed
            1: job 1 is failed: done 0, out 0, waiting 0, resent tasks 1, unit 0 failed by exit 5
        "#]],
    );
}

#[test]
fn deaths_count_on_and_the_third_is_poison() {
    check_after(
        "submit 4 command units 4\n join a slots 1\n ack a\n hello a boot 2 died 2\n ack a
         hello a boot 3 died 2\n ack a",
        "restart\n hello a\n beat a none\n at 1\n ack a\n hello a boot 4 died 2\n ack a\n show 1
         restart\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=0+2 1099511627778=2+1
            1: unit 2 of job 1 failed: poison
            1: node a joined: 1 slot, boot 0000000000000004
            1: to a: welcome epoch 2; offer job 1: 1099511627779=0+2 1099511627780=3+1
            1: job 1 is running: done 0, out 3, waiting 0, resent tasks 2, unit 2 failed by poison
            1: job 1 is running: done 0, out 3, waiting 0, unit 2 failed by poison
        "#]],
    );
}

#[test]
fn units_under_suspicion_stay_alone_in_their_tasks() {
    check_after(
        "submit 4 command units 4\n join a slots 1\n ack a\n hello a boot 2 died 2",
        "restart\n at 1\n hello a boot 3\n beat a none\n at 2\n show 1",
        expect![[r#"
            1: node a joined: 1 slot, boot 0000000000000003
            1: to a: welcome epoch 2
            1: to a: answer 1
            1: to a: offer job 1: 1099511627777=0+2 1099511627778=2+1
            2: job 1 is running: done 0, out 3, waiting 1, resent tasks 1
        "#]],
    );
}

#[test]
fn what_failed_on_a_node_goes_to_another_first() {
    check_after(
        "submit 4 command retries 3 units 4\n join a slots 1\n join b slots 1\n ack a
         ran a 0+4 ok,exit1,exit1,ok\n bye b",
        "restart\n hello a boot 2\n join b slots 1\n at 1\n beat a none\n at 2\n beat b none\n show 1",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 2
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 2
            1: to a: answer 1
            1: to b: offer job 1: 1099511627777=1+1 1099511627778=2+1
            2: to b: answer 1
            2: job 1 is running: done 2, out 2, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn what_a_person_did_to_jobs_stays_done() {
    check_after(
        "submit 20 units 10\n submit 20 units 10\n submit 20 units 10\n submit 20 units 10
         submit 20 units 10\n pause 1\n cancel 2\n cancel 3\n delete 3\n front 5",
        "restart\n show 1\n show 2\n show 3\n join a slots 1\n resume 1\n cancel 5\n cancel 1\n show 4",
        expect![[r#"
            0: job 1 is paused: done 0, out 0, waiting 20
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 20
            0: job 3 is unknown
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 2
            0: job 5 running
            0: to a: offer job 5: 1099511627777=0+10 1099511627778=10+10
            0: job 1 queued
            0: job 5 cancelled
            0: to a: withdraw job 5 kill before 1099511627779
            0: job 1 running
            0: to a: offer job 1: 1099511627779=0+10 1099511627780=10+10
            0: job 1 cancelled
            0: job 4 running
            0: to a: withdraw job 1 kill before 1099511627781; offer job 4: 1099511627781=0+10 1099511627782=10+10
            0: job 4 is running: done 0, out 20, waiting 0
        "#]],
    );
}

#[test]
fn switching_outlives_the_scheduler() {
    check_after(
        "submit 20 units 10\n submit 20 units 10\n join a slots 1\n ack a\n switch 2\n return a 0+20
         ack a\n show 1\n show 2",
        "restart\n show 1\n show 2\n hello a\n beat a none\n at 1",
        expect![[r#"
            0: job 1 is queued: done 0, out 20, waiting 0
            0: job 2 is running: done 0, out 20, waiting 0
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 2: 1099511627777=0+10 1099511627778=10+10
        "#]],
    );
}

#[test]
fn a_drained_node_stays_drained_and_a_forgotten_one_forgotten() {
    check_after(
        "join a slots 1\n join b slots 1\n join c slots 1\n drain a\n bye b\n forget b\n at 100",
        "nodes\n restart\n nodes\n hello a\n beat a none\n hello c\n beat c none\n submit 20 units 10\n nodes\n undrain a\n restart
         hello a\n nodes",
        expect![[r#"
            100: a draining, c up
            100: a suspect, c suspect
            100: node a is back
            100: to a: welcome epoch 2
            100: to a: answer 1
            100: node c is back
            100: to c: welcome epoch 2
            100: to c: answer 1
            100: job 1 submitted: 20 units
            100: job 1 running
            100: to c: offer job 1: 1099511627777=0+10 1099511627778=10+10
            100: a draining, c up
            100: node a resumed
            100: node a is back
            100: to a: welcome epoch 3
            100: a up, c suspect
        "#]],
    );
}

#[test]
fn a_lost_node_stays_lost_until_it_is_heard() {
    check_after(
        "join a slots 1\n at 16000",
        "nodes\n restart\n at 17000\n nodes\n hello a\n nodes",
        expect![[r#"
            16000: a lost
            17000: a lost
            17000: node a is back
            17000: to a: welcome epoch 2
            17000: a up
        "#]],
    );
}

#[test]
fn tasks_of_a_job_that_has_ended_are_withdrawn_from_who_still_has_them() {
    check_after(
        "submit 20 units 10\n submit 20 units 10\n join a slots 1\n ack a\n cancel 1\n delete 1\n at 5
         ack a\n cancel 2",
        "restart\n at 10\n hello a\n beat a 0+10,10+10\n beat a 0+10 job 2\n at 1500\n beat a none
         show 2",
        expect![[r#"
            10: node a is back
            10: to a: welcome epoch 2
            10: to a: answer 1; withdraw job 1 kill before 18446744073709551615
            10: to a: answer 2; withdraw job 2 kill before 1099511627777
            1500: to a: answer 3
            1500: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 20
        "#]],
    );
}

#[test]
fn tasks_of_a_paused_job_are_trimmed_at_who_still_has_them() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n hold\n pause 1\n durable\n at 5",
        "restart\n at 10\n hello a\n beat a 0+20\n at 20\n beat a 0+20\n return a 5+15\n done a 0+5
         at 60\n show 1\n resume 1",
        expect![[r#"
            10: node a is back
            10: to a: welcome epoch 2
            10: to a: answer 1
            20: to a: answer 2; withdraw job 1 trim before 1099511627777
            40: to a: ack results [(1, 2)]
            60: job 1 is paused: done 5, out 0, waiting 35, resent tasks 2
            60: job 1 running
            60: to a: offer job 1: 1099511627777=5+10 1099511627778=15+10
        "#]],
    );
}

#[test]
fn a_result_for_a_job_that_ended_before_the_crash_still_counts() {
    check_after(
        "submit 40 search 2 targets units 10\n join a slots 1\n ack a\n cancel 1\n at 5",
        "restart\n hello a\n beat a 0+10\n done a 0+10 hits 4:1\n at 50\n show 1",
        expect![[r#"
            5: node a is back
            5: to a: welcome epoch 2
            5: to a: answer 1; withdraw job 1 kill before 1099511627777
            5: hit in job 1: unit 4, target 1
            25: to a: ack results [(1, 1)]
            50: job 1 is cancelled: done 10, out 0, waiting 0, abandoned 30, hits [(4, 1)]
        "#]],
    );
}

#[test]
fn retried_units_of_an_ended_job_are_wanted_after_a_crash() {
    check_after(
        "submit 2 command units 2 max-failures never\n join a slots 1\n ack a\n ran a 0+2 ok,exit3
         show 1",
        "hold\n retry 1\n show 1\n restart\n show 1\n retry 1\n restart\n show 1\n hello a\n beat a none
         at 1\n ack a\n ran a 1+1 ok\n show 1",
        expect![[r#"
            0: job 1 queued
            0: job 1 running
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+1
            0: job 1 is running: done 1, out 1, waiting 0
            0: job 1 is failed: done 1, out 0, waiting 0, unit 1 failed by exit 3
            0: job 1 queued
            0: job 1 is queued: done 1, out 1, waiting 0
            0: node a is back
            0: to a: welcome epoch 3
            0: to a: answer 1
            0: job 1 running
            0: to a: offer job 1: 2199023255553=1+1
            1: job 1 finished
            1: job 1 is finished: done 2, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_conflict_and_its_distrust_stay_until_a_person_trusts_the_node() {
    check_after(
        "submit 40 search 2 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b
         done a 0+10\n done b 0+10 hits 3:1",
        "show 1\n nodes\n restart\n hello b\n hello a\n show 1\n nodes\n restart\n hello b\n undrain b
         restart\n hello b\n nodes",
        expect![[r#"
            0: job 1 is running: done 10, out 20, waiting 10, duplicate 10, resent tasks 2, hits [(3, 1)], conflict with b in [0, 10), checked 0, untrue at 3: b differs
            0: a up, b quarantined (its results differ from those of others)
            0: node b is back
            0: to b: welcome epoch 2
            0: node a is back
            0: to a: welcome epoch 2
            0: job 1 is running: done 10, out 30, waiting 0, hits [(3, 1)], conflict with b in [0, 10), checked 0, untrue at 3: b differs
            0: a up, b quarantined (its results differ from those of others)
            0: node b is back
            0: to b: welcome epoch 3
            0: node b resumed
            0: node b is back
            0: to b: welcome epoch 4
            0: a suspect, b up
        "#]],
    );
}

#[test]
fn numbers_of_jobs_and_nodes_are_not_given_twice() {
    check_after(
        "submit 20 units 10\n cancel 1\n delete 1",
        "restart\n submit 20 units 10\n show 1\n show 2",
        expect![[r#"
            0: job 2 submitted: 20 units
            0: job 1 is unknown
            0: job 2 is queued: done 0, out 0, waiting 20
        "#]],
    );
}

#[test]
fn a_job_whose_end_was_lost_though_its_last_unit_was_kept_ends_after_the_restart() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a\n hold",
        "done a 0+20\n restart keeping 1\n show 1",
        expect![[r#"
            0: job 1 finished
            0: job 1 finished
            0: job 1 is finished: done 20, out 0, waiting 0
        "#]],
    );
}

/// Its own queue ran over: one range that it was found to hold was one task for the window.
#[test]
fn a_node_that_holds_much_after_a_restart_gets_no_more_than_its_window() {
    let before = "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 20000\n done a 10+10 ms 20000
         ack a\n checkpoint";
    check_after(
        before,
        "restart\n session a\n hello a\n beat a 20+50 queued 4 running 20\n tasks a\n done a 20+50 ms 90000\n tasks a",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=1610+10
            0: a has 6 tasks
            0: to a: ack results [(3, 3)]; offer job 1: 1099511627778=1620+10 1099511627779=1630+10 1099511627780=1640+10
            0: a has 4 tasks
        "#]],
    );
}

/// The mark that tells its attempts apart was in no record.
#[test]
fn a_failure_that_is_told_again_after_a_retry_and_a_restart_spends_nothing() {
    for checkpoint in ["", "checkpoint\n"] {
        check_after(
            "submit 2 command units 2 max-failures never\n join a slots 1\n ack a\n ran a 0+2 ok,exit1\n bye a\n retry 1",
            &format!(
                "{checkpoint}restart\n hello a\n beat a 0+2\n again a\n at 1\n show 1\n ack a\n ran a 1+1 ok\n show 1"
            ),
            expect![[r#"
                0: node a joined: 1 slot, boot 0000000000000001
                0: to a: welcome epoch 2
                0: to a: answer 1
                0: job 1 running
                0: to a: ack results [(1, 1)]; offer job 1: 1099511627777=1+1
                1: job 1 is running: done 1, out 1, waiting 0, duplicate 2, resent tasks 1
                1: job 1 finished
                1: job 1 is finished: done 2, out 0, waiting 0, duplicate 2, resent tasks 1
            "#]],
        );
    }
}
