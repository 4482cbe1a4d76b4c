//! A log that ends anywhere is read up to there, and says so.

use starfarm_events::Event;
use starfarm_logs::{Fault, Item, LogReader, NoteKind, validate};

use crate::support::{Fill, Folder, NOON_US, Random, events, events_of, notes_of, read, segment, snapshot};

fn small() -> (Vec<u8>, Vec<Event>) {
    let random = &mut Random::new(5);
    let happened = events(random, Fill::Chance);
    (segment(&snapshot(random, Fill::Chance, 2), &happened), happened)
}

#[test]
fn a_log_cut_at_any_byte_gives_all_whole_entries_and_says_where_it_ends() {
    let (bytes, happened) = small();
    let text = std::str::from_utf8(&bytes).unwrap();
    let first = text.find("</snapshot>").unwrap() + "</snapshot>".len();
    for end in 0..bytes.len() - 1 {
        let items = read(&bytes[..end]).unwrap_or_else(|e| panic!("cut at {end}: {e}"));
        // An entry is whole as soon as its tag is, with the line end or without.
        let whole = match text.as_bytes()[..end].get(first..) {
            Some(rest) => rest.windows(2).filter(|two| two == b"/>").count(),
            None => 0,
        };
        assert_eq!(events_of(&items), happened[..whole.min(happened.len())], "cut at {end}");
        assert_eq!(items.iter().any(|item| matches!(item, Item::Snapshot(..))), end >= first, "cut at {end}");
        let notes = notes_of(&items);
        // Only the end of the document may lack without anybody's missing it.
        if end < bytes.len() - 1 {
            let (last, before) = notes.split_last().unwrap();
            assert!(before.is_empty() && last.kind == NoteKind::Cut, "cut at {end}: {notes:?}");
            assert!(
                last.place.offset <= end as u64 && last.place.offset + 1_000 > end as u64,
                "cut at {end}: {last}"
            );
            let line = 1 + bytes[..last.place.offset as usize].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(last.place.line, line as u64, "cut at {end}: {last}");
        }
    }
    assert!(notes_of(&read(&bytes).unwrap()).is_empty());
}

#[test]
fn zeros_that_a_power_cut_left_at_the_end_are_no_entries() {
    let (bytes, _) = small();
    for (keep, zeros) in [(bytes.len() / 2, 5_000), (bytes.len() / 2, 3 << 20), (bytes.len() - 7, 100)] {
        let end = bytes[..keep].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let mut torn = bytes[..end].to_vec();
        torn.resize(end + zeros, 0);
        let items = read(&torn).unwrap();
        assert_eq!(events_of(&items), events_of(&read(&bytes[..end]).unwrap()));
        assert_eq!(notes_of(&items).iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::Cut]);
    }
}

#[test]
fn time_that_goes_back_is_noted_once_and_counted() {
    let (bytes, happened) = small();
    let text = String::from_utf8(bytes).unwrap();
    let back = text
        .replace(&format!("at=\"{}\"", NOON_US + 7_000), &format!("at=\"{}\"", NOON_US + 1))
        .replace(&format!("at=\"{}\"", NOON_US + 9_000), &format!("at=\"{}\"", NOON_US + 2));
    let items = read(back.as_bytes()).unwrap();
    assert_eq!(events_of(&items), happened);
    let notes = notes_of(&items);
    assert_eq!(notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::TimeBack; 2]);
    assert!(notes[0].what.contains("0.005999 s") && notes[1].what.contains("2 times"), "{notes:?}");
}

#[test]
fn what_a_later_version_adds_is_passed_over_and_counted() {
    let (bytes, happened) = small();
    let text = String::from_utf8(bytes).unwrap();
    let later = text
        .replace("<closed ", "<moon at=\"1795262500000000\"><crater><rock/></crater></moon>\n<moon at=\"1795262500000000\"/>\n<closed ")
        .replace("</snapshot>", "<belt/></snapshot>")
        .replace("<stalled ", "<stalled by=\"\" ")
        .replace("state=\"quarantined\"", "state=\"asleep\"");
    let items = read(later.as_bytes()).unwrap();
    let known: Vec<Event> =
        happened.iter().filter(|event| !matches!(event, Event::NodeState { .. })).cloned().collect();
    assert_eq!(events_of(&items), known);
    let notes = notes_of(&items);
    let skipped = notes.iter().find(|note| note.kind == NoteKind::Skipped).unwrap();
    // Two nodes of the snapshot, its belt, one event, two moons and what is in the first.
    assert!(skipped.what.contains("8 entries") && skipped.what.contains("`asleep`"), "{skipped}");
    assert!(skipped.place.line == 4 + 1, "{skipped}");
}

#[test]
fn a_segment_that_lost_entries_says_so() {
    let (bytes, _) = small();
    let text = String::from_utf8(bytes).unwrap();
    let line = text.lines().find(|line| line.starts_with("<stalled ")).unwrap();
    let items = read(text.replace(&format!("{line}\n"), "").as_bytes()).unwrap();
    assert_eq!(notes_of(&items).iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::Missing]);
}

#[test]
fn a_moment_that_no_calendar_has_is_passed_over_and_blames_no_other_entry() {
    let (bytes, _) = small();
    let text = String::from_utf8(bytes).unwrap();
    let start = text.find("<stalled at=\"").unwrap() + "<stalled at=\"".len();
    let end = start + text[start..].find('"').unwrap();
    let absurd = format!("{}18446744073709551615{}", &text[..start], &text[end..]);
    let notes = notes_of(&read(absurd.as_bytes()).unwrap());
    assert_eq!(notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::Skipped]);
    assert!(notes[0].what.contains("`stalled` lacks its time, or it makes no sense"), "{}", notes[0].what);
}

#[test]
fn a_log_that_another_program_wrote_anew_is_the_same_log() {
    let (bytes, _) = small();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let anew = text
        .replace('\n', "\r\n\t")
        .replace("<?xml", "\u{feff}<?xml")
        .replace("<snapshot", "<!-- a <comment> --><?a b?>\n<snapshot");
    let anew = anew.split('<').map(|piece| match (piece.split_once(' '), piece.contains("/>")) {
        (Some((name, _)), true) => piece.replace("/>", &format!("></{name}>")),
        _ => piece.to_owned(),
    });
    let anew: Vec<String> = anew.collect();
    let anew = anew.join("<");
    let items: Vec<Item> = LogReader::new(anew.as_bytes(), "anew").map(|item| item.unwrap()).collect();
    assert_eq!(items, read(&bytes).unwrap());
}

#[test]
fn a_log_with_a_prefix_before_its_names_is_the_same_log() {
    let (bytes, _) = small();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let prefixed = |name: &str| {
        text.replace("xmlns=", "xmlns:farm=")
            .replace("</", "</farm:")
            .replace('<', "<farm:")
            .replace("<farm:/", "</")
            .replace("<farm:?", "<?")
            .replacen("<farm:stalled ", name, 1)
    };
    let same = prefixed("<farm:stalled ");
    assert_eq!(read(same.as_bytes()).unwrap(), read(&bytes).unwrap());
    let folder = Folder::new();
    let file = folder.file("00000001-000001.xml", &same);
    assert_eq!(validate(&file).unwrap().segments, 1);
    // Without its prefix a name is not ours.
    let skipped = notes_of(&read(prefixed("<stalled ").as_bytes()).unwrap());
    assert!(skipped.iter().any(|note| note.what.contains("`stalled` is of no namespace")), "{skipped:?}");
    // The prefix must be that of our namespace.
    let e = read(same.replace("xmlns:farm=", "xmlns:arm=").as_bytes()).unwrap_err();
    assert!(matches!(e.fault, Fault::Version { .. }), "{e}");
}
