//! A closed journal is damaged, one place at a time. The file `synced` is there, as it is after any end but a
//! power cut; what is promised without it is said where it is taken away.

use std::fs;
use std::path::Path;

use super::{Files, Opened, Random, Scratch, small, write};

const COMMITS: [u64; 14] = [1, 3, 1, 9, 2, 30, 1, 1, 25, 4, 2, 1, 6, 5];

/// Two segments, the directory, the records in it.
fn two_segments() -> (Scratch, Files, u64) {
    let scratch = Scratch::new();
    let count = write(&scratch.0, &small(), &COMMITS);
    let files = Files::of(&scratch.0);
    assert!(scratch.segment(2).exists() && !scratch.segment(3).exists());
    (scratch, files, count)
}

/// Opens what `damage` makes of the files.
fn open_damaged(dir: &Path, files: &Files, damage: impl FnOnce(&mut Files)) -> Opened {
    let mut files = files.clone();
    damage(&mut files);
    files.put(dir);
    Opened::of(dir, &small())
}

#[test]
fn a_whole_journal_opens_without_a_word() {
    let (scratch, _, count) = two_segments();
    assert_eq!(Opened::of(&scratch.0, &small()), Opened::Holds(count, vec![]));
    assert_eq!(Opened::of(&scratch.0, &small()), Opened::Holds(count, vec![]), "and again");
}

#[test]
fn a_segment_truncated_at_any_byte_hides_nothing() {
    let (scratch, files, count) = two_segments();
    for number in [1, 2] {
        let path = scratch.segment(number);
        let (used, length) = (files.used(&path), files.0[&path].len());
        for cut in (0..used + 600).chain((used + 600..length).step_by(4_099)) {
            // What is too short is refused, whether `synced` is there or not.
            let synced = cut % 2 == 0;
            let opened = open_damaged(&scratch.0, &files, |files| {
                files.get(&path).truncate(cut);
                files.0.retain(|path, _| synced || !path.ends_with("synced"));
            });
            if number == 2 && cut < used + (64 << 10) {
                drop(opened.words());
            } else {
                opened.assert_honest(count, &format!("segment {number} cut to {cut} of {used} used bytes"));
            }
        }
    }
}

#[test]
fn no_flipped_bit_hides_anything() {
    let (scratch, files, count) = two_segments();
    let places: Vec<_> =
        files.0.keys().flat_map(|path| (0..files.used(path)).map(move |at| (path, at))).collect();
    let mut random = Random(1);
    for trial in 0..1_000 {
        let (path, at) = places[random.below(places.len() as u64) as usize];
        let bit = random.below(8);
        for synced in [true, false] {
            let opened = open_damaged(&scratch.0, &files, |files| {
                files.get(path)[at] ^= 1 << bit;
                files.0.retain(|path, _| synced || !path.ends_with("synced"));
            });
            opened.assert_honest(
                count,
                &format!("trial {trial}: bit {bit} of byte {at} of {}", path.display()),
            );
        }
    }
}

#[test]
fn no_zeroed_block_hides_anything() {
    let (scratch, files, count) = two_segments();
    for number in [1, 2] {
        let path = scratch.segment(number);
        let used = files.used(&path);
        for (size, step) in [(512, 512), (512, 93), (4_096, 4_096), (4_096, 1_021)] {
            for at in (0..used).step_by(step) {
                // What the second segment holds proves the first one was whole.
                let synced = number == 2 || at / step % 2 == 0;
                let opened = open_damaged(&scratch.0, &files, |files| {
                    let end = (at + size).min(files.0[&path].len());
                    files.get(&path)[at..end].fill(0);
                    files.0.retain(|path, _| synced || !path.ends_with("synced"));
                });
                opened.assert_honest(count, &format!("{size} zeros at {at} of segment {number}"));
            }
        }
    }
}

#[test]
fn a_lost_seal_with_records_behind_it_is_refused() {
    let (scratch, files, _) = two_segments();
    let path = scratch.segment(1);
    let used = files.used(&path);
    for zeros in [1, 30, 50] {
        let opened = open_damaged(&scratch.0, &files, |files| {
            files.get(&path)[used - zeros..].fill(0);
            files.0.retain(|path, _| !path.ends_with("synced"));
        });
        assert!(opened.words().contains("00000001.seg"), "{zeros} bytes");
    }
}

/// Without `synced`, after a power cut, say, and with the last commits zeroed to their very end, nothing in
/// the files tells that they ever were: that much is not promised. Whatever has a later commit behind it is.
#[test]
fn without_synced_only_the_zeroed_end_can_be_lost() {
    let (scratch, files, count) = two_segments();
    let path = scratch.segment(2);
    let used = files.used(&path);
    for at in (0..used).step_by(512).filter(|at| !(512..4_096).contains(at)) {
        let end = (at + 512).min(used);
        let opened = open_damaged(&scratch.0, &files, |files| {
            files.get(&path)[at..end].fill(0);
            files.0.retain(|path, _| !path.ends_with("synced"));
        });
        // The last commit: 5 records of at most 162 bytes.
        if end + 5 * 162 < used {
            assert!(matches!(opened, Opened::Refused(_)), "zeros at {at} of {used}: {opened:?}");
        } else if let Opened::Holds(holds, notes) = opened {
            assert!(holds == count || !notes.is_empty() || end == used, "zeros at {at}");
        }
    }
}

#[test]
fn what_lies_behind_the_end_is_cut_off_with_a_note() {
    let (scratch, files, count) = two_segments();
    let path = scratch.segment(2);
    let used = files.used(&path);
    let opened = open_damaged(&scratch.0, &files, |files| files.get(&path)[used + 5_000] = 1);
    let Opened::Holds(holds, notes) = opened else { panic!("{opened:?}") };
    assert!(holds == count && notes[0].contains("cut off"), "{notes:?}");
    assert_eq!(Opened::of(&scratch.0, &small()), Opened::Holds(count, vec![]), "it is gone");
}

#[test]
fn swapped_missing_and_foreign_segments_are_refused() {
    let (scratch, files, _) = two_segments();
    let (one, two) = (scratch.segment(1), scratch.segment(2));
    let (first, second) = (files.0[&one].clone(), files.0[&two].clone());
    let swapped = open_damaged(&scratch.0, &files, |files| {
        *files.get(&one) = second.clone();
        *files.get(&two) = first.clone();
    });
    assert!(swapped.words().contains("swapped or renamed"));
    for missing in [&one, &two] {
        let opened = open_damaged(&scratch.0, &files, |files| drop(files.0.remove(missing)));
        let words = opened.words();
        assert!(words.contains("missing") && words.contains(&missing.display().to_string()), "{words}");
    }
    let all = open_damaged(&scratch.0, &files, |files| files.0.clear());
    assert!(all.words().contains("missing"));
    for synced in [true, false] {
        let none = open_damaged(&scratch.0, &files, |files| {
            files.0.retain(|path, _| synced && path.ends_with("synced"))
        });
        assert!(none.words().contains("missing"));
    }
    let other = Scratch::new();
    let options = super::Options { expected_epoch: 0, ..small() };
    let mut journal =
        super::Journal::open(&other.0, starfarm_protocol::ids::FarmId([8; 16]), &options).unwrap().0;
    super::append(&mut journal, 200).unwrap();
    journal.commit().unwrap();
    super::append(&mut journal, 3).unwrap();
    journal.commit().unwrap();
    for (number, path) in [(1, &one), (2, &two)] {
        let foreign = fs::read(other.segment(number)).unwrap();
        let opened = open_damaged(&scratch.0, &files, |files| *files.get(path) = foreign);
        assert!(opened.words().contains("of farm 0808"), "segment {number}");
    }
}

#[test]
fn an_old_copy_of_the_last_segment_is_refused() {
    let scratch = Scratch::new();
    let mut journal = super::new_journal(&scratch.0, &small());
    super::append(&mut journal, 20).unwrap();
    journal.commit().unwrap();
    let old = fs::read(scratch.segment(1)).unwrap();
    super::append(&mut journal, 1).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let files = Files::of(&scratch.0);
    let opened = open_damaged(&scratch.0, &files, |files| *files.get(&scratch.segment(1)) = old);
    let words = opened.words();
    assert!(words.contains("record 21") && words.contains("last good record is 20"), "{words}");
}

#[test]
fn a_journal_older_than_what_the_farm_remembers_is_refused() {
    let (scratch, _, _) = two_segments();
    let options = super::Options { expected_epoch: super::EPOCH + 1, ..small() };
    let words = Opened::of(&scratch.0, &options).words();
    assert!(words.contains("ends in epoch 3, but epoch 4"), "{words}");
}
