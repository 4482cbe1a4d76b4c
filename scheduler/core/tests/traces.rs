//! What the records say of who computed what, told as scripts: before a crash and after it, of nodes that are known and of
//! forgotten ones. In these stories the hits of target 1 are true, at units that 10 divides. Times in the stories are
//! milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::truth::tens::{TWO, check_after};
use expect_test::expect;

/// Hits that were shown stay; whoever computes their units anew has to find them.
#[test]
fn a_job_does_not_end_by_the_word_of_a_liar() {
    check_after(
        "submit 20 search 2 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10 hits 0:1\n unread\n done a 10+10 hits 10:1,11:1\n show 1\n read\n show 1\n ack b
         done b 10+10 hits 10:1\n show 1\n ack b\n done b 0+10 hits 0:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 1
            0: node a quarantined: it reported a hit that is none
            0: untrue result in job 1: node a, unit 11: it reported a hit that is none
            0: to a: ack results [(1, 2)]; withdraw job 1 kill before 3
            0: to b: offer job 1: 3=10+10
            0: job 1 is running: done 10, out 10, waiting 0, resent tasks 1, hits [(0, 1)], checked 0, untrue at 11: a false_hit
            0: to b: offer job 1: 4=0+10
            0: job 1 is running: done 0, out 20, waiting 0, resent tasks 1, hits [(0, 1)], checked 0, untrue at 11: a false_hit
            0: hit in job 1: unit 10, target 1
            0: job 1 is running: done 10, out 10, waiting 0, resent tasks 1, hits [(0, 1), (10, 1)], checked 0, untrue at 11: a false_hit
            0: job 1 finished
            0: job 1 is finished: done 20, out 0, waiting 0, resent tasks 1, hits [(0, 1), (10, 1)], checked 0, untrue at 11: a false_hit
        "#]],
    );
}

#[test]
fn what_was_not_read_before_a_crash_is_read_after_it() {
    check_after(
        "submit 30 search 2 targets never units 10\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "done a 0+10 hits 0:1\n done b 20+10 hits 20:1\n unread\n done a 10+10 hits 10:1,11:1\n show 1\n restart
         hello b\n beat b 10+10\n ack b\n done b 10+10 hits 10:1\n show 1\n done b 0+10 hits 0:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 1
            0: hit in job 1: unit 20, target 1
            0: node a quarantined: it reported a hit that is none
            0: untrue result in job 1: node a, unit 11: it reported a hit that is none
            0: to a: ack results [(1, 2)]; withdraw job 1 kill before 4
            0: to b: ack results [(1, 1)]; offer job 1: 4=10+10
            0: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, hits [(0, 1), (20, 1)], checked 0, untrue at 11: a false_hit
            0: node b is back
            0: to b: welcome epoch 2
            0: to b: answer 1; offer job 1: 1099511627777=0+10
            0: hit in job 1: unit 10, target 1
            0: job 1 is running: done 20, out 10, waiting 0, hits [(0, 1), (10, 1), (20, 1)], checked 0, untrue at 11: a false_hit
            0: job 1 finished
            0: job 1 is finished: done 30, out 0, waiting 0, hits [(0, 1), (10, 1), (20, 1)], checked 0, untrue at 11: a false_hit
        "#]],
    );
}

#[test]
fn a_node_that_is_trusted_again_before_that_is_known_keeps_what_it_did() {
    check_after(
        TWO,
        "done b 20+10 hits 20:1\n unread\n done b 30+10 hits 31:1\n undrain b\n read\n show 1\n nodes",
        expect![[r#"
            0: hit in job 1: unit 20, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=40+10
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 31: it reported a hit that is none
            0: to b: ack results [(2, 2)]; withdraw job 1 kill before 6
            0: node b resumed
            0: to b: offer job 1: 6=30+10 7=40+10
            0: job 1 is running: done 10, out 40, waiting 150, resent tasks 2, hits [(20, 1)], checked 0, untrue at 31: b false_hit
            0: a up, b up
        "#]],
    );
}

/// The conflict was on record, and who had left out the hit was only about to be read.
#[test]
fn who_left_out_a_hit_is_found_after_a_crash_as_well() {
    check_after(
        TWO,
        "done b 20+10\n unread\n done a 20+10 hits 20:1\n show 1\n restart\n hello a\n hello b\n at +10\n show 1\n nodes",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=40+10
            0: conflict in job 1: node a's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: job 1 is running: done 10, out 40, waiting 150, duplicate 10, hits [(20, 1)], conflict with a in [20, 30)
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node a
            0: node a is back
            0: to a: welcome epoch 2
            0: node b is back
            0: to b: welcome epoch 2
            10: job 1 is running: done 0, out 190, waiting 10, hits [(20, 1)], conflict with a in [20, 30), checked 0, untrue at 20: b missed_hit, by a
            10: a up, b quarantined (it reported units as done without a hit that is among them)
        "#]],
    );
}

/// Hits of both are in units of the conflict: those that were named are no sign of anything.
#[test]
fn who_named_its_hits_is_not_blamed_after_a_crash() {
    check_after(
        "submit 200 search 2 targets never units 20\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "done b 40+5 hits 40:1\n done b 45+15\n unread\n done a 40+20 hits 40:1,50:1\n restart\n hello a\n hello b\n at +10\n show 1\n nodes",
        expect![[r#"
            0: hit in job 1: unit 40, target 1
            0: to b: ack results [(1, 2)]; offer job 1: 5=80+20
            0: conflict in job 1: node a's result for units [40, 60) differs from the one that was counted first
            0: hit in job 1: unit 50, target 1
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 50: it reported units as done without a hit that is among them; believed is the result of node a
            0: node a is back
            0: to a: welcome epoch 2
            0: node b is back
            0: to b: welcome epoch 2
            10: job 1 is running: done 0, out 180, waiting 20, hits [(40, 1), (50, 1)], conflict with a in [40, 60), checked 0, untrue at 50: b missed_hit, by a
            10: a up, b quarantined (it reported units as done without a hit that is among them)
        "#]],
    );
}

/// Its key is revoked and it is forgotten, and then the scheduler dies: what it computed is still not to be relied on.
#[test]
fn what_a_forgotten_liar_computed_is_asked_for_again_after_a_crash() {
    check_after(
        TWO,
        "done b 20+10 hits 20:1\n unread\n done b 30+10 hits 31:1\n revoke b\n forget b\n restart\n hello a\n at +10\n show 1",
        expect![[r#"
            0: hit in job 1: unit 20, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=40+10
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 1: node b, unit 31: it reported a hit that is none
            0: to b: ack results [(2, 2)]; withdraw job 1 kill before 6
            0: node b left
            0: node b forgotten
            0: node a is back
            0: to a: welcome epoch 2
            10: job 1 is running: done 0, out 190, waiting 10, hits [(20, 1)], checked 0, untrue at 31: b false_hit
        "#]],
    );
}

/// One result over units of two nodes shows what each of them left out.
#[test]
fn each_that_left_out_a_hit_is_found_by_one_result() {
    check_after(
        TWO,
        "done a 0+10\n done b 20+10\n join c slots 1\n done c 0+30 hits 0:1,20:1\n show 1\n nodes",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: to b: ack results [(1, 1)]; offer job 1: 6=50+10
            0: node c joined: 1 slot, boot 0000000000000001
            0: to c: welcome epoch 1; offer job 1: 7=60+10 8=70+10
            0: conflict in job 1: node c's result for units [0, 30) differs from the one that was counted first
            0: hit in job 1: unit 0, target 1
            0: hit in job 1: unit 20, target 1
            0: node a quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node a, unit 0: it reported units as done without a hit that is among them; believed is the result of node c
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node c
            0: to a: withdraw job 1 kill before 9
            0: to b: withdraw job 1 kill before 9
            0: job 1 is running: done 0, out 20, waiting 180, duplicate 20, resent tasks 4, hits [(0, 1), (20, 1)], conflict with c in [0, 30), checked 0, untrue at 0: a missed_hit, by c, untrue at 20: b missed_hit, by c
            0: a quarantined (it reported units as done without a hit that is among them), b quarantined (it reported units as done without a hit that is among them), c up
        "#]],
    );
}

/// A conflict over units of both said nothing of the second one.
#[test]
fn who_left_out_a_hit_is_found_though_there_was_a_conflict_over_its_units() {
    check_after(
        TWO,
        "done a 0+10\n done b 20+10\n join c slots 1\n done c 0+30 hits 0:1\n nodes\n done c 20+10 hits 20:1\n nodes\n again c\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
            0: to b: ack results [(1, 1)]; offer job 1: 6=50+10
            0: node c joined: 1 slot, boot 0000000000000001
            0: to c: welcome epoch 1; offer job 1: 7=60+10 8=70+10
            0: conflict in job 1: node c's result for units [0, 30) differs from the one that was counted first
            0: hit in job 1: unit 0, target 1
            0: node a quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node a, unit 0: it reported units as done without a hit that is among them; believed is the result of node c
            0: to a: withdraw job 1 kill before 9
            0: a quarantined (it reported units as done without a hit that is among them), b up, c up
            0: conflict in job 1: node c's result for units [20, 30) differs from the one that was counted first
            0: hit in job 1: unit 20, target 1
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 20: it reported units as done without a hit that is among them; believed is the result of node c
            0: to b: withdraw job 1 kill before 9
            0: a quarantined (it reported units as done without a hit that is among them), b quarantined (it reported units as done without a hit that is among them), c up
            0: job 1 is running: done 0, out 20, waiting 180, duplicate 30, resent tasks 4, hits [(0, 1), (20, 1)], conflict with c in [0, 30), conflict with c in [20, 30), checked 0, untrue at 0: a missed_hit, by c, untrue at 20: b missed_hit, by c
        "#]],
    );
}

#[test]
fn who_names_later_what_it_left_out_itself_is_not_believed_against_itself() {
    check_after(
        TWO,
        "done a 0+10\n done a 0+10 hits 0:1\n show 1",
        expect![[r#"
        0: to a: ack results [(1, 1)]; offer job 1: 5=40+10
        0: conflict in job 1: node a's result for units [0, 10) differs from the one that was counted first
        0: hit in job 1: unit 0, target 1
        0: node a quarantined: it reported units as done without a hit that is among them
        0: untrue result in job 1: node a, unit 0: it reported units as done without a hit that is among them
        0: to a: ack results [(2, 2)]; withdraw job 1 kill before 6
        0: job 1 is running: done 0, out 20, waiting 180, duplicate 10, resent tasks 2, hits [(0, 1)], conflict with a in [0, 10), checked 0, untrue at 0: a missed_hit
    "#]],
    );
}

/// Whether hits of it are missing nobody knows: the job says so until it is computed again.
#[test]
fn an_ended_job_says_what_of_it_is_by_a_node_that_is_found_out_later() {
    check_after(
        "submit 40 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b
         done a 0+10\n done b 20+10\n done b 30+10\n done a 10+10",
        "show 1\n submit 40 search 2 targets never units 10\n ack b\n done b 0+10 hits 3:1 job 2\n show 1\n restart\n show 1
         undrain b\n show 1",
        expect![[r#"
            0: job 1 is finished: done 40, out 0, waiting 0
            0: job 2 submitted: 40 units
            0: job 2 running
            0: to a: ack results [(1, 2)]; offer job 2: 5=0+10; offer job 2: 7=20+10
            0: to b: ack results [(1, 2)]; offer job 2: 6=10+10; offer job 2: 8=30+10
            0: node b quarantined: it reported a hit that is none
            0: untrue result in job 2: node b, unit 3: it reported a hit that is none
            0: doubtful: 20 units of job 1, done by node b, which was distrusted after the job had ended: submit the job again
            0: to b: ack results [(3, 3)]; withdraw job 2 kill before 9
            0: job 1 is finished: done 40, out 0, waiting 0, checked 0, 20 doubtful by b
            0: job 1 is finished: done 40, out 0, waiting 0, checked 0, 20 doubtful by b
            0: node b resumed
            0: job 1 is finished: done 40, out 0, waiting 0, checked 0, 20 doubtful by b
        "#]],
    );
}
