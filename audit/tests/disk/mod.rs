//! A state directory with a journal: of programs that ran, and the outputs that they left, or of a search.
#![allow(dead_code)] // each test file uses some of it

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use starfarm_audit::{Report, directory};
use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::job::{JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{Frame, MARK, Place, SEAL};
use starfarm_protocol::journal::record::{Ended, JobTotals};
use starfarm_protocol::journal::segment::{Head, Part};
use starfarm_protocol::outputs::again::{self, Again};
use starfarm_protocol::outputs::{Kind, Owner};
use starfarm_protocol::packed::{Entry, Label};
use starfarm_protocol::spec::Stop;
use starfarm_protocol::wire::{CommandUnit, Outputs, Stream};

pub const FARM: FarmId = FarmId([9; 16]);
pub const JOB: JobId = JobId(1);
const OF: (Attempt, NodeId) = (Attempt(1), NodeId(0));
const SPEC: &[u8] = b"a specification";

/// What unit 5 wrote to its standard output.
pub fn long() -> Vec<u8> {
    vec![7; 600]
}

/// What a unit wrote.
fn outcome(unit: u128) -> (u128, CommandUnit) {
    let stdout = match unit {
        5 => Stream::Uploaded { hash: ContentHash::of(&long()), kept: 600, total: 600 },
        _ => Stream::Inline(vec![unit as u8; 20]),
    };
    let outputs = Outputs { files: None, stdout, stderr: Stream::Inline(vec![]) };
    (unit, CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs })
}

fn packed(path: &PathBuf, label: Label, body: &[u8]) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let entry = Entry::new(file.metadata().unwrap().len(), label, body);
    file.write_all(&entry.header()).unwrap();
    file.write_all(body).unwrap();
}

pub struct State {
    path: PathBuf,
    records: RefCell<Vec<Record>>,
    /// Units of each record that ran some.
    ran: Vec<[u128; 2]>,
    /// So many records are in the ledger, at most.
    retired: Cell<usize>,
}

/// As the ledger has it: what units wrote is left out.
fn short(record: &Record) -> Record {
    match record {
        Record::Ran { job, node, units, .. } => {
            let pieces = units.iter().map(|(unit, _)| (*unit, unit + 1)).collect();
            Record::Done { job: *job, node: *node, pieces, hits: Vec::new() }
        }
        other => other.clone(),
    }
}

/// Appends a record as a frame.
fn frame(record: &Record, place: &mut Place, bytes: &mut Vec<u8>) {
    let mut body = Vec::new();
    record.encode(&mut body);
    let sequence = place.sequence + 1;
    Frame { sequence, commit: sequence, epoch: 1, kind: record.kind(), body: &body }.write(place, bytes);
}

impl State {
    /// A job of which these units ran, two a record, by the node that is named; its contents are there.
    pub fn of(ran: &[(u64, [u128; 2])]) -> Self {
        let mut state = Self::begin(SPEC, WorkFacts::command(0), &[SPEC, &long()]);
        state.ran = ran.iter().map(|(_, units)| *units).collect();
        for units in &state.ran {
            state.records.borrow_mut().push(state.record(units));
        }
        state.end();
        state
    }

    /// A search whose specification this is, with these hits on record; its contents are there.
    pub fn search(spec: &[u8], hits: Vec<(u128, u32)>, contents: &[&[u8]]) -> Self {
        let state = Self::begin(spec, WorkFacts::search(Stop::Never, 2), contents);
        let done = Record::Done { job: JOB, node: NodeId(0), pieces: vec![(0, 6)], hits };
        state.records.borrow_mut().push(done);
        state.end();
        state
    }

    /// A job of six units, submitted and leased.
    fn begin(spec: &[u8], work: WorkFacts, contents: &[&[u8]]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("starfarm-audit-outputs-{}-{number}", std::process::id()));
        for folder in ["journal", "ledger", "outputs"] {
            std::fs::create_dir_all(path.join(folder)).unwrap();
        }
        std::fs::write(path.join("farm.json"), format!("{{\"farm\":\"{FARM}\",\"epoch\":1}}")).unwrap();
        for content in contents {
            packed(&path.join("blobs"), ContentHash::of(content).0, content);
        }
        let facts = JobFacts {
            job: JOB,
            spec: ContentHash::of(spec),
            name: "frames".into(),
            user: "ada".into(),
            units: 6,
            work,
            sizing: Sizing::Units(2),
            max_failures: MaxFailures::Usual,
            speculative: false,
            at_us: 5,
        };
        let records = vec![
            Record::Epoch { epoch: Epoch(1), at_us: 4 },
            Record::Node { node: NodeId(0), name: "a".into(), boot: Boot(1) },
            Record::Submitted(facts),
            Record::Leased { job: JOB, mark: 6 },
        ];
        Self { path, records: RefCell::new(records), ran: Vec::new(), retired: Cell::new(0) }
    }

    fn record(&self, units: &[u128]) -> Record {
        let units = units.iter().map(|unit| outcome(*unit)).collect();
        Record::Ran { job: JOB, attempt: OF.0, node: OF.1, units }
    }

    fn end(&self) {
        self.end_of(JOB, 6);
    }

    fn end_of(&self, job: JobId, done: u128) {
        let (abandoned, totals) = (Vec::new(), JobTotals::default());
        let ended = Ended { job, state: JobState::Finished, done, failed: 0, abandoned, totals };
        self.records.borrow_mut().push(Record::Ended(ended));
        self.write();
    }

    /// Writes the records, the older ones to the ledger.
    fn write(&self) {
        let records = self.records.borrow();
        let (old, new) = records.split_at(self.retired.get().min(records.len()));
        let (farm, last, chain, seal) = (FARM, old.len() as u64, 0, 0xABCD);
        let mut place = Place::default();
        for name in ["ledger/00000001.led", "journal/00000001.seg", "journal/00000002.seg"] {
            let _ = std::fs::remove_file(self.path(name));
        }
        if last > 0 {
            let mut bytes =
                Head { part: Part::Ledger, farm, number: 1, first: 1, last, chain, seal }.to_bytes();
            let mut in_short = Place::default();
            old.iter().for_each(|record| frame(&short(record), &mut in_short, &mut bytes));
            let sequence = in_short.sequence;
            Frame { sequence, commit: 1, epoch: 1, kind: SEAL, body: &last.to_le_bytes() }
                .write(&mut in_short, &mut bytes);
            std::fs::write(self.path("ledger/00000001.led"), bytes).unwrap();
            place = Place { sequence: last, chain: seal };
        }
        let number = 1 + u64::from(last > 0);
        let head =
            Head { part: Part::Journal, farm, number, first: last + 1, last: 0, chain: place.chain, seal: 0 };
        let mut bytes = head.to_bytes();
        new.iter().for_each(|record| frame(record, &mut place, &mut bytes));
        let sequence = place.sequence;
        Frame { sequence, commit: sequence + 1, epoch: 1, kind: MARK, body: &[] }
            .write(&mut place, &mut bytes);
        bytes.resize(bytes.len() + 65_536, 0);
        std::fs::write(self.path(&format!("journal/{number:08}.seg")), bytes).unwrap();
    }

    /// These units are wanted again, run again, and the job ends again.
    pub fn rerun_and_end(&self, units: &[u128]) {
        let again = units.iter().map(|unit| (*unit, unit + 1)).collect();
        let ran = self.record(units);
        self.records.borrow_mut().extend([Record::Rerun { job: JOB, units: again }, ran]);
        self.end();
    }

    /// The unit ran and wrote this much.
    fn record_long(&self, job: JobId, unit: u128, content: &[u8]) -> Record {
        let (hash, kept) = (ContentHash::of(content), content.len() as u64);
        packed(&self.path("blobs"), hash.0, content);
        let outputs = Outputs {
            files: None,
            stdout: Stream::Uploaded { hash, kept, total: kept },
            stderr: Stream::Inline(vec![]),
        };
        let units = vec![(unit, CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs })];
        Record::Ran { job, attempt: OF.0, node: OF.1, units }
    }

    /// The unit is wanted again, runs again and writes this much, and the job ends again.
    pub fn rerun_long_and_end(&self, unit: u128, content: &[u8]) {
        let ran = self.record_long(JOB, unit, content);
        let again = Record::Rerun { job: JOB, units: vec![(unit, unit + 1)] };
        self.records.borrow_mut().extend([again, ran]);
        self.end();
    }

    /// Job 2 beside it, whose one unit wrote this much.
    pub fn beside(&self, content: &[u8]) {
        let job = JobId(2);
        let ran = self.record_long(job, 0, content);
        let facts = self.records.borrow().iter().find_map(|record| match record {
            Record::Submitted(facts) => Some(JobFacts { job, units: 1, ..facts.clone() }),
            _ => None,
        });
        let submitted = Record::Submitted(facts.unwrap());
        self.records.borrow_mut().extend([submitted, Record::Leased { job, mark: 1 }, ran]);
        self.end_of(job, 1);
    }

    /// Flips a bit of the last byte of a file.
    pub fn flip_last(&self, name: &str) {
        let mut bytes = std::fs::read(self.path(name)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn outputs(&self, job: JobId) -> PathBuf {
        self.path(&format!("outputs/{}.outputs", job.0))
    }

    /// The journal's number of the record that ran units as the `which`th, from 1 on.
    pub fn sequence(&self, which: usize) -> u64 {
        4 + which as u64
    }

    /// Keeps what the records ran, as the file of that job of that farm.
    pub fn keep(&self, farm: FarmId, job: JobId, which: &[usize]) {
        let owner = Owner::new(farm, job);
        for &which in which {
            let (units, sequence) = (self.ran[which - 1].map(outcome), self.sequence(which));
            let (body, cut) = owner.body(sequence, OF, &units);
            packed(&self.outputs(job), owner.label(sequence, Kind::Outputs, 2, cut), &body);
        }
    }

    /// Appends a batch to the job's file.
    pub fn append(&self, label: Label, body: &[u8]) {
        packed(&self.outputs(JOB), label, body);
    }

    /// Records up to this one are in the ledger, without what units wrote.
    pub fn retire(&self, sequence: u64) {
        self.retired.set(sequence as usize);
        self.write();
    }

    /// These units of the job were last wanted again by these records.
    pub fn again(&self, farm: FarmId, wanted: &[(u64, (u128, u128))]) {
        let mut known = Again::default();
        for (sequence, units) in wanted {
            known.want(*sequence, *units);
        }
        let bytes = again::to_bytes(farm, &BTreeMap::from([(JOB, known)]));
        std::fs::write(self.path("outputs/again"), bytes).unwrap();
    }

    pub fn audit(&self) -> Report {
        self.audit_of(&[])
    }

    /// The audit of these jobs alone.
    pub fn audit_of(&self, jobs: &[JobId]) -> Report {
        directory(&self.path, Some(jobs)).unwrap().only(jobs).unwrap()
    }

    pub fn without_outputs(&self) -> Report {
        directory(&self.path, None).unwrap()
    }

    /// What is lost: job, units, and what became of them.
    pub fn lost(&self) -> Vec<(u64, u128, u128, OutputLoss)> {
        let report = self.audit();
        let outputs = report.outputs.unwrap();
        assert_eq!(report.holds, outputs.lost.is_empty() && outputs.contents.is_empty());
        outputs.lost.iter().map(|lost| (lost.job.0, lost.lo.0, lost.hi.0, lost.what)).collect()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
