//! Why a job waits, and where what is left of it is.

use expect_test::expect;

use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::NodeId;

use super::common::{Bench, config};
use super::{check, explained};

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
            no_node: No node takes tasks: 1 draining, 1 lost. `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts another.
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
         pause 1\n resume 1\n refuse a 0+10 no-avx\n submit 20 units 10",
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
            paused: The farm paused it: 2 units failed, and max_failures is 2. `starfarm results 1` shows what failed, `starfarm job resume 1` lets it go on, `starfarm job cancel 1` ends it.
        "#]],
    );
}

#[test]
fn programs_that_wait_for_room_on_the_schedulers_disk() {
    check(
        "full\n submit 20 command units 1\n join a slots 1",
        "job 1",
        expect![[r#"
        Job 1 waits for room on the scheduler's disk.
        no_disk: The scheduler's disk is below its low-water mark, so no program is started: what it writes could not be kept. Searches go on. Make room; it goes on by itself.
    "#]],
    );
    check(
        "full\n submit 20 command units 1\n join a slots 1",
        "node a",
        expect![[r#"
        Node a idles: the scheduler's disk has no room.
        no_disk: The scheduler's disk is below its low-water mark, so no program is started: what it writes could not be kept. Searches go on. Make room; it goes on by itself.
        job_waits: Of job 1 20 units wait.
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
            refused: Node a cannot run it: no-python. It is asked again in 10 s, by `starfarm job resume 1` at once.
            refused: Node b cannot run it: no-disk. It is asked again in 10 s, by `starfarm job resume 1` at once.
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
            restart: The scheduler started again: 100 units may be at nodes that have not said so yet. What none of them has goes back to gq in 13 s, or once all nodes of before have spoken.
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
            restart: The scheduler started again: 960 units may be at nodes that have not said so yet. What none of them has goes back to gq in 15 s, or once all nodes of before have spoken.
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
            restart: The scheduler started again: 910 units may be at nodes that have not said so yet. What none of them has goes back to gq in 14 s, or once all nodes of before have spoken.
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
            suspect_unit: Unit 2 was running, or may have been, when workers died: 1 time (on a). It is tried alone, on other nodes first; after 3 deaths it is given up as poison.
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

/// It was said to wait for the nodes of before, although most of it was fresh and given out all the time.
#[test]
fn a_job_of_before_a_restart_that_has_more_to_give_runs() {
    check(
        "join a slots 1\n join b slots 1\n submit 100000 units 10\n ack a\n ack b\n restart\n session a\n hello a\n at 2000
         beat a none\n at 2010",
        "job 1",
        expect![[r#"
            Job 1 runs.
            restart: The scheduler started again: 1610 units may be at nodes that have not said so yet. What none of them has goes back to gq in 12 s, or once all nodes of before have spoken.
            runs: Nodes that have tasks of it: 1. Nodes that can be given tasks: 1.
            at_node: No node has said yet that it has units [0, 1610), given out before the scheduler's start.
            at_node: Node a has had units [1610, 1620) for 10 ms, sent and not acknowledged yet.
            at_node: Node a has had units [1620, 1630) for 10 ms, sent and not acknowledged yet.
        "#]],
    );
}

#[test]
fn a_paused_job_makes_no_copies() {
    check(
        "submit 10 units 10 copies\n join a slots 1\n ack a\n pause 1",
        "job 1",
        expect![[r#"
        Job 1 is paused.
        paused: A person paused it. `starfarm job resume 1` lets it go on.
        all_out: All that is left, 10 units, is given out.
        at_node: Node a has had units [0, 10) for 0 ms, last confirmed 0 ms ago.
    "#]],
    );
}

#[test]
fn a_job_whose_turn_has_come_waits_until_nodes_have_room() {
    check(
        "submit 20 units 10\n submit 50 units 10\n join a slots 1\n ack a",
        "job 2",
        expect![[r#"
        Job 2 waits for room at nodes.
        no_room: Nodes that could be given some of it hold all that they may, with 2 tasks of other jobs. It is its turn as these end; `starfarm job switch 2` runs it at once.
    "#]],
    );
}

#[test]
fn a_job_whose_nodes_are_all_quarantined() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none",
        "job 1",
        expect![[r#"
        Job 1 waits for a node.
        no_node: No node takes tasks: 1 quarantined. One that is quarantined gets a task now and then, as a probe. `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts another.
    "#]],
    );
}

#[test]
fn a_job_whose_nodes_have_not_said_hello_again() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1\n submit 100 units 10\n return a 0+20");
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let reasons = bench.farm.explain_job(JobId(1), bench.now_us).unwrap().reasons;
    let said = reasons.iter().find(|reason| reason.code == "no_node").unwrap();
    assert!(said.text.starts_with("No node takes tasks: 1 without a hello. "), "{}", said.text);
}

/// A lease is on its way most of the time where tasks are many: nodes work meanwhile.
#[test]
fn a_lease_that_is_on_its_way_while_nodes_work_is_not_waited_for() {
    check(
        "submit 100000 units 10\n join a slots 1\n ack a\n hold\n join b slots 200",
        "job 1",
        expect![[r#"
            Job 1 runs.
            lease: It may be given out up to unit 1610; the record that allows more, up to unit 4820, is on its way to the disk.
            runs: Nodes that have tasks of it: 2. Nodes that can be given tasks: 2.
            at_node: Node a has had units [0, 10) for 0 ms, last confirmed 0 ms ago.
            at_node: Node a has had units [10, 20) for 0 ms, last confirmed 0 ms ago.
            at_node: Node b has had units [20, 30) for 0 ms, sent and not acknowledged yet.
            at_node: Nodes have 158 more tasks, none of them older.
        "#]],
    );
}

#[test]
fn a_job_whose_workers_have_all_left() {
    check(
        "join a slots 1\n bye a\n submit 10",
        "job 1",
        expect![[r#"
            Job 1 waits for a node.
            no_node: No node takes tasks: 1 left. `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts another.
        "#]],
    );
}

/// It was told to run at once, which is refused of a paused job.
#[test]
fn a_paused_job_that_has_units_waits_for_a_person_alone() {
    check(
        "join a slots 1\n submit 1000 units 10\n submit 50 units 10\n pause 2",
        "job 2",
        expect![[r#"
            Job 2 is paused.
            paused: A person paused it. `starfarm job resume 2` lets it go on.
        "#]],
    );
}

#[test]
fn a_unit_that_goes_first_is_one() {
    check(
        "join a slots 1\n submit 21 units 10\n submit 50 units 10",
        "job 2",
        expect![[r#"
            Job 2 waits behind job 1.
            behind: It is number 2 of 2 in jq, and 1 unit of job 1 goes first. `starfarm job front 2` makes it the next, `starfarm job switch 2` runs it at once.
        "#]],
    );
}
