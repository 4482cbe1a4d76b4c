//! Who computes again what one node computed, when, and what that says, told as scripts. In these stories a unit is a hit of
//! the target that is its last digit. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::truth::digits::{TWO, check_after};
use expect_test::expect;

/// The hit came from node c, which was given nothing, so that the second result had nothing new.
#[test]
fn who_left_out_what_a_third_names_is_not_trusted() {
    check_after(
        TWO,
        "done a 0+10 hits 0:0\n done b 20+10 hits 20:0,21:1\n ack b\n join c slots 1\n done c 0+10 hits 0:0,1:1\n show 1\n nodes\n done b 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 20, target 0
            0: hit in job 1: unit 21, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+10
            0: to a: ack results [(1, 1)]; offer job 1: 6=20+10
            0: node c joined: 1 slot, boot 0000000000000001
            0: to c: welcome epoch 1
            0: hit in job 1: unit 1, target 1
            0: node a quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node a, unit 1: it reported units as done without a hit that is among them; believed is the result of node c
            0: to a: withdraw job 1 kill before 7
            0: to c: ack results [(1, 1)]; offer job 1: 7=20+10 8=10+10
            0: job 1 is running: done 0, out 40, waiting 0, resent tasks 2, hits [(0, 0), (1, 1), (20, 0), (21, 1)], checked 0, untrue at 1: a missed_hit, by c
            0: a quarantined (it reported units as done without a hit that is among them), b up, c up
            0: job 1 is running: done 0, out 30, waiting 10, resent tasks 2, hits [(0, 0), (1, 1), (20, 0), (21, 1)], checked 0, untrue at 1: a missed_hit, by c
        "#]],
    );
}

#[test]
fn what_ends_a_search_is_not_computed_again() {
    check_after(
        "submit 20 search 2 first-hit units 10 check 1000000\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "done a 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: job 1 finished
            0: to a: ack results [(1, 1)]; withdraw job 1 kill before 3
            0: job 1 is finished: done 10, out 0, waiting 0, abandoned 10, hits [(0, 0), (1, 1)], checked 0
        "#]],
    );
}

/// With tasks of ten minutes the others have time once in ten minutes, and who lies at once has it always.
#[test]
fn the_others_have_as_long_as_their_tasks_take() {
    check_after(
        "submit 10000000 search 2 never target 600 check 1000000\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "done a 0+65536 hits 0:0 ms 65536\n ack a\n live 40000 a 131072+131072,262144+600000 b 65536+65536\n done a 131072+131072 ms 40000\n ack a\n done a 262144+600000 ms 600\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: to a: ack results [(1, 1)]; offer job 1: 5=262144+600000
            40000: to a: ack results [(2, 3)]; offer job 1: 6=862144+2450848
            40000: job 1 is running: done 0, out 2647456, waiting 7352544, hits [(0, 0)], checked 0
        "#]],
    );
}

#[test]
fn what_a_second_gives_back_goes_to_a_third() {
    check_after(
        TWO,
        "done a 0+10 hits 0:0,1:1\n ack b\n done b 20+10 hits 20:0,21:1\n done b 30+10 hits 30:0,31:1\n ack b\n join c slots 1\n return b 0+10\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: hit in job 1: unit 20, target 0
            0: hit in job 1: unit 21, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+10
            0: to a: ack results [(1, 1)]; offer job 1: 6=20+10
            0: hit in job 1: unit 30, target 0
            0: hit in job 1: unit 31, target 1
            0: node c joined: 1 slot, boot 0000000000000001
            0: to c: welcome epoch 1; offer job 1: 7=30+10
            0: to c: offer job 1: 8=0+10
            0: job 1 is running: done 0, out 40, waiting 0, resent tasks 1, hits [(0, 0), (1, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
        "#]],
    );
}
