//! Checkpoints, and what a person forgave, told as scripts: a farm made of a checkpoint and the records behind it
//! is the farm that wrote them. What outlives a scheduler by its records alone is in `restarts`. Times in the
//! stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{check_after, config};
use expect_test::expect;
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, JobId, NodeId};
use starfarm_protocol::journal::record::{Ended, JobTotals};
use starfarm_protocol::wire::FailReason;
use starfarm_scheduler_core::{
    Deeds, FailedUnit, Farm, JobFacts, JobState, MaxFailures, Record, Restoring, Sizing, WorkFacts,
};

/// Units of a job that fail, every one of them.
const FAILURES: u128 = 100_000;

/// Job 1, of programs.
fn facts() -> JobFacts {
    JobFacts {
        job: JobId(1),
        spec: ContentHash([1; 32]),
        name: "frames".into(),
        user: "ada".into(),
        units: FAILURES,
        work: WorkFacts::command(0),
        sizing: Sizing::Units(1),
        max_failures: MaxFailures::Never,
        speculative: false,
        at_us: 1,
    }
}

/// A farm that two nodes failed all units of a job for: who failed which.
fn all_failed(node_of: impl Fn(u128) -> u32) -> Farm {
    let job = JobId(1);
    let node = |node, name: &str| Record::Node { node: NodeId(node), name: name.into(), boot: Boot(1) };
    let mut restoring = Restoring::new(config(), 1);
    let known =
        [node(0, "a"), node(1, "b"), Record::Submitted(facts()), Record::Leased { job, mark: FAILURES }];
    known.iter().for_each(|record| restoring.apply(record).unwrap());
    for unit in 0..FAILURES {
        let failed =
            FailedUnit { reason: FailReason::Exit, code: Some(1), node: Some(NodeId(node_of(unit))) };
        restoring.apply(&Record::Failed { job, unit, failed }).unwrap();
    }
    restoring.finish(FAILURES as u64, 1)
}

/// The records of a checkpoint, and their bytes.
fn checkpoint(farm: &mut Farm) -> (Vec<Record>, usize) {
    let (_, records) = farm.snapshot(&mut Deeds::default());
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    (records, bytes.len())
}

/// The farm that a checkpoint becomes says what the one said that wrote it.
fn same_again(farm: &Farm, records: &[Record]) -> Farm {
    let mut restoring = Restoring::new(config(), 1);
    records.iter().for_each(|record| restoring.apply(record).unwrap());
    let again = restoring.finish(FAILURES as u64, 1);
    assert!(again.durable_state() == farm.durable_state());
    assert!(again.failed_units(JobId(1)) == farm.failed_units(JobId(1)));
    again.check_all().unwrap();
    again
}

#[test]
fn a_hundred_thousand_failures_cost_a_checkpoint_a_few_records() {
    // Tasks of a hundred units each, by turns: two bytes an interval, instead of seven bytes and a record a unit.
    let mut farm = all_failed(|unit| (unit / 100 % 2) as u32);
    let (records, bytes) = checkpoint(&mut farm);
    assert!(records.len() < 20 && bytes < 4_000, "{} records, {bytes} bytes", records.len());
    same_again(&farm, &records);
    // Single units by turns: the worst that there is.
    let mut farm = all_failed(|unit| (unit % 2) as u32);
    let (records, bytes) = checkpoint(&mut farm);
    assert!(records.len() < 60 && bytes < 220_000, "{} records, {bytes} bytes", records.len());
    same_again(&farm, &records);
}

#[test]
fn units_that_are_wanted_again_are_intervals_in_a_checkpoint_too() {
    let mut farm = all_failed(|unit| (unit % 2) as u32);
    // It ends in its first turn, and a person wants all of it again.
    let mut deeds = Deeds::default();
    farm.turn(2, &mut deeds);
    assert_eq!(farm.job(JobId(1), 0).unwrap().state, JobState::Failed);
    farm.command_job(JobId(1), starfarm_scheduler_core::JobCommand::Retry, 3, &mut deeds).unwrap();
    let (records, bytes) = checkpoint(&mut farm);
    assert!(records.len() < 20 && bytes < 1_000, "{} records, {bytes} bytes", records.len());
    let again = same_again(&farm, &records);
    assert_eq!(again.failed_units(JobId(1)), []);
}

#[test]
fn what_was_forgiven_stays_forgiven() {
    check_after(
        "submit 30 command units 1 max-failures 2\n join a slots 1\n ack a\n ran a 0+1 exit1\n ack a
         ran a 1+1 exit1\n show 1\n resume 1\n ack a",
        "show 1\n restart\n hello a\n beat a 2+1\n ran a 2+1 exit1\n show 1\n beat a none\n at 10\n ack a
         ran a 3+1 exit1\n show 1",
        expect![[r#"
            0: job 1 is running: done 0, out 2, waiting 26, unit 0 failed by exit 1, unit 1 failed by exit 1
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: unit 2 of job 1 failed on node a: exit 1
            0: job 1 is running: done 0, out 27, waiting 0, unit 0 failed by exit 1, unit 1 failed by exit 1, unit 2 failed by exit 1
            0: to a: answer 2; ack results [(3, 3)]
            0: to a: offer job 1: 1099511627777=3+1 1099511627778=4+1
            10: unit 3 of job 1 failed on node a: exit 1
            10: job 1 paused
            10: to a: ack results [(4, 4)]; withdraw job 1 trim before 1099511627779
            10: job 1 is paused: done 0, out 1, waiting 25, resent tasks 1, unit 0 failed by exit 1, unit 1 failed by exit 1, unit 2 failed by exit 1, unit 3 failed by exit 1, since 2 units failed, and max_failures is 2
        "#]],
    );
}

#[test]
fn what_was_forgiven_stays_forgiven_over_a_checkpoint() {
    check_after(
        "submit 30 command units 1 max-failures 2\n join a slots 1\n ack a\n ran a 0+1 ok\n ack a
         ran a 1+1 exit1\n ack a\n ran a 2+1 exit1\n resume 1\n ack a",
        "checkpoint\n restart\n hello a\n beat a 3+1\n ran a 3+1 exit1\n show 1\n beat a none\n at 10
         ack a\n ran a 4+1 exit1",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: unit 3 of job 1 failed on node a: exit 1
            0: job 1 is running: done 1, out 26, waiting 0, unit 1 failed by exit 1, unit 2 failed by exit 1, unit 3 failed by exit 1
            0: to a: answer 2; ack results [(4, 4)]
            0: to a: offer job 1: 1099511627777=4+1 1099511627778=5+1
            10: unit 4 of job 1 failed on node a: exit 1
            10: job 1 paused
            10: to a: ack results [(5, 5)]; withdraw job 1 trim before 1099511627779
        "#]],
    );
}

#[test]
fn a_checkpoint_and_the_records_behind_it_give_the_same_farm() {
    check_after(
        "submit 60 command retries 1 units 2\n join a slots 1\n join b slots 1\n ack a\n ack b
         ran a 0+2 ok,exit1\n ran b 4+2 ok,ok\n hello b boot 2 died 6",
        "checkpoint\n ack b\n ran b 6+1 ok\n drain b\n pause 1\n show 1\n restart\n show 1\n nodes
         hello a\n hello b\n beat a 2+2\n beat b none\n at 10\n resume 1\n nodes",
        expect![[r#"
            0: node b draining
            0: job 1 paused
            0: to a: withdraw job 1 trim before 9
            0: to b: ack results [(1, 1)]; withdraw job 1 trim before 9
            0: job 1 is paused: done 4, out 6, waiting 50, resent tasks 2
            0: job 1 is paused: done 4, out 56, waiting 0, resent tasks 2
            0: a suspect, b suspect
            0: node a is back
            0: to a: welcome epoch 2
            0: node b is back
            0: to b: welcome epoch 2
            0: to a: answer 1
            0: to b: answer 1
            10: job 1 running
            10: to a: offer job 1: 1099511627777=1+1
            10: a up, b draining
        "#]],
    );
}

/// A journal of another farm, or one that a bug wrote, is refused in words: what comes from the disk fails no assertion.
#[test]
fn a_record_that_does_not_fit_those_before_it_is_an_error() {
    let job = JobId(1);
    let state = |state| Record::State { job, state, why: None };
    let tried = Record::Tried { job, unit: 0, attempt: Attempt(1), node: NodeId(0) };
    let end = |state| {
        let (abandoned, totals) = (Vec::new(), JobTotals::default());
        Record::Ended(Ended { job, state, done: 0, failed: 0, abandoned, totals })
    };
    let done = |hi| Record::Done { job, node: NodeId(0), pieces: vec![(0, hi)], hits: Vec::new() };
    let open = vec![Record::Submitted(facts()), Record::Leased { job, mark: 10 }];
    let ended = [open.clone(), vec![end(JobState::Cancelled)]].concat();
    let counted = [open.clone(), vec![done(5)]].concat();
    for (before, record, why) in [
        (&open, Record::Submitted(facts()), "job 1 is submitted twice"),
        (&open, done(11), "unit 10 of job 1 was never leased"),
        (&open, done(0), "[0, 0) of job 1 has no unit"),
        (&open, state(JobState::Failed), "job 1 ends without a sum"),
        (&open, end(JobState::Running), "job 1 ends as running"),
        (&open, Record::Rates { job, mean: f64::NAN, nodes: Vec::new() }, "job 1 has a speed that is none"),
        (&open, Record::Deleted { job }, "job 1 is deleted and has not ended"),
        (&counted, done(6), "[0, 6) of job 1 is decided twice, or was never leased"),
        (&counted, tried.clone(), "unit 0 of job 1 is tried again, and was decided"),
        (&ended, tried, "unit 0 of job 1 is tried again, and was decided"),
        (&ended, state(JobState::Paused), "job 1 has ended"),
        (&ended, Record::Moved { job, place: 0 }, "job 1 has ended"),
        (&ended, end(JobState::Cancelled), "job 1 has ended"),
    ] {
        let mut restoring = Restoring::new(config(), 1);
        before.iter().for_each(|record| restoring.apply(record).unwrap());
        assert_eq!(restoring.apply(&record), Err(why.to_owned()), "{record:?}");
    }
}
