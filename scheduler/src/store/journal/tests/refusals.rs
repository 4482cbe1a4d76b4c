//! What a person decides after a refusal: `--salvage` cuts the journal where it is damaged, deletes nothing, and
//! what is left is a journal like any other.

use std::fs;

use starfarm_protocol::journal::segment::FORMAT_VERSION;

use super::{FARM, Files, Journal, Opened, Options, Scratch, append, check_records, small, write};

fn salvage() -> Options {
    Options { salvage: true, ..small() }
}

/// Damages a journal of four segments, salvages it, writes on and opens it again.
fn story(damage: impl FnOnce(&Scratch, &mut Files)) -> (u64, Vec<String>) {
    let scratch = Scratch::new();
    write(&scratch.0, &small(), &[20; 11]);
    let mut files = Files::of(&scratch.0);
    assert!(scratch.segment(4).exists() && !scratch.segment(5).exists());
    damage(&scratch, &mut files);
    files.put(&scratch.0);
    drop(Opened::of(&scratch.0, &small()).words());
    assert!(Files::of(&scratch.0).0 == files.0, "a refusal changes nothing");
    let (mut journal, notes) = Journal::open(&scratch.0, FARM, &salvage()).unwrap();
    let kept = check_records(&journal);
    append(&mut journal, 7).unwrap();
    assert_eq!(journal.commit().unwrap(), kept + 7);
    drop(journal);
    assert_eq!(Opened::of(&scratch.0, &small()), Opened::Holds(kept + 7, vec![]));
    let now = Files::of(&scratch.0);
    for (path, bytes) in &files.0 {
        let kept = now.0.values().any(|now| now == bytes);
        let is_prefix = now
            .0
            .get(path)
            .is_some_and(|_| !notes.iter().any(|note| note.contains(&*path.to_string_lossy())));
        assert!(kept || is_prefix || path.ends_with("synced"), "{} is gone", path.display());
    }
    (kept, notes)
}

#[test]
fn a_flip_in_the_middle_costs_what_lies_behind_it() {
    let mut at = 0;
    let (kept, notes) = story(|scratch, files| {
        let path = scratch.segment(2);
        at = files.used(&path) / 2;
        files.get(&path)[at] ^= 1;
    });
    assert!(kept > 60 && kept < 220, "{kept}");
    let cut = notes.iter().find(|note| note.contains("the journal is cut there")).unwrap();
    assert!(cut.contains(&format!("the last good record is {kept}")), "{cut}");
    assert_eq!(notes.iter().filter(|note| note.contains(".damaged")).count(), 3, "{notes:?}");
}

#[test]
fn a_missing_segment_costs_what_lies_behind_it() {
    let (kept, notes) = story(|scratch, files| drop(files.0.remove(&scratch.segment(3))));
    assert!(
        kept > 100 && notes.iter().any(|note| note.contains("00000004.seg.damaged")),
        "{kept}: {notes:?}"
    );
}

#[test]
fn a_damaged_first_head_costs_all_but_the_files() {
    let (kept, notes) = story(|scratch, files| files.get(&scratch.segment(1))[3] ^= 1);
    assert_eq!((kept, notes.iter().filter(|note| note.contains(".damaged")).count()), (0, 4), "{notes:?}");
}

#[test]
fn a_truncated_end_costs_what_was_cut_off() {
    let (kept, _) = story(|scratch, files| {
        let path = scratch.segment(4);
        let used = files.used(&path);
        files.get(&path).truncate(used - 30);
    });
    assert_eq!(kept, 219);
}

#[test]
fn a_second_salvage_keeps_the_first_ones_files() {
    let scratch = Scratch::new();
    for round in 1..=2 {
        let options = Options { expected_epoch: 0, ..salvage() };
        let (mut journal, _) = Journal::open(&scratch.0, FARM, &options).unwrap();
        append(&mut journal, 20).unwrap();
        journal.commit().unwrap();
        drop(journal);
        let mut bytes = fs::read(scratch.segment(1)).unwrap();
        bytes[5_000] ^= 1;
        fs::write(scratch.segment(1), bytes).unwrap();
        let (journal, notes) = Journal::open(&scratch.0, FARM, &options).unwrap();
        assert!(check_records(&journal) < 20 && !notes.is_empty(), "{notes:?}");
        let aside =
            Files::of(&scratch.0).0.into_keys().filter(|path| path.to_string_lossy().contains("damaged"));
        assert_eq!(aside.count(), round);
    }
}

#[test]
fn a_newer_format_is_named() {
    let scratch = Scratch::new();
    write(&scratch.0, &small(), &[3]);
    let mut bytes = fs::read(scratch.segment(1)).unwrap();
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..64]);
    bytes[64..68].copy_from_slice(&crc.to_le_bytes());
    fs::write(scratch.segment(1), bytes).unwrap();
    assert!(Opened::of(&scratch.0, &small()).words().contains("format version 2 is not known"));
}
