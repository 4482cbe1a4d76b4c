//! Outputs that are paged, replayed, torn, damaged and deleted.

use starfarm_protocol::admin::{LostOutputs, OutputLoss};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::packed::{Entry, Found};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::{FailReason, Outputs, Stream};

use super::*;
use crate::store::packed::PackedFile;

mod again;
mod lost;

const JOB: JobId = JobId(1);
pub(crate) const FARM: FarmId = FarmId([6; 16]);

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("starfarm-outputs-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }

    pub(crate) fn open(&self, replayed_after: u64) -> OutputStore {
        OutputStore::open(&self.0, FARM, replayed_after, u64::MAX).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self) -> PathBuf {
        self.0.join("1.outputs")
    }
}

impl OutputStore {
    /// Sequence of the last record of `job` that is here; 0: none is.
    fn last_sequence(&mut self, job: JobId) -> io::Result<u64> {
        Ok(self.job(job, false)?.map_or(0, |file| file.last))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Four units that wrote different lengths, in the batch of record `sequence`.
pub(crate) fn units(sequence: u64) -> Vec<(u128, CommandUnit)> {
    let unit = |i: u64| CommandUnit {
        units: 1,
        failed: None,
        code: 0,
        duration_us: i,
        outputs: Outputs {
            files: None,
            stdout: Stream::Inline(vec![i as u8; i as usize % 50]),
            stderr: Stream::Inline(vec![]),
        },
    };
    (sequence * 4..sequence * 4 + 4).map(|i| (u128::from(i), unit(i))).collect()
}

fn append(store: &mut OutputStore, sequences: impl IntoIterator<Item = u64>) {
    for sequence in sequences {
        store.append(sequence, JOB, (Attempt(7), NodeId(3)), &units(sequence)).unwrap();
    }
}

/// The batches of a file.
fn entries(path: &Path) -> Vec<Entry> {
    let file = PackedFile::look(path).unwrap();
    let entry = |found| match found {
        Found::Entry(entry) => entry,
        other => panic!("{other:?}"),
    };
    file.scan(0).map(Result::unwrap).map(entry).collect()
}

/// What is lost of the units of `owed`, where all contents are whole.
fn lost(store: &mut OutputStore, owed: (u128, u128)) -> Vec<(u128, u128, OutputLoss)> {
    let owed: UnitSet = [owed].into_iter().collect();
    let lost = store.snapshot(JOB).unwrap().lost(&owed, false, |_| Ok(None)).unwrap();
    lost.iter().map(|&LostOutputs { lo, hi, what, .. }| (lo.0, hi.0, what)).collect()
}

/// All units, read by pages of `take`.
fn all(store: &mut OutputStore, take: u64) -> Vec<(u128, CommandUnit)> {
    let mut units = Vec::new();
    loop {
        let Page { outputs: page, damaged: 0, more } = store.page(JOB, units.len() as u64, take).unwrap()
        else {
            panic!("damage")
        };
        assert!(
            page.iter().all(|output| output.stored.attempt == Attempt(7) && output.stored.node == NodeId(3))
        );
        units.extend(page.into_iter().map(|output| (output.stored.unit, output.stored.outcome)));
        if !more {
            return units;
        }
    }
}

fn expected(sequences: impl IntoIterator<Item = u64>) -> Vec<(u128, CommandUnit)> {
    sequences.into_iter().flat_map(units).collect()
}

#[test]
fn pages_hold_every_output_once_also_after_a_start() {
    let scratch = Scratch::new("pages");
    let mut store = scratch.open(0);
    append(&mut store, 1..101);
    for mut store in [store, scratch.open(0), scratch.open(100)] {
        for take in [1, 6, 64, 65, 1_000] {
            assert_eq!(all(&mut store, take), expected(1..101), "{take}");
        }
        assert_eq!(store.page(JOB, 400, 9).unwrap(), Page::default());
        assert_eq!(store.page(JOB, 398, 9).unwrap().outputs.len(), 2);
        assert_eq!(store.last_sequence(JOB).unwrap(), 100);
        assert!(store.take_notes().is_empty());
        let index = &store.jobs[&JOB].index;
        assert_eq!(index.len(), 400 / 64 + 1, "an index of few places");
    }
}

/// One file that could not be read hid what all jobs had found.
#[test]
fn a_file_that_cannot_be_read_hides_no_other_job_from_who_looks() {
    let scratch = Scratch::new("unreadable");
    drop(scratch.open(0));
    fs::create_dir(scratch.file()).unwrap();
    let mut store = OutputStore::look(&scratch.0, FARM, u64::MAX);
    let other = JobId(JOB.0 + 1);
    for (sequence, job) in [(1, JOB), (2, other), (3, JOB)] {
        let record = Record::Ran { job, attempt: Attempt(1), node: NodeId(1), units: units(sequence) };
        store.take(sequence, &record).unwrap();
    }
    let told = store.page(JOB, 0, 9).unwrap_err().to_string();
    assert!(told.contains(scratch.file().to_str().unwrap()), "{told}");
    assert_eq!(store.page(other, 0, 9).unwrap().outputs.len(), 4);
}

#[test]
fn a_record_that_is_replayed_counts_once() {
    let scratch = Scratch::new("replay");
    append(&mut scratch.open(0), 1..6);
    let mut store = scratch.open(2);
    append(&mut store, 3..9);
    assert_eq!(all(&mut store, 5), expected(1..9));
}

#[test]
fn a_file_cut_at_any_byte_is_whole_after_the_replay() {
    let scratch = Scratch::new("torn");
    append(&mut scratch.open(0), 1..5);
    let bytes = fs::read(scratch.file()).unwrap();
    let synced = fs::read(scratch.file()).unwrap().len() / 3;
    for length in synced..bytes.len() {
        fs::write(scratch.file(), &bytes[..length]).unwrap();
        let mut store = scratch.open(1);
        append(&mut store, 2..7);
        assert_eq!(all(&mut store, 100), expected(1..7), "{length}");
        let notes = store.take_notes();
        assert!(notes.len() <= 1 && notes.iter().all(|note| note.contains("cut off")), "{notes:?}");
        store.sync_all().unwrap();
        assert_eq!(all(&mut scratch.open(6), 100), expected(1..7));
    }
}

#[test]
fn what_was_not_synced_may_lack_a_piece_in_its_middle() {
    let scratch = Scratch::new("holes");
    append(&mut scratch.open(0), 1..9);
    let bytes = fs::read(scratch.file()).unwrap();
    let second = entries(&scratch.file())[0].end() as usize;
    for at in (second..bytes.len()).step_by(5) {
        let mut bytes = bytes.clone();
        let end = bytes.len().min(at + 40);
        bytes[at..end].fill(0);
        fs::write(scratch.file(), &bytes).unwrap();
        let mut store = scratch.open(1);
        append(&mut store, 2..11);
        assert_eq!(all(&mut store, 100), expected(1..11), "{at}");
    }
}

#[test]
fn damage_is_met_by_whoever_reads_there_and_the_rest_can_be_had() {
    let scratch = Scratch::new("damage");
    append(&mut scratch.open(0), 1..41);
    let bytes = fs::read(scratch.file()).unwrap();
    for (batch, entry) in (0_u64..39).zip(entries(&scratch.file())) {
        // A header, by which four units become one place.
        for (at, lost) in [(entry.at + 9, 1)] {
            let mut bytes = bytes.clone();
            bytes[at as usize] ^= 1;
            fs::write(scratch.file(), &bytes).unwrap();
            let mut store = scratch.open(100);
            let before = batch * 4;
            if before > 0 {
                assert_eq!(store.page(JOB, 0, before).unwrap().outputs.len() as u64, before);
            }
            for (skip, take) in [(before, 3), (before.saturating_sub(1), 2), (before + lost - 1, 1)] {
                let page = store.page(JOB, skip, take).unwrap();
                let damaged = (before + lost).min(skip + take) - before.max(skip);
                assert_eq!(
                    (page.damaged, page.outputs.len() as u64 + damaged),
                    (damaged, take),
                    "{skip} {take}"
                );
            }
            let Page { outputs: rest, damaged: 0, more } = store.page(JOB, before + lost, 1_000).unwrap()
            else {
                panic!("damage")
            };
            let rest: Vec<_> =
                rest.into_iter().map(|output| (output.stored.unit, output.stored.outcome)).collect();
            assert!(rest == expected(batch + 2..41) && !more, "{batch}: {} behind it", rest.len());
            assert_eq!(store.take_notes().len(), usize::from(lost == 1));
            append(&mut store, 40..42);
            assert_eq!(store.last_sequence(JOB).unwrap(), 41);
        }
    }
}

#[test]
fn more_jobs_than_files_may_be_open() {
    let scratch = Scratch::new("many");
    let mut store = scratch.open(0);
    let jobs = OPEN_MAX as u64 + 20;
    for round in 1..3 {
        for job in 1..=jobs {
            store.append(round, JobId(job), (Attempt(7), NodeId(3)), &units(round)).unwrap();
        }
    }
    assert!(store.jobs.values().filter(|job| job.file.is_some()).count() <= OPEN_MAX);
    for job in 1..=jobs {
        assert_eq!(store.page(JobId(job), 0, 100).unwrap().outputs.len(), 8);
    }
}

#[test]
fn a_deleted_job_leaves_nothing() {
    let scratch = Scratch::new("delete");
    let mut store = scratch.open(0);
    for job in 1..5 {
        store.append(job, JobId(job), (Attempt(7), NodeId(3)), &units(job)).unwrap();
    }
    store.delete(JobId(2)).unwrap();
    store.delete(JobId(9)).unwrap();
    assert_eq!(store.page(JobId(2), 0, 9).unwrap(), Page::default());
    let mut store = scratch.open(9);
    store.delete(JobId(3)).unwrap();
    fs::write(scratch.0.join("notes.txt"), "mine").unwrap();
    store.retain_only(&HashSet::from([JobId(4)])).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["4.outputs", "notes.txt"]);
    assert_eq!(store.page(JobId(4), 0, 9).unwrap().outputs.len(), 4);
}

#[test]
fn a_file_of_something_else_is_set_aside() {
    let scratch = Scratch::new("aside");
    fs::create_dir_all(&scratch.0).unwrap();
    fs::write(scratch.file(), "mine").unwrap();
    let mut store = scratch.open(0);
    append(&mut store, 1..3);
    assert_eq!(all(&mut store, 9), expected(1..3));
    assert_eq!(fs::read(scratch.0.join("1.outputs.damaged-1")).unwrap(), b"mine");
    assert!(store.take_notes()[0].contains("set aside"));
}

/// A person gave up the journal's end: its numbers are given again, to other records.
#[test]
fn what_lies_behind_the_end_of_the_journal_is_cut_off_and_its_numbers_are_free() {
    let scratch = Scratch::new("ahead");
    let mut store = scratch.open(0);
    append(&mut store, 1..10);
    store.sync_all().unwrap();
    drop(store);
    let mut store = OutputStore::open(&scratch.0, FARM, 0, 5).unwrap();
    assert_eq!(store.last_sequence(JOB).unwrap(), 5);
    append(&mut store, 6..8);
    assert_eq!(store.last_sequence(JOB).unwrap(), 7);
    let outputs = store.page(JOB, 0, 1_000).unwrap().outputs;
    assert_eq!(outputs.len(), 7 * 4);
}

#[test]
fn what_a_failed_run_wrote_counts_no_more_once_its_unit_is_wanted_again() {
    let scratch = Scratch::new("retried");
    let failed = |unit: u128| {
        let mut units = units(0);
        units[0].0 = unit;
        units[0].1.failed = Some(FailReason::Exit);
        units.truncate(1);
        units
    };
    let ran = |units| Record::Ran { job: JOB, attempt: Attempt(7), node: NodeId(3), units };
    let good = ran(vec![(5, units(0)[1].1.clone())]);
    let records = [
        ran(failed(4)),
        good,
        ran(failed(9)),
        Record::Retried { job: JOB, units: vec![(4, 5)] },
        ran(failed(4)),
    ];
    let mut store = scratch.open(0);
    let take_all = |store: &mut OutputStore| {
        for (sequence, record) in (1..).zip(&records) {
            store.take(sequence, record).unwrap();
        }
    };
    take_all(&mut store);
    drop(store);
    // After a start, and after one that replays all of it.
    for mut store in [scratch.open(5), scratch.open(0)] {
        take_all(&mut store);
        for take in [1, 9] {
            let pages = (0..).map_while(|skip| {
                Some(store.page(JOB, skip, take).unwrap().outputs).filter(|page| !page.is_empty())
            });
            let outputs: Vec<_> = pages.map(|page| (page[0].stored.unit, page[0].superseded)).collect();
            assert_eq!(outputs, [(4, true), (5, false), (9, false), (4, false)], "{take}");
        }
    }
}

#[test]
fn a_file_of_another_job_is_set_aside() {
    let scratch = Scratch::new("swapped");
    append(&mut scratch.open(0), 1..4);
    fs::rename(scratch.file(), scratch.0.join("2.outputs")).unwrap();
    let mut store = scratch.open(3);
    assert_eq!(store.page(JobId(2), 0, 9).unwrap(), Page::default());
    let notes = store.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("2.outputs.damaged-1"), "{notes:?}");
}

#[test]
fn units_whose_output_was_cut_are_counted_also_after_a_start() {
    let scratch = Scratch::new("cut");
    let cut = |kept, total| {
        let mut unit = units(0).swap_remove(0);
        unit.1.outputs.stderr = Stream::Uploaded { hash: ContentHash([1; 32]), kept, total };
        vec![unit]
    };
    let mut store = scratch.open(0);
    for (sequence, (kept, total)) in (1..).zip([(5, 5), (5, 9), (1, 600)]) {
        store.append(sequence, JOB, (Attempt(7), NodeId(3)), &cut(kept, total)).unwrap();
    }
    for mut store in [store, scratch.open(3)] {
        assert_eq!((store.cut(JOB).unwrap(), store.cut(JobId(2)).unwrap()), (2, 0));
    }
}

/// A unit's first run is run 1, whatever its dispatch was called, also after a start.
#[test]
fn runs_of_a_unit_are_numbered() {
    let scratch = Scratch::new("runs");
    let mut store = scratch.open(0);
    let tried = |unit| Record::Tried { job: JOB, unit, attempt: Attempt(9), node: NodeId(3) };
    let failed = |unit: u128| {
        let (_, outcome) = units(1).remove(0);
        (unit, CommandUnit { failed: Some(FailReason::Exit), code: 1, ..outcome })
    };
    let ran = |unit| Record::Ran {
        job: JOB,
        attempt: Attempt(1 << 41),
        node: NodeId(3),
        units: vec![failed(unit)],
    };
    let records = [
        tried(5),
        ran(4),
        tried(5),
        ran(5),
        Record::Retried { job: JOB, units: vec![(4, 6)] },
        tried(4),
        ran(4),
        ran(5),
    ];
    let runs = |store: &mut OutputStore| -> Vec<(u128, u64, bool)> {
        let page = store.page(JOB, 0, 100).unwrap();
        page.outputs.iter().map(|output| (output.stored.unit, output.run, output.superseded)).collect()
    };
    for (sequence, record) in (1..).zip(&records) {
        store.take(sequence, record).unwrap();
        // Asked in between too: what is remembered of runs goes on.
        assert!(sequence < 4 || runs(&mut store)[1].1 == 3, "{sequence}");
    }
    let expected = [(4, 1, true), (5, 3, true), (4, 3, false), (5, 4, false)];
    for mut store in [store, scratch.open(0), scratch.open(8)] {
        assert_eq!(runs(&mut store), expected);
    }
    let mut looking = OutputStore::look(&scratch.0, FARM, u64::MAX);
    for (sequence, record) in (1..).zip(&records) {
        looking.take(sequence, record).unwrap();
    }
    assert_eq!(runs(&mut looking), expected);
    // Of a file that ends early, and of none, the journal has the rest.
    let whole = fs::read(scratch.file()).unwrap();
    for length in (0..whole.len()).step_by(7) {
        fs::write(scratch.file(), &whole[..length]).unwrap();
        let mut looking = OutputStore::look(&scratch.0, FARM, u64::MAX);
        for (sequence, record) in (1..).zip(&records) {
            looking.take(sequence, record).unwrap();
        }
        assert_eq!(runs(&mut looking), expected, "{length}");
        for skip in 0..5 {
            let page = looking.page(JOB, skip, 1).unwrap();
            let unit = expected.get(skip as usize).map(|&(unit, ..)| unit);
            assert_eq!(
                (page.outputs.first().map(|output| output.stored.unit), page.more),
                (unit, skip < 3),
                "{skip}"
            );
        }
        assert_eq!(fs::metadata(scratch.file()).unwrap().len(), length as u64, "who looks cuts nothing off");
    }
}
