//! Jobs whose units a program names while they run, told as scripts. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::journal::record::GrownChunk;
use starfarm_scheduler_core::{Record, Restoring};

/// A job of programs without units, and a node.
const GROWING: &str = "submit 0 grows command units 5\n join a slots 1\n ack a";

#[test]
fn a_job_grows_until_its_program_has_named_the_last_unit() {
    check_after(
        GROWING,
        "wish 1
         grow 1 5,5 state 7
         wish 1
         ack a
         ran a 0+5 ok,ok,ok,ok,ok
         ran a 5+5 ok,ok,ok,ok,ok
         show 1
         grow 1 none state 7
         grow 1 none state 8
         grow 1 none end
         show 1
         grow 1 5",
        expect![[r#"
            0: wish: 1000 behind 0, state null
            0: job_grown job=1 units=10
            0: job 1 running
            0: to a: offer job 1: 1=0+5 2=5+5
            0: wish: 1000 behind 10, state 7
            0: job 1 is running: done 10, out 0, waiting 0
            0: job_grown job=1 units=10
            0: job_grown job=1 units=10
            0: job 1 finished
            0: job 1 is finished: done 10, out 0, waiting 0
            0: grow: does not count
        "#]],
    );
}

#[test]
fn a_program_that_has_no_unit_at_all_ends_the_job() {
    check_after(
        GROWING,
        "grow 1 none end\n show 1",
        expect![[r#"
        0: job_grown job=1 units=0
        0: job 1 finished
        0: job 1 is finished: done 0, out 0, waiting 0
    "#]],
    );
}

#[test]
fn a_batch_counts_once_and_only_behind_the_units_that_it_was_asked_for() {
    check_after(
        GROWING,
        "grow 1 10\n grow 1 10 from 0\n wish 1\n cancel 1\n grow 1 10\n show 1",
        expect![[r#"
            0: job_grown job=1 units=10
            0: job 1 running
            0: to a: offer job 1: 1=0+5 2=5+5
            0: grow: does not count
            0: wish: 1000 behind 10, state null
            0: job 1 cancelled
            0: to a: withdraw job 1 kill before 3
            0: grow: does not count
            0: job 1 is cancelled: done 0, out 0, waiting 0, abandoned 10
        "#]],
    );
}

#[test]
fn a_batch_that_is_not_durable_is_named_again_and_nothing_of_it_was_given_out() {
    check_after(
        GROWING,
        "grow 1 5 state 1
         ack a
         hold
         grow 1 5 state 2
         restart
         wish 1
         hello a boot 1
         live +1000 a 0+5
         grow 1 5 end
         show 1",
        expect![[r#"
            0: job_grown job=1 units=5
            0: job 1 running
            0: to a: offer job 1: 1=0+5
            0: job_grown job=1 units=10
            0: wish: 1000 behind 5, state 1
            0: node a is back
            0: to a: welcome epoch 2
            1000: job_grown job=1 units=10
            1000: to a: offer job 1: 1099511627777=5+5
            1000: job 1 is running: done 0, out 10, waiting 0
        "#]],
    );
}

#[test]
fn a_checkpoint_knows_the_units_and_the_state() {
    check_after(
        GROWING,
        "grow 1 5,3 state 1\n ack a\n ran a 0+5 ok,ok,ok,ok,ok\n checkpoint\n grow 1 2 state [2]\n restart\n wish 1\n show 1",
        expect![[r#"
            0: job_grown job=1 units=8
            0: job 1 running
            0: to a: offer job 1: 1=0+5 2=5+3
            0: job_grown job=1 units=10
            0: to a: ack results [(1, 1)]; offer job 1: 3=8+2
            0: wish: 1000 behind 10, state [2]
            0: job 1 is running: done 5, out 5, waiting 0
        "#]],
    );
}

#[test]
fn a_job_whose_program_is_wrong_waits_for_a_person_and_goes_on_where_it_was() {
    check_after(
        GROWING,
        "grow 1 5 state 1\n halt 1 says nothing\n show 1\n wish 1\n resume 1\n wish 1\n halt 1 again\n halt 1 twice",
        expect![[r#"
            0: job_grown job=1 units=5
            0: job 1 running
            0: to a: offer job 1: 1=0+5
            0: job 1 paused
            0: to a: withdraw job 1 trim before 2
            0: job 1 is paused: done 0, out 5, waiting 0, since its decomposer says nothing
            0: no wish
            0: job 1 running
            0: wish: 1000 behind 5, state 1
            0: job 1 paused
            0: to a: withdraw job 1 trim before 2
        "#]],
    );
}

#[test]
fn more_is_wanted_before_the_nodes_have_had_all() {
    check(
        "submit 0 grows units 100
         join a slots 4
         wish 1
         grow 1 1000
         wish 1
         ack a
         grow 1 3000
         wish 1",
        expect![[r#"
            0: job 1 submitted: 0 units
            0: node a joined: 4 slots, boot 0000000000000001
            0: to a: welcome epoch 1
            0: wish: 3200 behind 0, state null
            0: job_grown job=1 units=1000
            0: job 1 running
            0: to a: offer job 1: 1=0+100 2=100+100 3=200+100 4=300+100 5=400+100 6=500+100 7=600+100 8=700+100
            0: wish: 3000 behind 1000, state null
            0: job_grown job=1 units=4000
            0: no wish
        "#]],
    );
}

#[test]
fn units_that_cost_more_go_out_in_smaller_tasks() {
    let tasks = |cost: &str| {
        let mut bench = Bench::new(config());
        bench.run(&format!(
            "submit 0 grows target 8\n join a slots 1 queue 64\n grow 1 64x1,100000x{cost}\n ack a"
        ));
        bench.run("done a 0+64 ms 640\n ack a")
    };
    expect![[r#"
        0: to a: ack results [(1, 1)]; offer job 1: 3=2048+800 4=2848+800 5=3648+800 6=4448+800 7=5248+800
    "#]]
    .assert_eq(&tasks("1"));
    expect![[r#"
        0: to a: ack results [(1, 1)]; offer job 1: 3=2048+80 4=2128+80 5=2208+80 6=2288+80 7=2368+80
    "#]]
    .assert_eq(&tasks("10"));
}

#[test]
fn a_unit_is_located_in_its_content() {
    let mut bench = Bench::new(config());
    bench.run("submit 0 grows\n grow 1 5,3\n grow 1 2\n submit 9");
    let at = |unit| bench.farm.locate(JobId(1), unit).map(|at| (at.hash.0[0], at.first, at.units));
    assert_eq!(
        [0, 4, 5, 7, 8, 9].map(at),
        [
            Some((1, 0, 5)),
            Some((1, 0, 5)),
            Some((2, 5, 3)),
            Some((2, 5, 3)),
            Some((1, 8, 2)),
            Some((1, 8, 2)),
        ]
    );
    assert_eq!((at(10), bench.farm.locate(JobId(2), 0), bench.farm.locate(JobId(3), 0)), (None, None, None));
}

#[test]
fn records_that_no_scheduler_wrote_are_refused() {
    let mut bench = Bench::new(config());
    bench.run("submit 0 grows\n submit 9");
    let grown = |job, units, cost, end| {
        let chunks = vec![GrownChunk { hash: ContentHash([1; 32]), units, cost }];
        Record::Grown { job: JobId(job), chunks, state: "null".into(), end }
    };
    let told = |wrong: &[Record]| {
        let mut restoring = Restoring::new(config(), 0);
        let all = bench.records.iter().chain(wrong);
        all.map(|record| restoring.apply(record)).find_map(Result::err).unwrap_or_default()
    };
    assert_eq!(told(&[grown(1, 5, 1, true)]), "");
    for (wrong, why) in [
        (vec![grown(1, 5, 1, true), grown(1, 5, 1, true)], "job 1 grows, and all of its units are known"),
        (vec![grown(2, 5, 1, false)], "job 2 grows, and all of its units are known"),
        (vec![grown(3, 5, 1, false)], "job 3 was never submitted"),
        (
            vec![grown(1, 0, 1, false)],
            "job 1 grows by a content without units, or of units that cost nothing",
        ),
        (
            vec![grown(1, 5, 0, false)],
            "job 1 grows by a content without units, or of units that cost nothing",
        ),
    ] {
        assert_eq!(told(&wrong), why);
    }
}
