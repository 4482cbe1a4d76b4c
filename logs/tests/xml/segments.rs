//! Segments in a folder: when they are closed, what is kept, what becomes of those that were left behind.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use starfarm_events::{Event, Snapshot};
use starfarm_logs::{Fault, Item, Limits, LogWriter, NoteKind, open, validate};
use starfarm_protocol::ids::{Epoch, FarmId};

use crate::support::{FARM, Fill, Folder, NOON_US, Random, event, events_of, notes_of, snapshot, writer};

const SECOND_US: u64 = 1_000_000;

fn stalled(for_us: u64) -> Event {
    Event::Stalled { for_us }
}

fn items(path: &Path) -> Vec<Item> {
    open(path).unwrap().map(Result::unwrap).collect()
}

/// Writes `count` events, a second apart, and a segment whenever one is due; returns the time after them.
fn write(writer: &mut LogWriter, from_us: u64, count: u64) -> u64 {
    for number in 0..count {
        let at_us = from_us + number * SECOND_US;
        if writer.wants_snapshot(at_us) {
            writer.begin(at_us, at_us, at_us - NOON_US, &Snapshot::default()).unwrap();
        }
        writer.event(at_us, &stalled(number)).unwrap();
    }
    from_us + count * SECOND_US
}

#[test]
fn a_segment_is_closed_at_its_age_and_at_its_size_and_none_is_lost() {
    let folder = Folder::new();
    let mut by_age = writer(folder.path(), 1, Limits { segment_us: 10 * SECOND_US, ..Limits::default() });
    let then_us = write(&mut by_age, NOON_US, 25);
    by_age.close(then_us, then_us).unwrap();
    let mut by_size = writer(folder.path(), 2, Limits { segment_bytes: 500, ..Limits::default() });
    let then_us = write(&mut by_size, then_us, 25);
    by_size.close(then_us, then_us).unwrap();
    let names = folder.names();
    assert_eq!(names[..3], ["00000001-000001.xml", "00000001-000002.xml", "00000001-000003.xml"]);
    assert_eq!(names[3..], ["00000002-000001.xml", "00000002-000002.xml", "00000002-000003.xml"]);
    let all = items(folder.path());
    let expected: Vec<Event> = (0..25).chain(0..25).map(stalled).collect();
    assert_eq!(events_of(&all), expected);
    assert!(notes_of(&all).is_empty());
    let report = validate(folder.path()).unwrap();
    assert_eq!((report.segments, report.epochs, report.in_use, report.cut, report.gaps), (6, 2, 0, 0, 0));
    assert_eq!((report.from.0, report.to.0, report.events["stalled"]), (NOON_US, then_us, 50));
}

#[test]
fn a_snapshot_larger_than_a_segment_does_not_close_it() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits { segment_bytes: 100, ..Limits::default() });
    let large = snapshot(&mut Random::new(1), Fill::All, 50);
    writer.begin(NOON_US, NOON_US, 0, &large).unwrap();
    assert!(!writer.wants_snapshot(NOON_US));
    writer.event(NOON_US, &event("node_facts", &mut Random::new(1), Fill::All)).unwrap();
    assert!(writer.wants_snapshot(NOON_US));
}

#[test]
fn the_open_segment_is_read_as_far_as_it_was_flushed() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut writer, NOON_US, 5);
    writer.flush(then_us, then_us).unwrap();
    writer.event(then_us, &stalled(5)).unwrap();
    assert_eq!(folder.names(), ["00000001-000001.xml.part"]);
    let seen = items(folder.path());
    assert_eq!(events_of(&seen).len(), 5);
    assert_eq!(notes_of(&seen).iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::Cut]);
    let report = validate(folder.path()).unwrap();
    assert_eq!((report.segments, report.in_use, report.cut), (1, 1, 0));
}

#[test]
fn the_log_tells_when_it_was_saved_once_a_minute() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits::default());
    let mut at_us = NOON_US;
    for _ in 0..150 {
        at_us = write(&mut writer, at_us, 1);
        writer.flush(at_us, at_us + 7).unwrap();
    }
    // Nothing is written any more.
    for _ in 0..150 {
        at_us += SECOND_US;
        writer.flush(at_us, at_us + 7).unwrap();
    }
    let text = fs::read_to_string(folder.path().join("00000001-000001.xml.part")).unwrap();
    let saved: Vec<&str> = text.lines().filter(|line| line.starts_with("<saved ")).collect();
    // After 60 s, 120 s, and 180 s for what came since.
    assert_eq!(saved.len(), 3, "{saved:?}");
    assert!(saved[0].contains("utc=\"2026-11-21T12:01:00.000007Z\""), "{saved:?}");
}

/// What a killed scheduler leaves: a part of the file, as `cut` has it.
fn killed(folder: &Folder, cut: impl Fn(Vec<u8>) -> Vec<u8>) {
    let mut writer = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut writer, NOON_US, 90);
    writer.flush(then_us, then_us + 1_234_567).unwrap();
    write(&mut writer, then_us, 3);
    writer.flush(then_us + 3 * SECOND_US, 0).unwrap();
    let path = folder.path().join("00000001-000001.xml.part");
    let bytes = cut(fs::read(&path).unwrap());
    drop(writer);
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_a_killed_scheduler_left_is_closed_by_the_next() {
    for (lost, whole) in [(0, 93), (1, 93), (2, 92), (60, 91)] {
        let folder = Folder::new();
        killed(&folder, |mut bytes| {
            bytes.truncate(bytes.len() - lost);
            bytes
        });
        let before = events_of(&items(folder.path()));
        assert_eq!(before.len(), whole, "{lost} bytes lost");
        let mut next = writer(folder.path(), 2, Limits::default());
        let then_us = write(&mut next, NOON_US + 500 * SECOND_US, 1);
        next.close(then_us, then_us).unwrap();
        assert_eq!(folder.names(), ["00000001-000001.xml", "00000002-000001.xml"]);
        let report = validate(folder.path()).unwrap();
        assert_eq!((report.segments, report.cut, report.events["stalled"]), (2, 1, whole as u64 + 1));
        let all = items(folder.path());
        let Some(Item::Closed(closing)) = all.iter().find(|item| matches!(item, Item::Closed(_))) else {
            panic!("{all:?}");
        };
        // By the clocks as they were when the log was saved last.
        let last_us = NOON_US + (whole as u64 - 1) * SECOND_US;
        assert_eq!(closing.entries, whole as u64);
        assert_eq!(
            (closing.at_us, closing.utc_us),
            (last_us.max(NOON_US + 90 * SECOND_US), last_us.max(NOON_US + 90 * SECOND_US) + 1_234_567)
        );
        let kinds: Vec<NoteKind> = notes_of(&all).iter().map(|note| note.kind).collect();
        assert_eq!(kinds, [NoteKind::ClockSet, NoteKind::Stopped], "the wall clock had gone 1.2 s ahead");
    }
}

#[test]
fn a_wall_clock_that_is_set_while_a_scheduler_runs_is_told_once() {
    const HOUR_US: u64 = 3_600 * SECOND_US;
    let folder = Folder::new();
    let mut log = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut log, NOON_US, 10);
    log.close(then_us, then_us + 900_000).unwrap();
    // By less than a second it goes wrong by itself; back by an hour it was set, between two segments.
    log.begin(then_us, then_us - HOUR_US, 10 * SECOND_US, &Snapshot::default()).unwrap();
    let then_us = write(&mut log, then_us, 10);
    log.close(then_us, then_us - HOUR_US).unwrap();
    // Another scheduler begins with the wall clock as it finds it.
    let mut next = writer(folder.path(), 2, Limits::default());
    let then_us = write(&mut next, then_us, 1);
    next.close(then_us, then_us).unwrap();
    let all = items(folder.path());
    let notes = notes_of(&all);
    assert_eq!(notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::ClockSet]);
    assert!(notes[0].what.contains("the wall clock was set back: 1 h 00 min"), "{}", notes[0].what);
    assert_eq!(validate(folder.path()).unwrap().segments, 3, "and it is valid");
}

#[test]
fn a_file_under_another_segments_name_is_not_valid() {
    let folder = Folder::new();
    let mut log = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut log, NOON_US, 1);
    log.close(then_us, then_us).unwrap();
    let of = |name: &str| folder.path().join(name);
    fs::rename(of("00000001-000001.xml"), of("00000005-000009.xml")).unwrap();
    let error = validate(&of("00000005-000009.xml")).unwrap_err();
    assert!(error.to_string().contains("segment 1 of epoch 1"), "{error}");
    fs::rename(of("00000005-000009.xml"), of("mine.xml")).unwrap();
    assert_eq!(validate(&of("mine.xml")).unwrap().segments, 1, "any other name is a user's");
}

#[test]
fn a_segment_that_was_closed_and_not_renamed_gets_its_name() {
    let folder = Folder::new();
    let mut first = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut first, NOON_US, 3);
    first.close(then_us, then_us).unwrap();
    let closed = folder.path().join("00000001-000001.xml");
    let whole = fs::read(&closed).unwrap();
    for lost in [0, 1, 3, 7] {
        fs::remove_file(&closed).unwrap();
        folder.file("00000001-000001.xml.part", &whole[..whole.len() - lost]);
        writer(folder.path(), 2, Limits::default());
        assert_eq!(fs::read(&closed).unwrap(), whole, "{lost} bytes lost");
    }
}

#[test]
fn what_holds_nothing_goes_and_what_is_damaged_is_set_aside() {
    let folder = Folder::new();
    killed(&folder, |bytes| bytes[..200].to_vec());
    writer(folder.path(), 2, Limits::default());
    assert_eq!(folder.names(), Vec::<String>::new());
    killed(&folder, |_| b"<nonsense/>".to_vec());
    let mut next = writer(folder.path(), 1, Limits::default());
    assert_eq!(folder.names(), ["00000001-000001.xml.damaged"]);
    let then_us = write(&mut next, NOON_US, 1);
    next.close(then_us, then_us).unwrap();
    assert_eq!(folder.names(), ["00000001-000001.xml.damaged", "00000001-000002.xml"]);
    assert_eq!(events_of(&items(folder.path())).len(), 1);
}

#[test]
fn no_more_is_kept_than_was_said_and_the_oldest_goes_first() {
    let folder = Folder::new();
    let limits = Limits { segment_bytes: 2_000, keep_bytes: Some(20_000), ..Limits::default() };
    let mut at_us = NOON_US;
    for epoch in 1..=3 {
        let mut writer = writer(folder.path(), epoch, limits);
        at_us = write(&mut writer, at_us, 400);
        writer.close(at_us, at_us).unwrap();
        let size = |name: &String| fs::metadata(folder.path().join(name)).unwrap().len();
        let total: u64 = folder.names().iter().map(size).sum();
        // The segment that is written is counted without its snapshot.
        assert!((15_000..21_500).contains(&total), "{total}");
    }
    let all = items(folder.path());
    assert!(notes_of(&all).is_empty());
    assert_eq!(events_of(&all).last(), Some(&stalled(399)));
    assert!(folder.names()[0].starts_with("00000003-"));
}

#[test]
fn a_bound_below_a_segment_keeps_history_and_no_number_comes_twice() {
    let folder = Folder::new();
    let limits = Limits { segment_us: 20 * SECOND_US, keep_bytes: Some(20_000), ..Limits::default() };
    let mut writer = writer(folder.path(), 1, limits);
    // Segments end by their age, far below their size: each has about 2 kB.
    let mut at_us = NOON_US;
    let mut seen = Vec::new();
    for _ in 0..40 {
        at_us = write(&mut writer, at_us, 20);
        seen.push(folder.names());
    }
    writer.close(at_us, at_us).unwrap();
    let begun: Vec<String> = (1..=40).map(|number| format!("00000001-{number:06}.xml.part")).collect();
    assert!(seen.iter().map(|names| names.last().unwrap()).eq(&begun), "{seen:?}");
    assert!((6..12).contains(&folder.names().len()), "{:?}", folder.names());
    let size = |name: &String| fs::metadata(folder.path().join(name)).unwrap().len();
    let total: u64 = folder.names().iter().map(size).sum();
    assert!((13_000..20_000).contains(&total), "{total}");
}

#[test]
fn a_bound_for_less_than_a_segment_keeps_the_newest_and_what_is_damaged() {
    let folder = Folder::new();
    folder.file("00000001-000001.xml.damaged", "x".repeat(5_000));
    let mut writer = writer(folder.path(), 1, Limits { keep_bytes: Some(1), ..Limits::default() });
    let then_us = write(&mut writer, NOON_US, 4);
    writer.close(then_us, then_us).unwrap();
    let names = ["00000001-000001.xml.damaged", "00000001-000004.xml", "00000001-000005.xml"];
    assert_eq!(folder.names(), names);
    // Whoever removes them: their numbers are gone.
    names.iter().for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
    write(&mut writer, then_us, 1);
    assert_eq!(folder.names(), ["00000001-000006.xml.part"]);
}

#[test]
fn events_without_a_segment_are_told_as_missing() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits::default());
    writer.event(NOON_US, &stalled(1)).unwrap();
    writer.event(NOON_US, &Event::EventsDropped { events: 5 }).unwrap();
    let then_us = write(&mut writer, NOON_US + SECOND_US, 1);
    writer.close(then_us, then_us).unwrap();
    assert_eq!(events_of(&items(folder.path())), [Event::EventsDropped { events: 6 }, stalled(0)]);
}

#[test]
fn two_farms_in_one_folder_are_refused() {
    let folder = Folder::new();
    let mut ours = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut ours, NOON_US, 1);
    ours.close(then_us, then_us).unwrap();
    let other = FarmId([1; 16]);
    let e = LogWriter::open(folder.path(), other, Epoch(1), Limits::default()).unwrap_err();
    assert!(e.kind() == ErrorKind::AlreadyExists && e.to_string().contains(&FARM.to_string()), "{e}");
    let text = fs::read_to_string(folder.path().join("00000001-000001.xml")).unwrap();
    folder.file("00000002-000001.xml", text.replace(&FARM.to_string(), &other.to_string()));
    let e = open(folder.path()).unwrap().find_map(Result::err).unwrap();
    assert!(
        matches!(e.fault, Fault::OtherFarm { .. }) && e.place.file.ends_with("00000002-000001.xml"),
        "{e}"
    );
}

#[test]
fn a_gap_between_segments_and_a_clock_that_went_back_are_noted() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits { segment_us: 10 * SECOND_US, ..Limits::default() });
    let then_us = write(&mut writer, NOON_US, 45);
    writer.close(then_us, then_us).unwrap();
    fs::remove_file(folder.path().join("00000001-000002.xml")).unwrap();
    fs::remove_file(folder.path().join("00000001-000003.xml")).unwrap();
    fs::copy(folder.path().join("00000001-000004.xml"), folder.path().join("00000001-000006.xml")).unwrap();
    // Another epoch counts anew, by its own clock.
    fs::copy(folder.path().join("00000001-000001.xml"), folder.path().join("00000002-000001.xml")).unwrap();
    let notes = notes_of(&items(folder.path()));
    let kinds: Vec<NoteKind> = notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::Missing, NoteKind::TimeBack], "{notes:?}");
    assert!(notes[0].what.contains("2 segments of epoch 1"), "{notes:?}");
    let e = validate(folder.path()).unwrap_err();
    assert!(e.to_string().contains("time goes back by 15."), "{e}");
}

#[test]
fn what_is_missing_at_the_beginning_of_a_later_epoch_is_noted() {
    let folder = Folder::new();
    for epoch in [2, 3, 7, 9] {
        let mut writer =
            writer(folder.path(), epoch, Limits { segment_us: 10 * SECOND_US, ..Limits::default() });
        let from_us = NOON_US + epoch * 100 * SECOND_US;
        let then_us = write(&mut writer, from_us, 25);
        writer.close(then_us, then_us).unwrap();
    }
    // The first of all may have been removed by its bound.
    for gone in ["00000002-000001.xml", "00000003-000001.xml", "00000009-000001.xml", "00000009-000002.xml"] {
        fs::remove_file(folder.path().join(gone)).unwrap();
    }
    let notes = notes_of(&items(folder.path()));
    let told: Vec<&str> = notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        told,
        [
            "1 segment of epoch 3 before this one is missing",
            "nothing is here of epochs 4 to 6: no log was written then, or its files are missing",
            "nothing is here of epoch 8: no log was written then, or its files are missing; \
             2 segments of epoch 9 before this one are missing",
        ]
    );
    assert!(notes.iter().all(|note| note.kind == NoteKind::Missing));
    assert!(notes[0].place.file.ends_with("00000003-000002.xml"), "{notes:?}");
    assert_eq!(validate(folder.path()).unwrap().gaps, 3);
}

#[test]
fn a_disk_that_is_full_leaves_a_log_that_can_be_read_and_goes_on() {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut writer, NOON_US, 3);
    writer.flush(then_us, then_us).unwrap();
    // A folder in the way of the next name stands for whatever the disk may have.
    fs::create_dir(folder.path().join("00000001-000001.xml")).unwrap();
    assert!(writer.close(then_us, then_us).is_err());
    assert!(writer.wants_snapshot(then_us));
    writer.event(then_us, &stalled(9)).unwrap();
    fs::remove_dir(folder.path().join("00000001-000001.xml")).unwrap();
    let then_us = write(&mut writer, then_us, 1);
    writer.close(then_us, then_us).unwrap();
    let expected = [stalled(0), stalled(1), stalled(2), Event::EventsDropped { events: 1 }, stalled(0)];
    assert_eq!(events_of(&items(folder.path())), expected);
    assert_eq!(writer.dropped(), 1, "the writer counts as the log does");
}

#[test]
fn a_folder_that_is_gone_is_made_anew_and_what_went_with_it_is_missing() {
    let folder = Folder::new();
    let (dir, moved) = (folder.path().join("log"), folder.path().join("moved"));
    let mut writer = writer(&dir, 1, Limits::default());
    let then_us = write(&mut writer, NOON_US, 3);
    writer.miss(5);
    writer.event(then_us, &stalled(3)).unwrap();
    assert_eq!(writer.dropped(), 5);
    fs::rename(&dir, &moved).unwrap();
    assert!(writer.close(then_us, then_us).is_err());
    assert_eq!(writer.dropped(), 5, "more is not known before the next segment");
    writer.event(then_us, &stalled(4)).unwrap();
    let then_us = write(&mut writer, then_us, 1);
    // All that was in the folder, that it had said to be missing, and one more.
    assert_eq!(writer.dropped(), 10);
    writer.miss(2);
    writer.close(then_us, then_us).unwrap();
    let told = [Event::EventsDropped { events: 10 }, stalled(0), Event::EventsDropped { events: 2 }];
    assert_eq!(events_of(&items(&dir)), told);
    assert_eq!(writer.dropped(), 12);
}

#[test]
fn absurd_numbers_in_a_folder_are_errors_and_no_panic() {
    let folder = Folder::new();
    let mut first = writer(folder.path(), 1, Limits::default());
    let then_us = write(&mut first, NOON_US, 1);
    for _ in 0..2 {
        first.event(then_us, &Event::EventsDropped { events: u64::MAX }).unwrap();
    }
    first.flush(then_us, then_us).unwrap();
    drop(first);
    let mut next = writer(folder.path(), 2, Limits::default());
    assert_eq!(folder.names(), ["00000001-000001.xml"], "what was left behind is closed");
    fs::copy(
        folder.path().join("00000001-000001.xml"),
        folder.path().join(format!("00000002-{}.xml", u64::MAX)),
    )
    .unwrap();
    let e = next.begin(then_us, then_us, 0, &Snapshot::default()).unwrap_err();
    assert!(e.to_string().contains("the last number of all"), "{e}");
}

#[test]
fn a_validation_says_from_where_to_where_a_log_goes_wherever_its_clock_was_set() {
    let folder = Folder::new();
    for (epoch, from_us) in [(1, NOON_US + 500 * SECOND_US), (2, NOON_US)] {
        let mut writer = writer(folder.path(), epoch, Limits::default());
        let then_us = write(&mut writer, from_us, 10);
        writer.close(then_us, then_us).unwrap();
    }
    let report = validate(folder.path()).unwrap();
    assert_eq!((report.from.0, report.to.0), (NOON_US, NOON_US + 510 * SECOND_US));
}
