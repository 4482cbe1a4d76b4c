//! Trust checks of a search, told as scripts: what two nodes compute, and what is planted. In these stories a unit is a hit
//! of the target that is its last digit. With a share of 1 all that a node computed is computed again. Times in the stories
//! are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::Bench;
use common::truth::digits::{TWO, check_after};
use common::truth::knows_digits;
use expect_test::expect;
use starfarm_scheduler_core::Deeds;

fn bench() -> Bench {
    Bench::new(knows_digits())
}

/// Each has done both.
const DONE: &str = "submit 40 search 2 never units 10 check 1000000\n join a slots 1\n join b slots 1\n ack a\n ack b
    done a 0+10 hits 0:0,1:1\n done a 10+10 hits 10:0,11:1\n done b 20+10 hits 20:0,21:1\n done b 30+10 hits 30:0,31:1
    ack a\n ack b";

#[test]
fn what_one_node_computed_another_computes_again() {
    check_after(
        TWO,
        "done a 0+10 hits 0:0,1:1\n show 1\n done a 10+10 hits 10:0,11:1\n done b 20+10 hits 20:0,21:1\n done b 30+10 hits 30:0,31:1\n ack a\n ack b\n done b 0+10 hits 0:0,1:1\n show 1\n done a 20+10 hits 20:0,21:1\n done b 10+10 hits 10:0,11:1\n done a 30+10 hits 30:0,31:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: job 1 is running: done 0, out 30, waiting 10, hits [(0, 0), (1, 1)], checked 0
            0: hit in job 1: unit 10, target 0
            0: hit in job 1: unit 11, target 1
            0: hit in job 1: unit 20, target 0
            0: hit in job 1: unit 21, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 6=0+10
            0: to a: ack results [(1, 2)]; offer job 1: 5=20+10
            0: hit in job 1: unit 30, target 0
            0: hit in job 1: unit 31, target 1
            0: to b: ack results [(2, 2)]; offer job 1: 7=10+10
            0: to a: offer job 1: 8=30+10
            0: job 1 is running: done 10, out 30, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 10
            0: job 1 finished
            0: job 1 is finished: done 40, out 0, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 40
        "#]],
    );
}

/// The first result had counted; all that its node computed is computed again.
#[test]
fn who_left_out_what_the_second_finds_is_not_trusted() {
    check_after(
        TWO,
        "done a 0+10 hits 0:0\n done b 20+10 hits 20:0,21:1\n ack b\n done b 0+10 hits 0:0,1:1\n show 1\n nodes\n ack b\n done b 10+10 hits 10:0,11:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 20, target 0
            0: hit in job 1: unit 21, target 1
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+10
            0: to a: ack results [(1, 1)]; offer job 1: 6=20+10
            0: hit in job 1: unit 1, target 1
            0: node a quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node a, unit 1: it reported units as done without a hit that is among them; believed is the result of node b
            0: to a: withdraw job 1 kill before 7
            0: to b: ack results [(2, 2)]; offer job 1: 7=10+10
            0: job 1 is running: done 10, out 20, waiting 10, resent tasks 2, hits [(0, 0), (1, 1), (20, 0), (21, 1)], checked 0, untrue at 1: a missed_hit, by b
            0: a quarantined (it reported units as done without a hit that is among them), b up
            0: hit in job 1: unit 10, target 0
            0: hit in job 1: unit 11, target 1
            0: to b: ack results [(3, 3)]; offer job 1: 8=20+10
            0: job 1 is running: done 20, out 20, waiting 0, resent tasks 2, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1)], checked 0, untrue at 1: a missed_hit, by b
        "#]],
    );
}

#[test]
fn a_second_that_leaves_out_what_the_first_found_is_not_trusted() {
    check_after(
        DONE,
        "done b 0+10 hits 0:0\n show 1\n nodes\n ack a\n done a 20+20 hits 20:0,21:1,30:0,31:1\n show 1",
        expect![[r#"
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 1: it reported units as done without a hit that is among them
            0: to b: ack results [(3, 3)]; withdraw job 1 kill before 9
            0: job 1 is running: done 0, out 20, waiting 20, resent tasks 2, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0, untrue at 1: b missed_hit
            0: a up, b quarantined (it reported units as done without a hit that is among them)
            0: to a: ack results [(3, 3)]; offer job 1: 9=0+10 10=10+10
            0: job 1 is running: done 20, out 20, waiting 0, resent tasks 2, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0, untrue at 1: b missed_hit
        "#]],
    );
}

/// Its acknowledgement was lost: that is no second opinion, and nothing is wrong with it either.
#[test]
fn the_first_may_repeat_its_result() {
    check_after(
        DONE,
        "again a\n show 1\n done b 10+10 hits 10:0,11:1\n again a\n show 1\n nodes",
        expect![[r#"
            0: job 1 is running: done 0, out 40, waiting 0, duplicate 10, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
            0: job 1 is running: done 10, out 30, waiting 0, duplicate 20, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 10
            0: a up, b up
        "#]],
    );
}

#[test]
fn where_nobody_else_is_nothing_is_checked() {
    check_after(
        "submit 20 search 2 never units 10 check 1000000\n join a slots 1\n ack a",
        "done a 0+10 hits 0:0,1:1\n ack a\n done a 10+10 hits 10:0,11:1\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: hit in job 1: unit 10, target 0
            0: hit in job 1: unit 11, target 1
            0: job 1 finished
            0: job 1 is finished: done 20, out 0, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1)], checked 0
        "#]],
    );
}

/// The other one has enough to do, or does not say what it does.
#[test]
fn where_the_others_have_no_time_the_first_computes_it_again() {
    check_after(
        TWO,
        "done b 20+10 hits 20:0,21:1\n done b 30+10 hits 30:0,31:1\n live 29000 a 0+10,10+10 b 0+10\n done a 0+10 hits 0:0,1:1\n show 1\n at +1000\n show 1",
        expect![[r#"
            0: hit in job 1: unit 20, target 0
            0: hit in job 1: unit 21, target 1
            0: hit in job 1: unit 30, target 0
            0: hit in job 1: unit 31, target 1
            0: to b: ack results [(1, 2)]
            29000: hit in job 1: unit 0, target 0
            29000: hit in job 1: unit 1, target 1
            29000: to a: ack results [(1, 1)]; offer job 1: 6=20+10
            29000: to b: offer job 1: 5=0+10
            29000: job 1 is running: done 0, out 30, waiting 10, hits [(0, 0), (1, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
            29050: offered 1 task again to node a
            29050: to a: offer job 1: 6=20+10
            29050: offered 1 task again to node b
            29050: to b: offer job 1: 5=0+10
            29150: offered 1 task again to node a
            29150: to a: offer job 1: 6=20+10
            29150: offered 1 task again to node b
            29150: to b: offer job 1: 5=0+10
            29350: offered 1 task again to node a
            29350: to a: offer job 1: 6=20+10
            29350: offered 1 task again to node b
            29350: to b: offer job 1: 5=0+10
            29750: offered 1 task again to node a
            29750: to a: offer job 1: 6=20+10
            29750: offered 1 task again to node b
            29750: to b: offer job 1: 5=0+10
            30000: to b: offer job 1: 7=30+10
            30000: job 1 is running: done 0, out 40, waiting 0, hits [(0, 0), (1, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
        "#]],
    );
}

/// Nobody knows any more who was first: the node that was may have it.
#[test]
fn after_a_restart_it_is_computed_again_and_not_compared() {
    check_after(
        DONE,
        "restart\n hello a\n beat a none\n hello b\n beat b 10+10\n show 1\n ack a\n done a 0+10 hits 0:0,1:1\n done b 10+10 hits 10:0,11:1\n show 1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: node b is back
            0: to b: welcome epoch 2
            0: to b: answer 1
            0: job 1 is running: done 0, out 40, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
            0: to a: ack results [(3, 3)]; offer job 1: 1099511627777=10+10
            0: job 1 is running: done 0, out 40, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
        "#]],
    );
}

#[test]
fn what_the_first_had_left_is_anybodys_once_it_is_not_trusted() {
    check_after(
        DONE,
        "done a 20+10 hits 20:0,21:1,22:1\n show 1\n nodes\n done b 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            0: node a quarantined: it reported a hit that is none
            0: untrue result in job 1: node a, unit 22: it reported a hit that is none
            0: to a: ack results [(3, 3)]; withdraw job 1 kill before 9
            0: job 1 is running: done 0, out 20, waiting 20, resent tasks 2, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0, untrue at 22: a false_hit
            0: a quarantined (it reported a hit that is none), b up
            0: to b: ack results [(3, 3)]; offer job 1: 9=20+10
            0: job 1 is running: done 10, out 20, waiting 10, resent tasks 2, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0, untrue at 22: a false_hit
        "#]],
    );
}

const PLANTED: &str = "submit 20 search 8 all-targets units 5 planted 7:7,12:2\n join a slots 1\n join b slots 1\n ack a\n ack b";

#[test]
fn who_leaves_out_a_planted_answer_is_not_trusted() {
    check_after(
        PLANTED,
        "done a 0+5 hits 0:0\n done a 5+5 hits 5:5\n show 1\n nodes\n done b 10+5 hits 12:2\n ack b\n done b 5+5 hits 7:7,5:5\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: node a quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node a, unit 7: it reported units as done without a hit that is among them
            0: to a: ack results [(1, 2)]; withdraw job 1 kill before 5
            0: job 1 is running: done 0, out 10, waiting 10, resent tasks 1, hits [(0, 0)], checked 0, planted 0 of 2, untrue at 7: a missed_hit
            0: a quarantined (it reported units as done without a hit that is among them), b up
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+5
            0: hit in job 1: unit 5, target 5
            0: job 1 is running: done 5, out 10, waiting 5, resent tasks 1, hits [(0, 0), (5, 5)], checked 0, planted 1 of 2, untrue at 7: a missed_hit
        "#]],
    );
}

/// It ends the search as if nobody had planted anything.
#[test]
fn a_planted_answer_is_no_result() {
    check_after(
        PLANTED,
        "done a 0+5 hits 0:0,1:1,3:3,4:4\n done a 5+5 hits 5:5,6:6,7:7\n show 1\n restart\n show 1",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: hit in job 1: unit 3, target 3
            0: hit in job 1: unit 4, target 4
            0: hit in job 1: unit 5, target 5
            0: hit in job 1: unit 6, target 6
            0: job 1 finished
            0: to b: withdraw job 1 kill before 5
            0: job 1 is finished: done 10, out 0, waiting 0, abandoned 10, hits [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5), (6, 6)], checked 0, planted 1 of 2
            0: job 1 is finished: done 10, out 0, waiting 0, abandoned 10, hits [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5), (6, 6)], checked 0, planted 1 of 2
        "#]],
    );
}

/// It would put honest nodes into quarantine.
#[test]
fn what_is_no_answer_is_not_planted() {
    let mut bench = bench();
    for (what, expected) in [
        ("search 2 never planted 10:0", true),
        ("search 2 never planted 10:1", false),
        ("search 2 never planted 20:0", false),
        ("search 1 never planted 10:0", false),
        ("search 2 never planted 10:0,10:0", false),
        ("search 3 never planted 10:0,0:0", false),
        ("command planted 10:0", false),
        ("command check 10", false),
    ] {
        let line = format!("submit 20 {what}");
        let words = common::line::Line { words: line.split(' ').collect(), goes_on: false };
        let new = words.new_job(common::spec(1));
        let made = bench.farm.submit(new, 0, &mut Deeds::default());
        assert_eq!(made.is_ok(), expected, "{what}: {made:?}");
    }
}

/// It was taken for a second opinion that differs, and put the node on record for it.
#[test]
fn who_repeats_a_planted_answer_differs_from_nobody() {
    check_after(
        PLANTED,
        "done a 0+5 hits 0:0\n done a 5+5 hits 5:5,6:6,7:7\n again a\n show 1\n nodes",
        expect![[r#"
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 5, target 5
            0: hit in job 1: unit 6, target 6
            0: job 1 is running: done 10, out 10, waiting 0, duplicate 5, hits [(0, 0), (5, 5), (6, 6)], checked 0, planted 1 of 2
            0: a up, b up
        "#]],
    );
}

/// Its results had counted, and their acknowledgements were lost.
#[test]
fn after_the_end_the_first_may_repeat_what_was_to_be_checked() {
    check_after(
        DONE,
        "cancel 1\n done a 0+10 hits 0:0,1:1\n done a 10+10 hits 10:0,11:1\n done a 0+10 hits 0:0,1:1\n done a 10+10 hits 10:0,11:1
         done a 0+10 hits 0:0,1:1\n nodes\n show 1",
        expect![[r#"
            0: job 1 cancelled
            0: to a: withdraw job 1 kill before 9
            0: to b: withdraw job 1 kill before 9
            0: a up, b up
            0: job 1 is cancelled: done 20, out 0, waiting 0, abandoned 20, hits [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (31, 1)], checked 0
        "#]],
    );
}

/// With a new incarnation it lost the tasks that it reports: it may, once.
#[test]
fn nobody_is_the_second_opinion_on_oneself() {
    check_after(
        TWO,
        "hello a boot 2\n done a 0+10 hits 0:0\n again a\n done a 0+10 hits 0:0\n show 1\n ack b\n nodes",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 5=0+10 6=10+10
            0: hit in job 1: unit 0, target 0
            0: job 1 is running: done 0, out 30, waiting 10, duplicate 20, resent tasks 2, hits [(0, 0)], checked 0
            0: a up, b up
        "#]],
    );
}

/// Its job never was; the next one is another, although it has the same number.
#[test]
fn what_was_asked_for_a_job_that_a_crash_took_away_is_nobodys() {
    check_after(
        "hold\n submit 20 search 2 never units 10 check 1000000\n durable 1",
        "restart\n submit 20 search 2 never units 10\n show 1\n restart\n show 1",
        expect![[r#"
            0: job 1 submitted: 20 units
            0: job 1 is queued: done 0, out 0, waiting 20
            0: job 1 is queued: done 0, out 0, waiting 20
        "#]],
    );
}

#[test]
fn what_the_second_gives_back_waits_for_a_third_and_not_for_the_first() {
    check_after(
        "submit 10 search 2 never units 10 check 1000000\n join a slots 1\n ack a\n join b slots 1\n join c slots 1
         done a 0+10 hits 0:0,1:1\n ack b",
        "tasks b\n bye b\n tasks a\n tasks c\n ack c\n done c 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            0: b has 1 tasks
            0: node b left
            0: to c: offer job 1: 3=0+10
            0: a has 0 tasks
            0: c has 1 tasks
            0: job 1 finished
            0: job 1 is finished: done 10, out 0, waiting 0, resent tasks 1, hits [(0, 0), (1, 1)], checked 10
        "#]],
    );
}

/// The first computes it itself in the end: the job would never end.
#[test]
fn what_the_second_hangs_on_the_first_gets_where_nobody_else_does() {
    check_after(
        "submit 10 search 2 never units 10 check 1000000 copies\n join a slots 1\n ack a\n join b slots 1
         done a 0+10 hits 0:0,1:1\n ack b\n beat b 0+10 running 0\n beat a none\n live 100000 a none b 0+10/0",
        "tasks a\n live 120000 a none b 0+10/0\n done a 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            100000: a has 0 tasks
            120000: copy of [0, 10) of job 1 to node a
            120000: to a: offer job 1: 3=0+10
            120000: job 1 finished
            120000: to b: withdraw job 1 kill before 4
            120000: to a: ack results [(2, 2)]; withdraw job 1 kill before 4
            120000: job 1 is finished: done 10, out 0, waiting 0, copies 1, hits [(0, 0), (1, 1)], checked 0
        "#]],
    );
}

#[test]
fn what_the_second_hangs_on_a_third_gets_before_the_first() {
    check_after(
        "submit 10 search 2 never units 10 check 1000000 copies\n join a slots 1\n ack a\n join b slots 1
         done a 0+10 hits 0:0,1:1\n ack b\n beat b 0+10 running 0\n beat a none\n join c slots 1\n beat c none
         live 100000 a none b 0+10/0 c none",
        "tasks a\n tasks c\n ack c\n done c 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            100000: a has 0 tasks
            100000: c has 1 tasks
            100000: job 1 finished
            100000: to b: withdraw job 1 kill before 4
            100000: to c: ack results [(1, 1)]; withdraw job 1 kill before 4
            100000: job 1 is finished: done 10, out 0, waiting 0, copies 1, hits [(0, 0), (1, 1)], checked 10
        "#]],
    );
}

#[test]
fn who_is_forgotten_before_its_lie_comes_out_is_on_record_all_the_same() {
    check_after(
        "submit 20 search 2 never units 10 check 1000000\n join a slots 1\n ack a\n join b slots 1\n done a 0+10
         done a 10+10 hits 10:0,11:1\n bye a\n forget a\n ack b",
        "tasks b\n done b 0+10 hits 0:0,1:1\n show 1\n ack b\n done b 10+10 hits 10:0,11:1\n show 1\n bye b\n forget b\n show 1",
        expect![[r#"
            0: b has 2 tasks
            0: hit in job 1: unit 0, target 0
            0: hit in job 1: unit 1, target 1
            0: untrue result in job 1: node a, unit 0: it reported units as done without a hit that is among them; believed is the result of node b
            0: job 1 is running: done 10, out 10, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1)], checked 0, untrue at 0: a missed_hit, by b
            0: job 1 finished
            0: job 1 is finished: done 20, out 0, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1)], checked 0, untrue at 0: a missed_hit, by b
            0: node b left
            0: node b forgotten
            0: job 1 is finished: done 20, out 0, waiting 0, hits [(0, 0), (1, 1), (10, 0), (11, 1)], checked 0, untrue at 0: a missed_hit, by b
        "#]],
    );
}

/// It comes back, and the others would have it again and again.
#[test]
fn what_the_second_gives_back_for_two_minutes_the_first_may_have() {
    check_after(
        "submit 10 search 2 never units 10 check 1000000\n join a slots 1\n ack a\n join b slots 1
         done a 0+10 hits 0:0,1:1\n ack b\n live 32000 a none b 0+10\n return b 0+10\n ack b\n live 64000 a none b 0+10
         return b 0+10\n ack b\n live 96000 a none b 0+10\n return b 0+10\n ack b\n live 121000 a none b 0+10",
        "tasks a\n tasks b\n return b 0+10\n live 123000 a none b none\n tasks a\n ack a\n done a 0+10 hits 0:0,1:1\n show 1",
        expect![[r#"
            121000: a has 0 tasks
            121000: b has 1 tasks
            121000: to a: offer job 1: 6=0+10
            121000: to b: ack results [(4, 4)]
            121050: offered 1 task again to node a
            121050: to a: offer job 1: 6=0+10
            121150: offered 1 task again to node a
            121150: to a: offer job 1: 6=0+10
            121350: offered 1 task again to node a
            121350: to a: offer job 1: 6=0+10
            121750: offered 1 task again to node a
            121750: to a: offer job 1: 6=0+10
            122550: offered 1 task again to node a
            122550: to a: offer job 1: 6=0+10
            123000: a has 1 tasks
            123000: job 1 finished
            123000: job 1 is finished: done 10, out 0, waiting 0, resent tasks 4, hits [(0, 0), (1, 1)], checked 0
        "#]],
    );
}
