//! What nodes give back although nobody asked for it, told as scripts: it leaves few pieces, pieces go out as the work that
//! they are, and who does so again and again is probed. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;

use common::{Bench, check_after, config};
use expect_test::expect;
use starfarm_protocol::admin::Subject;
use starfarm_protocol::ids::JobId;

/// So many lines of one datagram: every second unit of [first, first + units).
fn every_second(verb: &str, first: u64, units: u64, more: &str) -> String {
    let mut script = String::new();
    for unit in (first..first + units).step_by(2) {
        writeln!(script, "& {verb} {unit}+1 {more}").unwrap();
    }
    script
}

fn tasks_of(bench: &mut Bench, node: &str) -> u64 {
    let nodes = bench.farm.nodes(bench.now_us);
    nodes.iter().find(|of| of.name == node).unwrap().tasks
}

/// A node took two of them at a time, and then waited for the network: a slot was busy for a fiftieth of its time.
#[test]
fn pieces_fill_a_node_by_the_work_that_they_are() {
    let mut bench = Bench::new(config());
    bench.run("submit 400 search 1 never\n join a slots 1 queue 4096\n ack a");
    bench.run(&format!("{} tasks a", every_second("done a", 0, 400, "ms 0")));
    bench.run("bye a\n join b slots 1 queue 4096");
    // A slot may have half of what is left.
    assert_eq!(tasks_of(&mut bench, "b"), 104, "they are no more than a task");
    // What its queue has no room for it would only drop.
    let mut bench = Bench::new(config());
    bench.run("submit 400 search 1 never\n join a slots 1 queue 4096\n ack a");
    bench.run(&format!("{} tasks a", every_second("done a", 0, 400, "ms 0")));
    bench.run("bye a\n join b slots 2 queue 60");
    assert_eq!(tasks_of(&mut bench, "b"), 60);
}

/// "Still being learnt" for as long as there was nothing but pieces.
#[test]
fn many_small_tasks_tell_as_much_as_a_large_one() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000 command target 8\n join a slots 1 queue 64\n ack a\n ran a 0+1 ok ms 1\n ack a");
    for _ in 0..3 {
        let held = bench.farm.picture(bench.now_us).held;
        let (lo, hi) = held.iter().map(|held| (held.lo, held.hi)).min().unwrap();
        let ok = vec!["ok"; 16].join(",");
        for lo in (lo..hi).step_by(16) {
            bench.run(&format!(
                "ran a {lo}+{} {} ms 16",
                (hi - lo).min(16),
                &ok[..3 * (hi - lo).min(16) as usize - 1]
            ));
        }
        bench.run("ack a");
    }
    let held = bench.farm.picture(bench.now_us).held;
    let (lo, hi) = held.iter().map(|held| (held.lo, held.hi)).min().unwrap();
    assert!(hi - lo > 200, "{lo} {hi}");
    bench.run(&every_second("ran a", lo as u64, 200, "ok ms 1"));
    bench.run("bye a\n join b slots 1 queue 8\n ack b");
    let grown = |bench: &mut Bench| {
        let told = bench.farm.explain(&Subject::Node("b".into()), bench.now_us).unwrap();
        (told.sizes[0].growth_units_max.unwrap().0, told.sizes[0].measured)
    };
    for unit in (lo + 1..lo + 101).step_by(2) {
        bench.run(&format!("ran b {unit}+1 ok ms 1\n ack b"));
    }
    assert_eq!(grown(&mut bench), (50 * 16, true), "fifty units, one by one, are as good as fifty together");
    assert_eq!(JobId(1), bench.farm.jobs(0)[0].id);
}

/// Twelve seconds of every second unit made two million tasks of one unit each.
#[test]
fn a_task_that_comes_back_bit_by_bit_comes_back_whole() {
    check_after(
        "submit 3000 command units 1000\n join a slots 1\n ack a",
        "return a 1+1\n return a 3+1\n return a 5+1\n return a 7+1\n show 1\n tasks a\n return a 9+1\n show 1\n tasks a
         return a 991+1\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 1996, waiting 1004, resent tasks 4
            0: a has 6 tasks
            0: job 1 is running: done 0, out 1005, waiting 1995, resent tasks 5
            0: a has 6 tasks
            0: job 1 is running: done 0, out 1005, waiting 1995, resent tasks 5
        "#]],
    );
}

/// Node a gives back what it has, `times` times.
fn gives_back(bench: &mut Bench, times: usize) {
    for _ in 0..times {
        let held = bench.farm.picture(bench.now_us).held;
        let Some(held) = held.iter().find(|held| held.node.as_deref() == Some("a")) else { break };
        bench.run(&format!("ack a\n return a {}+1", held.lo));
    }
}

/// Node b is busy, and node a has something that it may give back.
fn bench() -> Bench {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 command units 1\n join b slots 1\n ack b\n join a slots 4 queue 8\n ack a");
    bench
}

/// The nodes, after some heartbeats more.
fn nodes_later(bench: &mut Bench) -> String {
    bench.run("live +9000 a none b 0+2");
    bench.run("nodes")
}

#[test]
fn who_gives_back_what_nobody_took_again_and_again_is_probed_until_it_does_a_task() {
    let mut bench = bench();
    gives_back(&mut bench, 70);
    assert!(bench.run("nodes").contains("a up"), "it may say any moment that it stops");
    let story = bench.run("beat a none\n at 1000\n beat a none\n at 2000\n beat a none\n nodes");
    assert!(
        story.contains("2000: node a quarantined: gave back 70 tasks that nobody took from it"),
        "{story}"
    );
    assert!(
        story.contains("2000: a quarantined (gave back 70 tasks that nobody took from it), b up"),
        "{story}"
    );
    gives_back(&mut bench, 20);
    assert_eq!(tasks_of(&mut bench, "a"), 0);
    bench.run("live 11900 a none b 0+2");
    assert_eq!(tasks_of(&mut bench, "a"), 0);
    bench.run("live 12100 a none b 0+2");
    assert_eq!(tasks_of(&mut bench, "a"), 1, "a probe");
    let held = bench.farm.picture(bench.now_us).held;
    let lo = held.iter().find(|held| held.node.as_deref() == Some("a")).unwrap().lo;
    assert!(bench.run(&format!("ack a\n ran a {lo}+1 ok\n nodes")).contains("a up"));
    // Who goes on as before gets no second chance as long as the first one.
    gives_back(&mut bench, 9);
    let nodes = nodes_later(&mut bench);
    assert!(nodes.contains("a quarantined (gave back 9 tasks"), "{nodes}");
    bench.run("undrain a");
    assert!(nodes_later(&mut bench).contains("a up"), "a person knows better");
}

#[test]
fn a_worker_that_stops_or_starts_anew_is_no_such_node() {
    for ends in [
        "beat a none draining",
        "beat a none\n at 1000\n beat a none draining",
        "bye a\n hello a boot 2",
        "beat a none\n beat a none\n hello a boot 2",
    ] {
        let mut bench = bench();
        gives_back(&mut bench, 70);
        bench.run(ends);
        let nodes = nodes_later(&mut bench);
        assert!(!nodes.contains("quarantined"), "{ends}: {nodes}");
    }
}

#[test]
fn what_was_taken_from_a_node_it_gives_back_when_it_is_asked() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1000 command units 1\n join b slots 1\n ack b\n join a slots 70 queue 100\n ack a\n pause 1",
    );
    gives_back(&mut bench, 100);
    let nodes = nodes_later(&mut bench);
    assert!(nodes.contains("a up") && tasks_of(&mut bench, "a") < 30, "{nodes}");
    bench.run("resume 1");
    assert!(nodes_later(&mut bench).contains("a up"));
}

#[test]
fn who_gives_back_half_of_what_it_gets_and_does_the_other_is_probed_as_well() {
    let mut bench = bench();
    for _ in 0..100 {
        gives_back(&mut bench, 1);
        let held = bench.farm.picture(bench.now_us).held;
        let Some(held) = held.iter().find(|held| held.node.as_deref() == Some("a")) else { break };
        bench.run(&format!("ack a\n ran a {}+1 ok\n at +100", held.lo));
    }
    let nodes = nodes_later(&mut bench);
    assert!(nodes.contains("a quarantined (gave back"), "{nodes}");
}

/// A rule that is right for one must be right for all of them.
#[test]
fn where_all_nodes_do_so_the_work_goes_on_at_a_trickle() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 command units 1\n join a slots 1\n ack a");
    gives_back(&mut bench, 80);
    assert!(bench.run("live 7000 a none\n nodes").contains("a quarantined"));
    let mut given = 0;
    for _ in 0..100 {
        gives_back(&mut bench, 8);
        bench.run("live +2000 a none");
        given += tasks_of(&mut bench, "a");
    }
    assert!((3..10).contains(&given), "{given} probes in 200 s");
}
