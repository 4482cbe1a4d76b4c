//! State directories made by hand: whole, moved to the ledger in part, and with one thing wrong each.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use starfarm_audit::{Report, directory};
use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::job::{JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{FRAME_BYTES, Frame, MARK, Place, SEAL};
use starfarm_protocol::journal::record::{Ended, JobTotals};
use starfarm_protocol::journal::segment::{HEAD_BYTES, Head, Part};
use starfarm_protocol::state::Completion;
use starfarm_protocol::units::Units;

const FARM: FarmId = FarmId([9; 16]);
const ZEROS: usize = 64 * 1024;

/// A state directory of this test's own.
struct State(PathBuf);

impl State {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("starfarm-audit-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("journal")).unwrap();
        std::fs::create_dir_all(path.join("ledger")).unwrap();
        Self(path)
    }

    fn journal(&self, number: u64) -> PathBuf {
        self.0.join(format!("journal/{number:08}.seg"))
    }

    fn ledger(&self, number: u64) -> PathBuf {
        self.0.join(format!("ledger/{number:08}.led"))
    }

    fn audit(&self) -> Report {
        directory(&self.0, None).unwrap()
    }

    #[track_caller]
    fn sound(&self) -> Report {
        let report = self.audit();
        assert!(report.holds, "{:#?}", report.violations);
        report
    }

    /// The audit must fail, with words that hold each of these.
    #[track_caller]
    fn wrong(&self, words: &[&str]) {
        let report = self.audit();
        assert!(!report.holds, "{words:?}: {report:#?}");
        let told: Vec<_> = report.violations.iter().map(|violation| violation.what.as_str()).collect();
        let told = told.join("\n");
        assert!(words.iter().all(|words| told.contains(words)), "{words:?}: {told}");
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the segments of a part, one after another.
struct Writer {
    part: Part,
    number: u64,
    place: Place,
    bytes: Vec<u8>,
}

impl Writer {
    fn journal() -> Self {
        Self { part: Part::Journal, number: 0, place: Place::default(), bytes: Vec::new() }
    }

    fn ledger() -> Self {
        Self { part: Part::Ledger, ..Self::journal() }
    }

    fn begin(&mut self, first: u64, last: u64, seal: u32) {
        self.number += 1;
        let (part, number, chain) = (self.part, self.number, self.place.chain);
        self.bytes = Head { part, farm: FARM, number, first, last, chain, seal }.to_bytes();
        if self.part == Part::Ledger {
            self.place.sequence = 0;
        }
    }

    fn frame(&mut self, sequence: u64, commit: u64, kind: u8, body: &[u8]) {
        Frame { sequence, commit, epoch: 1, kind, body }.write(&mut self.place, &mut self.bytes);
    }

    /// A commit of these, with a mark behind it.
    fn commit(&mut self, records: &[Record]) {
        let commit = self.place.sequence + 1;
        for record in records {
            let mut body = Vec::new();
            record.encode(&mut body);
            self.frame(self.place.sequence + 1, commit, record.kind(), &body);
        }
        self.frame(self.place.sequence, self.place.sequence + 1, MARK, &[]);
    }

    fn seal(&mut self) {
        self.frame(self.place.sequence, self.place.sequence + 1, SEAL, &[]);
    }

    fn write(&self, path: &Path) {
        let mut bytes = self.bytes.clone();
        bytes.resize(bytes.len() + ZEROS, 0);
        std::fs::write(path, bytes).unwrap();
    }
}

/// A job of 30 units from its submission to its end, in three commits.
fn records() -> [Vec<Record>; 3] {
    let job = JobId(3);
    let node = NodeId(0);
    let facts = JobFacts {
        job,
        spec: ContentHash([7; 32]),
        name: "keys".into(),
        user: "ada".into(),
        units: 30,
        work: WorkFacts::NOTHING,
        sizing: Sizing::Units(5),
        max_failures: MaxFailures::Usual,
        speculative: true,
        at_us: 5,
    };
    let done = |lo, hi| Record::Done { job, node, pieces: vec![(lo, hi)], hits: Vec::new() };
    let totals = JobTotals::default();
    let ended = Ended { job, state: JobState::Finished, done: 30, failed: 0, abandoned: Vec::new(), totals };
    [
        vec![
            Record::Epoch { epoch: Epoch(1), at_us: 4 },
            Record::Node { node, name: "a".into(), boot: Boot(1) },
            Record::Submitted(facts),
            Record::Leased { job, mark: 30 },
        ],
        vec![done(0, 10), done(20, 30)],
        vec![done(10, 20), Record::Ended(ended)],
    ]
}

/// Three sealed segments of a commit each, and an empty one. Each with its first and last record and its seal.
fn written(state: &State) -> Vec<(u64, u64, u32)> {
    let mut writer = Writer::journal();
    let mut segments = Vec::new();
    for records in records() {
        let first = writer.place.sequence + 1;
        writer.begin(first, 0, 0);
        writer.commit(&records);
        writer.seal();
        writer.write(&state.journal(writer.number));
        segments.push((first, writer.place.sequence, writer.place.chain));
    }
    writer.begin(writer.place.sequence + 1, 0, 0);
    writer.write(&state.journal(writer.number));
    segments
}

/// Moves the first `count` segments to the ledger, without deleting them.
fn moved(state: &State, count: usize) {
    let mut writer = Writer::ledger();
    for ((first, last, seal), records) in written(state).into_iter().zip(records()).take(count) {
        writer.begin(first, last, seal);
        writer.commit(&records);
        writer.seal();
        writer.write(&state.ledger(writer.number));
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_whole_journal_and_each_split_with_the_ledger_say_the_same() {
    let state = State::new();
    written(&state);
    let whole = state.sound();
    assert_eq!((whole.jobs[0].verdict, whole.records, whole.last_sequence), (Completion::Complete, 8, 8));
    assert_eq!((whole.farm.as_str(), whole.epoch), (FARM.to_string().as_str(), 1));
    for count in 1..=3 {
        let state = State::new();
        moved(&state, count);
        // Before the first is deleted, between, and when all have gone that may go.
        for number in 1..=count as u64 {
            assert_eq!(state.sound().jobs, whole.jobs, "{number} of {count}");
            std::fs::remove_file(state.journal(number)).unwrap();
        }
        assert_eq!(state.sound().jobs, whole.jobs, "{count}");
    }
}

#[test]
fn nothing_is_written_and_no_lock_is_taken() {
    let state = State::new();
    moved(&state, 1);
    let lock = std::fs::File::create(state.0.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let look = || {
        let files = ["journal", "ledger", ""].map(|folder| {
            let entries = std::fs::read_dir(state.0.join(folder)).unwrap().map(|entry| {
                let entry = entry.unwrap();
                (
                    entry.path(),
                    entry.metadata().unwrap().modified().unwrap(),
                    std::fs::read(entry.path()).ok(),
                )
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort_unstable();
            entries
        });
        format!("{files:?}")
    };
    let before = look();
    state.sound();
    assert!(before == look());
}

#[test]
fn a_missing_segment() {
    for number in 1..=3 {
        let state = State::new();
        written(&state);
        std::fs::remove_file(state.journal(number)).unwrap();
        let words = match number {
            1 => "records 1 to 4 are missing".to_owned(),
            _ => format!("segment {number} before it is missing"),
        };
        state.wrong(&[&words]);
    }
    let state = State::new();
    written(&state);
    std::fs::remove_file(state.journal(4)).unwrap();
    state.wrong(&["segment 4 of the journal is missing"]);
    // In the ledger and behind it.
    let state = State::new();
    moved(&state, 2);
    std::fs::remove_file(state.journal(1)).unwrap();
    std::fs::remove_file(state.journal(2)).unwrap();
    std::fs::remove_file(state.ledger(1)).unwrap();
    state.wrong(&["segment 1 before it is missing"]);
    let state = State::new();
    moved(&state, 1);
    std::fs::remove_file(state.journal(1)).unwrap();
    std::fs::remove_file(state.journal(2)).unwrap();
    state.wrong(&["records 5 to 6 are missing"]);
    let state = State::new();
    state.wrong(&["no segment"]);
}

#[test]
fn a_cut_chain() {
    // A segment of another history: the same numbers, another record.
    let state = State::new();
    written(&state);
    let other = State::new();
    let mut writer = Writer::journal();
    let mut records = records();
    records[0][0] = Record::Epoch { epoch: Epoch(1), at_us: 99 };
    for records in &records[..2] {
        writer.begin(writer.place.sequence + 1, 0, 0);
        writer.commit(records);
        writer.seal();
        writer.write(&other.journal(writer.number));
    }
    std::fs::copy(other.journal(2), state.journal(2)).unwrap();
    state.wrong(&["00000002.seg", "the chain is cut"]);
    // The same between ledger and journal.
    let state = State::new();
    moved(&state, 1);
    std::fs::remove_file(state.journal(1)).unwrap();
    std::fs::copy(other.journal(2), state.journal(2)).unwrap();
    state.wrong(&["does not follow record 4", "the chain is cut"]);
    // Swapped.
    let state = State::new();
    written(&state);
    std::fs::rename(state.journal(2), state.0.join("x")).unwrap();
    std::fs::rename(state.journal(3), state.journal(2)).unwrap();
    std::fs::rename(state.0.join("x"), state.journal(3)).unwrap();
    state.wrong(&["another segment"]);
}

#[test]
fn every_flipped_bit_of_a_synced_record_is_seen() {
    let state = State::new();
    written(&state);
    let path = state.journal(2);
    let bytes = std::fs::read(&path).unwrap();
    // All of the first record of the second segment, and the heads that are checked.
    for bit in (0..68 * 8).chain(HEAD_BYTES * 8..(HEAD_BYTES + FRAME_BYTES + 6) * 8).step_by(29) {
        change(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        state.wrong(&["00000002.seg"]);
        std::fs::write(&path, &bytes).unwrap();
    }
    state.sound();
    let state = State::new();
    moved(&state, 2);
    std::fs::remove_file(state.journal(1)).unwrap();
    std::fs::remove_file(state.journal(2)).unwrap();
    change(&state.ledger(1), |bytes| bytes[HEAD_BYTES + 50] ^= 1);
    state.wrong(&["00000001.led", "checksum"]);
}

#[test]
fn a_write_that_was_cut_short_is_a_note_and_hides_nothing_that_was_acknowledged() {
    let state = State::new();
    let mut writer = Writer::journal();
    writer.begin(1, 0, 0);
    let [start, first, last] = records();
    writer.commit(&start);
    writer.commit(&first);
    let synced = writer.bytes.len();
    writer.commit(&last);
    writer.bytes.truncate(synced + 20);
    writer.write(&state.journal(1));
    let report = state.sound();
    assert!(
        report.notes[0].contains("cut short") && report.notes[0].contains("record 6"),
        "{:?}",
        report.notes
    );
    let job = &report.jobs[0];
    assert_eq!((job.verdict, job.units_done), (Completion::NotEnded, Units(20)));
}

#[test]
fn a_journal_that_was_cut_short_afterwards() {
    let state = State::new();
    std::fs::write(state.0.join("farm.json"), format!("{{\"farm\":\"{FARM}\",\"epoch\":1}}")).unwrap();
    let mut writer = Writer::journal();
    writer.begin(1, 0, 0);
    let all = records();
    writer.commit(&all[0]);
    let first = writer.bytes.len();
    writer.commit(&all[1]);
    writer.write(&state.journal(1));
    let synced = state.0.join("journal/synced");
    std::fs::write(&synced, starfarm_protocol::journal::synced::to_bytes(FARM, 6)).unwrap();
    state.sound();
    // The last commit was zeroed: what is there looks whole.
    change(&state.journal(1), |bytes| bytes[first..].fill(0));
    state.wrong(&["ends with record 4", "records 5 to 6 are lost"]);
    std::fs::remove_file(&synced).unwrap();
    state.sound();
    change(&state.journal(1), |bytes| bytes.truncate(first + ZEROS - 1));
    state.wrong(&["shorter than it was made, after record 4"]);
}

#[test]
fn a_farm_that_never_started_has_nothing_to_audit() {
    let state = State::new();
    std::fs::write(state.journal(1), [0; 100]).unwrap();
    let report = state.sound();
    assert!(report.notes[0].contains("first start") && report.jobs.is_empty(), "{report:?}");
    std::fs::write(state.0.join("farm.json"), format!("{{\"farm\":\"{FARM}\",\"epoch\":1}}")).unwrap();
    state.wrong(&["its head is damaged"]);
}

#[test]
fn a_ledger_segment_that_is_not_finished_is_no_fault_as_long_as_the_journal_has_it() {
    let state = State::new();
    moved(&state, 2);
    change(&state.ledger(2), |bytes| bytes[HEAD_BYTES + 60..].fill(0));
    let report = state.sound();
    assert!(report.notes[0].contains("not finished") && report.jobs[0].verdict == Completion::Complete);
    std::fs::remove_file(state.journal(1)).unwrap();
    assert_eq!(state.sound().jobs, report.jobs, "the first is in the ledger");
    std::fs::remove_file(state.journal(2)).unwrap();
    state.wrong(&["00000002.led"]);
}

#[test]
fn a_segment_that_was_just_made_is_no_fault() {
    let state = State::new();
    let mut writer = Writer::journal();
    writer.begin(1, 0, 0);
    let all: Vec<_> = records().concat();
    writer.commit(&all);
    writer.write(&state.journal(1));
    for bytes in [Vec::new(), vec![0; 100], vec![0; HEAD_BYTES + ZEROS]] {
        std::fs::write(state.journal(2), bytes).unwrap();
        assert_eq!(state.sound().jobs[0].verdict, Completion::Complete);
    }
    // In use, although nothing says that it follows.
    writer.begin(9, 0, 0);
    writer.commit(&[Record::Epoch { epoch: Epoch(2), at_us: 9 }]);
    writer.write(&state.journal(2));
    state.wrong(&["no end"]);
}

#[test]
fn farm_and_epoch_must_be_those_of_the_directory() {
    let state = State::new();
    written(&state);
    let farm = |farm: FarmId, epoch: u64| format!("{{\"version\":1,\"farm\":\"{farm}\",\"epoch\":{epoch}}}");
    let path = state.0.join("farm.json");
    std::fs::write(&path, farm(FARM, 1)).unwrap();
    state.sound();
    std::fs::write(&path, farm(FARM, 2)).unwrap();
    state.wrong(&["farm.json knows of epoch 2, the records end in epoch 1"]);
    std::fs::write(&path, farm(FarmId([1; 16]), 1)).unwrap();
    state.wrong(&["of another farm"]);
    std::fs::write(&path, farm(FARM, 1)).unwrap();
    change(&state.journal(1), |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..64]);
        bytes[64..68].copy_from_slice(&crc.to_le_bytes());
    });
    state.wrong(&["format version 2"]);
}

#[test]
fn an_older_scheduler_that_writes_after_a_newer_one_is_seen() {
    let state = State::new();
    let mut writer = Writer::journal();
    writer.begin(1, 0, 0);
    writer.commit(&records().concat());
    let mut body = Vec::new();
    let record = Record::Deleted { job: JobId(77) };
    record.encode(&mut body);
    Frame { sequence: 9, commit: 9, epoch: 0, kind: record.kind(), body: &body }
        .write(&mut writer.place, &mut writer.bytes);
    writer.frame(10, 10, 63, &[]);
    writer.write(&state.journal(1));
    state.wrong(&["record 9 was written by epoch 0 after epoch 1", "record 10 of kind 63 cannot be read"]);
}

#[test]
fn what_is_no_state_directory_is_said_in_words() {
    let state = State::new();
    let nowhere = directory(&state.0.join("nowhere"), None).unwrap_err();
    assert!(nowhere.contains("has no journal"), "{nowhere:?}");
    let file = state.journal(1);
    std::fs::create_dir(&file).unwrap();
    assert!(directory(&state.0, None).unwrap_err().contains("cannot read"));
}
