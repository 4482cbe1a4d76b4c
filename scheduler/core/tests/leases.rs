//! Leases and adoption (R5), told as scripts: what a scheduler may give out, and what becomes of that when the
//! next one starts. What else outlives a scheduler is in `restarts`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config};
use expect_test::expect;

#[test]
fn tasks_wait_until_the_record_of_their_lease_is_durable() {
    check_after(
        "join a slots 1",
        "hold\n submit 1000 units 10\n show 1\n at 300\n durable\n show 1\n lease 1",
        expect![[r#"
            0: job 1 submitted: 1000 units
            0: job 1 is queued: done 0, out 0, waiting 1000
            300: job 1 running
            300: to a: offer job 1: 1=0+10 2=10+10
            300: job 1 is running: done 0, out 20, waiting 980
            300: job 1 is leased up to 1000
        "#]],
    );
}

#[test]
fn a_job_that_waits_for_its_lease_keeps_its_turn() {
    check_after(
        "submit 1000 units 10\n join a slots 1\n ack a\n pause 1\n return a 0+20",
        "hold\n submit 1000 units 10 head\n resume 1\n show 1\n show 2\n durable\n show 1\n show 2",
        expect![[r#"
            0: job 2 submitted: 1000 units
            0: job 2 is number 1 in jq
            0: job 1 running
            0: job 1 is running: done 0, out 0, waiting 1000, resent tasks 2
            0: job 2 is queued: done 0, out 0, waiting 1000
            0: job 2 running
            0: to a: ack results [(1, 1)]; offer job 2: 3=0+10 4=10+10
            0: job 1 is running: done 0, out 0, waiting 1000, resent tasks 2
            0: job 2 is running: done 0, out 20, waiting 980
        "#]],
    );
}

#[test]
fn a_lease_is_renewed_before_it_is_used_up_and_grows_when_tasks_had_to_wait() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 20 queue 4000");
    // Nothing was leased, so the first tasks wait.
    let first = bench.run("hold\n submit 1000000 units 10\n lease 1\n show 1\n durable\n lease 1");
    // The disk is slow: what lies below the mark goes out, and a longer lease is asked for in good time.
    let mut slow = bench.run("hold\n show 1");
    for lo in [0, 400, 800, 1200] {
        bench.run(&format!("done a {lo}+400\n ack a"));
        slow += &bench.run("show 1\n lease 1");
    }
    bench.run("durable");
    let after = bench.run("show 1\n lease 1");
    let told = [first, slow, after].concat();
    let told: Vec<&str> = told.lines().filter(|line| line.contains("job 1 is")).collect();
    expect![[r#"
        0: job 1 is leased up to 1610
        0: job 1 is queued: done 0, out 0, waiting 1000000
        0: job 1 is leased up to 1610
        0: job 1 is running: done 0, out 400, waiting 999600
        0: job 1 is running: done 400, out 1210, waiting 998390
        0: job 1 is leased up to 4820
        0: job 1 is running: done 800, out 810, waiting 998390
        0: job 1 is leased up to 4820
        0: job 1 is running: done 1200, out 410, waiting 998390
        0: job 1 is leased up to 4820
        0: job 1 is running: done 1600, out 10, waiting 998390
        0: job 1 is leased up to 4820
        0: job 1 is running: done 1600, out 12000, waiting 986400
        0: job 1 is leased up to 24040"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn a_lease_that_nobody_waited_for_is_followed_by_one_as_long() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000000 units 10\n join a slots 1\n ack a");
    let mut told = bench.run("lease 1");
    for lo in (0..5000).step_by(20) {
        bench.run(&format!("done a {lo}+20 ms 20000\n ack a"));
        let lease = bench.run("lease 1");
        if !told.ends_with(&lease) {
            told += &lease;
        }
    }
    expect![[r#"
        0: job 1 is leased up to 1610
        0: job 1 is leased up to 4190
        0: job 1 is leased up to 6770
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_lease_never_reaches_beyond_its_job() {
    check_after(
        "join a slots 1",
        "submit 25 units 10\n lease 1",
        expect![[r#"
            0: job 1 submitted: 25 units
            0: job 1 running
            0: to a: offer job 1: 1=0+10 2=10+10
            0: job 1 is leased up to 25
        "#]],
    );
}

#[test]
fn after_a_restart_fresh_space_goes_out_at_once_and_leased_space_waits_for_its_node() {
    check_after(
        "submit 100000 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b\n lease 1",
        "restart\n lease 1\n show 1\n hello b\n beat b 20+20\n ack b\n show 1\n lease 1\n hello a\n beat a 0+20
         tasks a\n show 1\n beat b 20+20,970+20\n tasks b\n show 1",
        expect![[r#"
            0: job 1 is leased up to 1610
            0: job 1 is running: done 0, out 1610, waiting 98390
            0: node b is back
            0: to b: welcome epoch 2
            0: to b: answer 1
            0: to b: offer job 1: 1099511627777=1610+10
            0: job 1 is running: done 0, out 1620, waiting 98380
            0: job 1 is leased up to 3220
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1; offer job 1: 1099511627778=1620+10
            0: a has 2 tasks
            0: job 1 is running: done 0, out 1630, waiting 98370
            0: to b: answer 2
            0: b has 3 tasks
            0: job 1 is running: done 0, out 1630, waiting 98370
        "#]],
    );
}

#[test]
fn what_a_node_lists_is_its_own_again_and_no_other_node_gets_it() {
    check_after(
        "submit 40 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "restart\n at 1000\n hello a\n beat a 0+20\n hello b\n beat b 20+20\n show 1\n ack b\n done a 0+20
         done b 20+20\n show 1",
        expect![[r#"
            1000: node a is back
            1000: to a: welcome epoch 2
            1000: to a: answer 1
            1000: node b is back
            1000: to b: welcome epoch 2
            1000: to b: answer 1
            1000: job 1 is running: done 0, out 40, waiting 0
            1000: job 1 finished
            1000: job 1 is finished: done 40, out 0, waiting 0
        "#]],
    );
}

#[test]
fn what_nobody_lists_goes_out_when_all_nodes_of_before_have_spoken() {
    check_after(
        "submit 40 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "restart\n at 1000\n hello a\n beat a 0+15\n show 1\n at 1500\n hello b\n show 1\n beat b 25+5
         at 1501\n show 1\n tasks a\n tasks b",
        expect![[r#"
            1000: node a is back
            1000: to a: welcome epoch 2
            1000: to a: answer 1
            1000: job 1 is running: done 0, out 40, waiting 0
            1500: node b is back
            1500: to b: welcome epoch 2
            1500: job 1 is running: done 0, out 40, waiting 0
            1500: to b: answer 1
            1500: to a: offer job 1: 1099511627777=15+10
            1500: to b: offer job 1: 1099511627778=30+10
            1501: job 1 is running: done 0, out 40, waiting 0, resent tasks 2
            1501: a has 2 tasks
            1501: b has 2 tasks
        "#]],
    );
}

#[test]
fn what_nobody_lists_waits_for_a_silent_node_until_that_is_lost() {
    check_after(
        "submit 40 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "restart\n hello a\n live 14990 a 0+20\n show 1\n live 15010 a 0+20\n nodes\n show 1
         done a 0+20\n ack a\n at 15100\n hello b\n beat b 20+20\n done b 20+20\n at 15200\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            14990: job 1 is running: done 0, out 40, waiting 0
            15000: node b lost: 0 tasks back to gq
            15000: to a: offer job 1: 1099511627777=20+10
            15010: a up, b lost
            15010: job 1 is running: done 0, out 30, waiting 10, resent tasks 1
            15010: to a: ack results [(1, 1)]; offer job 1: 1099511627778=30+10
            15100: node b is back
            15100: to b: welcome epoch 2
            15100: to b: answer 1
            15100: job 1 finished
            15120: to b: ack results [(1, 1)]
            15200: job 1 is finished: done 40, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_goodbye_says_too_that_a_node_holds_nothing() {
    check_after(
        "submit 40 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "restart\n hello a\n beat a 0+20\n hello b\n at 1\n show 1\n bye b\n at 2\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: node b is back
            0: to b: welcome epoch 2
            1: job 1 is running: done 0, out 40, waiting 0
            1: node b left
            1: to a: offer job 1: 1099511627777=20+10
            2: job 1 is running: done 0, out 30, waiting 10, resent tasks 1
        "#]],
    );
}

#[test]
fn a_node_that_comes_with_another_boot_holds_nothing_of_before() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "restart\n at 500\n hello a boot 2\n at 501\n show 1\n beat a none\n at 502\n show 1",
        expect![[r#"
            500: node a joined: 1 slot, boot 0000000000000002
            500: to a: welcome epoch 2
            501: job 1 is running: done 0, out 20, waiting 0
            501: to a: answer 1
            501: to a: offer job 1: 1099511627777=0+10 1099511627778=10+10
            502: job 1 is running: done 0, out 20, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_new_node_is_not_waited_for_and_gets_nothing_that_may_be_at_others() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "restart\n join b slots 1\n beat b none\n at 1\n show 1\n hello a\n beat a 0+10\n at 2\n show 1",
        expect![[r#"
            0: node b joined: 1 slot, boot 0000000000000001
            0: to b: welcome epoch 2
            0: to b: answer 1
            1: job 1 is running: done 0, out 20, waiting 0
            1: node a is back
            1: to a: welcome epoch 2
            1: to a: answer 1
            1: to b: offer job 1: 1099511627777=10+10
            2: job 1 is running: done 0, out 20, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn where_no_node_of_before_can_hold_anything_nothing_waits() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n done a 0+10\n bye a",
        "restart\n at 1\n join b slots 1\n show 1",
        expect![[r#"
            1: node b joined: 1 slot, boot 0000000000000001
            1: to b: welcome epoch 2; offer job 1: 1099511627777=10+10 1099511627778=20+10
            1: job 1 is running: done 10, out 20, waiting 10, resent tasks 1
        "#]],
    );
}

#[test]
fn a_second_crash_before_anybody_spoke_changes_nothing() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a\n done a 0+10",
        "restart\n at 5\n restart\n at 10\n hello a\n beat a 10+20\n at 11\n show 1\n done a 10+20
         ack a\n show 1",
        expect![[r#"
            10: node a is back
            10: to a: welcome epoch 3
            10: to a: answer 1
            10: to a: offer job 1: 2199023255553=30+10
            11: job 1 is running: done 10, out 30, waiting 0, resent tasks 1
            11: job 1 is running: done 30, out 10, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn what_was_adopted_and_is_no_longer_listed_expires_like_any_other() {
    check_after(
        "submit 20 units 10\n join a slots 1\n ack a",
        "restart\n hello a\n beat a 0+10,10+10\n live 79000 a 10+10\n show 1\n live 82000 a 10+10
         show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            79000: job 1 is running: done 0, out 20, waiting 0
            81000: task [0, 10) of job 1 expired on node a
            82000: job 1 is running: done 0, out 10, waiting 10, resent tasks 1
        "#]],
    );
}

#[test]
fn one_crash_within_the_interval_of_a_task_adopts_only_what_is_not_done() {
    check_after(
        "submit 30 units 30\n join a slots 1\n ack a\n done a 10+5",
        "restart\n hello a\n beat a 0+30\n show 1\n tasks a\n done a 0+10\n done a 15+15\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: job 1 is running: done 5, out 25, waiting 0
            0: a has 2 tasks
            0: job 1 finished
            0: job 1 is finished: done 30, out 0, waiting 0
        "#]],
    );
}

#[test]
fn jobs_that_come_while_a_node_idles_have_their_first_lease_with_them() {
    check_after(
        "join a slots 4",
        "hold\n submit 1 units 1\n submit 1 units 1\n submit 1 units 1\n lease 1\n lease 2\n lease 3\n durable\n at 10",
        expect![[r#"
            0: job 1 submitted: 1 unit
            0: job 2 submitted: 1 unit
            0: job 3 submitted: 1 unit
            0: job 1 is leased up to 1
            0: job 2 is leased up to 1
            0: job 3 is leased up to 1
            0: job 1 running
            0: job 2 running
            0: job 3 running
            0: to a: offer job 1: 1=0+1; offer job 2: 2=0+1; offer job 3: 3=0+1
        "#]],
    );
}
