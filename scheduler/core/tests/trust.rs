//! What wicked and broken nodes say, told as scripts: false hits, units of others, bodies of nothing, outputs that were
//! never stored. In these stories the hits of target 1 are true, at units that 10 divides; outputs are stored whose hash
//! begins with 1. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::truth::knows_tens;
use common::truth::tens::{TWO, check_after};
use common::{Bench, config};
use expect_test::expect;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::{Facts, Packer};
use starfarm_scheduler_core::NodeId;

#[test]
fn a_false_hit_is_worth_nothing_and_its_node_gets_nothing_any_more() {
    check_after(
        TWO,
        "done b 20+10 hits 20:1,23:0\n show 1\n nodes\n done b 30+10 hits 30:1\n at 100\n show 1\n done a 0+10 hits 0:1",
        expect![[r#"
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 23: it reported a hit that is none
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 5
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2, checked 0, untrue at 23: b false_hit
            0: a up, b quarantined (it reported a hit that is none)
            20: to b: ack results [(2, 2)]
            100: job 1 is running: done 0, out 20, waiting 180, resent tasks 2, checked 0, untrue at 23: b false_hit
            100: hit in job 1: unit 0, target 1
            100: to a: ack results [(1, 1)]; offer job 1: 5=20+10
        "#]],
    );
}

#[test]
fn a_first_hit_that_is_none_ends_nothing() {
    check_after(
        "submit 200 search 2 targets first-hit units 10\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "done b 20+10 hits 23:1\n show 1\n done a 10+10 hits 10:1\n show 1",
        expect![[r#"
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 23: it reported a hit that is none
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 5
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2, checked 0, untrue at 23: b false_hit
            0: hit in job 1: unit 10, target 1
            0: job 1 finished
            0: to a: ack results [(1, 1)]; withdraw job 1 kill before 5
            0: job 1 is finished: done 10, out 0, waiting 0, abandoned 190, resent tasks 2, hits [(10, 1)], checked 0, untrue at 23: b false_hit
        "#]],
    );
}

/// It was put into quarantine for good, for what another one had said before it.
#[test]
fn who_reports_units_of_others_decides_nothing_and_the_honest_result_counts() {
    check_after(
        TWO,
        "done b 0+10\n show 1\n done a 0+10 hits 0:1\n show 1\n nodes",
        expect![[r#"
            0: job 1 is running: done 0, out 40, waiting 160
            0: hit in job 1: unit 0, target 1
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: job 1 is running: done 10, out 40, waiting 150, hits [(0, 1)]
            0: a up, b up
        "#]],
    );
}

#[test]
fn of_a_result_that_reaches_into_units_of_others_the_own_ones_count() {
    check_after(
        TWO,
        "done b 15+10\n show 1\n done a 10+10 hits 10:1\n show 1\n nodes",
        expect![[r#"
        0: job 1 is running: done 5, out 35, waiting 160
        0: hit in job 1: unit 10, target 1
        0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
        0: job 1 is running: done 15, out 35, waiting 150, hits [(10, 1)]
        0: a up, b up
    "#]],
    );
}

/// Each such result counted in part, so it was as good as it was bad: its node went on for ever, and looked as fast as all
/// that it spoke of.
#[test]
fn who_reaches_into_units_of_others_again_and_again_is_quarantined_and_says_nothing_of_its_speed() {
    check_after(
        "submit 10000000 search 2 targets never target 1\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done b 0+10000000 ms 1\n show 1\n ack b\n done b 0+10000000 ms 1\n ack b\n done b 0+10000000 ms 1\n ack b
         done b 0+10000000 ms 1\n ack b\n done b 0+10000000 ms 1\n show 1\n nodes",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=262144+65536 6=327680+65536
            0: job 1 is running: done 131072, out 262144, waiting 9606784
            0: to b: ack results [(2, 2)]; offer job 1: 7=393216+65536 8=458752+65536
            0: to b: ack results [(3, 3)]; offer job 1: 9=524288+65536 10=589824+65536
            0: to b: ack results [(4, 4)]; offer job 1: 11=655360+65536 12=720896+65536
            0: node b quarantined: sent 5 results of job 1 that cannot count, the last with units that it was not given
            0: to b: ack results [(5, 5)]; withdraw job 1 trim before 13
            0: job 1 is running: done 655360, out 131072, waiting 9213568, duplicate 1310720
            0: a up, b quarantined (sent 5 results of job 1 that cannot count, the last with units that it was not given)
        "#]],
    );
}

#[test]
fn a_drained_node_that_was_given_nothing_decides_nothing() {
    check_after(
        "submit 200 search 2 targets never units 10\n join a slots 1\n join b slots 1\n drain b\n ack a\n return b 20+20",
        "done b 20+20\n show 1\n done b 0+5\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2
        "#]],
    );
}

/// What a node lost while it was out of reach it may have computed.
#[test]
fn late_results_of_a_lost_node_count_and_nothing_beyond_them() {
    check_after(
        TWO,
        "live 20000 a 0+20\n nodes\n hello b\n done b 30+10 hits 30:1\n done b 0+10\n show 1",
        expect![[r#"
            5000: node b suspect: no heartbeat
            15000: node b lost: 2 tasks back to gq
            20000: a up, b lost
            20000: node b is back
            20000: to b: welcome epoch 1; offer job 1: 5=20+10 6=30+10
            20000: hit in job 1: unit 30, target 1
            20000: to b: ack results [(1, 1)]; offer job 1: 7=40+10
            20000: job 1 is running: done 10, out 40, waiting 150, resent tasks 2, hits [(30, 1)]
        "#]],
    );
}

#[test]
fn another_incarnation_may_bring_what_the_one_before_computed() {
    check_after(
        TWO,
        "hello b boot 2\n done b 20+10 hits 20:1\n show 1\n nodes",
        expect![[r#"
        0: node b joined: 1 slot, boot 0000000000000002
        0: to b: welcome epoch 1; offer job 1: 5=20+10 6=30+10
        0: hit in job 1: unit 20, target 1
        0: to b: ack results [(1, 1)]; offer job 1: 7=40+10
        0: job 1 is running: done 10, out 40, waiting 150, resent tasks 2, hits [(20, 1)]
        0: a up, b up
    "#]],
    );
}

#[test]
fn who_counted_units_without_a_hit_that_is_shown_later_is_to_blame_and_not_who_shows_it() {
    check_after(
        TWO,
        "done b 20+10\n done a 20+10 hits 20:1\n nodes\n show 1",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=40+10
            0: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            0: to b: withdraw job 1 kill before 6
            0: a up, b quarantined (it reported units as done without a hit that is among them)
            0: job 1 is running: done 0, out 20, waiting 180, duplicate 10, resent tasks 2, hits [(20, 1)], conflict with a in [20, 30), checked 0, untrue at 20: b missed_hit, by a
        "#]],
    );
}

#[test]
fn who_leaves_out_a_hit_that_is_known_is_to_blame_even_for_units_that_nobody_counted() {
    check_after(
        TWO,
        "done a 20+10 hits 20:1\n show 1\n done b 20+10\n nodes\n show 1",
        expect![[r#"
            0: hit in job 1: unit 20, target 1
            0: job 1 is running: done 0, out 40, waiting 160, hits [(20, 1)]
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 5
            0: a up, b quarantined (it reported units as done without a hit that is among them)
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2, hits [(20, 1)], checked 0, untrue at 20: b missed_hit
        "#]],
    );
}

#[test]
fn results_that_nobody_can_read_are_the_nodes_failure_in_words() {
    check_after(
        "submit 200 search 2 targets never units 1\n join a slots 4\n join b slots 1\n ack a\n ack b",
        "done a 0+1 body 0102030405\n done a 1+1 body 0102030405\n done a 2+1 body 0102030405\n nodes
         done a 3+1 body 0102030405\n ack a\n done a 4+1 body 0102030405\n nodes\n at 100\n show 1\n tasks a",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 11=10+1
            0: to a: ack results [(2, 2)]; offer job 1: 12=11+1
            0: to a: ack results [(3, 3)]; offer job 1: 13=12+1
            0: a up, b up
            0: to a: ack results [(4, 4)]; offer job 1: 14=13+1
            0: node a quarantined: sent 5 results of job 1 that cannot count, the last with a body of 5 bytes for 1 unit
            0: to a: ack results [(5, 5)]; withdraw job 1 trim before 15
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 5 bytes for 1 unit), b up
            100: job 1 is running: done 0, out 9, waiting 191, resent tasks 5
            100: a has 7 tasks
        "#]],
    );
}

#[test]
fn a_node_whose_results_could_not_count_rises_with_one_that_does_when_a_pause_is_over() {
    check_after(
        "submit 200 search 2 targets never units 1\n join a slots 8\n join b slots 1\n ack a\n ack b
         done a 0+1 body 01\n done a 1+1 body 01\n done a 2+1 body 01\n done a 3+1 body 01\n done a 4+1 body 01",
        "ack a\n done a 5+1\n nodes\n live 9900 a 6+9 b 8+2\n done a 6+1\n nodes\n live 10000 a 6+9 b 8+2\n done a 7+1\n nodes",
        expect![[r#"
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit), b up
            0: to a: ack results [(6, 6)]
            9900: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit), b up
            9900: to a: ack results [(7, 7)]
            10000: to a: ack results [(8, 8)]; offer job 1: 16=0+1 17=1+1 18=2+1 19=3+1
            10000: a up, b up
        "#]],
    );
}

/// There is nobody to compare it with, and no need: it is asked again and again, and one good answer is enough.
#[test]
fn the_only_node_gets_probes_too_when_its_results_cannot_count_and_is_told_of_once() {
    check_after(
        "submit 200 search 2 targets never units 1\n join a slots 1\n ack a",
        "done a 0+1 body 01\n done a 1+1 body 01\n done a 2+1 body 01\n done a 3+1 body 01\n done a 4+1 body 01
         ack a\n done a 5+1 body 01\n done a 6+1 body 01\n nodes\n live 10000 a none\n ack a\n nodes\n done a 0+1\n nodes",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=2+1
            0: to a: ack results [(2, 2)]; offer job 1: 4=3+1
            0: to a: ack results [(3, 3)]; offer job 1: 5=4+1
            0: to a: ack results [(4, 4)]; offer job 1: 6=5+1
            0: node a quarantined: sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit
            0: to a: ack results [(5, 5)]; withdraw job 1 trim before 7
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit)
            0: to a: ack results [(6, 7)]
            10000: to a: offer job 1: 7=0+1
            10000: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit)
            10000: to a: ack results [(8, 8)]; offer job 1: 8=1+1 9=2+1 10=3+1 11=4+1 12=5+1 13=6+1 14=7+1 15=8+1
            10000: a up
        "#]],
    );
}

#[test]
fn after_a_restart_a_node_may_report_what_its_first_heartbeat_lists_and_no_more() {
    check_after(
        TWO,
        "restart\n hello b\n beat b 20+10\n done b 20+10 hits 20:1\n done b 0+10\n show 1\n hello a\n beat a 0+20
         done a 0+10 hits 0:1\n show 1",
        expect![[r#"
            0: node b is back
            0: to b: welcome epoch 2
            0: to b: answer 1
            0: hit in job 1: unit 20, target 1
            0: job 1 is running: done 10, out 190, waiting 0, hits [(20, 1)]
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: hit in job 1: unit 0, target 1
            0: job 1 is running: done 20, out 180, waiting 0, hits [(0, 1), (20, 1)]
        "#]],
    );
}

#[test]
fn a_node_that_comes_new_after_a_restart_reports_nothing_of_before() {
    check_after(
        TWO,
        "restart\n join c slots 1\n done c 0+10\n show 1\n nodes",
        expect![[r#"
        0: node c joined: 1 slot, boot 0000000000000001
        0: to c: welcome epoch 2
        0: job 1 is running: done 0, out 200, waiting 0
        0: a suspect, b suspect, c up
    "#]],
    );
}

#[test]
fn who_is_not_trusted_holds_and_reports_nothing_until_a_person_says_so() {
    check_after(
        TWO,
        "done b 20+10 hits 23:1\n beat b 30+10\n at 100\n done b 30+10 hits 30:1\n restart\n nodes\n hello b\n beat b 30+10
         done b 30+10 hits 30:1\n show 1\n undrain b\n nodes",
        expect![[r#"
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 23: it reported a hit that is none
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 5
            0: to b: answer 1; withdraw job 1 kill before 5
            100: a suspect, b suspect (it reported a hit that is none)
            100: node b is back
            100: to b: welcome epoch 2
            100: to b: answer 2; withdraw job 1 kill before 1099511627777
            100: job 1 is running: done 0, out 200, waiting 0, checked 0, untrue at 23: b false_hit
            100: node b resumed
            100: a suspect, b up
        "#]],
    );
}

/// It held what was at no node, and the job stood still.
#[test]
fn after_a_restart_a_node_holds_no_more_than_one_can_hold() {
    let mut bench = Bench::new(knows_tens());
    bench.run(
        "submit 1000000 search 2 targets never target 1000\n join a slots 1\n join b slots 1\n ack a\n ack b
         done a 0+65536 ms 65536000\n ack a\n done b 65536+65536 ms 65536000\n ack b\n checkpoint\n restart\n hello b",
    );
    bench.run("beat b 131072+868928\n hello a\n bye a\n at +10");
    let job = bench.farm.job(JobId(1), bench.now_us).unwrap();
    // What nobody is found to hold waits.
    let (held, waits) = (job.units_out.0, job.units_pending.0);
    assert!(held > 0 && held < waits, "{held} at the node that claims all, {waits} wait");
}

#[test]
fn ever_new_incarnations_are_heard_now_and_then() {
    let mut bench = Bench::new(config());
    bench.run("submit 200 command units 1\n join a slots 1\n ack a");
    let before = bench.records.len();
    for boot in 2..300 {
        bench.run(&format!("hello a boot {boot}"));
    }
    let records = bench.records.len() - before;
    assert!((20..120).contains(&records), "{records} records of 298 incarnations");
    bench.run("at 20000\n hello a boot 400\n ack a");
    assert!(bench.run("ran a 0+1 ok\n show 1").contains("done 1,"), "it is heard again when it keeps quiet");
}

#[test]
fn ever_new_facts_are_told_now_and_then() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1");
    for memory_bytes in 0..500 {
        let mut packer = Packer::new();
        packer.facts(&Facts { memory_bytes, ..Facts::default() });
        bench.hear(NodeId(0), &packer.finish().concat());
    }
    let told = bench.story.matches("node_facts").count();
    assert!((1..6).contains(&told), "{told}");
}

#[test]
fn what_a_liar_counted_is_computed_again_by_others() {
    check_after(
        TWO,
        "done b 20+10 hits 20:1\n done b 30+5 hits 30:1\n show 1\n done b 40+10 hits 41:1\n show 1\n
         done a 0+20 hits 0:1,10:1\n at 100\n ack a\n done a 20+10 hits 20:1\n show 1\n nodes",
        expect![[r#"
            0: hit in job 1: unit 20, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=40+10
            0: hit in job 1: unit 30, target 1
            0: job 1 is running: done 15, out 35, waiting 150, hits [(20, 1), (30, 1)]
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 41: it reported a hit that is none
            0: to b: ack results [(2, 3)]; withdraw job 1 kill before 6
            0: job 1 is running: done 0, out 20, waiting 180, resent tasks 2, hits [(20, 1), (30, 1)], checked 0, untrue at 41: b false_hit
            0: hit in job 1: unit 0, target 1
            0: hit in job 1: unit 10, target 1
            0: to a: ack results [(1, 1)]; offer job 1: 6=20+10 7=30+10
            50: offered 2 tasks again to node a
            50: to a: offer job 1: 6=20+10 7=30+10
            100: to a: ack results [(2, 2)]; offer job 1: 8=40+10
            100: job 1 is running: done 30, out 20, waiting 150, resent tasks 2, hits [(0, 1), (10, 1), (20, 1), (30, 1)], checked 0, untrue at 41: b false_hit
            100: a up, b quarantined (it reported a hit that is none)
        "#]],
    );
}

#[test]
fn programs_that_ran_where_nobody_trusts_the_results_run_again() {
    check_after(
        "submit 4 command retries 0 units 1 max-failures never\n submit 40 search 2 targets never units 10
         join a slots 3\n ack a",
        "ran a 0+2 ok,exit1\n show 1\n ack a\n done a 0+10 hits 3:1 job 2\n show 1",
        expect![[r#"
            0: unit 1 of job 1 failed on node a: exit 1
            0: to a: ack results [(1, 1)]; offer job 2: 7=20+10 8=30+10
            0: job 1 is running: done 1, out 2, waiting 0, unit 1 failed by exit 1
            0: node a quarantined: it reported a hit that is none
            0: untrue result in job 2: node a, unit 3: it reported a hit that is none
            0: to a: ack results [(2, 2)]; withdraw job 1 kill before 9; withdraw job 2 kill before 9
            0: job 1 is running: done 0, out 0, waiting 4, resent tasks 2
        "#]],
    );
}
