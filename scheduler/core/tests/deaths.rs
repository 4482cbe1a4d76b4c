//! Units that kill their workers, told as scripts: whose deaths are charged, and to what. Poison itself is in `stories`,
//! what of it outlives a scheduler in `restarts`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;
use starfarm_scheduler_core::Record;

/// Its machines were away for longer than 15 s, and by the time they told what they had been running another one had it.
#[test]
fn a_death_is_charged_though_the_unit_is_at_another_node_by_then_and_the_third_takes_it_out_there() {
    check_after(
        "submit 4 command units 4\n join a slots 1\n ack a\n beat a 0+4 running 0\n join d slots 1\n live 15500 d none\n ack d
         hello a boot 2 died 2",
        "tasks a\n hello d boot 2 died 2\n tasks a\n hello d boot 3 died 2\n show 1\n tasks a",
        expect![[r#"
            15500: a has 0 tasks
            15500: node d joined: 1 slot, boot 0000000000000002
            15500: to d: welcome epoch 1; offer job 1: 4=0+2; offer job 1: 6=3+1
            15500: to a: offer job 1: 5=2+1
            15500: a has 1 tasks
            15500: unit 2 of job 1 failed: poison
            15500: node d joined: 1 slot, boot 0000000000000003
            15500: to a: withdraw job 1 trim before 7; offer job 1: 7=0+2
            15500: to d: welcome epoch 1; offer job 1: 8=3+1
            15500: job 1 is running: done 0, out 3, waiting 0, resent tasks 5, unit 2 failed by poison
            15500: a has 1 tasks
        "#]],
    );
}

/// As where one machine has both, and the unit ends it.
#[test]
fn a_death_is_charged_where_scheduler_and_worker_die_together() {
    check_after(
        "submit 4 command units 4\n join a slots 1\n ack a",
        "restart\n hello a boot 2 died 2\n beat a none\n at 1\n ack a\n restart\n hello a boot 3 died 2\n beat a none\n at 2
         ack a\n restart\n hello a boot 4 died 2\n beat a none\n at 3\n show 1",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: to a: offer job 1: 1099511627777=0+2 1099511627778=2+1
            1: node a joined: 1 slot, boot 0000000000000003
            1: to a: welcome epoch 3
            1: to a: answer 1
            1: to a: offer job 1: 2199023255553=0+2 2199023255554=2+1
            2: unit 2 of job 1 failed: poison
            2: node a joined: 1 slot, boot 0000000000000004
            2: to a: welcome epoch 4
            2: to a: answer 1
            2: to a: offer job 1: 3298534883329=0+2 3298534883330=3+1
            3: job 1 is running: done 0, out 3, waiting 0, resent tasks 2, unit 2 failed by poison
        "#]],
    );
}

/// Twelve machines went, one after another, and no heartbeat had named the unit.
#[test]
fn a_unit_that_kills_its_machine_before_any_heartbeat_is_found() {
    let mut bench = Bench::new(config());
    bench.run("submit 4 command units 4\n join a slots 1\n at 20000");
    // What else the task held is tried alone, and passes.
    bench.run(
        "join b slots 1\n ack b\n ran b 0+1 ok\n ack b\n ran b 1+1 ok\n ack b\n ran b 2+1 ok\n at 40000",
    );
    let story = bench.run("join c slots 1\n at 60000\n show 1");
    assert!(story.contains("55000: unit 3 of job 1 failed: poison"), "{story}");
    assert!(story.contains("done 3, out 0, waiting 0"), "{story}");
}

#[test]
fn of_nodes_that_die_together_no_unit_is_to_blame() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 8 command units 1\n join a slots 1\n ack a\n join b slots 1\n ack b\n join c slots 1\n ack c
         join d slots 1\n ack d\n join e slots 1\n beat a 0+2 running 0\n beat b 2+2 running 2\n beat c 4+2 running 4
         beat d 6+2 running 6\n live 16000 e none",
    );
    let died = |record: &&Record| matches!(record, Record::Died { .. });
    assert_eq!(bench.farm.durable_state().iter().filter(died).count(), 0);
    // They come back one after another, and say what they had been running.
    bench.run("hello a boot 2 died 0\n hello b boot 2\n hello c boot 2 died 4\n hello d boot 2 died 6");
    assert_eq!(bench.farm.durable_state().iter().filter(died).count(), 0);
}

/// Another node, which said the very same, was not trusted any more.
#[test]
fn a_late_hit_in_a_unit_that_is_poison_makes_no_conflict() {
    check_after(
        "submit 20 search 2 targets never units 10\n join a slots 1\n ack a\n hello a boot 2 died 3\n ack a
         hello a boot 3 died 3\n ack a\n hello a boot 4 died 3\n join b slots 1\n ack b",
        "done a 3+1 hits 3:1\n bye a\n ack b\n done b 0+3\n ack b\n done b 3+11 hits 3:1\n show 1\n nodes",
        expect![[r#"
            0: hit in job 1: unit 3, target 1
            0: node a left
            0: to b: offer job 1: 12=0+3
            0: to b: ack results [(1, 1)]; offer job 1: 13=4+10
            0: job 1 is running: done 13, out 6, waiting 0, duplicate 2, resent tasks 9, hits [(3, 1)], unit 3 failed by poison
            0: a lost, b up
        "#]],
    );
}

/// The last number that there is ended the scheduler.
#[test]
fn units_that_no_job_has_are_run_by_nobody() {
    check(
        "submit 10 command units 5\n join a slots 1\n ack a\n beat a 0+5 running 340282366920938463463374607431768211455
         hello a boot 2 died 340282366920938463463374607431768211455\n show 1",
        expect![[r#"
            0: job 1 submitted: 10 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+5 2=5+5
            0: to a: answer 1
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 3=0+5 4=5+5
            0: job 1 is running: done 0, out 10, waiting 0, resent tasks 2
        "#]],
    );
}

/// Units left, times slots, passed 2^128.
#[test]
fn a_huge_job_and_a_node_with_many_slots_fit_together() {
    let mut bench = Bench::new(config());
    bench.run(&format!(
        "submit {} search 1 never\n join a slots 1\n join b slots 64\n ack a\n ack b",
        u128::MAX
    ));
    (0..5).for_each(|_| drop(bench.run("done b 0+1 body 01")));
    bench.run("live 25000 a none b none\n bye a\n at +1000\n live +25000 b none");
    assert!(bench.run("nodes").contains("b "));
}

/// Its inputs were still fetched, as heartbeats do not say: after three such deaths the unit was poison.
#[test]
fn a_unit_that_did_not_run_when_its_worker_died_is_not_charged() {
    let deaths = |died: &str| {
        let mut bench = Bench::new(config());
        bench.run("submit 1 command units 1\n join a slots 1\n ack a");
        for boot in 2..7 {
            // It is missed before it comes back, and then it comes back at once.
            let gone = if boot % 2 == 0 { "at +20000" } else { "at +10" };
            bench.run(&format!("beat a 0+1 running 0\n {gone}\n hello a boot {boot}{died}\n ack a"));
        }
        bench.run("show 1")
    };
    assert!(deaths("").contains("unit 0 failed by poison"), "it may have run");
    let known = deaths(" died 0:0");
    assert!(known.contains("done 0, out 1, waiting 0"), "{known}");
}
