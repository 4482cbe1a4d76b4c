//! Journals with one thing wrong each: the audit must name the job, the units and the fault. And journals with
//! nothing wrong, however odd.
#![allow(clippy::unwrap_used)]

use starfarm_audit::{Books, Place, Report};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, JobId, NodeId};
use starfarm_protocol::job::{FailedUnit, JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{Ended, GrownChunk, JobTotals};
use starfarm_protocol::spec::Stop;
use starfarm_protocol::state::Completion;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::{CommandUnit, FailReason, Outputs, Stream};

const JOB: JobId = JobId(3);
const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const COMMAND: WorkFacts = WorkFacts::command(0);
const EVERY_HIT: WorkFacts = WorkFacts::search(Stop::Never, 2);
const FIRST_HIT: WorkFacts = WorkFacts::search(Stop::FirstHit, 2);

fn submitted(units: u128, work: WorkFacts) -> Record {
    Record::Submitted(JobFacts {
        job: JOB,
        spec: ContentHash([7; 32]),
        name: "keys".into(),
        user: "ada".into(),
        units,
        work,
        sizing: Sizing::Units(5),
        max_failures: MaxFailures::Usual,
        speculative: true,
        at_us: 1_700_000_000_000_000,
    })
}

fn done(node: NodeId, pieces: &[(u128, u128)]) -> Record {
    Record::Done { job: JOB, node, pieces: pieces.to_vec(), hits: Vec::new() }
}

fn hits(hits: &[(u128, u32)]) -> Record {
    Record::Done { job: JOB, node: A, pieces: Vec::new(), hits: hits.to_vec() }
}

fn ran(units: &[(u128, Option<FailReason>)]) -> Record {
    let silent = || Stream::Inline(Vec::new());
    let outcome = |failed: Option<FailReason>| CommandUnit {
        units: 1,
        failed,
        code: i32::from(failed.is_some()),
        duration_us: 5,
        outputs: Outputs { files: None, stdout: silent(), stderr: silent() },
    };
    let units = units.iter().map(|&(unit, failed)| (unit, outcome(failed))).collect();
    Record::Ran { job: JOB, attempt: Attempt(1), node: A, units }
}

fn poison(unit: u128) -> Record {
    let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
    Record::Failed { job: JOB, unit, failed }
}

fn ended(state: JobState, done: u128, failed: u128, abandoned: &[(u128, u128)]) -> Record {
    let totals = JobTotals {
        dispatched: 9,
        resent: 2,
        copies: 1,
        duplicate_units: 4,
        started_us: Some(1_700_000_001_000_000),
        ended_us: Some(1_700_000_009_500_000),
        ..JobTotals::default()
    };
    Record::Ended(Ended { job: JOB, state, done, failed, abandoned: abandoned.to_vec(), totals })
}

fn leased(mark: u128) -> Record {
    Record::Leased { job: JOB, mark }
}

/// The report on a farm that started, saw two nodes join, and wrote these records, each in a commit of its own. Where
/// they tell of no lease all units of a job may be given out from its submission on.
fn audit(records: &[Record]) -> Report {
    let node = |node, name: &str| Record::Node { node, name: name.into(), boot: Boot(1) };
    let mut all = vec![Record::Epoch { epoch: Epoch(1), at_us: 0 }, node(A, "a"), node(B, "b")];
    let tells_of_leases = records.iter().any(|record| matches!(record, Record::Leased { .. }));
    for record in records {
        all.push(record.clone());
        if let Record::Submitted(facts) = record
            && !tells_of_leases
        {
            all.push(leased(facts.units));
        }
    }
    let mut books = Books::default();
    for (record, sequence) in all.iter().zip(1..) {
        books.enter(Place { sequence, commit: sequence }, record);
    }
    books.close("farm")
}

/// The only violation there must be: of the job, on these units, in words that hold `what`.
#[track_caller]
fn broken(records: &[Record], units: Option<(u128, u128)>, what: &str) {
    let report = audit(records);
    assert!(!report.holds, "{what}");
    let [violation] = &report.violations[..] else { panic!("{what}: {:#?}", report.violations) };
    let (lo, hi) = units.map(|(lo, hi)| (Units(lo), Units(hi))).unzip();
    assert_eq!((violation.job, &violation.lo, &violation.hi), (Some(JOB), &lo, &hi), "{violation:?}");
    assert!(violation.what.contains(what), "{violation:?}");
    for job in &report.jobs {
        assert_eq!((job.verdict, &job.certificate), (Completion::Broken, &None));
    }
}

#[track_caller]
fn sound(records: &[Record], verdict: Completion) -> Report {
    let report = audit(records);
    assert!(report.holds, "{:#?}", report.violations);
    assert_eq!(report.jobs[0].verdict, verdict);
    let certified = report.jobs[0].certificate.as_ref().map(starfarm_audit::Certificate::hash);
    assert_eq!(
        (certified.is_some(), certified),
        (verdict != Completion::NotEnded, report.jobs[0].certificate_hash)
    );
    report
}

#[test]
fn a_job_that_is_done_is_certified_with_all_that_is_known() {
    let records = [
        submitted(20, EVERY_HIT),
        done(A, &[(0, 5), (15, 20)]),
        done(B, &[(5, 15)]),
        hits(&[(3, 1), (3, 0), (3, 1)]),
        ended(JobState::Finished, 20, 0, &[]),
    ];
    let report = sound(&records, Completion::Complete);
    let certificate = report.jobs[0].certificate.clone().unwrap();
    assert_eq!((certificate.hits, certificate.units_done), (2, Units(20)));
    let nodes: Vec<_> = certificate.nodes.iter().map(|node| (node.name.as_str(), node.units.0)).collect();
    assert_eq!(nodes, [("a", 10), ("b", 10)]);
    assert_eq!(certificate.epochs, [1]);
    assert_eq!(certificate.submitted, "2023-11-14T22:13:20.000000Z");
    assert_eq!(certificate.ended.as_deref(), Some("2023-11-14T22:13:29.500000Z"));
    assert_eq!((certificate.tasks_dispatched, certificate.tasks_resent, certificate.tasks_copied), (9, 2, 1));
    // The same facts in other records have the same hash: what a ledger joins stays certified.
    let joined = [
        submitted(20, EVERY_HIT),
        done(B, &[(5, 15)]),
        Record::Done { job: JOB, node: A, pieces: vec![(0, 5)], hits: vec![(3, 0), (3, 1)] },
        done(A, &[(15, 20)]),
        ended(JobState::Finished, 20, 0, &[]),
    ];
    assert_eq!(sound(&joined, Completion::Complete).jobs, report.jobs);
    let other = [submitted(20, EVERY_HIT), done(A, &[(0, 20)]), ended(JobState::Finished, 20, 0, &[])];
    assert_ne!(sound(&other, Completion::Complete).jobs[0].certificate_hash, report.jobs[0].certificate_hash);
}

#[test]
fn a_gap() {
    let records =
        [submitted(20, EVERY_HIT), done(A, &[(0, 5), (8, 20)]), ended(JobState::Finished, 17, 0, &[])];
    broken(&records, Some((5, 8)), "a gap");
    let tail = [submitted(20, EVERY_HIT), done(A, &[(0, 19)]), ended(JobState::Finished, 19, 0, &[])];
    broken(&tail, Some((19, 20)), "a gap");
    let head = [submitted(20, EVERY_HIT), done(A, &[(1, 20)]), ended(JobState::Finished, 19, 0, &[])];
    broken(&head, Some((0, 1)), "a gap");
}

#[test]
fn a_unit_counted_twice() {
    let end = ended(JobState::Finished, 20, 0, &[]);
    let records = [submitted(20, EVERY_HIT), done(A, &[(0, 12)]), done(B, &[(10, 20)]), end.clone()];
    broken(&records, Some((10, 12)), "counted twice");
    let whole = [submitted(20, EVERY_HIT), done(A, &[(0, 20)]), done(B, &[(4, 5)]), end];
    broken(&whole, Some((4, 5)), "counted twice");
    let end = ended(JobState::Failed, 3, 1, &[]);
    let failed = [
        submitted(4, COMMAND),
        ran(&[(0, None), (1, Some(FailReason::Exit)), (2, None), (3, None)]),
        poison(1),
        end,
    ];
    broken(&failed, Some((1, 2)), "counted twice: failed");
}

#[test]
fn a_unit_outside_of_the_space() {
    let records = [submitted(20, EVERY_HIT), done(A, &[(0, 21)]), ended(JobState::Finished, 20, 0, &[])];
    broken(&records, Some((20, 21)), "outside of the space");
    let far =
        [submitted(20, EVERY_HIT), done(A, &[(0, 20)]), poison(500), ended(JobState::Finished, 20, 0, &[])];
    broken(&far, Some((500, 501)), "outside of the space");
    let end = ended(JobState::Cancelled, 5, 0, &[(5, 30)]);
    broken(&[submitted(20, EVERY_HIT), done(A, &[(0, 5)]), end], Some((20, 30)), "abandoned outside");
}

#[test]
fn a_unit_that_was_decided_and_never_leased() {
    let end = |failed| {
        ended(if failed > 0 { JobState::Failed } else { JobState::Finished }, 20 - failed, failed, &[])
    };
    let with =
        |mark, decided: &[Record], end| [&[submitted(20, COMMAND), leased(mark)], decided, &[end]].concat();
    broken(
        &with(15, &[done(A, &[(0, 20)])], end(0)),
        Some((15, 20)),
        "done, and may be at nodes only up to 15",
    );
    broken(&with(19, &[done(A, &[(0, 19)]), poison(19)], end(1)), Some((19, 20)), "failed, and may be");
    let one = ran(&[(19, Some(FailReason::Exit))]);
    broken(
        &with(3, &[done(A, &[(0, 3)]), leased(19), done(A, &[(3, 19)]), one], end(1)),
        Some((19, 20)),
        "failed",
    );
    // A lease that comes later makes nothing good: the scheduler that died in between knew of no such unit.
    broken(&with(5, &[done(A, &[(0, 20)]), leased(20)], end(0)), Some((5, 20)), "up to 5");
    broken(&with(21, &[done(A, &[(0, 20)])], end(0)), Some((20, 21)), "leased outside of the space");
    // A mark never falls: a smaller one says nothing new.
    sound(&with(20, &[leased(5), done(A, &[(0, 20)])], end(0)), Completion::Complete);
    sound(&with(5, &[done(A, &[(0, 5)]), leased(20), done(B, &[(5, 20)])], end(0)), Completion::Complete);
}

#[test]
fn a_hit_outside_of_the_space_or_of_no_target() {
    let with = |hit| {
        [submitted(20, EVERY_HIT), done(A, &[(0, 20)]), hits(&[hit]), ended(JobState::Finished, 20, 0, &[])]
    };
    broken(&with((20, 0)), Some((20, 21)), "a hit outside");
    broken(&with((7, 2)), Some((7, 8)), "target 2");
    let none =
        [submitted(20, COMMAND), done(A, &[(0, 20)]), hits(&[(1, 0)]), ended(JobState::Finished, 20, 0, &[])];
    broken(&none, Some((1, 2)), "searches nothing");
}

#[test]
fn a_claim_that_the_records_do_not_bear_out() {
    let with = |end| [submitted(20, COMMAND), done(A, &[(0, 19)]), poison(19), end];
    broken(
        &with(ended(JobState::Failed, 18, 1, &[])),
        Some((0, 20)),
        "18 units were done, the records say 19",
    );
    broken(&with(ended(JobState::Failed, 19, 2, &[])), Some((0, 20)), "2 units were failed");
    broken(&with(ended(JobState::Finished, 19, 1, &[])), None, "ended as finished");
    broken(&with(ended(JobState::Paused, 19, 1, &[])), None, "no end");
    let end = ended(JobState::Failed, 20, 0, &[]);
    broken(&[submitted(20, COMMAND), done(A, &[(0, 20)]), end], None, "no unit has failed");
    let conflict = Record::Conflict { job: JOB, lo: 0, hi: 5, node: B };
    let end = ended(JobState::Finished, 20, 0, &[]);
    broken(&[submitted(20, EVERY_HIT), done(A, &[(0, 20)]), conflict, end], None, "0 conflicts");
}

#[test]
fn an_end_that_is_missing() {
    let decided = [submitted(20, EVERY_HIT), leased(20), done(A, &[(0, 20)])];
    broken(&[&decided[..], &[leased(20)]].concat(), Some((0, 20)), "no end of the job");
    // The scheduler may have died before it wrote the end, or have just come back.
    sound(&decided, Completion::NotEnded);
    let back = Record::Epoch { epoch: Epoch(2), at_us: 9 };
    sound(&[&decided[..], &[back]].concat(), Completion::NotEnded);
    broken(&[submitted(20, EVERY_HIT), Record::Deleted { job: JOB }], None, "before it had ended");
    let state = Record::State { job: JOB, state: JobState::Finished, why: None };
    broken(&[submitted(20, EVERY_HIT), state], None, "without an end");
}

#[test]
fn a_count_after_the_end() {
    let early = [
        submitted(20, FIRST_HIT),
        done(A, &[(0, 5)]),
        hits(&[(2, 0)]),
        ended(JobState::Finished, 5, 0, &[(5, 20)]),
    ];
    let after = |record: Record| [&early[..], &[record]].concat();
    // Late results of what was abandoned still count, and so do late hits.
    let late = sound(&after(done(B, &[(7, 12)])), Completion::EndedEarly);
    assert_eq!((late.jobs[0].units_done.0, late.jobs[0].units_abandoned.0), (10, 10));
    sound(&after(done(B, &[(5, 20)])), Completion::Complete);
    sound(&after(hits(&[(19, 1)])), Completion::EndedEarly);
    broken(&after(done(B, &[(4, 7)])), Some((4, 5)), "counted twice");
    broken(&after(ended(JobState::Finished, 5, 0, &[(5, 20)])), None, "second time");
    let state = Record::State { job: JOB, state: JobState::Running, why: None };
    broken(&after(state), None, "after its end");
    let gap = [
        submitted(20, EVERY_HIT),
        done(A, &[(0, 19)]),
        ended(JobState::Cancelled, 19, 0, &[]),
        done(A, &[(19, 20)]),
    ];
    let report = audit(&gap);
    let words: Vec<_> = report.violations.iter().map(|violation| violation.what.as_str()).collect();
    assert!(words[0].starts_with("a gap") && words[1].contains("not among what was abandoned"), "{words:?}");
}

#[test]
fn abandoned_units_must_be_free_and_have_a_reason() {
    let done = done(A, &[(0, 10)]);
    let end = ended(JobState::Cancelled, 10, 0, &[(8, 20)]);
    broken(&[submitted(20, EVERY_HIT), done.clone(), end], Some((8, 10)), "done, and abandoned as well");
    let end = ended(JobState::Finished, 10, 0, &[(10, 20)]);
    broken(&[submitted(20, EVERY_HIT), done.clone(), end.clone()], None, "nothing was found");
    broken(&[submitted(20, FIRST_HIT), done.clone(), end.clone()], None, "nothing was found");
    let all = WorkFacts::search(Stop::AllTargets, 2);
    broken(&[submitted(20, all), done.clone(), hits(&[(1, 0)]), end.clone()], None, "nothing was found");
    sound(&[submitted(20, all), done.clone(), hits(&[(1, 0), (2, 1)]), end], Completion::EndedEarly);
    let cancelled = ended(JobState::Cancelled, 10, 0, &[(10, 20)]);
    sound(&[submitted(20, COMMAND), done, cancelled], Completion::EndedEarly);
}

#[test]
fn failed_units_are_tried_again_only_if_they_failed() {
    let first = [
        submitted(6, COMMAND),
        ran(&[(0, None), (1, Some(FailReason::Exit)), (2, None)]),
        Record::Tried { job: JOB, unit: 3, attempt: Attempt(2), node: B },
        ran(&[(3, Some(FailReason::Timeout)), (4, None)]),
        poison(5),
        ended(JobState::Failed, 3, 3, &[]),
    ];
    sound(&first, Completion::CompleteWithFailures);
    let retried = |units: &[(u128, u128)]| Record::Retried { job: JOB, units: units.to_vec() };
    let again = [&first[..], &[retried(&[(1, 2), (3, 4), (5, 6)])]].concat();
    assert_eq!(sound(&again, Completion::NotEnded).jobs[0].units_failed, 0);
    let rest = [ran(&[(1, None), (3, None), (5, None)]), ended(JobState::Finished, 6, 0, &[])];
    sound(&[&again[..], &rest].concat(), Completion::Complete);
    broken(&[&first[..], &[retried(&[(1, 3)])]].concat(), Some((2, 3)), "had not failed before");
    let twice = [
        &again[..],
        &[ran(&[(1, None), (3, None), (5, None), (0, None)]), ended(JobState::Finished, 6, 0, &[])],
    ];
    broken(&twice.concat(), Some((0, 1)), "counted twice");
}

#[test]
fn units_run_again_only_if_they_ran_and_count_once_all_the_same() {
    let first = [submitted(4, COMMAND), ran(&[(0, None), (1, Some(FailReason::Exit)), (2, None), (3, None)])];
    let first = [&first[..], &[ended(JobState::Failed, 3, 1, &[])]].concat();
    let rerun = |units: &[(u128, u128)]| Record::Rerun { job: JOB, units: units.to_vec() };
    let again = [&first[..], &[rerun(&[(0, 2)])]].concat();
    assert_eq!(sound(&again, Completion::NotEnded).jobs[0].units_done, 2);
    let rest = [ran(&[(0, None), (1, None)]), ended(JobState::Finished, 4, 0, &[])];
    let report = sound(&[&again[..], &rest].concat(), Completion::Complete);
    let certificate = report.jobs[0].certificate.as_ref().unwrap();
    let shares: u128 = certificate.nodes.iter().map(|share| share.units.0).sum();
    assert_eq!((certificate.units_done.0, certificate.units_again.0, shares), (4, 1, 5));
    // It ends with a gap, or a unit is counted that nobody wanted again.
    broken(&[&again[..], &[ended(JobState::Finished, 2, 0, &[])]].concat(), Some((0, 2)), "a gap");
    let twice = [ran(&[(0, None), (1, None), (2, None)]), ended(JobState::Finished, 4, 0, &[])];
    broken(&[&again[..], &twice].concat(), Some((2, 3)), "counted twice");
    broken(&[&first[..1], &[rerun(&[(0, 2)])]].concat(), Some((0, 2)), "had not run before");
    // A search runs again where its node is not trusted.
    sound(&[submitted(20, EVERY_HIT), done(A, &[(0, 5)]), rerun(&[(0, 2)])], Completion::NotEnded);
    broken(&[submitted(20, EVERY_HIT), rerun(&[(0, 2)])], Some((0, 2)), "had not run before");
}

/// Until it is computed again.
#[test]
fn what_a_node_did_that_was_distrusted_later_is_doubtful() {
    let end = || ended(JobState::Finished, 20, 0, &[]);
    let doubtful = Record::Doubtful { job: JOB, node: A, units: 12 };
    let told = [submitted(20, EVERY_HIT), done(A, &[(0, 20)]), end(), doubtful];
    let units = |records: &[Record]| {
        let report = sound(records, Completion::Complete);
        report.jobs[0].certificate.as_ref().unwrap().units_doubtful.0
    };
    assert_eq!(units(&told), 12);
    let again = [Record::Rerun { job: JOB, units: vec![(0, 12)] }, done(A, &[(0, 12)]), end()];
    assert_eq!(units(&[&told[..], &again].concat()), 0);
}

#[test]
fn strangers() {
    let end = ended(JobState::Finished, 20, 0, &[]);
    let node = done(NodeId(9), &[(0, 20)]);
    broken(&[submitted(20, EVERY_HIT), node, end.clone()], None, "node 9, which never joined");
    broken(&[done(A, &[(0, 5)])], None, "never submitted");
    let twice = [submitted(20, EVERY_HIT), submitted(20, EVERY_HIT), done(A, &[(0, 20)]), end];
    broken(&twice, None, "submitted twice");
    let epochs =
        audit(&[Record::Epoch { epoch: Epoch(2), at_us: 0 }, Record::Epoch { epoch: Epoch(2), at_us: 0 }]);
    assert!(!epochs.holds && epochs.violations[0].what.contains("two schedulers"), "{epochs:?}");
}

#[test]
fn a_job_that_runs_is_listed_and_a_deleted_one_is_not() {
    let running = Record::State { job: JOB, state: JobState::Running, why: None };
    let report = sound(&[submitted(20, EVERY_HIT), running, done(A, &[(0, 5)])], Completion::NotEnded);
    assert_eq!((report.jobs[0].state, report.jobs[0].units_done.0), (JobState::Running, 5));
    let end = ended(JobState::Finished, 20, 0, &[]);
    let report = audit(&[submitted(20, EVERY_HIT), done(A, &[(0, 20)]), end, Record::Deleted { job: JOB }]);
    assert!(report.holds && report.jobs.is_empty() && report.notes[0].contains("1 deleted"), "{report:?}");
}

#[test]
fn the_largest_job() {
    let units = u128::MAX;
    let records = [
        submitted(units, EVERY_HIT),
        done(A, &[(0, 1 << 127)]),
        done(B, &[(1 << 127, units)]),
        hits(&[(units - 1, 0)]),
        ended(JobState::Finished, units, 0, &[]),
    ];
    assert_eq!(sound(&records, Completion::Complete).jobs[0].units_done, units);
}

#[test]
fn a_choice_of_jobs_keeps_what_is_wrong_with_the_journal() {
    let gap = [submitted(20, EVERY_HIT), done(A, &[(0, 5)]), ended(JobState::Finished, 5, 0, &[])];
    let report = audit(&gap);
    assert_eq!(report.clone().only(&[JobId(8)]), Err(JobId(8)));
    assert!(!report.only(&[JOB]).unwrap().holds);
    let end = ended(JobState::Finished, 20, 0, &[]);
    let mut books = Books::default();
    books.enter(Place::default(), &submitted(20, COMMAND));
    books.enter(Place::default(), &leased(20));
    books.enter(Place::default(), &Record::Node { node: A, name: "a".into(), boot: Boot(1) });
    books.enter(Place::default(), &done(A, &[(0, 20)]));
    books.enter(Place::default(), &end);
    books.wrong("a segment is missing".into());
    assert!(!books.close("farm").only(&[JOB]).unwrap().holds);
}

/// More units, of one content.
fn grown(units: u64, end: bool) -> Record {
    let chunks = vec![GrownChunk { hash: ContentHash([5; 32]), units, cost: 1 }];
    Record::Grown { job: JOB, chunks, state: "null".into(), end }
}

#[test]
fn units_that_a_program_names_count_like_others() {
    let named = [submitted(0, COMMAND), leased(0), grown(2, false), leased(2), ran(&[(0, None), (1, None)])];
    assert_eq!(sound(&named, Completion::NotEnded).jobs[0].units_total, 2);
    let rest = [grown(1, true), leased(3), ran(&[(2, None)]), ended(JobState::Finished, 3, 0, &[])];
    assert_eq!(sound(&[&named[..], &rest].concat(), Completion::Complete).jobs[0].units_done, 3);
    let none = Record::Grown { job: JOB, chunks: Vec::new(), state: "null".into(), end: true };
    sound(&[submitted(0, COMMAND), none, ended(JobState::Finished, 0, 0, &[])], Completion::Complete);
    sound(&[&named[..], &[ended(JobState::Cancelled, 2, 0, &[])]].concat(), Completion::Complete);
    let beyond = [&named[..4], &[ran(&[(0, None), (1, None), (2, None)])]].concat();
    broken(&beyond, Some((2, 3)), "outside of the space");
    broken(&[submitted(2, COMMAND), grown(1, false)], None, "units that it cannot have");
}

#[test]
fn a_job_that_ended_before_its_program_did_is_found() {
    let named = [submitted(0, COMMAND), leased(0), grown(2, false), leased(2), ran(&[(0, None), (1, None)])];
    let early = [&named[..], &[ended(JobState::Finished, 2, 0, &[])]].concat();
    broken(&early, None, "before its program had named its last unit");
}
