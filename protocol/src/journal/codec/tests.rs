//! Every kind there and back; malformed bodies are refused.

use super::*;
use crate::devices::{DeviceNeeds, RunsOn, SlotKind};
use crate::journal::record::NOBODY;
use crate::reason::Distrust;
use crate::trust::{Share, Untrue};
use crate::wire::{Outputs, Stream};

fn totals() -> JobTotals {
    JobTotals {
        decomposed: 1,
        decomposed_units: 1 << 100,
        dispatched: 3,
        duplicate_units: 4,
        resent: 5,
        copies: 6,
        conflicts: 7,
        submitted_us: 8,
        started_us: Some(0),
        ended_us: None,
    }
}

fn of_trust() -> Vec<Record> {
    let (job, node) = (JobId(3), NodeId(7));
    vec![
        Record::Trust {
            job,
            check: Share::of_millionths(1_000_000).unwrap(),
            planted: vec![(u128::MAX, u32::MAX)],
        },
        Record::Checked { job, units: u128::MAX },
        Record::Untrue {
            job,
            untrue: Untrue { unit: u128::MAX, node, why: Distrust::Differs, against: None },
        },
        Record::Untrue {
            job,
            untrue: Untrue { unit: 0, node, why: Distrust::MissedHit, against: Some(NodeId(u32::MAX - 1)) },
        },
        Record::Doubtful { job, node, units: u128::MAX },
    ]
}

fn one_of_each() -> impl Iterator<Item = Record> {
    of_work().into_iter().chain(of_trust()).chain(of_links()).chain(of_checkpoints()).chain([of_growth()])
}

fn of_links() -> Vec<Record> {
    let terms = Terms {
        after: vec![JobId(1), JobId(u64::MAX)],
        after_any: vec![JobId(2)],
        labels: [("project", "x"), ("größe", "")].map(|(key, value)| (key.into(), value.into())).into(),
        max_nodes: Some(u32::MAX),
        storage_limit: None,
        monitor: None,
    };
    let metrics = vec![Metric::Cpu, Metric::RunQueue];
    let monitor = Monitored { period_us: 100_000, metrics, own_tree: false };
    let apart = Monitored { own_tree: true, ..monitor.clone() };
    let apart = Terms { monitor: Some(apart), ..terms.clone() };
    let monitored = Terms { monitor: Some(monitor), ..terms.clone() };
    let both = Terms { storage_limit: Some(7), ..monitored.clone() };
    let limited = Terms { storage_limit: Some(u64::MAX), ..terms.clone() };
    let terms = [terms, limited, monitored, both, apart, Terms::default()]
        .map(|terms| Record::Linked { job: JobId(3), terms });
    let nodes = [None, Some(1), Some(u32::MAX)].map(Limit::MaxNodes);
    let bytes = [None, Some(1), Some(u64::MAX)].map(Limit::StorageLimit);
    let limits = nodes.into_iter().chain(bytes).map(|limit| Record::Limited { job: JobId(3), limit });
    terms.into_iter().chain(limits).collect()
}

fn of_growth() -> Record {
    let chunk = GrownChunk { hash: ContentHash([2; 32]), units: u64::MAX, cost: u64::MAX };
    Record::Grown { job: JobId(7), chunks: vec![chunk], state: "[1]".into(), end: true }
}

fn of_checkpoints() -> Vec<Record> {
    let (job, node) = (JobId(7), NodeId(3));
    let failed = FailedUnit { reason: FailReason::Poison, code: Some(-1), node: Some(node) };
    vec![
        Record::Rating { node, started_us: 1, period: 2, periods: vec![0.5; 64] },
        Record::Rates { job, mean: 0.25, nodes: vec![(node, 1e9, 3)] },
        Record::DeviceRates { job, mean: 0.5, seats: vec![(node, SlotKind(3), 1e9, 7)] },
        Record::Totals { job, totals: totals() },
        Record::Given { job, node },
        Record::Joined { node, slots: u16::MAX, at_us: 1 << 60 },
        Record::Periods { lost_us: 15_000_000, period_us: 10_000_000 },
        Record::FailedAlike { job, units: vec![(0, 9), (20, 21)], failed },
    ]
}

fn of_work() -> Vec<Record> {
    let (job, node, boot, attempt) = (JobId(7), NodeId(3), Boot(u64::MAX), Attempt::before_epoch(Epoch(9)));
    let outcome = outcome();
    let together = CommandUnit { units: u64::MAX, failed: None, ..outcome.clone() };
    let facts = |work, sizing, max_failures| JobFacts {
        job,
        spec: ContentHash([1; 32]),
        name: "a name".into(),
        user: String::new(),
        units: u128::MAX,
        work,
        sizing,
        max_failures,
        speculative: true,
        at_us: 11,
    };
    let search = WorkFacts::search(Stop::FirstHit, 12);
    let own_facts = WorkFacts { first_units: 1, programs: true, ..search };
    let together_facts = WorkFacts { per: Per::Task, ..WorkFacts::command(2) };
    let on = RunsOn { cores: false, devices: Some(DeviceNeeds { opencl: (1, 2), ..DeviceNeeds::ANY }) };
    let device_facts = WorkFacts { on, ..search };
    let wide_facts = WorkFacts { needs: Resources::new(4, 1 << 40), ..together_facts };
    let failed = |code, node| FailedUnit { reason: FailReason::Poison, code, node };
    vec![
        Record::Epoch { epoch: Epoch(2), at_us: 1 << 60 },
        Record::Submitted(facts(search, Sizing::TargetUs(1), MaxFailures::Usual)),
        Record::Submitted(facts(WorkFacts::NOTHING, Sizing::Units(1), MaxFailures::Never)),
        Record::Submitted(facts(own_facts, Sizing::Units(1), MaxFailures::Never)),
        Record::Submitted(facts(together_facts, Sizing::Units(1), MaxFailures::Never)),
        Record::Submitted(facts(device_facts, Sizing::Units(1), MaxFailures::Never)),
        Record::Submitted(facts(wide_facts, Sizing::Units(1), MaxFailures::Never)),
        Record::Submitted(facts(WorkFacts::command(2), Sizing::Units(u64::MAX), MaxFailures::Units(3))),
        Record::State { job, state: JobState::Paused, why: Some("too much failed".to_owned().into()) },
        Record::Moved { job, place: 4 },
        Record::Leased { job, mark: u128::MAX },
        Record::Done {
            job,
            node,
            pieces: vec![(100, 200), (5, 6), (u128::MAX - 1, u128::MAX)],
            hits: vec![(150, 1), (5, 0)],
        },
        Record::Done { job, node: NOBODY, pieces: vec![], hits: vec![(u128::MAX, u32::MAX)] },
        Record::Ran { job, attempt, node, units: vec![(8, outcome.clone()), (2, outcome), (9, together)] },
        Record::Tried { job, unit: 1, attempt, node },
        Record::Died { job, unit: 1, node, boot },
        Record::Pardoned { node, boot },
        Record::Failed { job, unit: 1, failed: failed(Some(-1), Some(node)) },
        Record::Failed { job, unit: 1, failed: failed(None, None) },
        Record::Retried { job, units: vec![(0, 1)] },
        Record::Ended(Ended {
            job,
            state: JobState::Cancelled,
            done: 1,
            failed: 2,
            abandoned: vec![(3, 4)],
            totals: totals(),
        }),
        Record::Deleted { job },
        Record::Node { node, name: "west".into(), boot },
        Record::Mark { node, mark: NodeMark::Distrusted },
        Record::Conflict { job, lo: 1, hi: 2, node },
        Record::Rerun { job, units: vec![(0, 1)] },
        paged(job),
        Record::TargetsHit { job, from: 7, bits: vec![0xff; 300].into() },
    ]
}

fn outcome() -> CommandUnit {
    let outputs = Outputs {
        files: None,
        stdout: Stream::Inline(b"text".to_vec()),
        stderr: Stream::Uploaded { hash: ContentHash([5; 32]), kept: 6, total: 7 },
    };
    CommandUnit { units: 1, failed: Some(FailReason::Signal), code: 9, duration_us: 10, outputs }
}

fn paged(job: JobId) -> Record {
    let (targets, again) = (vec![(0, 9), (20, 21)], vec![(7, 1 << 100)]);
    Record::HitsPaged { job, floor: (u128::MAX, u32::MAX), count: u64::MAX, targets, again }
}

#[test]
fn every_kind_comes_back() {
    let mut kinds = Vec::new();
    for record in one_of_each() {
        let mut body = Vec::new();
        record.encode(&mut body);
        assert_eq!(Record::decode(record.kind(), &body), Ok(record.clone()));
        kinds.push(record.kind());
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (1..=23).chain(64..=75).collect::<Vec<_>>());
}

#[test]
fn a_body_that_is_cut_or_too_long_or_of_no_kind_is_malformed() {
    for record in one_of_each() {
        let mut body = Vec::new();
        record.encode(&mut body);
        for length in 0..body.len() {
            assert!(Record::decode(record.kind(), &body[..length]).is_err(), "{record:?} cut at {length}");
        }
        body.push(0);
        assert!(Record::decode(record.kind(), &body).is_err(), "{record:?} with a byte too many");
        assert!(Record::decode(200, &body).is_err());
    }
}

/// A task of a search costs few bytes: a farm of a million tasks a second writes them all.
#[test]
fn a_done_interval_in_the_middle_of_a_large_space_is_small() {
    let lo = 1_u128 << 59;
    let pieces = vec![(lo, lo + 1_000), (lo + 1_000, lo + 2_000)];
    let mut body = Vec::new();
    Record::Done { job: JobId(1), node: NodeId(5), pieces, hits: vec![] }.encode(&mut body);
    assert!(body.len() <= 18, "{} bytes", body.len());
}

/// A node of 2^32 is not node 0.
#[test]
fn a_node_or_a_code_that_is_too_large_is_malformed_and_not_cut_to_size() {
    for (code, node, is_one) in
        [(1, 1, true), (1 << 32, 1 << 32, true), ((1 << 32) + 1, 1, false), (1, (1 << 32) + 1, false)]
    {
        let mut body = vec![7, 8, FailReason::Exit as u8];
        put(&mut body, code);
        put(&mut body, node);
        assert_eq!(Record::decode(11, &body).is_ok(), is_one, "{code} {node}");
    }
}
