//! The log thread on a disk that is full for a while.

use crossbeam_channel::bounded;
use starfarm_events::Event;
use starfarm_logs::{Item, Limits, open};
use starfarm_protocol::ids::{Epoch, FarmId};

use super::*;
use crate::store::testing::SmallDisk;

/// Events of a turn.
const A_TURN: u64 = 3;

/// A turn's events, of which so many fill the small disk.
fn told(at_us: u64) -> ToLog {
    let event =
        Event::NodeRefused { node: "a".into(), job: starfarm_protocol::ids::JobId(1), why: "x".repeat(400) };
    ToLog::Events(Arc::new(Told { at_us, events: vec![event; A_TURN as usize] }))
}

#[test]
fn a_full_disk_costs_entries_and_the_log_says_how_many() {
    let Some(disk) = SmallDisk::mount(2, "a_full_disk_costs_entries") else { return };
    let dir = disk.path().join("log");
    let writer = LogWriter::open(&dir, FarmId([1; 16]), Epoch(1), Limits::default()).unwrap();
    let (to_log, inputs) = bounded(16);
    let (to_dispatcher, asked) = bounded(16);
    let shared = Shared::new(1_000_000);
    let low_water = LowWater::new(disk.path(), 0);
    let thread = LogThread {
        writer,
        dir: dir.clone(),
        inputs,
        dispatcher: to_dispatcher,
        shared: Arc::clone(&shared),
        low_water,
        retry: Duration::from_millis(20),
        missed: 0,
    };
    let thread = std::thread::spawn(move || thread.run());
    let picture = |at_us| ToLog::Picture(at_us, Box::default());
    to_log.send(picture(1_000_000)).unwrap();
    // More than there is room for.
    let mut sent = 0;
    while shared.unlogged() < 100 {
        assert!(sent < 100_000, "a disk of 2 MiB is full by now");
        sent += A_TURN;
        to_log.send(told(1_000_000 + sent)).unwrap();
    }
    // Nobody waits for it, and it tries again: first in vain.
    assert!(matches!(asked.recv_timeout(Duration::from_secs(20)), Ok(Input::Picture)));
    let full = disk.fill(0);
    to_log.send(picture(2_000_000)).unwrap();
    assert!(matches!(asked.recv_timeout(Duration::from_secs(20)), Ok(Input::Picture)));
    // A person makes room, at the cost of the first segment's.
    std::fs::remove_file(full).unwrap();
    let first = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path()).min().unwrap();
    let kept = count(&first);
    std::fs::remove_file(first).unwrap();
    to_log.send(picture(3_000_000)).unwrap();
    for later in 1..=10 {
        // Of these three the log hears nothing.
        shared.unheard.fetch_add(A_TURN, Ordering::Relaxed);
        sent += A_TURN;
        sent += A_TURN;
        to_log.send(told(3_000_000 + later)).unwrap();
    }
    drop(to_log);
    thread.join().unwrap();
    let (events, dropped) = count(&dir);
    assert_eq!(events, 10 * A_TURN, "the last are there");
    assert_eq!(kept.0 + events + dropped, sent, "what is not there is said to be missing");
    assert_eq!(shared.unlogged(), kept.1 + dropped, "`status` says the same");
}

/// Events in a log, and those that it says are missing.
fn count(log: &std::path::Path) -> (u64, u64) {
    let (mut events, mut dropped) = (0, 0);
    for item in open(log).unwrap() {
        match item.unwrap() {
            Item::Event(_, Event::EventsDropped { events }) => dropped += events,
            Item::Event(..) => events += 1,
            _ => {}
        }
    }
    (events, dropped)
}
