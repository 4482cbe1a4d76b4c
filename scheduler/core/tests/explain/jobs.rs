//! Why a job waits, and where what is left of it is.

use expect_test::expect;

use starfarm_protocol::admin::Subject;
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::NodeId;

use super::common::{Bench, config};
use super::{check, told};

#[test]
fn a_job_without_workers() {
    check(
        "submit 100 units 10",
        "job 1",
        expect![[r#"
            * Job(NoNode { states: {}, probed: false })
        "#]],
    );
}

#[test]
fn a_job_whose_workers_are_lost_or_drained() {
    check(
        "join a slots 1\n join b slots 1\n drain b\n at 20000\n beat b none\n submit 100 units 10",
        "job 1",
        expect![[r#"
            * Job(NoNode { states: {"draining": 1, "lost": 1}, probed: false })
        "#]],
    );
}

#[test]
fn a_job_behind_another() {
    check(
        "join a slots 1\n submit 1000 units 10\n submit 500 units 10\n submit 70 units 10",
        "job 3",
        expect![[r#"
            * Job(Behind { place: 3, of: 3, job: JobId(1), units: Units(980), other_jobs: 1, other_units: Units(500) })
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
            * Job(Behind { place: 4, of: 5, job: JobId(2), units: Units(40), other_jobs: 0, other_units: Units(0) })
        "#]],
    );
}

#[test]
fn a_job_whose_turn_has_come_on_the_nodes_that_the_first_cannot_use_is_not_behind() {
    check(
        "submit 40 units 10\n submit 40 units 10\n join a slots 1\n refuse a 0+10 no-avx",
        "job 2",
        expect![[r#"
            * Job(Runs { nodes: 1, taking: 1 })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(10), for_us: 0, offer: Offered, copy: None })
        "#]],
    );
}

#[test]
fn a_job_that_a_person_paused() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n pause 1\n return a 0+20",
        "job 1",
        expect![[r#"
            * Job(Paused { why: None })
        "#]],
    );
}

#[test]
fn a_job_that_the_farm_paused() {
    check(
        "submit 100 command units 5 max-failures 2\n join a slots 1\n ack a\n ran a 0+2 exit1,exit1\n return a 2+8",
        "job 1",
        expect![[r#"
            * Job(Paused { why: Some(MaxFailures { failed: Units(2), max: 2 }) })
        "#]],
    );
}

#[test]
fn programs_that_wait_for_room_on_the_schedulers_disk() {
    check(
        "full\n submit 20 command units 1\n join a slots 1",
        "job 1",
        expect![[r#"
            * NoDisk
        "#]],
    );
    check(
        "full\n submit 20 command units 1\n join a slots 1",
        "node a",
        expect![[r#"
            * NoDisk
            - Offer(JobId(1), Waits { units: Units(20) })
        "#]],
    );
}

#[test]
fn a_job_that_everybody_refused() {
    check(
        "submit 100 units 10\n join a slots 1\n join b slots 1\n refuse a 0+10 no-python\n refuse b 20+10 no-disk",
        "job 1",
        expect![[r#"
            * Job(RefusedByAll)
            - Job(Refused { node: "a", why: "no-python", again_us: 10000000 })
            - Job(Refused { node: "b", why: "no-disk", again_us: 10000000 })
            - Place(AtNode { node: "a", lo: Units(10), hi: Units(20), for_us: 0, offer: Offered, copy: None })
            - Place(AtNode { node: "b", lo: Units(30), hi: Units(40), for_us: 0, offer: Offered, copy: None })
        "#]],
    );
}

#[test]
fn a_job_whose_lease_is_on_its_way_to_the_disk() {
    check(
        "join a slots 1\n hold\n submit 1000 units 10",
        "job 1",
        expect![[r#"
            * Job(Lease { durable: Units(0), mark: Units(1000) })
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
            * Job(AllOut { units: Units(50), copies: Some(true) })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(10), for_us: 4500000, offer: Held(1500000), copy: None })
            - Place(AtNode { node: "a", lo: Units(10), hi: Units(20), for_us: 4500000, offer: Held(1500000), copy: None })
            - Place(AtNode { node: "a", lo: Units(20), hi: Units(30), for_us: 4500000, offer: Held(1500000), copy: None })
            - Place(MoreAtNodes { tasks: 2 })
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
            * Job(AllOut { units: Units(20), copies: Some(true) })
            - Place(AtNode { node: "a", lo: Units(20), hi: Units(30), for_us: 30000000, offer: Held(2000000), copy: Some(("b", 26000000)) })
            - Place(AtNode { node: "a", lo: Units(30), hi: Units(40), for_us: 30000000, offer: Offered, copy: None })
        "#]],
    );
}

#[test]
fn a_job_of_before_a_restart() {
    check(
        "join a slots 1\n submit 100 units 10\n ack a\n restart\n at 2000",
        "job 1",
        expect![[r#"
            * Job(Restart { units: Units(100), release_us: 13000000 })
            - Place(Unclaimed { lo: Units(0), hi: Units(100) })
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
            * Job(Restart { units: Units(960), release_us: 15000000 })
            - Place(Unclaimed { lo: Units(0), hi: Units(10) })
            - Place(Unclaimed { lo: Units(20), hi: Units(30) })
            - Place(Unclaimed { lo: Units(40), hi: Units(50) })
            - Place(MoreUnclaimed { ranges: 2, units: Units(930) })
        "#]],
    );
    check(
        &format!("{restarted}\n at 10\n beat a 20+10,40+10,60+10,80+10,90+10"),
        "job 1",
        expect![[r#"
            * Job(Restart { units: Units(910), release_us: 14990000 })
            - Place(Unclaimed { lo: Units(0), hi: Units(10) })
            - Place(Unclaimed { lo: Units(100), hi: Units(1000) })
            - Place(AtNode { node: "a", lo: Units(20), hi: Units(30), for_us: 0, offer: Held(0), copy: None })
            - Place(MoreAtNodes { tasks: 4 })
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
            * Job(Runs { nodes: 2, taking: 2 })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(1), for_us: 0, offer: Held(0), copy: None })
            - Place(AtNode { node: "b", lo: Units(1), hi: Units(2), for_us: 0, offer: Offered, copy: None })
            - Place(AtNode { node: "b", lo: Units(2), hi: Units(3), for_us: 0, offer: Offered, copy: None })
            - Place(MoreAtNodes { tasks: 1 })
            - Unit(SuspectUnit { unit: Units(2), times: 1, on: [Some("a")], more: 0, most: 3 })
            - Unit(TriedAgain { unit: Units(1), times: 1, on: [Some("a")], more: 0 })
        "#]],
    );
}

#[test]
fn a_unit_whose_files_a_node_has_no_room_for() {
    check(
        "submit 2 command units 1\n join b slots 1 queue 1\n ack b\n join a slots 1\n ack a\n submit 1 command units 1
         ran b 0+1 room\n at 40000",
        "job 1",
        expect![[r#"
            * Job(NoNode { states: {"lost": 2}, probed: false })
            - Unit(SuspectUnit { unit: Units(1), times: 1, on: [Some("b")], more: 0, most: 3 })
            - Unit(LacksRoom { unit: Units(0), on: [Some("b")], more: 0 })
        "#]],
    );
}

#[test]
fn a_node_that_is_forgotten_is_named_where_its_units_failed() {
    check(
        "submit 10 command retries 3 units 5\n join a slots 1\n join b slots 1\n ack a\n ran a 1+1 exit1
         bye a\n forget a",
        "job 1",
        expect![[r#"
            * Job(Runs { nodes: 1, taking: 1 })
            - Place(AtNode { node: "b", lo: Units(0), hi: Units(1), for_us: 0, offer: Offered, copy: None })
            - Place(AtNode { node: "b", lo: Units(1), hi: Units(2), for_us: 0, offer: Offered, copy: None })
            - Unit(TriedAgain { unit: Units(1), times: 1, on: [Some("a")], more: 0 })
        "#]],
    );
}

#[test]
fn a_node_on_which_a_unit_failed_twice_is_named_once() {
    check(
        "submit 1 command retries 9 units 1\n join a slots 1\n join b slots 1\n ack a\n ran a 0+1 exit1\n at 20000
         ack b\n ran b 0+1 exit1\n at 40000\n ack a\n ran a 0+1 exit1",
        "job 1",
        expect![[r#"
            * Job(AllOut { units: Units(1), copies: Some(false) })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(1), for_us: 0, offer: Offered, copy: None })
            - Unit(TriedAgain { unit: Units(0), times: 3, on: [Some("a"), Some("b")], more: 0 })
        "#]],
    );
}

#[test]
fn of_many_units_that_failed_the_first_are_named_and_the_others_counted() {
    check(
        "submit 10 command retries 3 units 5\n join a slots 1\n ack a\n ran a 0+5 exit1,exit1,exit1,exit1,exit1
         pause 1\n return a 5+5",
        "job 1",
        expect![[r#"
            * Job(Paused { why: None })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(1), for_us: 0, offer: Offered, copy: None })
            - Unit(TriedAgain { unit: Units(0), times: 1, on: [Some("a")], more: 0 })
            - Unit(TriedAgain { unit: Units(1), times: 1, on: [Some("a")], more: 0 })
            - Unit(TriedAgain { unit: Units(2), times: 1, on: [Some("a")], more: 0 })
            - Unit(Others { code: "tried_again", units: 2 })
        "#]],
    );
}

#[test]
fn a_job_that_has_ended() {
    check(
        "submit 4 command units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok\n ran a 2+2 ok,exit3\n at 200000",
        "job 1",
        expect![[r#"
            * Job(Ended { state: Failed, ago_us: Some(200000000), of: Units(4), done: Units(3), failed: Units(1), abandoned: Units(0) })
            - Job(FailedUnits)
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
            - Job(Restart { units: Units(1610), release_us: 12990000 })
            * Job(Runs { nodes: 1, taking: 1 })
            - Place(Unclaimed { lo: Units(0), hi: Units(1610) })
            - Place(AtNode { node: "a", lo: Units(1610), hi: Units(1620), for_us: 10000, offer: Offered, copy: None })
            - Place(AtNode { node: "a", lo: Units(1620), hi: Units(1630), for_us: 10000, offer: Offered, copy: None })
        "#]],
    );
}

#[test]
fn a_paused_job_makes_no_copies() {
    check(
        "submit 10 units 10 copies\n join a slots 1\n ack a\n pause 1",
        "job 1",
        expect![[r#"
            * Job(Paused { why: None })
            - Job(AllOut { units: Units(10), copies: None })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(10), for_us: 0, offer: Held(0), copy: None })
        "#]],
    );
}

#[test]
fn a_job_whose_turn_has_come_waits_until_nodes_have_room() {
    check(
        "submit 20 units 10\n submit 50 units 10\n join a slots 1\n ack a",
        "job 2",
        expect![[r#"
            * Job(NoRoom { tasks: 2 })
        "#]],
    );
}

#[test]
fn a_job_whose_nodes_are_all_quarantined() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none",
        "job 1",
        expect![[r#"
            * Job(NoNode { states: {"quarantined": 1}, probed: true })
        "#]],
    );
}

#[test]
fn a_job_whose_nodes_have_not_said_hello_again() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1\n submit 100 units 10\n return a 0+20");
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain(&Subject::Job(JobId(1)), bench.now_us).unwrap();
    expect![[r#"
        * Job(NoNode { states: {"no_hello": 1}, probed: false })
        - Place(AtNode { node: "a", lo: Units(20), hi: Units(30), for_us: 0, offer: Offered, copy: None })
        - Place(AtNode { node: "a", lo: Units(30), hi: Units(40), for_us: 0, offer: Offered, copy: None })
    "#]]
    .assert_eq(&told(&explanation));
}

/// A lease is on its way most of the time where tasks are many: nodes work meanwhile.
#[test]
fn a_lease_that_is_on_its_way_while_nodes_work_is_not_waited_for() {
    check(
        "submit 100000 units 10\n join a slots 1\n ack a\n hold\n join b slots 200",
        "job 1",
        expect![[r#"
            - Job(Lease { durable: Units(1610), mark: Units(4820) })
            * Job(Runs { nodes: 2, taking: 2 })
            - Place(AtNode { node: "a", lo: Units(0), hi: Units(10), for_us: 0, offer: Held(0), copy: None })
            - Place(AtNode { node: "a", lo: Units(10), hi: Units(20), for_us: 0, offer: Held(0), copy: None })
            - Place(AtNode { node: "b", lo: Units(20), hi: Units(30), for_us: 0, offer: Offered, copy: None })
            - Place(MoreAtNodes { tasks: 158 })
        "#]],
    );
}

#[test]
fn a_job_whose_workers_have_all_left() {
    check(
        "join a slots 1\n bye a\n submit 10",
        "job 1",
        expect![[r#"
            * Job(NoNode { states: {"left": 1}, probed: false })
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
            * Job(Paused { why: None })
        "#]],
    );
}

#[test]
fn a_unit_that_goes_first_is_one() {
    check(
        "join a slots 1\n submit 21 units 10\n submit 50 units 10",
        "job 2",
        expect![[r#"
            * Job(Behind { place: 2, of: 2, job: JobId(1), units: Units(1), other_jobs: 0, other_units: Units(0) })
        "#]],
    );
}
