//! Wall clocks that were set back between two schedulers.

use starfarm_events::{Event, Held, NodeInfo, NodeState, Snapshot};
use starfarm_logs::export::{Format, export};
use starfarm_logs::replay::{Moment, Shown, Window, replay, state_at};
use starfarm_logs::{Closing, Item, Opening};
use starfarm_protocol::ids::Boot;

use crate::farm::*;

/// An epoch of `length` seconds that begins at `seconds`, by its own clock; half-way a result comes that was begun
/// 10 s before.
fn epoch(number: u64, seconds: u64, length: u64) -> Vec<Item> {
    let half = seconds + length / 2;
    let mut result = tasks("a", (0, 10), 1, at(half) - 10 * SECOND_US, at(half));
    if let Event::Tasks { given_us, .. } = &mut result {
        *given_us = Some(at(half) - 11 * SECOND_US);
    }
    vec![opened(number, 1, seconds), snapshot(seconds, &["a"]), event(half, result), closed(seconds + length)]
}

/// 1,000 s, set back by 600 s for 300 s, and set back again by 3,600 s for 100 s.
fn set_back() -> Vec<Item> {
    [epoch(1, 4_000, 1_000), epoch(2, 4_400, 300), epoch(3, 1_100, 100)].concat()
}

fn epochs(items: &[Item]) -> Vec<(u64, u64, u64)> {
    let report = replayed(items, Window::default());
    report.epochs.iter().map(|line| (line.epoch, line.from_us, line.to_us)).collect()
}

#[test]
fn an_epoch_begins_no_earlier_than_what_was_before_it_ended() {
    let report = replayed(&set_back(), Window::default());
    let lines: Vec<_> = report.epochs.iter().map(|line| (line.epoch, line.from_us, line.to_us)).collect();
    assert_eq!(lines, [(1, at(4_000), at(5_000)), (2, at(5_000), at(5_300)), (3, at(5_300), at(5_400))]);
    assert_eq!((report.from_us, report.to_us), (at(4_000), at(5_400)));
    assert_eq!(report.nodes[0].up_us, 1_400 * SECOND_US);
    let marks: Vec<u64> = report.marks.iter().map(|mark| mark.at_us).collect();
    assert_eq!(marks, [at(4_000), at(5_000), at(5_300)]);
    assert!(report.complete, "nothing is missing");
    let told = |epoch, later| {
        format!(
            "the wall clock had been set back when epoch {epoch} began: its times are shown {later} later than \
             they were logged"
        )
    };
    assert_eq!(report.notes, [told(2, "10 min 00 s"), told(3, "1 h 10 min")]);
}

#[test]
fn results_are_of_the_epoch_that_tells_them() {
    let report = replayed(&set_back(), Window::default());
    let busy = |seconds: u64| {
        let bin = ((at(seconds) - report.from_us) / report.axis.width_us) as usize;
        report.series("slots_busy")[bin]
    };
    // In the middle of each epoch, as it is shown.
    assert_eq!([4_495, 5_145, 5_345].map(|seconds| busy(seconds) > 0.5), [true; 3]);
    assert_eq!([4_450, 5_100, 5_320, 5_360].map(busy), [0.0; 4]);
    let durations = report.jobs[0].durations.bins();
    assert_eq!(durations, [(8_388_608, 3)], "durations are what they were");
}

#[test]
fn time_between_epochs_stays_where_the_clock_was_right_from_then_on() {
    // Set back by 600 s; then away for 50 s.
    let items = [epoch(1, 0, 1_000), epoch(2, 400, 300), epoch(3, 750, 100)].concat();
    assert_eq!(epochs(&items)[1..], [(2, at(1_000), at(1_300)), (3, at(1_350), at(1_450))]);
}

#[test]
fn a_clock_that_is_right_again_is_believed() {
    // A machine without a battery begins in the past, and has the time at its next start.
    let items = [epoch(1, 40_000, 1_000), epoch(2, 0, 300), epoch(3, 50_000, 100)].concat();
    assert_eq!(epochs(&items)[1..], [(2, at(41_000), at(41_300)), (3, at(50_000), at(50_100))]);
    assert_eq!(replayed(&items, Window::default()).notes.len(), 1);
    // One that goes ahead by years is, too.
    let items = [epoch(1, 0, 100), epoch(2, 99_999_999, 100)].concat();
    assert_eq!(epochs(&items)[1], (2, at(99_999_999), at(100_000_099)));
    assert!(replayed(&items, Window::default()).notes.is_empty());
}

#[test]
fn what_goes_back_within_an_epoch_stands_still_as_ever() {
    let mut items = epoch(1, 100, 100);
    items.insert(2, event(90, Event::Stalled { for_us: 1 }));
    items.extend([opened(1, 2, 150), snapshot(150, &["a"]), closed(250)]);
    assert_eq!(epochs(&items), [(1, at(100), at(250))]);
    assert!(replayed(&items, Window::default()).notes.is_empty(), "the reader notes that");
}

fn with_job(seconds: u64, submitted: u64, started: Option<u64>, ended: Option<u64>) -> Item {
    let (submitted_us, started_us, ended_us) = (at(submitted), started.map(at), ended.map(at));
    let mut job = job(1);
    (job.totals.submitted_us, job.totals.started_us, job.totals.ended_us) =
        (submitted_us, started_us, ended_us);
    Item::Snapshot(
        at(seconds),
        Box::new(Snapshot {
            jobs: vec![job],
            nodes: vec![NodeInfo { heard_us: Some(at(seconds)), ..node("a") }],
            held: vec![Held { since_us: at(seconds), ..held("a", 0, 10, 1) }],
            ..Snapshot::default()
        }),
    )
}

#[test]
fn a_job_keeps_its_moments_and_what_is_held_has_those_of_the_epoch() {
    // Submitted before the log, and started in epoch 1, unseen; epoch 2, 600 s behind, ends it.
    let items = [
        opened(1, 1, 1_000),
        with_job(1_000, 900, None, None),
        closed(2_000),
        opened(2, 1, 1_400),
        with_job(1_400, 900, Some(1_600), None),
        closed(1_500),
        opened(2, 2, 1_500),
        with_job(1_500, 900, Some(1_600), Some(1_450)),
        closed(1_550),
    ];
    let job = &replayed(&items, Window::default()).jobs[0];
    assert_eq!(
        (job.submitted_us, job.started_us, job.ended_us),
        (at(900), Some(at(1_600)), Some(at(2_050))),
        "before the log, in epoch 1, in epoch 2"
    );
    let state = state_at(items.iter().cloned().map(Ok), Moment::At(at(2_120))).unwrap();
    let (held, node) = (&state.held[0], &state.nodes["a"]);
    assert_eq!((state.snapshot_us, held.since_us), (Some(at(2_100)), at(2_100)));
    assert_eq!(node.heard_us, Some(at(2_100)));
}

#[test]
fn a_node_joined_when_the_epoch_said_that_it_did() {
    let picture = |seconds, nodes: &[(&str, u16, u64)]| {
        let node = |&(name, slots, joined): &(&str, u16, u64)| NodeInfo {
            slots,
            joined_us: at(joined),
            ..node(name)
        };
        let nodes = nodes.iter().map(node).collect();
        Item::Snapshot(at(seconds), Box::new(Snapshot { nodes, ..Snapshot::default() }))
    };
    let joined = |name: &str| Event::NodeJoined { node: name.into(), boot: Boot(7), slots: 2 };
    let items = [
        opened(1, 1, 1_000),
        picture(1_000, &[("a", 2, 500), ("b", 2, 600)]),
        event(1_100, joined("c")),
        closed(2_000),
        opened(2, 1, 1_400),
        // Of d its scheduler does not know when it joined.
        picture(1_400, &[("a", 2, 500), ("b", 2, 600), ("c", 2, 1_100), ("d", 0, 1_400)]),
        event(1_410, joined("b")),
        closed(1_500),
        opened(2, 2, 1_500),
        picture(1_500, &[("a", 2, 500), ("b", 2, 1_410), ("c", 2, 1_100), ("d", 0, 1_400)]),
        closed(1_600),
    ];
    let state = state_at(items.into_iter().map(Ok), Moment::At(at(2_200))).unwrap();
    let told: Vec<u64> = state.nodes.values().map(|node| node.joined_us).collect();
    assert_eq!(told, [at(500), at(2_010), at(1_100), at(2_000)]);
}

#[test]
fn moments_that_a_user_names_are_those_that_are_shown() {
    let items = set_back();
    let log = || items.iter().cloned().map(Ok);
    let state = state_at(log(), Moment::After(1_350 * SECOND_US)).unwrap();
    assert_eq!((state.epoch, state.at_us, state.told_us), (3, at(5_350), at(5_350)));
    assert_eq!(state.notes.len(), 2, "{:?}", state.notes);
    assert!(!state.partial && !state.away);
    let held = |seconds| state_at(log(), Moment::At(at(seconds))).unwrap().held.len();
    assert_eq!([5_335, 5_345].map(held), [0, 1], "a result says when its task was given out");
    let early = state_at(log(), Moment::At(at(4_600))).unwrap();
    assert_eq!((early.epoch, early.notes.len()), (1, 0), "epochs behind the moment are nobody's concern");
    let window = Window { from: Some(Moment::At(at(5_100))), to: Some(Moment::At(at(5_350))) };
    let report = replay(log(), window).unwrap();
    let lines: Vec<_> = report.epochs.iter().map(|line| (line.epoch, line.from_us, line.to_us)).collect();
    assert_eq!(lines, [(2, at(5_100), at(5_300)), (3, at(5_300), at(5_350))]);
    assert_eq!(report.nodes[0].changes()[0], (at(5_100), Shown::State(NodeState::Up)));
}

#[test]
fn a_log_in_another_format_has_the_moments_of_the_log() {
    let items = set_back();
    let mut out = Vec::new();
    let notes = export(items.iter().cloned().map(Ok), Format::Jsonl, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(&format!("\"at\":{}", at(1_100))) && notes.is_empty());
    let mut trace = Vec::new();
    let notes = export(items.into_iter().map(Ok), Format::Perfetto, &mut trace).unwrap();
    assert_eq!(notes.len(), 2);
}

#[test]
fn absurd_clocks_do_no_harm() {
    let opened = |epoch, at_us| {
        let Item::Opened(opening) = opened(epoch, 1, 0) else { unreachable!() };
        Item::Opened(Opening { at_us, utc_us: u64::MAX, ..opening })
    };
    let closed = |at_us| Item::Closed(Closing { at_us, utc_us: u64::MAX, entries: 0 });
    let mut items = vec![
        opened(1, 5),
        closed(u64::MAX),
        opened(2, 0),
        with_job(0, 0, Some(0), Some(0)),
        closed(u64::MAX),
    ];
    items.extend((3..3_000).flat_map(|epoch| [opened(epoch, 3_000 - epoch), closed(7)]));
    let report = replayed(&items, Window::default());
    assert_eq!((report.from_us, report.to_us, report.epochs.len()), (5, u64::MAX, 2_000));
    let [moved, epochs] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(moved.ends_with("(and 2997 more notes of this kind)") && epochs.contains("first 2000 epochs"));
}
