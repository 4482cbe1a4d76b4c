//! The bytes of `docs/journal.md`: what is shown there stands in `tests/golden/journal-v1` too, and is what this
//! version writes. A change of what lies on disks needs a new format version or a new kind of record beside it.
//!
//! After a deliberate change: `STARFARM_WRITE_GOLDEN=1 cargo test -p starfarm-protocol --test journal_golden`,
//! then put the new bytes into the page.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::job::{FailedUnit, JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{Frame, MARK, Place, SEAL};
use starfarm_protocol::journal::record::{Ended, GrownChunk, JobTotals, NodeMark};
use starfarm_protocol::journal::segment::{Head, Part};
use starfarm_protocol::journal::synced;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::terms::{Limit, Terms};
use starfarm_protocol::trust::{Share, Untrue};
use starfarm_protocol::wire::{CommandUnit, FailReason, Outputs, Stream};

const FARM: FarmId = FarmId([0x66; 16]);

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn hex(bytes: &[u8], a_line: usize) -> String {
    let mut text = String::new();
    for line in bytes.chunks(a_line) {
        let pairs: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", pairs.join(" ")).unwrap();
    }
    text
}

/// Compares `text` with the file of that name, and the file with the page.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = top().join("tests/golden/journal-v1").join(format!("{name}.hex"));
    if std::env::var_os("STARFARM_WRITE_GOLDEN").is_some() {
        return fs::write(path, text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), text, "{name}: the bytes on disks have changed");
    let page = fs::read_to_string(top().join("docs/journal.md")).unwrap();
    assert!(page.contains(&format!("```text\n{text}```")), "{name}: docs/journal.md shows other bytes");
}

fn outcome(failed: Option<FailReason>) -> CommandUnit {
    let outputs =
        Outputs { files: None, stdout: Stream::Inline(b"hi\n".to_vec()), stderr: Stream::Inline(vec![]) };
    CommandUnit { units: 1, failed, code: failed.map_or(0, |_| 2), duration_us: 1_500, outputs }
}

fn terms() -> Terms {
    Terms {
        after: vec![JobId(1), JobId(300)],
        after_any: vec![JobId(8)],
        labels: [("project".to_owned(), "x".to_owned())].into(),
        max_nodes: Some(4),
        storage_limit: None,
        monitor: None,
    }
}

fn records() -> Vec<Record> {
    let (job, node, boot) = (JobId(1), NodeId(2), Boot(5));
    let attempt = Attempt::before_epoch(Epoch(3));
    let facts = JobFacts {
        job,
        spec: ContentHash([0xaa; 32]),
        name: "pins".into(),
        user: "ada".into(),
        units: 10_000,
        work: WorkFacts::search(Stop::AllTargets, 2),
        sizing: Sizing::TargetUs(1_000_000),
        max_failures: MaxFailures::Usual,
        speculative: true,
        at_us: 1_700_000_000_000_000,
    };
    let totals = JobTotals { decomposed: 9, submitted_us: 7, ended_us: Some(8), ..JobTotals::default() };
    let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
    let (state, abandoned) = (JobState::Cancelled, vec![(9_000, 10_000)]);
    vec![
        Record::Epoch { epoch: Epoch(3), at_us: 1_700_000_000_000_000 },
        Record::Submitted(facts),
        Record::State { job, state: JobState::Paused, why: Some("failures".to_owned().into()) },
        Record::Moved { job, place: 0 },
        Record::Leased { job, mark: 4_096 },
        Record::Done { job, node, pieces: vec![(100, 200), (300, 301)], hits: vec![(150, 1)] },
        Record::Ran {
            job,
            attempt,
            node,
            units: vec![(7, outcome(None)), (8, outcome(Some(FailReason::Exit)))],
        },
        Record::Tried { job, unit: 8, attempt, node },
        Record::Died { job, unit: 8, node, boot },
        Record::Pardoned { node, boot },
        Record::Failed { job, unit: 8, failed },
        Record::Retried { job, units: vec![(8, 9)] },
        Record::Ended(Ended { job, state, done: 8_999, failed: 1, abandoned, totals }),
        Record::Deleted { job },
        Record::Node { node, name: "west".into(), boot },
        Record::Mark { node, mark: NodeMark::Drained },
        Record::Conflict { job, lo: 100, hi: 200, node },
        Record::Rerun { job, units: vec![(8, 9)] },
        Record::Trust { job, check: Share::of_millionths(10_000).unwrap(), planted: vec![(77, 1), (5, 3)] },
        Record::Checked { job, units: 1_000 },
        Record::Untrue {
            job,
            untrue: Untrue { unit: 77, node, why: Distrust::MissedHit, against: Some(NodeId(8)) },
        },
        Record::Doubtful { job, node, units: 1_000 },
        Record::Limited { job, limit: Limit::StorageLimit(Some(1_000)) },
        Record::Joined { node, slots: 4, at_us: 1_700_000_000_000_000 },
        Record::Periods { lost_us: 45_000_000, period_us: 10_000_000 },
        Record::FailedAlike { job, units: vec![(8, 10), (20, 21)], failed },
        Record::HitsPaged {
            job,
            floor: (150, 1),
            count: 70_000,
            targets: vec![(0, 2)],
            again: vec![(20, 30)],
        },
        Record::TargetsHit { job, from: 0, bits: vec![0x81, 0x02].into() },
        Record::Linked { job: JobId(9), terms: terms() },
        Record::Grown {
            job,
            chunks: vec![GrownChunk { hash: ContentHash([0xaa; 32]), units: 1_000, cost: 1_500_000 }],
            state: "[7]".into(),
            end: false,
        },
    ]
}

#[test]
fn the_body_of_each_kind_of_record() {
    let mut text = String::new();
    for record in records() {
        let mut body = Vec::new();
        record.encode(&mut body);
        write!(text, "{:2}: {}", record.kind(), hex(&body, usize::MAX)).unwrap();
    }
    golden("bodies", &text);
}

#[test]
fn the_files() {
    let head = Head { part: Part::Journal, farm: FARM, number: 1, first: 1, last: 0, chain: 0, seal: 0 };
    let bytes = head.to_bytes();
    assert!(bytes[68..].iter().all(|&byte| byte == 0));
    golden("head", &hex(&bytes[..68], 16));
    golden("synced", &hex(&synced::to_bytes(FARM, 2), 16));
    let (mut frames, mut place, mut body) = (Vec::new(), Place::default(), Vec::new());
    let mut put = |sequence, commit, kind, body: &[u8]| {
        Frame { sequence, commit, epoch: 3, kind, body }.write(&mut place, &mut frames);
    };
    for (record, sequence) in
        [records().remove(0), Record::Leased { job: JobId(1), mark: 4_096 }].iter().zip(1..)
    {
        body.clear();
        record.encode(&mut body);
        put(sequence, 1, record.kind(), &body);
    }
    put(2, 3, MARK, &[]);
    put(2, 3, SEAL, &2_u64.to_le_bytes());
    golden("frames", &hex(&frames, 16));
}
