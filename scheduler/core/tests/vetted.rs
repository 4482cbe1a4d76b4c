//! Records that were read whole and say what cannot be: a start refuses them in words, and does nothing with them.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::config;
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, JobId, NodeId};
use starfarm_protocol::journal::record::{Ended, JobTotals};
use starfarm_protocol::spec::Stop;
use starfarm_protocol::wire::{CommandUnit, FailReason, Outputs, Stream};
use starfarm_scheduler_core::{
    FailedUnit, JobFacts, JobState, MaxFailures, Record, Restoring, Sizing, WorkFacts,
};

const JOB: JobId = JobId(1);
const NODE: NodeId = NodeId(0);

/// A search of 10 units for 2 targets, of which node 0 may have had all.
fn restoring() -> Restoring {
    let facts = JobFacts {
        job: JOB,
        spec: ContentHash([1; 32]),
        name: "pins".into(),
        user: "ada".into(),
        units: 10,
        work: WorkFacts::search(Stop::Never, 2),
        sizing: Sizing::Units(1),
        max_failures: MaxFailures::Usual,
        speculative: false,
        at_us: 1,
    };
    let mut restoring = Restoring::new(config(), 1);
    let node = Record::Node { node: NODE, name: "a".into(), boot: Boot(1) };
    for record in [node, Record::Submitted(facts), Record::Leased { job: JOB, mark: 10 }] {
        restoring.apply(&record).unwrap();
    }
    restoring
}

#[track_caller]
fn refused(record: &Record, words: &str) {
    let why = restoring().apply(record).unwrap_err();
    assert!(why.contains(words), "{why}");
}

#[test]
fn a_node_whose_number_was_never_given_costs_no_memory() {
    let node = |node| Record::Node { node: NodeId(node), name: "b".into(), boot: Boot(1) };
    refused(&node(u32::MAX - 1), "node 4294967294 cannot be: the next number is 1");
    refused(&node(1 + (1 << 20)), "cannot be");
    refused(&Record::Given { job: JOB, node: NodeId(u32::MAX - 1) }, "cannot be");
    // Some that never said hello lie between, and others were forgotten.
    restoring().apply(&node(1 << 20)).unwrap();
    restoring().apply(&Record::Given { job: JOB, node: NodeId(u32::MAX) }).unwrap();
}

#[test]
fn a_hit_lies_in_the_space_and_is_of_a_target_of_the_job() {
    let hit =
        |unit, target| Record::Done { job: JOB, node: NODE, pieces: vec![], hits: vec![(unit, target)] };
    restoring().apply(&hit(9, 1)).unwrap();
    refused(&hit(10, 1), "a hit of unit 10 of job 1, which ends at 10");
    refused(&hit(u128::MAX, 0), "which ends at 10");
    refused(&hit(9, 2), "a hit of target 2 of job 1, which has 2");
}

#[test]
fn what_a_checkpoint_tells_of_hits_that_it_lacks_lies_in_the_space_too() {
    let paged = |floor, target, unit| {
        let (targets, again) = (vec![(0, target)], vec![(0, unit)]);
        Record::HitsPaged { job: JOB, floor, count: 3, targets, again }
    };
    restoring().apply(&paged((9, 1), 2, 10)).unwrap();
    refused(&paged((10, 1), 2, 10), "a hit of unit 10 of job 1, which ends at 10");
    refused(&paged((9, 2), 2, 10), "a hit of target 2 of job 1, which has 2");
    refused(&paged((9, 1), 3, 10), "targets 0 to 3 of job 1, which has 2");
    refused(&paged((9, 1), 2, 11), "of job 1, which ends at 10");
    let hit = |from, bits: &[u8]| Record::TargetsHit { job: JOB, from, bits: bits.into() };
    restoring().apply(&hit(0, &[3, 0])).unwrap();
    refused(&hit(0, &[4]), "targets up to 3 of job 1, which has 2");
    refused(&hit(1, &[0]), "targets up to 8 of job 1, which has 2");
    refused(&hit(u32::MAX, &[1]), "targets up to 34359738361 of job 1, which has 2");
}

#[test]
fn units_lie_in_the_space_also_the_largest_number() {
    let outputs = Outputs { files: None, stdout: Stream::Inline(vec![]), stderr: Stream::Inline(vec![]) };
    let ran = CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs };
    let failed = FailedUnit { reason: FailReason::Exit, code: None, node: None };
    let (job, node, attempt, boot) = (JOB, NODE, Attempt(1), Boot(1));
    for unit in [10, u128::MAX] {
        let piece = vec![(unit - 1, unit), (9, unit.max(11))];
        for record in [
            Record::Done { job, node, pieces: piece.clone(), hits: vec![] },
            Record::Ran { job, attempt, node, units: vec![(unit, ran.clone())] },
            Record::Tried { job, unit, attempt, node },
            Record::Died { job, unit, node, boot },
            Record::Failed { job, unit, failed },
            Record::FailedAlike { job, units: piece.clone(), failed },
            Record::Retried { job, units: piece.clone() },
            Record::Rerun { job, units: piece.clone() },
            Record::Conflict { job, lo: 3, hi: unit.max(11), node },
            Record::Ended(Ended {
                job,
                state: JobState::Cancelled,
                done: 0,
                failed: 0,
                abandoned: piece.clone(),
                totals: JobTotals::default(),
            }),
        ] {
            refused(&record, "of job 1, which ends at 10");
        }
    }
}

#[test]
fn a_rating_is_of_a_period_that_a_clock_reaches_and_has_numbers() {
    let rating = |period, periods| Record::Rating { node: NODE, started_us: 1, period, periods };
    restoring().apply(&rating(1 << 30, vec![0.5; 64])).unwrap();
    refused(&rating(u64::MAX, vec![0.5; 64]), "which no clock reaches");
    refused(&rating(u64::MAX / 10_000_000 + 1, vec![0.5]), "which no clock reaches");
    for (periods, count) in [(0.5, 65), (f32::NAN, 1), (f32::INFINITY, 1), (-1.0, 1)] {
        refused(&rating(1, vec![periods; count]), "a rating that is none");
    }
    for (lost_us, period_us) in [(0, 1), (1, 0)] {
        refused(&Record::Periods { lost_us, period_us }, "none can be 0");
    }
}
