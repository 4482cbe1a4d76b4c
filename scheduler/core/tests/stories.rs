//! How tasks live and come back, told as scripts: offers, acknowledgements, lost nodes, failures, windows.
//! What users do to jobs, and how jobs end, is in `jobs`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;

#[test]
fn an_ordinary_life_from_submit_to_finished() {
    check(
        "submit 40 units 10\n join a slots 1\n at 5\n ack a\n beat a 0+20 running 0\n at 1000\n done a 0+10
         at 1010\n done a 10+10\n ack a\n at 2000\n show 1\n done a 20+10\n done a 30+10\n at 2050\n show 1",
        expect![[r#"
            0: job 1 submitted: 40 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+10 2=10+10
            5: to a: answer 1
            1000: to a: ack results [(1, 1)]; offer job 1: 3=20+10
            1010: to a: ack results [(2, 2)]; offer job 1: 4=30+10
            2000: job 1 is running: done 20, out 20, waiting 0
            2000: job 1 finished
            2020: to a: ack results [(3, 4)]
            2050: job 1 is finished: done 40, out 0, waiting 0
        "#]],
    );
}

#[test]
fn offers_repeat_with_a_growing_wait_until_they_are_acknowledged() {
    check_after(
        "submit 40 units 10\n join a slots 1",
        "at 3000\n beat a none\n at 4500\n ack a\n beat a 0+20\n at 9000",
        expect![[r#"
            200: offered 2 tasks again to node a
            200: to a: offer job 1: 1=0+10 2=10+10
            600: offered 2 tasks again to node a
            600: to a: offer job 1: 1=0+10 2=10+10
            1400: offered 2 tasks again to node a
            1400: to a: offer job 1: 1=0+10 2=10+10
            3000: offered 2 tasks again to node a
            3000: to a: offer job 1: 1=0+10 2=10+10
            3000: to a: answer 1
            4500: to a: answer 2
        "#]],
    );
}

#[test]
fn an_acknowledgement_waits_until_its_record_is_durable() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "hold\n done a 0+10\n ack a\n at 500\n again a\n at 900\n durable\n at 1000\n again a\n at 1100",
        expect![[r#"
            0: to a: offer job 1: 3=20+10
            920: to a: ack results [(1, 1), (1, 1)]
            1020: to a: ack results [(1, 1)]
        "#]],
    );
}

#[test]
fn an_acknowledgement_is_for_the_incarnation_that_numbered_the_result() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "hold\n done a 0+10\n at 100\n hello a boot 2\n durable\n at 200\n show 1",
        expect![[r#"
            0: to a: offer job 1: 3=20+10
            50: offered 1 task again to node a
            50: to a: offer job 1: 3=20+10
            100: node a joined: 1 slot, boot 0000000000000002
            100: to a: welcome epoch 1; offer job 1: 4=10+10 5=20+10
            200: job 1 is running: done 10, out 20, waiting 10, resent tasks 2
        "#]],
    );
}

#[test]
fn a_lost_nodes_tasks_go_to_another_and_the_first_result_counts() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a\n join b slots 1",
        "live 15010 b none\n ack b\n nodes\n at 15100\n done a 0+10\n at 15150\n done b 0+10\n done b 10+10
         at 15200\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 2 tasks back to gq
            15000: to b: offer job 1: 3=0+10 4=10+10
            15010: a lost, b up
            15100: node a is back
            15120: to a: ack results [(1, 1)]
            15150: job 1 finished
            15170: to b: ack results [(1, 2)]
            15200: job 1 is finished: done 20, out 0, waiting 0, duplicate 10, resent tasks 2
        "#]],
    );
}

#[test]
fn of_a_late_result_that_overlaps_only_the_new_part_counts() {
    check_after(
        "submit 20 units 20\n join a slots 1\n ack a\n join b slots 1",
        "live 15010 b none\n ack b\n done b 0+5\n done a 0+12\n show 1\n done b 5+15\n at 15050\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            15000: to b: offer job 1: 2=0+20
            15010: node a is back
            15010: job 1 is running: done 12, out 8, waiting 0, duplicate 5, resent tasks 1
            15010: job 1 finished
            15030: to a: ack results [(1, 1)]
            15030: to b: ack results [(1, 2)]
            15050: job 1 is finished: done 20, out 0, waiting 0, duplicate 12, resent tasks 1
        "#]],
    );
}

#[test]
fn a_node_that_was_only_silent_keeps_what_it_still_holds() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "at 15000\n show 1\n beat a 0+5,10+10\n show 1\n ack a\n done a 0+5\n done a 10+10\n done a 5+5\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 2 tasks back to gq
            15000: job 1 is running: done 0, out 0, waiting 20, resent tasks 2
            15000: node a is back
            15000: to a: answer 1
            15000: job 1 is running: done 0, out 15, waiting 5, resent tasks 2
            15000: to a: ack results [(1, 1)]; offer job 1: 3=5+5
            15000: job 1 finished
            15000: job 1 is finished: done 20, out 0, waiting 0, resent tasks 2
        "#]],
    );
}

#[test]
fn what_went_to_another_meanwhile_is_not_adopted() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a\n join b slots 1",
        "live 15010 b none\n ack b\n beat a 0+20\n tasks a\n tasks b\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 2 tasks back to gq
            15000: to b: offer job 1: 3=0+10 4=10+10
            15010: node a is back
            15010: to a: answer 1
            15010: a has 0 tasks
            15010: b has 2 tasks
            15010: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
        "#]],
    );
}

#[test]
fn an_attempt_that_is_no_longer_listed_expires_and_a_listed_one_never_does() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "live 79000 a 0+10\n show 1\n live 82000 a 0+10\n nodes\n show 1\n live 90000 a 0+10\n show 1",
        expect![[r#"
            79000: job 1 is running: done 0, out 20, waiting 0
            81000: task [10, 20) of job 1 expired on node a
            82000: a quarantined
            82000: job 1 is running: done 0, out 10, waiting 10, resent tasks 1
            90000: job 1 is running: done 0, out 10, waiting 10, resent tasks 1
        "#]],
    );
}

#[test]
fn however_short_its_tasks_are_a_node_may_miss_them_in_two_heartbeats() {
    check_after(
        "submit 20 command target 0\n join a slots 1\n ack a",
        "at 1000\n beat a none\n at 2000\n beat a none\n at 2999\n beat a none\n show 1\n at 3000\n beat a none
         show 1",
        expect![[r#"
            1000: to a: answer 1
            2000: to a: answer 2
            2999: to a: answer 3
            2999: job 1 is running: done 0, out 2, waiting 18
            3000: task [0, 1) of job 1 expired on node a
            3000: task [1, 2) of job 1 expired on node a
            3000: to a: answer 4
            3000: job 1 is running: done 0, out 0, waiting 20, resent tasks 2
        "#]],
    );
}

#[test]
fn a_suspect_node_gets_no_tasks_until_it_is_heard_again() {
    check_after(
        "join a slots 1",
        "at 6000\n nodes\n submit 20 units 10\n at 7000\n beat a none\n nodes",
        expect![[r#"
            5000: node a suspect: no heartbeat
            6000: a suspect
            6000: job 1 submitted: 20 units
            7000: node a is back
            7000: job 1 running
            7000: to a: answer 1; offer job 1: 1=0+10 2=10+10
            7000: a up
        "#]],
    );
}

#[test]
fn a_failed_unit_is_run_again_until_its_retries_are_spent() {
    check_after(
        "submit 3 command retries 1 units 3\n join a slots 1\n ack a",
        "ran a 0+3 ok,exit3,exit4\n show 1\n ack a\n ran a 1+1 exit5\n show 1\n ran a 2+1 ok\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+1 3=2+1
            0: job 1 is running: done 1, out 2, waiting 0
            0: unit 1 of job 1 failed on node a: exit 5
            0: job 1 is running: done 1, out 1, waiting 0, unit 1 failed by exit 5
            0: job 1 failed
            0: job 1 is failed: done 2, out 0, waiting 0, unit 1 failed by exit 5
        "#]],
    );
}

#[test]
fn a_failure_that_is_told_twice_spends_one_retry() {
    check_after(
        "submit 2 command retries 1 units 2\n join a slots 1\n ack a",
        "ran a 0+2 ok,exit3\n again a\n again a\n show 1\n ack a\n ran a 1+1 ok\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+1
            0: job 1 is running: done 1, out 1, waiting 0, duplicate 4
            0: job 1 finished
            0: job 1 is finished: done 2, out 0, waiting 0, duplicate 4
        "#]],
    );
}

#[test]
fn a_unit_whose_workers_die_three_times_is_poison() {
    check_after(
        "submit 4 command units 4\n join a slots 1\n ack a",
        "hello a boot 2 died 2\n ack a\n show 1\n hello a boot 3 died 2\n ack a\n hello a boot 4 died 2\n ack a
         show 1\n ran a 0+2 ok,ok\n ran a 3+1 ok\n show 1",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 2=0+2 3=2+1
            0: job 1 is running: done 0, out 3, waiting 1, resent tasks 1
            0: node a joined: 1 slot, boot 0000000000000003
            0: to a: welcome epoch 1; offer job 1: 4=0+2 5=2+1
            0: unit 2 of job 1 failed: poison
            0: node a joined: 1 slot, boot 0000000000000004
            0: to a: welcome epoch 1; offer job 1: 6=0+2 7=3+1
            0: job 1 is running: done 0, out 3, waiting 0, resent tasks 4, unit 2 failed by poison
            0: job 1 failed
            0: job 1 is failed: done 3, out 0, waiting 0, resent tasks 4, unit 2 failed by poison
        "#]],
    );
}

#[test]
fn poison_needs_another_node_where_there_is_one() {
    check_after(
        "submit 2 command units 1\n join a slots 1\n ack a",
        "hello a boot 2 died 0\n hello a boot 3 died 0\n join b slots 1\n ack b\n hello a boot 4 died 0\n show 1
         tasks b\n ran b 0+1 ok\n hello a boot 5 died 0\n show 1",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 3=0+1 4=1+1
            0: node a joined: 1 slot, boot 0000000000000003
            0: to a: welcome epoch 1; offer job 1: 5=0+1 6=1+1
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 1
            0: node a joined: 1 slot, boot 0000000000000004
            0: to a: welcome epoch 1; offer job 1: 7=1+1
            0: to b: offer job 1: 8=0+1
            0: job 1 is running: done 0, out 2, waiting 0, resent tasks 6
            0: b has 1 tasks
            0: node a joined: 1 slot, boot 0000000000000005
            0: to a: welcome epoch 1; offer job 1: 9=1+1
            0: job 1 is running: done 1, out 1, waiting 0, resent tasks 7
        "#]],
    );
}

#[test]
fn a_unit_that_ran_to_its_end_is_acquitted_of_earlier_deaths() {
    check_after(
        "submit 1 command retries 1 units 1\n join a slots 1\n ack a",
        "hello a boot 2 died 0\n hello a boot 3 died 0\n ack a\n ran a 0+1 exit3\n ack a\n hello a boot 4 died 0
         show 1",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 2=0+1
            0: node a joined: 1 slot, boot 0000000000000003
            0: to a: welcome epoch 1; offer job 1: 3=0+1
            0: to a: ack results [(1, 1)]; offer job 1: 4=0+1
            0: node a joined: 1 slot, boot 0000000000000004
            0: to a: welcome epoch 1; offer job 1: 5=0+1
            0: job 1 is running: done 0, out 1, waiting 0, resent tasks 3
        "#]],
    );
}

#[test]
fn a_lost_node_does_not_spend_a_retry() {
    check_after(
        "submit 1 command retries 0 units 1\n join a slots 1\n ack a",
        "beat a 0+1 running 0\n at 16000\n join b slots 1\n show 1\n ran b 0+1 ok\n show 1",
        expect![[r#"
            0: to a: answer 1
            5000: node a suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            16000: node b joined: 1 slot, boot 0000000000000001
            16000: to b: welcome epoch 1; offer job 1: 2=0+1
            16000: job 1 is running: done 0, out 1, waiting 0, resent tasks 1
            16000: job 1 finished
            16000: job 1 is finished: done 1, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_node_that_was_only_silent_was_killed_by_nothing() {
    check_after(
        "submit 1 command units 1\n join a slots 1\n ack a\n beat a 0+1 running 0\n join b slots 1",
        "live 15500 b none\n ack b\n beat a none\n drain a\n hello b boot 2 died 0\n ack b\n hello b boot 3 died 0
         show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            15000: to b: offer job 1: 2=0+1
            15200: offered 1 task again to node b
            15200: to b: offer job 1: 2=0+1
            15500: node a is back
            15500: to a: answer 2
            15500: node a draining
            15500: node b joined: 1 slot, boot 0000000000000002
            15500: to b: welcome epoch 1; offer job 1: 3=0+1
            15500: node b joined: 1 slot, boot 0000000000000003
            15500: to b: welcome epoch 1; offer job 1: 4=0+1
            15500: job 1 is running: done 0, out 1, waiting 0, resent tasks 3
        "#]],
    );
}

#[test]
fn a_node_whose_tasks_vanish_is_probed_with_one_task_at_growing_pauses_until_a_result_counts() {
    check_after(
        "submit 90 units 10\n join a slots 1\n ack a",
        "live 82000 a none\n nodes\n live 90010 a none\n ack a\n live 171000 a none\n nodes\n live 190010 a none
         ack a\n done a 0+10\n nodes\n show 1",
        expect![[r#"
            80000: task [0, 10) of job 1 expired on node a
            80000: task [10, 20) of job 1 expired on node a
            82000: a quarantined
            90000: to a: offer job 1: 3=0+10
            170010: task [0, 10) of job 1 expired on node a
            171000: a quarantined
            190010: to a: offer job 1: 4=0+10
            190010: to a: ack results [(1, 1)]; offer job 1: 5=10+10 6=20+10
            190010: a up
            190010: job 1 is running: done 10, out 20, waiting 60, resent tasks 3
        "#]],
    );
}

#[test]
fn speed_ups_and_slow_downs_move_the_window_within_bounds() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000000 units 10\n join a slots 1 queue 20\n ack a\n done a 0+10 ms 20000");
    let story = bench.run(
        "tasks a\n feedback a 2 0\n tasks a\n feedback a 60 0\n tasks a\n feedback a 2 0\n tasks a
         feedback a 60 50\n tasks a\n return a 10+60\n tasks a",
    );
    expect![[r#"
        0: a has 3 tasks
        0: to a: offer job 1: 5=40+10 6=50+10
        0: a has 5 tasks
        0: to a: offer job 1: 7=60+10
        0: a has 6 tasks
        0: a has 6 tasks
        0: a has 6 tasks
        0: to a: ack results [(2, 2)]; offer job 1: 8=70+10 9=80+10
        0: a has 2 tasks
    "#]]
    .assert_eq(&story);
}

#[test]
fn sizes_follow_the_measured_speed_within_the_law() {
    check_after(
        "submit 100000000 search 1 never target 8\n join a slots 1\n ack a",
        "done a 0+65536 ms 1000\n show 1\n join b slots 1\n ack b\n done b 3801088+524288 ms 80\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=131072+524288 4=655360+524288 5=1179648+524288 6=1703936+524288 7=2228224+524288 8=2752512+524288
            0: job 1 is running: done 65536, out 3211264, waiting 96723200
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 1; offer job 1: 9=3276800+524288 10=3801088+524288
            0: to b: ack results [(1, 1)]; offer job 1: 11=4325376+8388608
            0: job 1 is running: done 589824, out 12124160, waiting 87286016
        "#]],
    );
}

#[test]
fn a_scheduler_that_was_paused_does_not_take_its_own_silence_for_that_of_the_nodes() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n at 4000",
        "stall 60000\n nodes\n at 65500\n nodes\n at 75500",
        expect![[r#"
            64000: a up
            65000: node a suspect: no heartbeat
            65500: a suspect
            75000: node a lost: 2 tasks back to gq
        "#]],
    );
}

#[test]
fn a_drained_node_whose_worker_stops_is_told_once_and_one_that_stops_itself_cannot_be_resumed() {
    check_after(
        "join a slots 1",
        "drain a\n beat a none draining\n undrain a\n undrain a\n bye a\n hello a boot 2\n nodes",
        expect![[r#"
            0: node a draining
            0: to a: answer 1
            0: node a resumed
            0: Resume: Conflict(WorkerStops)
            0: node a left
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1
            0: a up
        "#]],
    );
}
