//! Nodes that are forgotten and come back: each is the one that it was, before a restart and after it. In these stories the
//! hits of target 1 are true, at units that 10 divides. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::truth::tens::check_after;
use expect_test::expect;

/// Two nodes with tasks of ten units each: a has [0, 20), b [20, 40). Node b reports no hit, leaves, and is forgotten.
const B_WAS_THERE: &str =
    "submit 200 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b
    done b 20+10\n bye b\n forget b";

#[test]
fn a_forgotten_liar_that_comes_back_is_still_it() {
    check_after(
        B_WAS_THERE,
        "restart\n hello a\n join b slots 1 boot 2\n at +10\n nodes\n done a 20+10 hits 20:1\n nodes\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 2
            10: a up, b up
            10: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            10: hit in job 1: unit 20, target 1
            10: node b quarantined: it reported units as done without a hit that is among them
            10: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            10: a up, b quarantined (it reported units as done without a hit that is among them)
            10: job 1 is running: done 0, out 190, waiting 10, duplicate 10, hits [(20, 1)], conflict with a in [20, 30), checked 0, untrue at 20: b missed_hit, by a
        "#]],
    );
}

#[test]
fn one_that_was_found_out_before_it_comes_back_is_not_trusted_then() {
    check_after(
        B_WAS_THERE,
        "done a 20+10 hits 20:1\n restart\n hello a\n restart\n hello a\n join b slots 1 boot 2\n nodes\n undrain b\n restart\n nodes",
        expect![[r#"
            0: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            0: node a is back
            0: to a: welcome epoch 2
            0: node a is back
            0: to a: welcome epoch 3
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 3
            0: a up, b quarantined (it reported units as done without a hit that is among them)
            0: node b resumed
            0: a suspect, b suspect
        "#]],
    );
}

#[test]
fn another_machine_of_a_name_whose_key_was_revoked_is_not_it() {
    check_after(
        "submit 200 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b\n done b 20+10\n revoke b\n forget b",
        "done a 20+10 hits 20:1\n restart\n hello a\n join b slots 1 boot 2\n nodes",
        expect![[r#"
            0: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            0: node a is back
            0: to a: welcome epoch 2
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 2
            0: a up, b up
        "#]],
    );
}

#[test]
fn nor_where_the_key_was_revoked_after_it_was_forgotten() {
    check_after(
        B_WAS_THERE,
        "done a 20+10 hits 20:1\n revoke b\n restart\n hello a\n join b slots 1 boot 2\n nodes",
        expect![[r#"
            0: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            0: node a is back
            0: to a: welcome epoch 2
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 2
            0: a up, b up
        "#]],
    );
}

/// Others have by then what an earlier scheduler gave to it.
#[test]
fn a_forgotten_node_that_comes_back_after_a_restart_may_report_what_it_did() {
    check_after(
        "submit 200 command units 1\n join a slots 4\n join b slots 4\n ack a\n ack b\n live +16000 a none\n forget b",
        "restart\n hello a\n beat a none\n ack a\n hello b\n beat b 8+4\n ran b 8+1 ok\n ran b 9+1 ok\n ran b 10+1 ok\n ran b 11+1 ok
         ran b 0+1 ok\n ran b 1+1 ok\n ran b 2+1 ok\n ran b 3+1 ok\n ran b 4+1 ok\n ran b 5+1 ok\n nodes\n show 1",
        expect![[r#"
            16000: node a is back
            16000: to a: welcome epoch 2
            16000: to a: answer 9
            16000: to a: offer job 1: 1099511627777=161+1 1099511627778=162+1 1099511627779=163+1 1099511627780=164+1 1099511627781=165+1 1099511627782=166+1 1099511627783=167+1 1099511627784=168+1
            16000: node b joined: 4 slots, boot 0000000000000001
            16000: to b: welcome epoch 2; offer job 1: 1099511627785=169+1 1099511627786=170+1 1099511627787=171+1 1099511627788=172+1 1099511627789=173+1 1099511627790=174+1 1099511627791=175+1 1099511627792=176+1
            16000: to b: answer 1
            16000: a up, b up
            16000: job 1 is running: done 4, out 173, waiting 23
        "#]],
    );
}

/// What an earlier scheduler gave out was not given to it.
#[test]
fn who_was_not_there_before_a_restart_has_nothing_from_then() {
    check_after(
        "submit 200 search 2 targets never units 10\n join a slots 1\n ack a\n done a 0+10",
        "restart\n join w slots 1\n beat w 10+190\n done w 10+10\n done w 20+10 attempt 3\n hello a\n beat a 10+20\n show 1\n nodes
         done a 10+10 hits 10:1\n show 1",
        expect![[r#"
            0: node w joined: 1 slot, boot 0000000000000001
            0: to w: welcome epoch 2
            0: to w: answer 1
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: job 1 is running: done 10, out 190, waiting 0
            0: a up, w up
            0: hit in job 1: unit 10, target 1
            0: job 1 is running: done 20, out 180, waiting 0, hits [(10, 1)]
        "#]],
    );
}
