//! What must leave dq in pieces: a turn takes so many tasks back, and the books add up in between. The bench checks
//! everything after each step.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::expect;
use starfarm_protocol::ids::{Boot, Epoch, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{Hello, Packer};
use starfarm_scheduler_core::{Config, Deed, Deeds, JobCommand, JobState, NodeId};

/// What a turn takes back; it gives out twice as many.
const TAKEN_A_TURN: u64 = 4;

fn bench() -> Bench {
    Bench::new(Config { tasks_a_turn: 2 * TAKEN_A_TURN, ..config() })
}

/// Makes turns until the farm has nothing more to do; `look` sees each, and how many tasks of nodes were told to go.
fn turns(bench: &mut Bench, mut look: impl FnMut(&mut Bench)) -> u64 {
    for turns in 1..1_000 {
        bench.farm.turn(bench.now_us, &mut Deeds::default());
        bench.farm.check_all().unwrap();
        look(bench);
        if bench.farm.next_deadline_us() > bench.now_us {
            return turns;
        }
    }
    panic!("the farm never rests");
}

fn packed(pack: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new();
    pack(&mut packer);
    packer.finish().remove(0)
}

/// The hello of the second incarnation.
fn hello() -> Vec<u8> {
    let hello = Hello {
        version: PROTOCOL_VERSION,
        boot: Boot(2),
        slots: 4,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        known_epoch: Epoch(0),
        known_proof: [0; 16],
        died_running: Vec::new(),
    };
    packed(|packer| packer.hello(&hello))
}

fn resent(bench: &Bench) -> u64 {
    bench.farm.job(JobId(1), 0).unwrap().totals.resent
}

#[test]
fn what_nodes_had_that_start_again_in_one_turn_goes_back_over_many() {
    let mut bench = bench();
    bench.run("submit 1000 units 1");
    for node in 'a'..='j' {
        bench.run(&format!("join {node} slots 4\n ack {node}"));
    }
    let had = bench.farm.tasks()[1] as u64;
    assert!(had >= 80, "{had} tasks at ten nodes");
    // The bench makes a turn after each line: what was taken back there is less than each of these nodes had.
    for node in 'a'..='j' {
        bench.run(&format!("hello {node} boot 2"));
        assert!(resent(&bench) <= 2 * TAKEN_A_TURN * u64::from(node as u8 - b'a' + 1));
    }
    let mut before = resent(&bench);
    assert!(before < had, "not all at once");
    let took = turns(&mut bench, |bench| {
        let now = resent(bench);
        assert!(now - before <= TAKEN_A_TURN, "{} tasks in a turn", now - before);
        before = now;
    });
    assert_eq!(resent(&bench), had, "nothing is left behind, after {took} turns");
}

#[test]
fn hellos_of_one_turn_that_it_has_no_time_for_are_heard_in_the_next_ones() {
    let mut bench = bench();
    bench.run("submit 1000 units 1");
    for node in 'a'..='j' {
        bench.run(&format!("join {node} slots 4 queue 8\n ack {node}"));
    }
    let had = bench.farm.tasks()[1] as u64;
    for node in 0..10 {
        bench.farm.on_session(NodeId(node), "", 0);
        bench.hear(NodeId(node), &hello());
        // It is none of the new incarnation, and the old one is gone.
        bench.hear(NodeId(node), &packed(Packer::bye));
    }
    let names = |bench: &mut Bench| bench.farm.nodes(0).iter().filter(|node| node.tasks > 0).count();
    assert_eq!(names(&mut bench), 8, "two were heard");
    let before = bench.farm.tasks()[1];
    assert_eq!(before as u64, had);
    turns(&mut bench, |_| ());
    assert_eq!(resent(&bench), had);
}

#[test]
fn a_cancelled_job_leaves_dq_over_many_turns_and_the_next_job_gets_all_its_nodes() {
    let mut bench = bench();
    bench.run("submit 1000 units 1\n submit 1000 units 1");
    for node in 'a'..='j' {
        bench.run(&format!("join {node} slots 4 queue 8\n ack {node}"));
    }
    let had = bench.farm.tasks()[1];
    let mut deeds = Deeds::default();
    bench.farm.command_job(JobId(1), JobCommand::Cancel, 0, &mut deeds).unwrap();
    bench.farm.check_all().unwrap();
    let job = bench.farm.job(JobId(1), 0).unwrap();
    assert_eq!(
        (job.state, job.units_out.0, job.units_abandoned.0),
        (JobState::Cancelled, 0, 1_000),
        "it is over at once"
    );
    assert_eq!(bench.farm.tasks()[1], had, "its tasks leave dq in turns");
    let mut told = 0;
    for _ in 0..had as u64 / TAKEN_A_TURN {
        let before = bench.farm.tasks()[1];
        let mut deeds = Deeds::default();
        bench.farm.on_durable(bench.farm.last_sequence(), 0);
        bench.farm.turn(0, &mut deeds);
        bench.farm.check_all().unwrap();
        let after = bench.farm.tasks()[1];
        // Those that it took are given again, of the next job.
        assert!(before.saturating_sub(after) <= TAKEN_A_TURN as usize, "{before} tasks, then {after}");
        told += deeds.0.iter().filter(|deed| matches!(deed, Deed::Send(..))).count();
    }
    assert!(told >= 10, "each of ten nodes is told to let go");
    turns(&mut bench, |_| ());
    let job = bench.farm.job(JobId(2), 0).unwrap();
    assert_eq!(
        (job.units_out.0, bench.farm.tasks()[1] as u128),
        (80, 80),
        "all that is at nodes is of the next job"
    );
}

#[test]
fn a_job_that_is_deleted_while_its_tasks_leave_is_gone_with_them() {
    let mut bench = bench();
    bench.run("submit 100 units 1\n join a slots 8 queue 16\n ack a\n cancel 1\n delete 1");
    assert!(bench.farm.tasks()[1] > 0, "some are left");
    turns(&mut bench, |_| ());
    assert_eq!(bench.farm.tasks()[1], 0);
}

#[test]
fn a_node_that_is_lost_while_tasks_of_an_ended_job_leave_it_takes_nothing_back() {
    let mut bench = bench();
    bench.run("submit 100 units 1\n join a slots 8 queue 16\n ack a\n hold");
    bench.farm.command_job(JobId(1), JobCommand::Cancel, 0, &mut Deeds::default()).unwrap();
    bench.farm.on_revoked(NodeId(0), &mut Deeds::default());
    bench.farm.check_all().unwrap();
    turns(&mut bench, |_| ());
    assert_eq!((bench.farm.tasks()[1], resent(&bench)), (0, 0));
}

#[test]
fn what_goes_back_and_is_computed_meanwhile_counts_once_and_what_fails_is_tried_again() {
    let mut bench = bench();
    let story = "submit 200 command retries 2 units 10 max-failures never\n join b slots 1 queue 2\n ack b
         join a slots 6 queue 12\n ack a\n hello a boot 2\n ran a 85+1 exit1\n ran a 120+2 ok,ok\n show 1\n at 1\n show 1";
    let story = bench.run(story);
    let last: Vec<&str> = story.lines().rev().take(2).collect();
    expect![[r#"
        [
            "1: job 1 is running: done 2, out 140, waiting 58, resent tasks 13",
            "0: job 1 is running: done 2, out 162, waiting 36, resent tasks 10",
        ]
    "#]]
    .assert_debug_eq(&last);
}

#[test]
fn jobs_that_were_queued_while_nobody_idled_need_no_commit_each_when_their_turn_comes() {
    let mut bench = Bench::new(config());
    bench.run("submit 2 units 1\n join a slots 1 queue 2\n ack a");
    (0..20).for_each(|_| drop(bench.run("submit 1 units 1")));
    bench.run("done a 0+2");
    // From now on nothing becomes durable.
    bench.run("hold");
    for job in 2..22 {
        bench.run(&format!("ack a\n done a 0+1 job {job}"));
    }
    let done = bench.farm.jobs(0).iter().filter(|job| job.state == JobState::Finished).count();
    assert_eq!(done, 21);
}
