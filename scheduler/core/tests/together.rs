//! Units that one run computes together, told as scripts: the outcome counts for all or for none, and where it is bad the
//! unit at fault is found. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;

use common::{Bench, check_after, config};
use expect_test::expect;
use starfarm_protocol::wire::{Message, messages};

/// Node a has a task of 64 units.
const A_HAS_64: &str = "submit 64 command together units 64\n join a slots 1\n ack a";

#[test]
fn they_count_whole() {
    check_after(
        A_HAS_64,
        "ran a 0+64 ok*64\n show 1",
        expect![[r#"
        0: job 1 finished
        0: job 1 is finished: done 64, out 0, waiting 0
    "#]],
    );
}

#[test]
fn a_body_of_another_shape_counts_nothing() {
    check_after(
        A_HAS_64,
        "ran a 0+64 ok*63\n show 1\n ack a\n ran a 0+64 ok*32,ok*32\n show 1\n ack a\n ran a 0+64 ok*0\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 0, waiting 64, resent tasks 1
            0: job 1 is running: done 0, out 0, waiting 64, resent tasks 1
            0: job 1 is running: done 0, out 0, waiting 64, resent tasks 1
        "#]],
    );
    check_after(
        "submit 2 command units 2\n join a slots 1\n ack a",
        "ran a 0+2 ok*2\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 0, waiting 2, resent tasks 1
        "#]],
    );
}

#[test]
fn those_that_fail_go_out_in_smaller_tasks_until_the_unit_at_fault_is_alone() {
    check_after(
        A_HAS_64,
        "ran a 0+64 exit1*64\n show 1\n ack a\n ran a 0+8 exit1*8\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=0+8 3=8+8
            0: job 1 is running: done 0, out 16, waiting 48, resent tasks 1
            0: to a: ack results [(2, 2)]; offer job 1: 4=0+1 5=1+1 6=2+1 7=3+1 8=4+1 9=5+1 10=6+1
            0: job 1 is running: done 0, out 15, waiting 49, resent tasks 2
        "#]],
    );
}

#[test]
fn a_failure_that_comes_again_does_nothing() {
    check_after(
        A_HAS_64,
        "ran a 0+64 exit1*64\n again a\n show 1",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=0+8 3=8+8
            0: job 1 is running: done 0, out 16, waiting 48, resent tasks 1
        "#]],
    );
}

/// Part of it was counted in another cut: what is late does not count, and the others go on with the rest.
#[test]
fn what_was_counted_in_part_elsewhere_does_not_count_again() {
    check_after(
        A_HAS_64,
        "at 20000\n join b slots 1\n ack b\n ran b 0+8 ok*8\n show 1\n ran a 0+64 ok*64\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            20000: node b joined: 1 slot, boot 0000000000000001
            20000: to b: welcome epoch 1; offer job 1: 2=0+8 3=8+8
            20000: to b: ack results [(1, 1)]; offer job 1: 4=16+8
            20000: job 1 is running: done 8, out 16, waiting 40, resent tasks 1
            20000: node a is back
            20000: to a: ack results [(1, 1)]; offer job 1: 5=24+8 6=32+8
            20000: job 1 is running: done 8, out 32, waiting 24, duplicate 8, resent tasks 1
        "#]],
    );
}

#[test]
fn what_comes_late_counts_where_nothing_of_it_was_counted() {
    check_after(
        A_HAS_64,
        "at 20000\n join b slots 1\n ack b\n ran a 0+64 ok*64\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            20000: node b joined: 1 slot, boot 0000000000000001
            20000: to b: welcome epoch 1; offer job 1: 2=0+8 3=8+8
            20000: job 1 finished
            20000: node a is back
            20000: job 1 is finished: done 64, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

/// The finished part of a run that was stopped, and the rest.
#[test]
fn a_run_that_is_stopped_may_tell_of_its_first_units() {
    check_after(
        A_HAS_64,
        "ran a 0+20 ok*20\n show 1\n return a 20+44\n show 1\n at +1100\n ack a\n ran a 20+44 ok*44",
        expect![[r#"
            0: job 1 is running: done 20, out 44, waiting 0
            0: job 1 is running: done 20, out 0, waiting 44, resent tasks 1
            20: to a: ack results [(1, 2)]
            1000: to a: offer job 1: 2=20+44
            1050: offered 1 task again to node a
            1050: to a: offer job 1: 2=20+44
            1100: job 1 finished
        "#]],
    );
}

#[test]
fn a_unit_that_kills_its_workers_is_found() {
    check_after(
        "submit 64 command together units 64\n join a slots 1\n ack a\n beat a 0+64 running 0\n join b slots 1\n join c slots 1",
        "at 17000\n show 1\n ack b\n ack c\n beat b 0+8 running 0\n at 17100\n hello b boot 9 died 0\n show 1",
        expect![[r#"
            5000: node a suspect: no heartbeat
            5000: node b suspect: no heartbeat
            5000: node c suspect: no heartbeat
            15000: node a lost: 1 task back to gq
            15000: node b lost: 0 tasks back to gq
            15000: node c lost: 0 tasks back to gq
            17000: job 1 is running: done 0, out 0, waiting 64, resent tasks 1
            17000: node b is back
            17000: to b: offer job 1: 2=0+8 3=8+8
            17000: node c is back
            17000: to c: offer job 1: 4=16+8 5=24+8
            17000: to b: answer 1
            17100: node b joined: 1 slot, boot 0000000000000009
            17100: to b: welcome epoch 1; offer job 1: 6=0+1 7=1+1 8=2+1 9=3+1 10=4+1 11=5+1 12=6+1 13=7+9
            17100: job 1 is running: done 0, out 32, waiting 32, resent tasks 3
        "#]],
    );
}

/// Its node is asked and goes on: what it runs is one run, and nobody else begins with it.
#[test]
fn a_run_that_lasts_far_too_long_is_asked_and_not_taken() {
    let mut bench = Bench::new(config());
    bench.run("submit 65 command together units 64\n join a slots 1\n ack a\n return a 64+1\n join b slots 1\n ack b
        ran b 64+1 ok");
    let story = bench.run("live 9000000 a 0+64/0 b none\n tasks b\n show 1");
    assert_eq!(story.matches("withdraw job 1 trim").count(), 3, "{story}");
    assert!(story.contains("b has 0 tasks") && story.contains("done 1, out 64, waiting 0"), "{story}");
}

/// Of 1 024 units one is bad: the others all count, and few runs were needed to find it.
#[test]
fn one_bad_unit_costs_only_itself() {
    const BAD: u128 = 437;
    let mut bench = Bench::new(config());
    bench.run("submit 1024 command together units 512\n join a slots 1");
    let (mut given, mut runs) = (VecDeque::new(), 0);
    loop {
        for (_, datagram) in std::mem::take(&mut bench.sent) {
            for message in messages(&datagram) {
                if let Message::Offers(offers) = message.unwrap() {
                    given.extend(offers.map(|offer| offer.unwrap()).map(|of| (of.lo, u128::from(of.units))));
                }
            }
        }
        let Some((lo, units)) = given.pop_front() else { break };
        let how = if (lo..lo + units).contains(&BAD) { "exit1" } else { "ok" };
        bench.run(&format!("ack a\n ran a {lo}+{units} {how}*{units}"));
        runs += 1;
    }
    let job = &bench.farm.jobs(bench.now_us)[0];
    assert_eq!((job.units_done.0, job.units_failed.0), (1_023, 1));
    assert_eq!(bench.farm.failed_units(job.id)[0].0, BAD);
    assert!(runs <= 2 + 3 * 8, "{runs} runs");
}

/// Starting takes 12 s, a unit 10 ms, and the job's target is 8 s: with tasks of one unit all would be starts.
#[test]
fn what_starting_takes_is_learnt_and_a_task_takes_four_starts() {
    check_after(
        "submit 100000 command together target 8\n join a slots 1\n ack a",
        "ran a 0+1 ok ms 12010\n ack a\n ran a 1+2 ok*2 ms 12020\n ack a",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+2
            0: to a: ack results [(2, 2)]; offer job 1: 3=3+32
        "#]],
    );
}

/// Every slot had two runs of one unit before anything was learnt of them, and the last units went out in five runs that
/// were half start: 22 s for what takes 9.
#[test]
fn first_runs_of_a_node_are_of_unlike_sizes_and_the_last_ones_share_what_is_left() {
    check_after(
        "submit 30 command together target 8\n join a slots 2",
        "ack a\n ran a 0+1 ok ms 6000\n ack a\n ran a 1+2 ok*2 ms 7000\n ack a",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 3=3+2
            0: to a: ack results [(2, 2)]; offer job 1: 4=5+14
        "#]],
    );
}

/// Where a run takes minutes, one that waits behind another is missed by a slot that has nothing, though minutes of work are
/// left.
#[test]
fn near_the_end_no_run_waits_behind_another_that_takes_minutes() {
    check_after(
        "submit 6500 command together target 8\n join a slots 1\n ack a",
        "ran a 0+1 ok ms 120100\n ack a\n ran a 1+2 ok*2 ms 120200\n ack a\n ran a 3+32 ok*32 ms 123200\n ack a
         ran a 35+512 ok*512 ms 171200\n ack a\n tasks a",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=1+2
            0: to a: ack results [(2, 2)]; offer job 1: 3=3+32
            0: to a: ack results [(3, 3)]; offer job 1: 4=35+512
            0: to a: ack results [(4, 4)]; offer job 1: 5=547+3192
            0: a has 1 tasks
        "#]],
    );
}
