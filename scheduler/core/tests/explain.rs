//! Explanations, a story for each reason: why a job waits, why a node idles or is kept out, why a size was chosen.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fmt::Write;

use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::admin::Explanation;
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::NodeId;

/// What is said of `job N` or of `node NAME` after the script.
fn explained(script: &str, subject: &str) -> Explanation {
    let mut bench = Bench::new(config());
    bench.run(script);
    match subject.split_once(' ').unwrap() {
        ("job", id) => bench.farm.explain_job(JobId(id.parse().unwrap()), bench.now_us),
        (_, name) => bench.farm.explain_node(name, bench.now_us),
    }
    .unwrap()
}

/// The verdict, and each reason behind its code.
fn check(script: &str, subject: &str, expected: Expect) {
    let explanation = explained(script, subject);
    let mut text = explanation.verdict + "\n";
    for reason in &explanation.reasons {
        writeln!(text, "{}: {}", reason.code, reason.text).unwrap();
    }
    expected.assert_eq(&text);
}

fn or_none(units: &Option<String>) -> &str {
    units.as_deref().unwrap_or("none")
}

/// How the size of the next task was chosen: a line for each job and node.
fn check_sizes(script: &str, subject: &str, expected: Expect) {
    let mut text = String::new();
    for size in &explained(script, subject).sizes {
        writeln!(
            text,
            "job {} on {}: {} by {}; {} units/s{}, {:?} s make {}; grown {}, tail {}, lambda {}",
            size.job.0,
            size.node,
            size.units,
            size.rule,
            size.units_per_s,
            if size.measured { " there" } else { "" },
            size.target_seconds,
            or_none(&size.target_units),
            or_none(&size.growth_units_max),
            or_none(&size.tail_units_max),
            size.units_max
        )
        .unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn what_is_not_there_is_not_explained() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1\n submit 10");
    assert_eq!(bench.farm.explain_job(JobId(2), bench.now_us), None);
    assert_eq!(bench.farm.explain_node("b", bench.now_us), None);
}

#[test]
fn a_job_without_workers() {
    check(
        "submit 100 units 10",
        "job 1",
        expect![[r#"
        Job 1 waits for a node.
        no_node: No worker has joined: start one with `starfarm worker --join FILE`.
    "#]],
    );
}

#[test]
fn a_job_whose_workers_are_lost_or_drained() {
    check(
        "join a slots 1\n join b slots 1\n drain b\n at 20000\n beat b none\n submit 100 units 10",
        "job 1",
        expect![[r#"
        Job 1 waits for a node.
        no_node: No node takes tasks: 1 lost, 1 draining. `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts another.
    "#]],
    );
}

#[test]
fn a_job_behind_another() {
    check(
        "join a slots 1\n submit 1000 units 10\n submit 500 units 10\n submit 70 units 10",
        "job 3",
        expect![[r#"
        Job 3 waits behind job 1.
        behind: It is number 3 of 3 in jq, and 980 units of job 1 and 500 units of 1 other job go first. `starfarm job front 3` makes it the next, `starfarm job switch 3` runs it at once.
    "#]],
    );
}

#[test]
fn what_goes_before_a_job_is_what_nodes_can_take() {
    check(
        "submit 60 units 10\n submit 50 units 10\n submit 70 units 10\n submit 30 units 10\n pause 3\n join a slots 1
         refuse a 0+10 no-avx\n pause 1\n resume 1\n submit 20 units 10",
        "job 4",
        expect![[r#"
        Job 4 waits behind job 2.
        behind: It is number 4 of 5 in jq, and 40 units of job 2 go first. `starfarm job front 4` makes it the next, `starfarm job switch 4` runs it at once.
    "#]],
    );
}

#[test]
fn a_job_whose_turn_has_come_on_the_nodes_that_the_first_cannot_use_is_not_behind() {
    check(
        "submit 40 units 10\n submit 40 units 10\n join a slots 1\n refuse a 0+10 no-avx",
        "job 2",
        expect![[r#"
            Job 2 runs.
            runs: Nodes that have tasks of it: 1. Nodes that can be given tasks: 1.
            at_node: Node a has had units [0, 10) for 0 ms, sent and not acknowledged yet.
        "#]],
    );
}

#[test]
fn a_job_that_a_person_paused() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n pause 1\n return a 0+20",
        "job 1",
        expect![[r#"
            Job 1 is paused.
            paused: A person paused it. `starfarm job resume 1` lets it go on.
        "#]],
    );
}

#[test]
fn a_job_that_the_farm_paused() {
    check(
        "submit 100 command units 5 max-failures 2\n join a slots 1\n ack a\n ran a 0+2 exit1,exit1\n return a 2+8",
        "job 1",
        expect![[r#"
            Job 1 is paused.
            paused: The farm paused it: 2 units failed, and max_failures is 2: look at `starfarm job show 1`, then resume or cancel it.
        "#]],
    );
}

#[test]
fn a_job_that_everybody_refused() {
    check(
        "submit 100 units 10\n join a slots 1\n join b slots 1\n refuse a 0+10 no-python\n refuse b 20+10 no-disk",
        "job 1",
        expect![[r#"
            Job 1 waits for a node that can run it.
            refused_by_all: Each node that is up has said that it cannot run it; their words are below.
            refused: Node a cannot run it: no-python. It is asked again once its worker is started anew.
            refused: Node b cannot run it: no-disk. It is asked again once its worker is started anew.
            at_node: Node a has had units [10, 20) for 0 ms, sent and not acknowledged yet.
            at_node: Node b has had units [30, 40) for 0 ms, sent and not acknowledged yet.
        "#]],
    );
}

#[test]
fn a_job_whose_lease_is_on_its_way_to_the_disk() {
    check(
        "join a slots 1\n hold\n submit 1000 units 10",
        "job 1",
        expect![[r#"
        Job 1 waits for the scheduler's disk.
        lease: It may be given out up to unit 0; the record that allows more, up to unit 1000, is on its way to the disk.
    "#]],
    );
}

#[test]
fn a_job_that_is_out_at_nodes() {
    check(
        "submit 50 units 10 copies\n join a slots 2\n ack a\n at 3000\n join b slots 3\n live 4000 b 40+10 a 0+40\n ack b
         at 4500",
        "job 1",
        expect![[r#"
            Job 1 waits for what is at nodes.
            all_out: All that is left, 50 units, is given out. Nodes that idle get copies of what is late.
            at_node: Node a has had units [0, 10) for 4.5 s, last confirmed 1.5 s ago.
            at_node: Node a has had units [10, 20) for 4.5 s, last confirmed 1.5 s ago.
            at_node: Node a has had units [20, 30) for 4.5 s, last confirmed 1.5 s ago.
            at_node: Nodes have 2 more tasks, none of them older.
        "#]],
    );
}

#[test]
fn an_old_task_that_has_a_copy() {
    check(
        "submit 40 units 10 copies\n join a slots 1\n ack a\n done a 0+10\n ack a\n done a 10+10\n live 4000 a 20+20
         join b slots 1\n live 30000 a 20+20 b none",
        "job 1",
        expect![[r#"
            Job 1 waits for what is at nodes.
            all_out: All that is left, 20 units, is given out. Nodes that idle get copies of what is late.
            at_node: Node a has had units [20, 30) for 30 s, last confirmed 2.0 s ago; node b got a copy 26 s ago.
            at_node: Node a has had units [30, 40) for 30 s, sent and not acknowledged yet.
        "#]],
    );
}

#[test]
fn a_job_of_before_a_restart() {
    check(
        "join a slots 1\n submit 100 units 10\n ack a\n restart\n at 2000",
        "job 1",
        expect![[r#"
            Job 1 waits for the nodes of before the scheduler's start.
            restart: The scheduler started again: some units may be at nodes that have not said so yet. What none of them has goes back to gq in 13 s, or once all nodes of before have spoken.
            all_out: All that is left, 100 units, is given out. Nodes that idle get no copies of it: it was submitted without `--speculative true`.
            at_node: No node has said yet that it has units [0, 100), given out before the scheduler's start.
        "#]],
    );
}

#[test]
fn what_no_node_has_claimed_after_a_restart_is_at_no_node() {
    let restarted =
        "join b slots 1\n drain b\n join a slots 5\n submit 1000 units 10\n ack a\n done a 10+10\n done a 30+10\n done a 50+10\n done a 70+10
         restart\n session a\n hello a";
    check(
        restarted,
        "job 1",
        expect![[r#"
            Job 1 waits for the nodes of before the scheduler's start.
            restart: The scheduler started again: some units may be at nodes that have not said so yet. What none of them has goes back to gq in 15 s, or once all nodes of before have spoken.
            all_out: All that is left, 960 units, is given out. Nodes that idle get no copies of it: it was submitted without `--speculative true`.
            at_node: No node has said yet that it has units [0, 10), given out before the scheduler's start.
            at_node: No node has said yet that it has units [20, 30), given out before the scheduler's start.
            at_node: No node has said yet that it has units [40, 50), given out before the scheduler's start.
            at_node: Nor has one said so of 2 more ranges, 930 units.
        "#]],
    );
    check(
        &format!("{restarted}\n at 10\n beat a 20+10,40+10,60+10,80+10,90+10"),
        "job 1",
        expect![[r#"
            Job 1 waits for the nodes of before the scheduler's start.
            restart: The scheduler started again: some units may be at nodes that have not said so yet. What none of them has goes back to gq in 14 s, or once all nodes of before have spoken.
            all_out: All that is left, 960 units, is given out. Nodes that idle get no copies of it: it was submitted without `--speculative true`.
            at_node: No node has said yet that it has units [0, 10), given out before the scheduler's start.
            at_node: No node has said yet that it has units [100, 1000), given out before the scheduler's start.
            at_node: Node a has had units [20, 30) for 0 ms, last confirmed 0 ms ago.
            at_node: Nodes have 4 more tasks, none of them older.
        "#]],
    );
}

#[test]
fn units_that_killed_workers_or_failed() {
    check(
        "submit 10 command retries 3 units 5\n join a slots 1\n join b slots 1\n ack a\n ran a 1+1 exit1
         beat a 0+1,2+3 running 2\n hello a boot 2 died 2\n ack a",
        "job 1",
        expect![[r#"
            Job 1 runs.
            runs: Nodes that have tasks of it: 2. Nodes that can be given tasks: 2.
            at_node: Node a has had units [0, 1) for 0 ms, last confirmed 0 ms ago.
            at_node: Node b has had units [1, 2) for 0 ms, sent and not acknowledged yet.
            at_node: Node b has had units [2, 3) for 0 ms, sent and not acknowledged yet.
            at_node: Nodes have 1 more task, none of them older.
            suspect_unit: Unit 2 was running when workers died: 1 time (on a). It is tried alone, on other nodes first; after 3 deaths it is given up as poison.
            tried_again: Unit 1 failed 1 time (on a) and is tried again.
        "#]],
    );
}

#[test]
fn a_node_on_which_a_unit_failed_twice_is_named_once() {
    let explanation = explained(
        "submit 1 command retries 9 units 1\n join a slots 1\n join b slots 1\n ack a\n ran a 0+1 exit1\n at 20000
         ack b\n ran b 0+1 exit1\n at 40000\n ack a\n ran a 0+1 exit1",
        "job 1",
    );
    let again = explanation.reasons.iter().find(|reason| reason.code == "tried_again").unwrap();
    assert_eq!(again.text, "Unit 0 failed 3 times (on a, b) and is tried again.");
}

#[test]
fn a_job_that_has_ended() {
    check(
        "submit 4 command units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok\n ran a 2+2 ok,exit3\n at 200000",
        "job 1",
        expect![[r#"
            Job 1 has ended (failed).
            ended: It ended 3 min ago: 3 of 4 units done, 1 failed, 0 abandoned.
            failed_units: `starfarm results 1` shows what failed, `starfarm job retry --failed 1` tries it again.
        "#]],
    );
}

#[test]
fn a_node_that_works() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         feedback a 5 0\n ack a\n at 1500\n beat a 40+10,50+10 running 40",
        "node a",
        expect![[r#"
            Node a works.
            busy: It has 40 tasks of job 1, 400 units; the oldest for 1.5 s.
            running: Its last heartbeat said that it runs unit 40 of job 1.
            window: It has 40 tasks and may hold 40: 15 a slot for 2 slots (60 s of work ahead), speed-ups add 10; its own queue takes 100.
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
            Node a works.
            busy: It has 29 tasks of job 1, 290 units; the oldest for 0 ms.
            window: It has 29 tasks and may hold 24: 15 a slot for 2 slots (60 s of work ahead), slow-downs take 6 away; its own queue takes 100.
        "#]],
    );
}

#[test]
fn a_node_without_jobs() {
    check(
        "join a slots 1",
        "node a",
        expect![[r#"
        Node a idles: there is no job.
        no_job: There is no unfinished job. `starfarm submit` adds one.
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
            Node a idles: nothing is left to give.
            nothing_left: All that is left is given out to others.
            job_all_out: Of job 1 the last 10 units are at other nodes; the job allows no copies.
            job_refused: It cannot run job 2: no-python. Repair that and start its worker anew.
            job_paused: Job 3 is paused. `starfarm job resume 3` lets it go on.
        "#]],
    );
}

#[test]
fn the_last_unit_is_one() {
    check(
        "submit 1 units 1\n join a slots 1\n ack a\n join b slots 1",
        "node b",
        expect![[r#"
        Node b idles: nothing is left to give.
        nothing_left: All that is left is given out to others.
        job_all_out: Of job 1 the last unit is at another node; the job allows no copies.
    "#]],
    );
}

#[test]
fn a_node_that_is_silent() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 7000",
        "node a",
        expect![[r#"
            Node a is suspect.
            suspect: Nothing was heard of it for 7.0 s; after 5.0 s a node gets no new tasks, after 15 s it is lost and what it has, 2 tasks, goes back to gq.
            busy: It has 2 tasks of job 1, 20 units; the oldest for 7.0 s.
        "#]],
    );
}

#[test]
fn a_node_that_is_lost() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 17000",
        "node a",
        expect![[r#"
        Node a is lost.
        lost: Nothing was heard of it for 17 s; after 15 s a node is lost. 20 units went back to gq. See whether its machine, its network and its worker are up; `starfarm node forget a` drops it from the list.
    "#]],
    );
}

#[test]
fn a_node_that_said_goodbye() {
    check(
        "join a slots 1\n bye a\n at 300000",
        "node a",
        expect![[r#"
        Node a has left.
        left: Its worker said goodbye 5 min ago. Start it again, or drop it from the list with `starfarm node forget a`.
    "#]],
    );
}

#[test]
fn a_node_of_before_a_restart() {
    check(
        "join a slots 1\n restart\n at 2000",
        "node a",
        expect![[r#"
        Node a is suspect.
        suspect: It was not heard since before this scheduler started, 2.0 s ago. After 15 s it is lost.
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
        Node a is lost.
        lost: It was not heard since before this scheduler started, 1.0 s ago. See whether its machine, its network and its worker are up; `starfarm node forget a` drops it from the list.
    "#]],
    );
    check(
        "join a slots 1\n bye a\n restart\n at 61000",
        "node a",
        expect![[r#"
        Node a has left.
        left: Its worker said goodbye. It was not heard since before this scheduler started, 61 s ago. Start it again, or drop it from the list with `starfarm node forget a`.
    "#]],
    );
    let facts = explained("join a slots 1\n bye a\n restart\n at 61000", "node a").facts;
    let heard = facts.iter().find(|fact| fact.name == "heard").unwrap();
    assert_eq!(heard.value, "not since before this scheduler started, 61 s ago");
}

#[test]
fn a_node_that_was_heard_after_a_restart_is_silent_since_then() {
    check(
        "join a slots 1\n restart\n at 2000\n session a\n hello a\n at 10000",
        "node a",
        expect![[r#"
        Node a is suspect.
        suspect: Nothing was heard of it for 8.0 s; after 5.0 s a node gets no new tasks, after 15 s it is lost and what it has, 0 tasks, goes back to gq.
    "#]],
    );
}

#[test]
fn a_node_whose_worker_has_not_said_hello() {
    let mut bench = Bench::new(config());
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain_node("a", bench.now_us).unwrap();
    assert_eq!(
        (explanation.verdict.as_str(), &*explanation.reasons[0].code),
        ("Node a has not joined yet.", "no_hello")
    );
    bench.run("join a slots 1\n submit 100 units 10");
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain_node("a", bench.now_us).unwrap();
    assert_eq!(
        (explanation.verdict.as_str(), &*explanation.reasons[0].code),
        ("Node a comes back.", "no_hello")
    );
}

#[test]
fn a_node_that_a_person_drains() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n drain a",
        "node a",
        expect![[r#"
            Node a is draining.
            drained: A person drains it: it ends what it has and gets nothing new. `starfarm node resume a` undoes that.
            busy: It has 2 tasks of job 1, 20 units; the oldest for 0 ms.
        "#]],
    );
}

#[test]
fn a_node_whose_worker_stops() {
    check(
        "join a slots 1\n beat a none draining",
        "node a",
        expect![[r#"
        Node a is draining.
        stopping: Its worker stops: it ends what it runs and says goodbye. Start the worker again to have it back.
    "#]],
    );
}

#[test]
fn a_node_that_fails_what_others_pass() {
    check(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b
         ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5\n at 4000",
        "node a",
        expect![[r#"
            Node a is quarantined.
            quarantined: It is at power zero: failed 5 of 5 units of job 1 that others pass. It gets one task as a probe, the next one in 6.0 s, then one every 10 s or less often; one that passes brings it back, or `starfarm node resume a`.
        "#]],
    );
}

#[test]
fn a_node_that_let_tasks_vanish() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none",
        "node a",
        expect![[r#"
        Node a is quarantined.
        quarantined: It is at power zero: it let tasks vanish that it had acknowledged. It gets one task as a probe, the next one in 9.0 s, then one every 10 s or less often; one that passes brings it back, or `starfarm node resume a`.
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
            Node b is quarantined.
            distrusted: It gets nothing: its results differ from those of others. Test its machine, then `starfarm node resume b`.
            conflict: Of units [0, 10) of job 1 it said what others did not.
        "#]],
    );
}

#[test]
fn a_first_size_then_steps_then_the_target_then_the_tail() {
    let join = "submit 100000000 search 1 never\n join a slots 2 queue 8\n ack a";
    check_sizes(
        join,
        "job 1",
        expect![[r#"
            job 1 on a: 65536 by first; 0 units/s, Some(8.0) s make none; grown none, tail 24934464, lambda 196608
        "#]],
    );
    check_sizes(
        &format!("{join}\n done a 0+65536 ms 1"),
        "job 1",
        expect![[r#"
            job 1 on a: 1048576 by growth; 65536000 units/s there, Some(8.0) s make 524288000; grown 1048576, tail 24672320, lambda 3145728
        "#]],
    );
    check_sizes(
        &format!("{join}\n done a 0+65536 ms 1000"),
        "job 1",
        expect![[r#"
            job 1 on a: 524288 by target; 65536 units/s there, Some(8.0) s make 524288; grown 1048576, tail 24279104, lambda 1572864
        "#]],
    );
    let short = "submit 1000000 search 1 never\n join a slots 1 queue 8\n ack a\n done a 0+65536 ms 1000";
    check_sizes(
        short,
        "node a",
        expect![[r#"
            job 1 on a: 217232 by tail; 65536 units/s there, Some(8.0) s make 524288; grown 1048576, tail 217232, lambda 651696
        "#]],
    );
}

#[test]
fn a_size_that_the_user_named_and_a_node_that_is_new() {
    check_sizes(
        "submit 1000 units 10\n join a slots 1\n ack a\n done a 0+10 ms 2000\n join b slots 4",
        "job 1",
        expect![[r#"
            job 1 on b: 10 by fixed; 5 units/s, None s make none; grown none, tail none, lambda 30
            job 1 on a: 10 by fixed; 5 units/s there, None s make none; grown none, tail none, lambda 30
        "#]],
    );
}

/// What explains is what decides: the next task has the size that was told.
#[test]
fn the_size_that_is_told_is_the_size_that_is_given() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000000 search 1 never\n join a slots 1 queue 8\n ack a\n done a 0+65536 ms 1000");
    bench.run("pause 1\n return a 65536+65536\n resume 1");
    let explanation = bench.farm.explain_job(JobId(1), bench.now_us).unwrap();
    let story = bench.run("ack a\n done a 65536+65536 ms 1000");
    let told = &explanation.sizes[0].units;
    assert!(story.contains(&format!("+{told}")), "{told} units: {story}");
}
