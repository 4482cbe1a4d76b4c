//! Outputs that are lost, cut, swapped and damaged: each that is lost is told by its unit, and no other.

use super::*;

/// Six batches of four units each: units 4 to 27.
fn written(name: &str) -> (Scratch, Vec<u8>, Vec<Entry>) {
    let scratch = Scratch::new(name);
    append(&mut scratch.open(0), 1..7);
    let bytes = fs::read(scratch.file()).unwrap();
    let entries = entries(&scratch.file());
    (scratch, bytes, entries)
}

const ALL: (u128, u128) = (4, 28);

/// What is lost after the file became `bytes`; what can be read is what was written.
fn lost_of(scratch: &Scratch, bytes: &[u8]) -> Vec<(u128, u128, OutputLoss)> {
    fs::write(scratch.file(), bytes).unwrap();
    let mut store = scratch.open(100);
    let lost = lost(&mut store, ALL);
    let page = store.page(JOB, 0, 1_000).unwrap();
    let units: UnitSet =
        page.outputs.iter().map(|output| (output.stored.unit, output.stored.unit + 1)).collect();
    let missed: UnitSet = lost.iter().map(|&(lo, hi, _)| (lo, hi)).collect();
    let all: UnitSet = [ALL].into_iter().collect();
    assert_eq!(units, all.without(&missed), "what is not lost is given");
    for output in page.outputs {
        let of = super::units((output.stored.unit / 4) as u64).swap_remove(output.stored.unit as usize % 4);
        assert_eq!((output.stored.unit, output.stored.outcome), of);
    }
    lost
}

#[test]
fn a_flipped_byte_of_the_file_costs_its_unit_or_its_batch_and_is_told() {
    let (scratch, bytes, entries) = written("flipped");
    let (third, last) = (entries[2].at as usize, entries[5].at as usize);
    for at in (0..third).chain(last..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let lost = lost_of(&scratch, &damaged);
        let entry = entries.iter().rfind(|entry| entry.at <= at as u64).unwrap();
        let first = 4 * (1 + entries.iter().position(|other| other == entry).unwrap() as u128);
        let in_header = at as u64 - entry.at;
        match in_header {
            // Spare bytes.
            56..64 => assert_eq!(lost, [], "byte {at}"),
            // Of the last batch it is a torn tail.
            0..56 => assert_eq!(lost, [(first, first + 4, OutputLoss::Missing)], "byte {at}"),
            _ => {
                let units: u128 = lost.iter().map(|(lo, hi, _)| hi - lo).sum();
                assert!(units == 1 && (first..first + 4).contains(&lost[0].0), "byte {at}: {lost:?}");
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_deleted_or_emptied_is_told_from_there_on() {
    let (scratch, bytes, entries) = written("cut");
    for length in (0..bytes.len()).step_by(11).chain([1]) {
        let whole = entries.iter().take_while(|entry| entry.end() <= length as u64).count() as u128;
        let missing = (4 + 4 * whole, 28, OutputLoss::Missing);
        assert_eq!(lost_of(&scratch, &bytes[..length]), [missing], "{length}");
    }
    fs::remove_file(scratch.file()).unwrap();
    assert_eq!(lost(&mut scratch.open(100), ALL), [(4, 28, OutputLoss::Missing)]);
}

/// With more jobs than may be open it was the folder that could not be read, and no output was told.
#[test]
fn who_looks_where_the_folder_is_gone_misses_the_outputs_of_each_job() {
    let scratch = Scratch::new("no-folder");
    let mut store = OutputStore::look(&scratch.0, FARM, 0);
    for job in 2..OPEN_MAX as u64 + 3 {
        let record = Record::Ran { job: JobId(job), attempt: Attempt(7), node: NodeId(3), units: units(job) };
        store.take(job, &record).unwrap();
    }
    assert_eq!(lost(&mut store, ALL), [(4, 28, OutputLoss::Missing)]);
}

#[test]
fn a_file_that_is_cut_under_a_running_scheduler_loses_what_was_there_and_goes_on() {
    let (scratch, bytes, entries) = written("cut-live");
    let mut store = scratch.open(100);
    assert_eq!(lost(&mut store, ALL), []);
    for length in [entries[5].body() + 9, entries[3].at + 1] {
        File::options().write(true).open(scratch.file()).unwrap().set_len(length).unwrap();
        let first = if length > entries[4].at { 24 } else { 16 };
        assert_eq!(lost(&mut store, ALL), [(first, 28, OutputLoss::Missing)]);
        let page = store.page(JOB, 0, 1_000).unwrap();
        assert_eq!(page.outputs.len() as u128, first - 4);
    }
    append(&mut store, 101..102);
    for mut store in [store, scratch.open(101)] {
        assert_eq!(lost(&mut store, ALL), [(16, 28, OutputLoss::Missing)]);
        assert_eq!(lost(&mut store, (404, 408)), []);
    }
    assert!(bytes.len() as u64 > entries[5].at);
}

#[test]
fn batches_that_are_swapped_repeated_or_of_others_are_none() {
    let (scratch, bytes, entries) = written("swapped-batches");
    let piece = |at: usize| bytes[entries[at].at as usize..entries[at].end() as usize].to_vec();
    let rest = |from: usize| bytes[entries[from].at as usize..].to_vec();
    let all = |pieces: &[Vec<u8>]| pieces.concat();
    // The third before the second: the second comes too late.
    let swapped = all(&[piece(0), piece(2), piece(1), rest(3)]);
    assert_eq!(lost_of(&scratch, &swapped), [(8, 12, OutputLoss::Missing)]);
    let repeated = all(&[piece(0), piece(1), piece(0), rest(2)]);
    assert_eq!(lost_of(&scratch, &repeated), []);
    // A batch of another job, and of the same job of another farm, of the same record.
    let others = [(FARM, JobId(2)), (FarmId([7; 16]), JOB)];
    for (farm, job) in others {
        let there = Scratch::new("swapped-other");
        let mut store = OutputStore::open(&there.0, farm, 0, u64::MAX).unwrap();
        store.append(2, job, (Attempt(7), NodeId(3)), &units(2)).unwrap();
        let other = fs::read(there.0.join(format!("{}.outputs", job.0))).unwrap();
        let mixed = all(&[piece(0), other, rest(2)]);
        assert_eq!(lost_of(&scratch, &mixed), [(8, 12, OutputLoss::Missing)]);
    }
}

#[test]
fn files_of_two_jobs_or_two_farms_that_were_swapped_are_recognised() {
    let (scratch, bytes, _) = written("swapped-files");
    let there = Scratch::new("swapped-there");
    let mut store = OutputStore::open(&there.0, FarmId([7; 16]), 0, u64::MAX).unwrap();
    append(&mut store, 1..7);
    let other = fs::read(there.file()).unwrap();
    assert_ne!(other, bytes);
    fs::write(scratch.file(), &other).unwrap();
    let mut store = scratch.open(100);
    assert_eq!(lost(&mut store, ALL), [(4, 28, OutputLoss::Missing)]);
    let notes = store.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("another job's or farm's"), "{notes:?}");
    assert!(notes[0].contains("--missing-outputs"), "{notes:?}");
    assert_eq!(fs::read(scratch.0.join("1.outputs.damaged-1")).unwrap(), other, "nothing is overwritten");
    // Whoever only looks passes it over.
    fs::write(scratch.file(), &other).unwrap();
    let mut looking = OutputStore::look(&scratch.0, FARM, u64::MAX);
    assert_eq!(lost(&mut looking, ALL), [(4, 28, OutputLoss::Missing)]);
    assert_eq!(fs::read(scratch.file()).unwrap(), other);
}

#[test]
fn an_output_that_is_stored_anew_takes_the_place_of_the_lost_one() {
    let (scratch, mut bytes, entries) = written("anew");
    bytes[entries[1].body() as usize + 30] ^= 1;
    let unit = lost_of(&scratch, &bytes)[0].0;
    let mut store = scratch.open(100);
    let again = Record::Rerun { job: JOB, units: vec![(unit, unit + 1), (20, 21)] };
    store.take(101, &again).unwrap();
    // Not before it has run again.
    let now: Vec<u128> = lost(&mut store, ALL).iter().map(|lost| lost.0).collect();
    assert_eq!(now, [unit, 20]);
    let anew = |unit: u128| vec![(unit, super::units(0).swap_remove(1).1)];
    for (sequence, unit) in [(102, unit), (103, 20)] {
        store.append(sequence, JOB, (Attempt(9), NodeId(3)), &anew(unit)).unwrap();
    }
    for mut store in [store, scratch.open(103)] {
        assert_eq!(lost(&mut store, ALL), []);
        let page = store.page(JOB, 0, 1_000).unwrap();
        let of_20: Vec<_> = page.outputs.iter().filter(|output| output.stored.unit == 20).collect();
        let seen: Vec<_> = of_20.iter().map(|output| (output.superseded, output.run)).collect();
        assert_eq!(seen, [(true, 1), (false, 2)]);
    }
}

#[test]
fn the_unit_of_a_long_output_is_told_where_its_content_is_gone_or_damaged() {
    let scratch = Scratch::new("long");
    let mut store = scratch.open(0);
    let hash = |number| ContentHash([number; 32]);
    let long = |unit: u128| {
        let (_, mut outcome) = units(0).swap_remove(0);
        outcome.outputs.stderr = Stream::Uploaded { hash: hash(unit as u8), kept: 600, total: 600 };
        vec![(unit, outcome)]
    };
    for unit in 0..4 {
        store.append(unit as u64 + 1, JOB, (Attempt(7), NodeId(3)), &long(unit)).unwrap();
    }
    let loss = |asked: &ContentHash| {
        let of = |number| *asked == hash(number);
        Ok(match () {
            () if of(1) => Some(OutputLoss::Missing),
            () if of(3) => Some(OutputLoss::Damaged),
            () => None,
        })
    };
    let owed: UnitSet = [(0, 4)].into_iter().collect();
    let of = |lo: u128, what, superseded| LostOutputs { lo: Units(lo), hi: Units(lo + 1), what, superseded };
    let counting = [of(1, OutputLoss::Missing, false), of(3, OutputLoss::Damaged, false)];
    let mut lost = |all: bool| store.snapshot(JOB).unwrap().lost(&owed, all, loss).unwrap();
    assert_eq!([lost(false), lost(true)], [counting; 2]);
    // Once the units are wanted again, only who asks for all runs misses the contents of these.
    store.take(5, &Record::Rerun { job: JOB, units: vec![(0, 4)] }).unwrap();
    for (unit, sequence) in (0..4).zip(6..) {
        store.append(sequence, JOB, (Attempt(8), NodeId(3)), &units(0)[unit..=unit]).unwrap();
    }
    let mut lost = |all: bool| store.snapshot(JOB).unwrap().lost(&owed, all, loss).unwrap();
    assert_eq!(lost(false), []);
    assert_eq!(lost(true), [of(1, OutputLoss::Missing, true), of(3, OutputLoss::Damaged, true)]);
}

#[test]
fn a_file_of_the_release_before_is_read_and_goes_on_with_hashes() {
    let scratch = Scratch::new("before");
    fs::create_dir_all(&scratch.0).unwrap();
    let mut file = PackedFile::open(&scratch.file()).unwrap();
    for sequence in 1..4 {
        let mut body = Vec::new();
        for (unit, outcome) in units(sequence) {
            let mut bytes = [&unit.to_le_bytes()[..], &7_u64.to_le_bytes(), &3_u32.to_le_bytes()].concat();
            outcome.write(&mut bytes);
            body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            body.extend_from_slice(&bytes);
        }
        let label = [sequence, 4, 0, (JOB.0 + 1) << 8].map(u64::to_le_bytes).concat();
        file.append(label.try_into().unwrap(), &body).unwrap();
    }
    let mut store = scratch.open(3);
    append(&mut store, 4..6);
    for mut store in [store, scratch.open(5)] {
        assert_eq!(all(&mut store, 3), expected(1..6));
        assert_eq!(lost(&mut store, (4, 24)), []);
        assert!(store.take_notes().is_empty());
    }
    // A byte of it costs its batch.
    let mut bytes = fs::read(scratch.file()).unwrap();
    bytes[70] ^= 1;
    fs::write(scratch.file(), bytes).unwrap();
    assert_eq!(lost(&mut scratch.open(5), (4, 24)), [(4, 8, OutputLoss::Missing)]);
}

/// What was appended to it would be synced, and nobody could ever find it.
#[test]
fn a_file_that_is_deleted_or_replaced_before_it_was_synced_is_told_before_a_checkpoint() {
    let scratch = Scratch::new("unlinked");
    let mut store = scratch.open(0);
    store.append(1, JOB, (Attempt(1), NodeId(1)), &units(1)).unwrap();
    store.unsynced().unwrap();
    let bytes = fs::read(scratch.file()).unwrap();
    for replaced in [false, true] {
        fs::remove_file(scratch.file()).unwrap();
        if replaced {
            fs::write(scratch.file(), &bytes).unwrap();
        }
        store.append(2 + u64::from(replaced), JOB, (Attempt(1), NodeId(1)), &units(2)).unwrap();
        let told = store.unsynced().unwrap_err().to_string();
        assert!(told.contains("deleted or replaced"), "{told}");
        fs::write(scratch.file(), &bytes).unwrap();
    }
}

/// As the journal gives them.
fn take(store: &mut OutputStore, sequences: impl IntoIterator<Item = u64>) {
    for sequence in sequences {
        let (attempt, node, units) = (Attempt(7), NodeId(3), units(sequence));
        store.take(sequence, &Record::Ran { job: JOB, attempt, node, units }).unwrap();
    }
}

/// `results` went on from a file that nobody could find any more, and nothing was to be run again.
#[test]
fn a_file_that_is_deleted_or_replaced_when_all_was_synced_is_read_as_it_lies_there() {
    for closed in [false, true] {
        let (scratch, bytes, entries) = written("replaced");
        let mut store = scratch.open(100);
        store.is_replayed();
        assert_eq!(lost(&mut store, ALL), []);
        let aside = scratch.0.join("aside");
        fs::rename(scratch.file(), &aside).unwrap();
        if closed {
            store.jobs.values_mut().for_each(|file| file.file = None);
        }
        assert_eq!(store.page(JOB, 0, 9).unwrap(), Page::default());
        let notes = store.take_notes();
        assert!(notes.len() == 1 && notes[0].contains("deleted or replaced"), "{notes:?}");
        assert_eq!(lost(&mut store, ALL), [(4, 28, OutputLoss::Missing)]);
        assert!(!scratch.file().exists(), "who looks makes none");
        fs::write(scratch.file(), &bytes[..entries[3].at as usize]).unwrap();
        assert_eq!(lost(&mut store, ALL), [(16, 28, OutputLoss::Missing)]);
        fs::rename(&aside, scratch.file()).unwrap();
        assert_eq!(lost(&mut store, ALL), []);
        assert_eq!(store.take_notes().len(), 1, "one took the place of another");
        fs::remove_file(scratch.file()).unwrap();
        store.unsynced().unwrap();
        assert_eq!(store.take_notes().len(), 1, "a checkpoint tells of it before anybody reads");
        store.unsynced().unwrap();
        assert_eq!(store.take_notes().len(), 0);
    }
}

#[test]
fn what_a_file_lacks_and_the_journal_has_comes_back_at_the_next_start_wherever_it_was() {
    let scratch = Scratch::new("lacking");
    let mut store = scratch.open(0);
    take(&mut store, 1..5);
    store.is_replayed();
    store.sync_all().unwrap();
    // The file is deleted while the scheduler runs, and another one begun.
    fs::remove_file(scratch.file()).unwrap();
    store.unsynced().unwrap();
    take(&mut store, 5..7);
    assert_eq!(lost(&mut store, ALL), [(4, 20, OutputLoss::Missing)]);
    drop(store);
    for (retired, lost_units) in [(0, vec![]), (2, vec![(4, 12, OutputLoss::Missing)])] {
        let mut looking = OutputStore::look(&scratch.0, FARM, retired);
        take(&mut looking, retired + 1..7);
        assert_eq!(lost(&mut looking, ALL), lost_units);
        assert_eq!(looking.page(JOB, 0, 100).unwrap().outputs.len() as u64, (6 - retired) * 4);
        let mut store = scratch.open(retired);
        take(&mut store, retired + 1..7);
        assert_eq!(lost(&mut store, ALL), lost_units);
        assert_eq!(all(&mut store, 9), expected(retired + 1..7), "in the journal's order");
        store.sync_all().unwrap();
        // As the next case finds it.
        let mut ends = scratch.open(100);
        ends.delete(JOB).unwrap();
        append(&mut ends, 5..7);
    }
}

/// It was called lost, and the audit knew better.
#[test]
fn who_looks_reads_from_the_journal_what_is_damaged_in_the_file() {
    let (scratch, bytes, entries) = written("rest");
    for at in (entries[2].at as usize..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(scratch.file(), &damaged).unwrap();
        for retired in [0, 2] {
            let mut looking = OutputStore::look(&scratch.0, FARM, retired);
            take(&mut looking, retired + 1..7);
            assert_eq!(lost(&mut looking, ALL), [], "byte {at}");
            assert_eq!(all(&mut looking, 5), expected(1..7), "byte {at}: each once");
        }
        assert_eq!(fs::read(scratch.file()).unwrap(), damaged);
    }
}

#[test]
fn what_is_no_file_where_one_belongs_is_named() {
    let (scratch, _, _) = written("folder");
    fs::remove_file(scratch.file()).unwrap();
    fs::create_dir(scratch.file()).unwrap();
    let told = OutputStore::open(&scratch.0, FARM, 0, u64::MAX).unwrap_err().to_string();
    assert!(told.contains("1.outputs is no file") && told.contains("move it away"), "{told}");
    fs::remove_dir(scratch.file()).unwrap();
    fs::create_dir(scratch.0.join("again")).unwrap();
    let told = OutputStore::open(&scratch.0, FARM, 0, u64::MAX).unwrap_err().to_string();
    assert!(told.contains("again is no file") && told.contains("move it away"), "{told}");
}
