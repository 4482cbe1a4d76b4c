//! What users do to jobs and nodes, the order of jobs, and how jobs end, told as scripts. How tasks live is
//! in `stories`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;

#[test]
fn pause_withdraws_what_is_out_and_what_is_done_stays() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n done a 0+4",
        "pause 1\n beat a 4+16\n return a 6+14\n done a 4+2\n show 1\n at 1000\n resume 1\n show 1\n resume 1",
        expect![[r#"
            0: job 1 paused
            0: to a: ack results [(1, 1)]; withdraw job 1 trim before 3
            0: to a: answer 1; withdraw job 1 trim before 3
            0: job 1 is paused: done 6, out 0, waiting 34, resent tasks 2
            20: to a: ack results [(2, 3)]
            1000: job 1 running
            1000: to a: offer job 1: 3=6+10 4=16+4
            1000: job 1 is running: done 6, out 14, waiting 20, resent tasks 2
            1000: Resume: Conflict(NotPaused)
        "#]],
    );
}

#[test]
fn cancel_withdraws_and_a_result_that_comes_all_the_same_counts() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n done a 0+10",
        "cancel 1\n show 1\n done a 10+3\n beat a 13+7\n show 1\n pause 1\n delete 1\n beat a 13+7\n show 1",
        expect![[r#"
            0: job 1 cancelled
            0: to a: withdraw job 1 kill before 4
            0: job 1 is cancelled: done 10, out 0, waiting 0, abandoned 30
            0: to a: answer 1; ack results [(2, 2)]; withdraw job 1 kill before 4
            0: job 1 is cancelled: done 13, out 0, waiting 0, abandoned 27
            0: Pause: Conflict(Ended(Cancelled))
            0: job 1 deleted
            0: to a: answer 2; withdraw job 1 kill before 18446744073709551615
            0: job 1 is unknown
        "#]],
    );
}

#[test]
fn switch_stops_the_running_job_at_a_units_end_and_it_goes_on_next() {
    check_after(
        "submit 20 units 10\n submit 10 units 10\n join a slots 1\n ack a",
        "switch 2\n show 1\n return a 0+20\n ack a\n show 2\n done a 0+10 job 2\n show 1",
        expect![[r#"
            0: job 2 is number 1 in jq
            0: job 1 queued
            0: to a: withdraw job 1 trim before 3
            0: job 1 is queued: done 0, out 20, waiting 0
            0: job 2 running
            0: job 1 running
            0: to a: ack results [(1, 1)]; offer job 2: 3=0+10; offer job 1: 4=0+10
            0: job 2 is running: done 0, out 10, waiting 0
            0: job 2 finished
            0: to a: ack results [(2, 2)]; offer job 1: 5=10+10
            0: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
        "#]],
    );
}

#[test]
fn a_node_that_tcp_reaches_again_gets_tasks_of_the_job_that_it_refused_without_a_specification() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a\n refuse a 0+20 no-TCP",
        "at 1000\n show 1\n able a\n able a\n show 1\n ack a\n refuse a 0+20 no-TCP\n able a 2\n show 1\n drain a\n live 61000 a none\n able a 2\n undrain a\n show 1",
        expect![[r#"
            20: to a: ack results [(1, 1)]
            1000: job 1 is running: done 0, out 0, waiting 20, resent tasks 2, refused by a: no-TCP
            1000: to a: offer job 1: 3=0+10 4=10+10
            1000: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
            1000: node a refused job 1: no-TCP
            1000: job 1 is running: done 0, out 0, waiting 20, resent tasks 4, refused by a: no-TCP
            1000: node a draining
            1000: to a: ack results [(2, 2)]
            61000: node a resumed
            61000: to a: offer job 1: 5=0+10 6=10+10
            61000: job 1 is running: done 0, out 20, waiting 0, resent tasks 4
        "#]],
    );
}

#[test]
fn a_full_disk_starts_no_program_and_the_job_goes_on_by_itself() {
    check_after(
        "submit 20 command units 1\n submit 20 search 1 units 10\n join a slots 1\n ack a\n ran a 0+1 ok",
        "full\n ack a\n ran a 1+1 ok\n ran a 2+1 ok\n ack a\n at 2000\n show 1\n show 2\n room\n done a 0+10 job 2\n done a 10+10 job 2",
        expect![[r#"
            0: job 2 running
            0: to a: ack results [(2, 2)]; offer job 2: 4=0+10
            0: to a: ack results [(3, 3)]; offer job 2: 5=10+10
            2000: job 1 is running: done 3, out 0, waiting 17, since waits for room on the scheduler's disk
            2000: job 2 is running: done 0, out 20, waiting 0
            2000: to a: ack results [(4, 4)]; offer job 1: 6=3+1
            2000: job 2 finished
            2000: to a: ack results [(5, 5)]; offer job 1: 7=4+1
        "#]],
    );
}

#[test]
fn a_node_that_can_do_nothing_for_the_current_job_takes_from_the_next() {
    check_after(
        "submit 20 search 1 units 10\n submit 20 units 10\n join a slots 1\n ack a",
        "refuse a 0+20 no-gpu\n show 1\n show 2\n hello a boot 2\n show 1",
        expect![[r#"
            0: node a refused job 1: no-gpu
            0: job 2 running
            0: to a: ack results [(1, 1)]; offer job 2: 3=0+10 4=10+10
            0: job 1 is running: done 0, out 0, waiting 20, resent tasks 2, refused by a: no-gpu
            0: job 2 is running: done 0, out 20, waiting 0
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 5=0+10 6=10+10
            0: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
        "#]],
    );
}

/// What could not be started there may be installed later: the node is asked with a task a slot, each time after a
/// longer pause. The units go to others meanwhile, and no retry is spent.
#[test]
fn a_node_that_lacks_the_program_is_asked_again_and_costs_no_unit_a_retry() {
    check_after(
        "submit 60 command units 10\n join a slots 1\n ack a\n refuse a 0+10 no-program\n refuse a 10+10 no-program\n \
         join b slots 1\n ack b",
        "show 1\n live 9000 a none b 0+20\n show 1\n live 10000 a none b 0+20\n ack a\n refuse a 20+10 no-program\n \
         live 29000 a none b 0+20\n show 1\n live 30000 a none b 0+20\n ack a\n ran a 20+2 ok,ok\n show 1\n ack a\n beat a 22+8",
        expect![[r#"
            0: job 1 is running: done 0, out 20, waiting 40, resent tasks 2, refused by a: no-program
            0: to a: ack results [(1, 2)]
            9000: job 1 is running: done 0, out 20, waiting 40, resent tasks 2, refused by a: no-program
            10000: to a: offer job 1: 5=20+10
            10000: to a: ack results [(3, 3)]
            29000: job 1 is running: done 0, out 20, waiting 40, resent tasks 3, refused by a: no-program
            30000: to a: offer job 1: 6=20+10
            30000: to a: ack results [(4, 4)]; offer job 1: 7=30+10
            30000: job 1 is running: done 2, out 38, waiting 20, resent tasks 3
            30000: to a: answer 18
        "#]],
    );
}

#[test]
fn a_job_that_all_nodes_refused_goes_on_where_a_person_resumes_it() {
    check_after(
        "submit 40 command units 10\n join a slots 1\n ack a\n refuse a 0+10 no-program\n refuse a 10+10 no-program",
        "show 1\n resume 1\n show 1\n ack a\n ran a 0+2 ok,ok\n resume 1",
        expect![[r#"
            0: job 1 is running: done 0, out 0, waiting 40, resent tasks 2, refused by a: no-program
            0: to a: ack results [(1, 2)]; offer job 1: 3=0+10 4=10+10
            0: job 1 is running: done 0, out 20, waiting 20, resent tasks 2
            0: Resume: Conflict(NotPaused)
        "#]],
    );
}

#[test]
fn a_job_whose_last_tasks_are_out_leaves_idle_nodes_to_the_next() {
    check(
        "submit 20 units 10\n submit 20 units 10\n join a slots 1\n join b slots 1\n pause 2\n show 2",
        expect![[r#"
            0: job 1 submitted: 20 units
            0: job 2 submitted: 20 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+10 2=10+10
            0: node b joined: 1 slot, boot 0000000000000001
            0: job 2 running
            0: to b: welcome epoch 1; offer job 2: 3=0+10 4=10+10
            0: job 2 paused
            0: to b: withdraw job 2 trim before 5
            0: job 2 is paused: done 0, out 20, waiting 0
        "#]],
    );
}

/// So little is left of the first job that a node holds little of it: what it may hold of the next job is no reason to
/// fill it with that, or the first job would wait a minute for each two of its tasks.
#[test]
fn a_node_is_not_filled_with_the_next_job_while_the_first_has_units_for_it() {
    check_after(
        "submit 100 units 1\n submit 100000 units 1\n join a slots 1\n ack a\n done a 0+1\n ack a\n pause 1\n return a 1+2\n \
         ack a\n done a 0+1 job 2\n ack a\n resume 1",
        "tasks a\n done a 1+6 job 2\n done a 7+1 job 2\n ack a\n done a 8+1 job 2\n show 1\n tasks a",
        expect![[r#"
            0: a has 8 tasks
            0: to a: ack results [(4, 5)]; offer job 1: 13=1+1
            0: to a: ack results [(6, 6)]; offer job 1: 14=2+1
            0: job 1 is running: done 1, out 2, waiting 97, resent tasks 2
            0: a has 2 tasks
        "#]],
    );
}

#[test]
fn front_is_behind_the_running_job_and_now_is_before_it() {
    check_after(
        "submit 30 units 10\n submit 10 units 10\n submit 10 units 10\n submit 10 units 10 head\n join a slots 1
         ack a\n done a 0+10 job 4\n ack a",
        "front 3\n done a 0+10\n ack a\n done a 10+10\n ack a\n submit 10 units 10 now\n return a 0+10 job 3",
        expect![[r#"
            0: job 3 is number 2 in jq
            0: to a: ack results [(2, 2)]; offer job 1: 4=20+10
            0: job 3 running
            0: to a: ack results [(3, 3)]; offer job 3: 5=0+10
            0: job 5 submitted: 10 units
            0: job 5 is number 1 in jq
            0: job 1 queued
            0: job 3 queued
            0: to a: withdraw job 1 trim before 6; withdraw job 3 trim before 6
            0: job 5 running
            0: to a: ack results [(4, 4)]; offer job 5: 6=0+10
        "#]],
    );
}

#[test]
fn a_drained_node_finishes_what_it_has_and_gets_nothing_new() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "drain a\n forget a\n done a 0+10\n done a 10+10\n tasks a\n nodes\n undrain a\n nodes\n beat a none draining
         nodes\n bye a\n nodes\n show 1\n forget a\n nodes",
        expect![[r#"
            0: node a draining
            0: Forget: Conflict(NotLost(Draining))
            0: a has 0 tasks
            0: a draining
            0: node a resumed
            0: to a: ack results [(1, 2)]; offer job 1: 3=20+10 4=30+10
            0: a up
            0: node a draining
            0: to a: answer 1
            0: a draining
            0: node a left
            0: a lost
            0: job 1 is running: done 20, out 0, waiting 20, resent tasks 2
            0: node a forgotten
            0: no nodes
        "#]],
    );
}

#[test]
fn a_search_for_all_targets_ends_with_the_last_and_abandons_the_rest() {
    check_after(
        "submit 1000 search 2 targets units 10\n join a slots 1\n ack a",
        "done a 0+10 hits 3:1,4:1\n show 1\n done a 10+10 hits 12:0\n at 50\n show 1\n done a 20+10 hits 25:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: hit in job 1: unit 4, target 1
            0: to a: ack results [(1, 1)]; offer job 1: 3=20+10
            0: job 1 is running: done 10, out 20, waiting 970, hits [(3, 1), (4, 1)]
            0: hit in job 1: unit 12, target 0
            0: job 1 finished
            0: to a: ack results [(2, 2)]; withdraw job 1 kill before 4
            50: job 1 is finished: done 20, out 0, waiting 0, abandoned 980, hits [(3, 1), (4, 1), (12, 0)]
            50: hit in job 1: unit 25, target 1
            50: job 1 is finished: done 30, out 0, waiting 0, abandoned 970, hits [(3, 1), (4, 1), (12, 0), (25, 1)]
        "#]],
    );
}

#[test]
fn a_search_may_end_with_its_first_hit_or_never() {
    check_after(
        "submit 40 search 2 targets first-hit units 10\n submit 20 search 1 targets never units 10
         join a slots 1\n ack a",
        "done a 0+10 hits 3:1\n show 1\n done a 0+10 job 2 hits 3:0\n show 2\n done a 10+10 job 2\n show 2",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: job 1 finished
            0: job 2 running
            0: to a: ack results [(1, 1)]; withdraw job 1 kill before 3; offer job 2: 3=0+10 4=10+10
            0: job 1 is finished: done 10, out 0, waiting 0, abandoned 30, hits [(3, 1)]
            0: hit in job 2: unit 3, target 0
            0: job 2 is running: done 10, out 10, waiting 0, hits [(3, 0)]
            0: job 2 finished
            0: job 2 is finished: done 20, out 0, waiting 0, hits [(3, 0)]
        "#]],
    );
}

#[test]
fn a_hit_in_a_duplicate_is_recorded_once() {
    check_after(
        "submit 40 search 2 targets units 10\n join a slots 1\n ack a",
        "done a 0+10\n done a 0+10 hits 3:1\n again a\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=20+10
            0: conflict in job 1: node a's result for units [0, 10) differs from the one that was counted first
            0: node a quarantined: its results differ from those of others
            0: untrue result in job 1: node a, unit 3: its results differ from those of others
            0: hit in job 1: unit 3, target 1
            0: to a: ack results [(2, 2)]; withdraw job 1 kill before 4
            0: job 1 is running: done 0, out 0, waiting 40, duplicate 10, resent tasks 2, hits [(3, 1)], conflict with a in [0, 10), checked 0, untrue at 3: a differs
        "#]],
    );
}

#[test]
fn a_paused_job_with_thousands_of_tasks_in_gq_keeps_no_other_job_waiting() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000 units 1");
    for node in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        bench.run(&format!("join {node} slots 512 queue 4096\n ack {node}"));
    }
    assert_eq!(bench.farm.tasks()[1], 10_240);
    bench.run("pause 1");
    for (node, lo) in ('a'..='j').zip((0..).step_by(1_024)) {
        bench.run(&format!("return {node} {lo}+1024"));
    }
    let view = bench.farm.status(bench.now_us);
    assert_eq!((view.gq, view.dq), (1, 0), "what came back lies side by side: it is one interval");
    let story = bench.run("submit 50 units 1\n show 2");
    assert!(story.contains("offer job 2") && story.contains("out 50, waiting 0"), "{story}");
}
