//! A node that leaves many small pieces of what it was given, with gaps between them, and nodes that do not mean to. Here
//! a node may leave four of them. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;

use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::{Config, Verdict};

fn bench() -> Bench {
    Bench::new(Config { pieces_max: 4, ..config() })
}

fn check_after(before: &str, script: &str, expected: Expect) {
    let mut bench = bench();
    bench.run(before);
    expected.assert_eq(&bench.run(script));
}

/// Two nodes with tasks of a hundred units each: a has [0, 200), b [200, 400).
const TWO: &str =
    "submit 1000 search 2 targets never units 100\n join a slots 1\n join b slots 1\n ack a\n ack b";

fn worthless(bench: &mut Bench, node: usize) -> u64 {
    bench.farm.nodes(bench.now_us)[node].results_worthless
}

fn done(bench: &Bench) -> u128 {
    bench.farm.job(JobId(1), bench.now_us).unwrap().units_done.0
}

#[test]
fn of_every_second_unit_so_many_count_and_the_node_is_quarantined_for_the_others() {
    check_after(
        TWO,
        "done a 1+1\n done a 3+1\n done a 5+1\n done a 7+1\n show 1\n done a 9+1\n show 1\n done a 11+1\n done a 13+1
         done a 15+1\n done a 17+1\n nodes\n show 1\n ack b\n at 40\n done b 200+100\n ack b\n at 80\n show 1",
        expect![[r#"
            0: job 1 is running: done 4, out 396, waiting 600
            0: job 1 is running: done 4, out 395, waiting 601, resent tasks 1
            0: node a quarantined: sent 5 results of job 1 that cannot count, the last with a piece more than the 4 that it may leave with gaps between them
            0: to a: ack results [(1, 9)]; withdraw job 1 trim before 5
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a piece more than the 4 that it may leave with gaps between them), b up
            0: job 1 is running: done 4, out 309, waiting 687, resent tasks 5
            40: to b: ack results [(1, 1)]; offer job 1: 5=9+1 6=11+1 7=13+1 8=15+1 9=17+83 10=400+100 11=500+100
            80: job 1 is running: done 104, out 496, waiting 400, resent tasks 5
        "#]],
    );
}

#[test]
fn units_between_pieces_make_room_for_as_many_more() {
    let mut bench = bench();
    bench.run(TWO);
    for lo in 0..20 {
        bench.run(&format!("done a {}+1\n done a {}+1", 4 * lo + 2, 4 * lo + 4));
        assert_eq!(worthless(&mut bench, 0), 0, "{lo}");
        bench.run(&format!("done a {}+4\n at +1000", 4 * lo));
    }
    assert_eq!(done(&bench), 81);
}

/// What it did in the midst of its task was forgotten when the unit before it was done.
#[test]
fn a_piece_that_grows_is_the_same_piece() {
    let mut bench = bench();
    bench.run(TWO);
    for lo in (10..30).step_by(4) {
        bench.run(&format!("done a {lo}+1\n done a {}+1", lo - 1));
    }
    // Two units of each of four pieces; and the last one, which ends what was left of the task before 26.
    assert_eq!((done(&bench), worthless(&mut bench, 0)), (9, 1));
}

/// Results of two slots overtake each other, some are lost on the way and come again, and the node was out of reach.
#[test]
fn an_honest_node_is_never_in_its_way() {
    let mut bench = bench();
    bench
        .run("submit 4000 search 2 targets never units 10\n join a slots 2\n join b slots 2\n ack a\n ack b");
    for round in 0..40 {
        for node in ["a", "b"] {
            let held: Vec<_> = bench.farm.picture(bench.now_us).held;
            let its = held.iter().filter(|held| held.node.as_deref() == Some(node));
            let mut script = String::new();
            for lo in its.map(|held| held.lo) {
                // The second part comes before the first, and twice.
                for part in [4, 0, 8, 4] {
                    writeln!(script, "done {node} {}+{}", lo + part, if part == 8 { 2 } else { 4 }).unwrap();
                }
            }
            if round % 10 == 9 && node == "a" {
                bench.run("at +16000");
                assert!(bench.run("nodes").contains("a lost"));
                bench.run("hello a\n hello b");
            }
            bench.run(&script);
        }
        bench.run("ack a\n ack b\n at +300");
    }
    assert_eq!([worthless(&mut bench, 0), worthless(&mut bench, 1)], [0, 0]);
    assert_eq!(bench.farm.verdicts().count(Verdict::Malformed), 0);
    assert!(done(&bench) > 1_000, "{}", done(&bench));
}

/// As it is given out when a small part is to be computed again: there are open units before and behind it, and before it
/// was given back the node had all of these.
#[test]
fn a_whole_task_is_no_piece() {
    let mut bench = Bench::new(Config { pieces_max: 0, ..config() });
    bench.run(
        "submit 1000 search 2 targets never units 100\n join a slots 16 queue 99\n ack a\n at 16000\n hello a\n ack a",
    );
    bench.run("return a 50+1\n at 18000");
    bench.run("ack a\n done a 50+1\n done a 0+40");
    assert_eq!((done(&bench), worthless(&mut bench, 0)), (41, 0));
    bench.run("done a 60+1");
    assert_eq!((done(&bench), worthless(&mut bench, 0)), (41, 1), "it was asked");
}

#[test]
fn what_a_node_lost_it_reports_in_as_few_pieces() {
    check_after(
        TWO,
        "live 20000 a 0+200\n join c slots 1\n hello b\n nodes\n & done b 201+1\n & done b 203+1\n & done b 205+1\n & done b 207+1
         & done b 209+1\n done b 211+1\n show 1",
        expect![[r#"
            5000: node b suspect: no heartbeat
            15000: node b lost: 2 tasks back to gq
            20000: node c joined: 1 slot, boot 0000000000000001
            20000: to c: welcome epoch 1; offer job 1: 5=200+100 6=300+100
            20000: node b is back
            20000: to b: welcome epoch 1; offer job 1: 7=400+100 8=500+100
            20000: a up, b up, c up
            20000: job 1 is running: done 4, out 596, waiting 400, resent tasks 2
        "#]],
    );
}

#[test]
fn of_a_copy_as_few_pieces_count() {
    let mut bench = Bench::new(Config { pieces_max: 1, ..config() });
    bench.run(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
    );
    bench.run("beat b 0+10\n done b 1+1");
    assert_eq!((done(&bench), worthless(&mut bench, 1)), (21, 0));
    bench.run("done b 4+1\n done a 6+1");
    assert_eq!((done(&bench), worthless(&mut bench, 1)), (22, 1), "each of them may leave one");
}

#[test]
fn after_the_end_of_a_job_as_few_pieces_count() {
    check_after(
        TWO,
        "& cancel 1\n & done a 1+1\n & done a 3+1\n & done a 5+1\n & done a 7+1\n & done a 9+1\n done a 11+1\n show 1",
        expect![[r#"
            0: job 1 cancelled
            0: to a: ack results [(1, 6)]; withdraw job 1 kill before 5
            0: to b: withdraw job 1 kill before 5
            0: job 1 is cancelled: done 4, out 0, waiting 0, abandoned 996
        "#]],
    );
}

#[test]
fn of_all_jobs_together_no_more_count() {
    let mut bench = bench();
    bench.run("submit 100 search 9 targets never units 50\n submit 100 search 9 targets never units 50");
    bench.run(
        "join a slots 4\n ack a\n done a 1+1\n done a 3+1\n done a 5+1\n done a 1+1 job 2\n done a 3+1 job 2",
    );
    assert_eq!((done(&bench), worthless(&mut bench, 0)), (3, 1));
    assert_eq!(bench.farm.job(JobId(2), bench.now_us).unwrap().units_done.0, 1);
}
