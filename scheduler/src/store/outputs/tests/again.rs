//! Files whose end is lost, or that are older copies of themselves, after units were run again: runs that do not count are
//! not taken for those that do.

use super::*;

const OWED: (u128, u128) = (4, 6);

fn ran(units: &[u128]) -> Record {
    let outcome = |unit: &u128| (*unit, units_of(*unit));
    Record::Ran { job: JOB, attempt: Attempt(7), node: NodeId(3), units: units.iter().map(outcome).collect() }
}

fn units_of(unit: u128) -> CommandUnit {
    units(unit as u64 / 4).swap_remove(unit as usize % 4).1
}

fn again(unit: u128) -> Record {
    Record::Retried { job: JOB, units: vec![(unit, unit + 1)] }
}

/// Units 4 and 5 ran; then unit 4 did again.
fn records() -> [Record; 3] {
    [ran(&[4, 5]), again(4), ran(&[4])]
}

fn take_all(store: &mut OutputStore, after: u64) {
    for (sequence, record) in (1..).zip(&records()).filter(|(sequence, _)| *sequence > after) {
        store.take(sequence, record).unwrap();
    }
}

/// As a checkpoint does.
fn save(store: &mut OutputStore) {
    store.sync_all().unwrap();
    if let Some(note) = store.due_note() {
        note.save().unwrap();
        store.is_saved(&note);
    }
}

/// After a checkpoint: the bytes of the file, and those of it after the first record.
fn written(name: &str) -> (Scratch, Vec<u8>, Vec<u8>) {
    let scratch = Scratch::new(name);
    let mut store = scratch.open(0);
    take_all(&mut store, 0);
    save(&mut store);
    let bytes = fs::read(scratch.file()).unwrap();
    let older = bytes[..entries(&scratch.file())[0].end() as usize].to_vec();
    (scratch, bytes, older)
}

/// Units whose output is there and counts.
fn counting(store: &mut OutputStore) -> Vec<u128> {
    let outputs = store.page(JOB, 0, 100).unwrap().outputs;
    outputs.iter().filter(|output| !output.superseded).map(|output| output.stored.unit).collect()
}

fn told(store: &mut OutputStore, words: &str) -> usize {
    let notes = store.take_notes();
    assert!(notes.iter().all(|note| !note.contains("  ")), "{notes:?}");
    notes.iter().filter(|note| note.contains(words)).count()
}

const OLDER: &str = "older copy";
const MISSED: [(u128, u128, OutputLoss); 1] = [(4, 5, OutputLoss::Missing)];

#[test]
fn the_first_run_does_not_count_where_the_end_with_the_second_is_lost_or_wiped() {
    let (scratch, bytes, older) = written("again-end");
    let mut damaged = Vec::new();
    for length in (older.len()..bytes.len()).step_by(9) {
        damaged.push(bytes[..length].to_vec());
        for byte in [0, 0xFF] {
            let mut wiped = bytes[..length].to_vec();
            wiped.resize(bytes.len(), byte);
            damaged.push(wiped);
        }
    }
    for file in damaged {
        fs::write(scratch.file(), &file).unwrap();
        let of_store = |store: &mut OutputStore| {
            // Damaged where the number of the unit is there still.
            let units: Vec<_> = lost(store, OWED).iter().map(|(lo, hi, _)| (*lo, *hi)).collect();
            assert_eq!((units, counting(store)), (vec![(4, 5)], vec![5]));
        };
        // Looking changes nothing, opening cuts.
        of_store(&mut OutputStore::look(&scratch.0, FARM, u64::MAX));
        let mut store = scratch.open(100);
        of_store(&mut store);
        let last = store.last_sequence(JOB).unwrap();
        assert_eq!(told(&mut store, OLDER), usize::from(last < 2), "it ends with record {last}");
    }
}

#[test]
fn an_older_copy_is_told_until_its_units_have_run_again() {
    let (scratch, _, older) = written("again-older");
    fs::write(scratch.file(), older).unwrap();
    let mut store = scratch.open(100);
    assert_eq!((lost(&mut store, OWED), told(&mut store, OLDER)), (MISSED.to_vec(), 1));
    store.take(101, &Record::Rerun { job: JOB, units: vec![(4, 5)] }).unwrap();
    store.take(102, &ran(&[4])).unwrap();
    assert!(lost(&mut store, OWED).is_empty());
    save(&mut store);
    for mut store in [scratch.open(102), OutputStore::look(&scratch.0, FARM, u64::MAX)] {
        assert_eq!((lost(&mut store, OWED), counting(&mut store)), (vec![], vec![5, 4]));
        assert_eq!(store.take_notes(), Vec::<String>::new());
    }
}

/// The note may be ahead of the checkpoint: it must not keep the journal from giving all again.
#[test]
fn what_the_journal_gives_again_comes_back_as_it_was() {
    let (scratch, bytes, older) = written("again-replay");
    for after in 0..2 {
        fs::write(scratch.file(), &older[..older.len() * after as usize]).unwrap();
        let mut store = scratch.open(after);
        take_all(&mut store, after);
        assert_eq!((lost(&mut store, OWED), told(&mut store, OLDER)), (vec![], 0));
        let outputs = store.page(JOB, 0, 100).unwrap().outputs;
        assert_eq!(outputs.iter().map(|output| output.run).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(fs::read(scratch.file()).unwrap(), bytes);
    }
}

#[test]
fn damage_in_the_middle_costs_what_it_hits_and_brings_no_first_run_back() {
    let (scratch, bytes, older) = written("again-middle");
    append(&mut scratch.open(3), 4..5);
    let whole = fs::read(scratch.file()).unwrap();
    let second = entries(&scratch.file())[2].at as usize;
    let of_store = |file: &[u8]| {
        fs::write(scratch.file(), file).unwrap();
        lost(&mut scratch.open(100), OWED)
    };
    let mut flipped = whole.clone();
    flipped[older.len() + 9] ^= 1;
    assert_eq!(of_store(&flipped), [], "the second run is there");
    flipped[older.len()..bytes.len()].fill(0);
    assert_eq!(of_store(&flipped), MISSED);
    let mut flipped = whole.clone();
    flipped[second + 9] ^= 1;
    assert_eq!(of_store(&flipped), MISSED);
}

/// A person gave up the journal's end: record 2 is another one now.
#[test]
fn the_note_forgets_what_was_given_up_of_the_journal() {
    let (scratch, _, _) = written("again-salvage");
    drop(OutputStore::open(&scratch.0, FARM, 0, 1).unwrap());
    let mut store = scratch.open(100);
    store.note = Note::open(&scratch.0, FARM, 100, &[], &mut Vec::new()).unwrap();
    assert!(store.note.of(JOB).is_some_and(|again| again.records().is_empty()));
}

#[test]
fn a_note_that_is_damaged_is_set_aside_and_what_the_files_say_is_noted_anew() {
    let (scratch, _, older) = written("again-damaged");
    let path = scratch.0.join("again");
    let saved = fs::read(&path).unwrap();
    fs::write(&path, &saved[1..]).unwrap();
    let mut store = scratch.open(100);
    assert_eq!(told(&mut store, "again.damaged-1"), 1);
    assert!(lost(&mut store, OWED).is_empty());
    save(&mut store);
    assert_eq!(fs::read(&path).unwrap(), saved);
    // Without one, as an older release leaves it, nothing is known.
    fs::remove_file(&path).unwrap();
    fs::write(scratch.file(), older).unwrap();
    let mut store = scratch.open(100);
    assert_eq!((lost(&mut store, OWED), store.take_notes()), (vec![], vec![]));
}

#[test]
fn deleted_jobs_leave_the_note_and_jobs_without_a_file_never_enter_it() {
    let (scratch, _, _) = written("again-deleted");
    let mut store = scratch.open(100);
    store.take(101, &Record::Rerun { job: JobId(2), units: vec![(0, 9)] }).unwrap();
    assert!(store.due_note().is_none() && store.note.of(JobId(2)).is_none());
    // A file that somebody removed is known of.
    fs::remove_file(scratch.file()).unwrap();
    store.take(102, &again(5)).unwrap();
    assert_eq!(store.note.of(JOB).unwrap().last(5), 102);
    store.retain_only(&HashSet::from([JOB])).unwrap();
    assert!(store.note.of(JOB).is_some());
    store.delete(JOB).unwrap();
    assert!(store.note.of(JOB).is_none() && store.due_note().is_some());
    let mut store = scratch.open(100);
    store.retain_only(&HashSet::new()).unwrap();
    assert!(store.note.of(JOB).is_none() && store.due_note().is_some());
}

/// Killed, and a byte of the first batch flipped.
#[test]
fn a_file_that_the_journal_gives_again_as_a_whole_is_not_called_missing() {
    for (after, words) in
        [(0, "All that belongs there"), (5, "All that belongs there"), (6, "still has of it")]
    {
        let scratch = Scratch::new("again-first");
        let mut store = scratch.open(0);
        if after < 6 {
            save(&mut store);
        }
        append(&mut store, 6..9);
        if after == 6 {
            save(&mut store);
        }
        drop(store);
        let mut bytes = fs::read(scratch.file()).unwrap();
        bytes[9] ^= 1;
        fs::write(scratch.file(), bytes).unwrap();
        let mut store = scratch.open(after);
        append(&mut store, after.max(5) + 1..9);
        let notes = store.take_notes();
        assert!(notes.len() == 1 && notes[0].contains(words), "{after}: {notes:?}");
        let lost = lost(&mut store, (24, 36));
        assert_eq!(lost.is_empty(), after < 6, "{lost:?}");
        assert_eq!(notes[0].contains("missing"), after == 6, "{notes:?}");
    }
}
