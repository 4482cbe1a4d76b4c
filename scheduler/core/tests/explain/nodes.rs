//! Why a node idles, or is kept out.

use expect_test::expect;
use starfarm_protocol::admin::explain::{Silence, UnitReason};
use starfarm_protocol::admin::{FactValue, Reason, Subject};
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::NodeId;

use super::common::{A_IS_SICK, Bench, config};
use super::{check, explained, told};

#[test]
fn a_node_that_works() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         feedback a 5 0\n ack a\n at 1500\n beat a 40+10,50+10 running 40",
        "node a",
        expect![[r#"
            * Work(Busy { job: JobId(1), tasks: 40, ranges: false, units: Units(400), for_us: 1500000 })
            - Work(Running { units: [(JobId(1), Units(40))], more: 0 })
            - Work(Window { held: 40, tasks: 40, a_slot: 15, slots: 2, ahead: Full(60000000), steps: 10, queue: 100 })
        "#]],
    );
}

#[test]
fn a_node_whose_queue_ran_full() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         feedback a 0 3",
        "node a",
        expect![[r#"
            * Work(Busy { job: JobId(1), tasks: 29, ranges: false, units: Units(290), for_us: 0 })
            - Work(Window { held: 29, tasks: 24, a_slot: 15, slots: 2, ahead: Full(60000000), steps: -6, queue: 100 })
        "#]],
    );
}

#[test]
fn a_node_without_jobs() {
    check(
        "join a slots 1",
        "node a",
        expect![[r#"
            * Work(NoJob)
        "#]],
    );
}

#[test]
fn a_node_that_gets_nothing_says_so_for_each_job() {
    check(
        "submit 10 units 10\n join b slots 1\n submit 90 units 10\n submit 90 units 10\n pause 3\n join a slots 1\n ack a
         refuse a 10+10 no-python job 2\n return a 20+10 job 2",
        "node a",
        expect![[r#"
            * Work(Paused)
            - Offer(JobId(1), AllOut { units: Units(10), copies: false })
            - Offer(JobId(2), Refused { why: "no-python", again_us: 10000000 })
            - Offer(JobId(3), Paused { why: None })
        "#]],
    );
}

#[test]
fn the_last_unit_is_one() {
    check(
        "submit 1 units 1\n join a slots 1\n ack a\n join b slots 1",
        "node b",
        expect![[r#"
            * Work(NothingLeft)
            - Offer(JobId(1), AllOut { units: Units(1), copies: false })
        "#]],
    );
}

#[test]
fn a_node_that_is_silent() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 7000",
        "node a",
        expect![[r#"
            * KeptOut(Suspect { silence: For(7000000), suspect_us: 5000000, lost_us: 15000000, tasks: 2 })
            - Work(Busy { job: JobId(1), tasks: 2, ranges: false, units: Units(20), for_us: 7000000 })
        "#]],
    );
}

#[test]
fn a_node_that_is_lost() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 17000",
        "node a",
        expect![[r#"
            * KeptOut(Lost { silence: For(17000000), lost_us: 15000000, units: Units(20) })
        "#]],
    );
}

#[test]
fn a_node_that_said_goodbye() {
    check(
        "join a slots 1\n bye a\n at 300000",
        "node a",
        expect![[r#"
            * KeptOut(Left { silence: For(300000000) })
        "#]],
    );
}

#[test]
fn a_node_of_before_a_restart() {
    check(
        "join a slots 1\n restart\n at 2000",
        "node a",
        expect![[r#"
            * KeptOut(Suspect { silence: SinceBefore(2000000), suspect_us: 5000000, lost_us: 15000000, tasks: 0 })
        "#]],
    );
}

/// The records have no times, so none are made up.
#[test]
fn nodes_that_were_lost_or_gone_before_a_restart() {
    check(
        "join a slots 1\n at 17000\n restart\n at 18000",
        "node a",
        expect![[r#"
            * KeptOut(Lost { silence: SinceBefore(1000000), lost_us: 15000000, units: Units(0) })
        "#]],
    );
    check(
        "join a slots 1\n bye a\n restart\n at 61000",
        "node a",
        expect![[r#"
            * KeptOut(Left { silence: SinceBefore(61000000) })
        "#]],
    );
    let facts = explained("join a slots 1\n bye a\n restart\n at 61000", "node a").facts;
    let heard = facts.iter().find(|fact| fact.name == "heard").unwrap();
    assert_eq!(heard.value, FactValue::Silence(Silence::SinceBefore(61_000_000)));
}

#[test]
fn a_node_that_was_heard_after_a_restart_is_silent_since_then() {
    check(
        "join a slots 1\n restart\n at 2000\n session a\n hello a\n at 10000",
        "node a",
        expect![[r#"
            * KeptOut(Suspect { silence: For(8000000), suspect_us: 5000000, lost_us: 15000000, tasks: 0 })
        "#]],
    );
}

#[test]
fn a_node_whose_worker_has_not_said_hello() {
    let mut bench = Bench::new(config());
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let a = Subject::Node("a".into());
    let explanation = bench.farm.explain(&a, bench.now_us).unwrap();
    expect![[r#"
        * KeptOut(NoHello { again: false })
    "#]]
    .assert_eq(&told(&explanation));
    bench.run("join a slots 1\n submit 100 units 10");
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain(&a, bench.now_us).unwrap();
    expect![[r#"
        * KeptOut(NoHello { again: true })
        - Work(Busy { job: JobId(1), tasks: 2, ranges: false, units: Units(20), for_us: 0 })
        - Work(Window { held: 2, tasks: 0, a_slot: 0, slots: 1, ahead: Learning, steps: 0, queue: 8 })
    "#]]
    .assert_eq(&told(&explanation));
}

#[test]
fn a_node_that_a_person_drains() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n drain a",
        "node a",
        expect![[r#"
            * KeptOut(Drained { lost: false })
            - Work(Busy { job: JobId(1), tasks: 2, ranges: false, units: Units(20), for_us: 0 })
        "#]],
    );
}

#[test]
fn a_node_whose_worker_stops() {
    check(
        "join a slots 1\n beat a none draining",
        "node a",
        expect![[r#"
            * KeptOut(Stopping)
        "#]],
    );
}

#[test]
fn a_node_that_fails_what_others_pass() {
    check(
        &format!("{A_IS_SICK}\n ack b\n at 4000"),
        "node a",
        expect![[r#"
            * KeptOut(Quarantined { why: Some(Fails(Fault { job: JobId(1), units: 7, in_a_row: true })), probe: Some((6000000, 20000000)) })
        "#]],
    );
}

#[test]
fn a_node_that_let_tasks_vanish() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none",
        "node a",
        expect![[r#"
            * KeptOut(Quarantined { why: None, probe: Some((9000000, 20000000)) })
        "#]],
    );
}

#[test]
fn a_node_whose_results_differ() {
    check(
        "submit 20 search 9 never units 10\n join a slots 1\n ack a\n done a 0+10\n again a\n join b slots 1
         done b 0+10 hits 3:1 attempt 1",
        "node b",
        expect![[r#"
            * KeptOut(Distrusted { why: Differs })
            - KeptOut(Conflict { job: JobId(1), lo: Units(0), hi: Units(10) })
        "#]],
    );
}

#[test]
fn a_node_whose_tasks_were_partly_done_gives_back_what_was_left() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n done a 0+7\n at 20000",
        "node a",
        expect![[r#"
        * KeptOut(Lost { silence: For(20000000), lost_us: 15000000, units: Units(13) })
    "#]],
    );
}

#[test]
fn a_drained_node_that_is_lost_says_so() {
    check(
        "join a slots 1\n drain a\n bye a",
        "node a",
        expect![[r#"
            * KeptOut(Left { silence: For(0) })
            - KeptOut(Drained { lost: true })
        "#]],
    );
}

#[test]
fn a_node_whose_key_was_revoked_says_so_after_a_restart_too() {
    for restart in ["", "restart"] {
        check(
            &format!("join a slots 1\n revoke a\n {restart}"),
            "node a",
            expect![[r#"
                * KeptOut(Revoked)
            "#]],
        );
    }
}

#[test]
fn a_node_that_is_drained_and_quarantined_gets_no_probe() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none\n drain a",
        "node a",
        expect![[r#"
            * KeptOut(Drained { lost: false })
            - KeptOut(Quarantined { why: None, probe: None })
        "#]],
    );
}

#[test]
fn a_paused_job_with_units_keeps_a_node_idle_before_one_without() {
    check(
        "submit 20 units 10\n submit 20 units 10\n pause 1\n join b slots 1\n join a slots 1",
        "node a",
        expect![[r#"
            * Work(Paused)
            - Offer(JobId(1), Paused { why: None })
            - Offer(JobId(2), AllOut { units: Units(20), copies: false })
        "#]],
    );
}

#[test]
fn what_came_back_since_the_last_heartbeat_is_not_told_as_running() {
    check(
        "submit 20 units 10\n join a slots 1\n ack a\n beat a 0+20 running 0\n done a 0+10",
        "node a",
        expect![[r#"
            * Work(Busy { job: JobId(1), tasks: 1, ranges: false, units: Units(10), for_us: 0 })
        "#]],
    );
}

/// It was found to hold one range of 40 tasks, was taken to have one task and got 39 more.
#[test]
fn a_node_of_before_a_restart_has_as_many_tasks_as_it_counts_itself() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         checkpoint\n restart\n session a\n hello a\n beat a 20+300 queued 28 running 20",
        "node a",
        expect![[r#"
            * Work(Busy { job: JobId(1), tasks: 1, ranges: true, units: Units(300), for_us: 0 })
            - Work(Running { units: [(JobId(1), Units(20))], more: 0 })
            - Work(Window { held: 29, tasks: 30, a_slot: 15, slots: 2, ahead: Full(60000000), steps: 0, queue: 100 })
        "#]],
    );
}

/// Node a names unit 10 as running for so many seconds, every ten of them.
fn it_runs(seconds: u64) -> String {
    let beats = (0..=seconds / 10).map(|nth| format!("at {}\n beat a 10+10 running 10\n", 10 + nth * 10_000));
    beats.collect()
}

#[test]
fn a_slot_that_hangs_on_a_live_node_is_told_once_and_explained() {
    let before = "submit 100 command units 10\n join a slots 1\n ack a\n ran a 0+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok ms 4000
                  ack a\n";
    let mut bench = Bench::new(config());
    bench.run(before);
    // 30 times the 4 s that such a task takes are 120 s.
    let lines = |story: &str| {
        story.lines().filter(|line| line.contains("hangs")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&bench.run(&it_runs(110))), [""; 0]);
    let told = lines(&bench.run("at 121000\n beat a 10+10 running 10\n at 125000\n beat a 10+10 running 10"));
    assert_eq!(
        told,
        ["121000: unit 10 of job 1 hangs on node a: it runs for 121 s, such a task takes 4.0 s"]
    );
    let hangs = [Subject::Node("a".into()), Subject::Job(JobId(1))].map(|subject| {
        let reasons = bench.farm.explain(&subject, bench.now_us).unwrap().reasons;
        reasons.into_iter().find(is_hang).unwrap()
    });
    assert_eq!(hangs[0], hangs[1]);
    expect![[r#"Unit(Hangs { job: JobId(1), unit: Units(10), node: "a", for_us: 124990000, usual_us: 4000000, copies: false, program: true })"#]].assert_eq(&format!("{:?}", hangs[0]));
}

fn is_hang(reason: &Reason) -> bool {
    matches!(reason, Reason::Unit(UnitReason::Hangs { .. }))
}

#[test]
fn a_slot_that_goes_on_does_not_hang() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command units 10\n join a slots 1\n ack a\n ran a 0+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok ms 4000\n ack a\n");
    bench.run(&it_runs(110));
    bench.run("ran a 10+1 ok ms 1\n at 120000\n beat a 11+9 running 11");
    let story = bench.run("at 130000\n beat a 11+9 running 11");
    assert!(!story.contains("hangs"), "{story}");
    let explanation = bench.farm.explain(&Subject::Node("a".into()), bench.now_us).unwrap();
    assert!(!explanation.reasons.iter().any(is_hang));
}
