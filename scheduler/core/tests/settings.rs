//! A farm with other settings than the usual ones, told as scripts: what each of them changes, and what a start with
//! others does. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::admin::explain::NodeReason;
use starfarm_protocol::admin::{Reason, Subject};
use starfarm_protocol::settings::{Given, Settings};

fn settings(given: &[(&str, f64)]) -> Settings {
    let mut all = Given::default();
    given.iter().for_each(|&(key, value)| all.set(key, value).unwrap());
    all.settle().unwrap()
}

/// A farm with these settings from its first start on.
fn farm(given: &[(&str, f64)]) -> Bench {
    let mut config = config();
    config.settings = settings(given);
    Bench::new(config)
}

fn check(given: &[(&str, f64)], script: &str, expected: Expect) {
    expected.assert_eq(&farm(given).run(script));
}

#[test]
fn a_worker_is_told_the_pace_behind_the_welcome() {
    check(
        &[("idle_seconds", 30.0), ("reconnect_seconds", 5.0), ("period_seconds", 20.0)],
        "join a slots 1\n at 100\n hello a",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1; pace idle 30000 reconnect 5000 period 20000
            100: to a: welcome epoch 1; pace idle 30000 reconnect 5000 period 20000
        "#]],
    );
}

#[test]
fn silence_is_as_long_as_a_person_says() {
    check(
        &[("suspect_seconds", 2.0), ("lost_seconds", 4.5)],
        "join a slots 1\n at 1999\n nodes\n at 2000\n at 4499\n at 4500",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            1999: a up
            2000: node a suspect: no heartbeat
            4500: node a lost: 0 tasks back to gq
        "#]],
    );
}

#[test]
fn a_slow_heartbeat_makes_nobody_suspect() {
    check(
        &[("heartbeat_seconds", 20.0)],
        "join a slots 1\n at 99999\n at 100000\n at 299999\n at 300000",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            100000: node a suspect: no heartbeat
            300000: node a lost: 0 tasks back to gq
        "#]],
    );
}

#[test]
fn t_retry_is_so_many_target_times() {
    let beats =
        "at 3000\n beat a none\n at 6000\n beat a none\n at 9000\n beat a none\n at 12000\n beat a none";
    check(
        &[("retry_targets", 4.0)],
        &format!("submit 20 target 2\n join a slots 1\n ack a\n {beats}"),
        expect![[r#"
            0: job 1 submitted: 20 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+20
            3000: to a: answer 1
            6000: to a: answer 2
            9000: task [0, 20) of job 1 expired on node a
            9000: to a: answer 3
            12000: to a: answer 4
        "#]],
    );
}

#[test]
fn a_speed_up_moves_the_window_by_the_step_for_each_slot() {
    check(
        &[("speed_step", 6.0)],
        "submit 1000000 units 10\n join a slots 2 queue 400\n ack a\n done a 0+10 ms 20000\n tasks a\n feedback a 1 0\n tasks a
         feedback a 1 1\n tasks a\n done a 10+10\n done a 20+10\n tasks a",
        expect![[r#"
            0: job 1 submitted: 1000000 units
            0: node a joined: 2 slots, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+10 2=10+10 3=20+10 4=30+10
            0: to a: ack results [(1, 1)]; offer job 1: 5=40+10 6=50+10 7=60+10
            0: a has 6 tasks
            0: to a: offer job 1: 8=70+10 9=80+10 10=90+10 11=100+10 12=110+10 13=120+10
            0: a has 12 tasks
            0: a has 12 tasks
            0: a has 10 tasks
        "#]],
    );
}

/// Workers from before beat at the old pace until they are welcomed anew. Taken for lost by the new limit, all that they
/// hold would be computed twice.
#[test]
fn a_start_with_a_shorter_silence_waits_for_old_workers_as_long_as_they_were_told() {
    let mut bench = farm(&[("heartbeat_seconds", 30.0)]);
    bench.run("submit 20 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b\n at 1000");
    bench.set(Settings::DEFAULT);
    bench.run("restart\n at 50000");
    let explanation = bench.farm.explain(&Subject::Node("a".into()), bench.now_us).unwrap();
    let of_450_s =
        |reason: &Reason| matches!(reason, Reason::KeptOut(NodeReason::Suspect { lost_us: 450_000_000, .. }));
    assert!(of_450_s(&explanation.reasons[0]), "{explanation:?}");
    let story = bench.run(
        "restart\n at 100000\n show 1\n restart\n at 200000\n hello a\n beat a 0+10\n at 549000\n beat a 0+10\n at 551000
         beat a 0+10\n show 1\n at 552000\n restart\n at 566000\n at 568000",
    );
    expect![[r#"
        100000: job 1 is running: done 0, out 20, waiting 0
        200000: node a is back
        200000: to a: welcome epoch 4
        200000: to a: answer 1
        205000: node a suspect: no heartbeat
        215000: node a lost: 1 task back to gq
        549000: node a is back
        549000: to a: answer 2
        550000: node b lost: 0 tasks back to gq
        550000: to a: offer job 1: 3298534883329=10+10
        550200: offered 1 task again to node a
        550200: to a: offer job 1: 3298534883329=10+10
        550600: offered 1 task again to node a
        550600: to a: offer job 1: 3298534883329=10+10
        551000: to a: answer 3
        551000: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
        551400: offered 1 task again to node a
        551400: to a: offer job 1: 3298534883329=10+10
        567000: node a lost: 0 tasks back to gq
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_start_with_another_period_goes_on_with_the_power_that_nodes_had() {
    let mut bench = farm(&[]);
    bench.run(
        "submit 100 units 10\n join a slots 1\n ack a\n done a 0+10\n done a 10+10\n at 40000\n checkpoint",
    );
    let power = |bench: &mut Bench| bench.farm.nodes(bench.now_us)[0].power;
    assert_eq!(power(&mut bench), 0.5, "two standard tasks in four periods");
    bench.set(settings(&[("period_seconds", 20.0)]));
    bench.run("restart");
    assert_eq!(power(&mut bench), 1.0, "of twice the length");
    // The checkpoint is from before, the record of the new period behind it.
    bench.run("restart");
    assert_eq!(power(&mut bench), 1.0);
    bench.run("checkpoint\n restart");
    assert_eq!(power(&mut bench), 1.0);
}
