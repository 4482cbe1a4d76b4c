//! What is written comes back, whatever its text is made of.

use starfarm_events::{Event, Snapshot};
use starfarm_logs::{Closing, Item, Opening, VERSION, validate};

use crate::support::{Fill, Folder, NOON_US, Random, events, events_of, read, segment, snapshot};

#[test]
fn every_kind_with_hostile_text_comes_back() {
    let folder = Folder::new();
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let fill = [Fill::All, Fill::Least, Fill::Chance][seed as usize % 3];
        let (told, happened) = (snapshot(random, fill, 3), events(random, fill));
        let bytes = segment(&told, &happened);
        let items = read(&bytes).unwrap();
        assert_eq!(items[1], Item::Snapshot(NOON_US, Box::new(told)), "seed {seed}");
        assert_eq!(events_of(&items), happened, "seed {seed}");
        let path = folder.file("1-1.xml", &bytes);
        let report = validate(&path).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(report.events.len(), Event::KINDS.len());
        assert_eq!(report.bytes, bytes.len() as u64);
    }
}

#[test]
fn a_segment_says_where_it_belongs() {
    let items = read(&segment(&Snapshot::default(), &[Event::Stalled { for_us: 5 }])).unwrap();
    let opening = Opening {
        version: VERSION,
        farm: "ab".repeat(16),
        epoch: 1,
        segment: 1,
        program: format!("starfarm {}", env!("CARGO_PKG_VERSION")),
        at_us: NOON_US,
        utc_us: NOON_US,
        mono_us: 0,
    };
    let at_us = NOON_US + 1_000;
    assert_eq!(
        items,
        [
            Item::Opened(opening),
            Item::Snapshot(NOON_US, Box::default()),
            Item::Event(at_us, Event::Stalled { for_us: 5 }),
            Item::Closed(Closing { at_us, utc_us: at_us, entries: 1 }),
        ]
    );
}

#[test]
fn an_entry_is_a_line_and_its_text_a_line_of_it() {
    let happened = events(&mut Random::new(7), Fill::All);
    let bytes = segment(&Snapshot::default(), &happened);
    let text = String::from_utf8(bytes).unwrap();
    let expected = 7 + happened.len();
    assert_eq!(text.lines().count(), expected, "{text}");
    assert!(text.lines().all(|line| line.starts_with('<') && line.ends_with('>')), "{text}");
}
