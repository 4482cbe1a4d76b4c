//! The farm's state at a moment of its log.

use starfarm_events::JobChange;
use starfarm_protocol::job::JobState;
use std::collections::BTreeSet;

use starfarm_events::{Event, Held, IdleReason, NodeInfo, NodeState, Snapshot};
use starfarm_logs::replay::{Moment, ReplayError, State, state_at};
use starfarm_logs::{Fault, Item, LogError, Note, NoteKind, Place};
use starfarm_protocol::ids::{Boot, JobId};

use crate::farm::*;

fn state_of(items: &[Item], seconds: u64) -> State {
    state_at(items.iter().cloned().map(Ok), Moment::After(seconds * SECOND_US)).unwrap()
}

fn with_held(held: Vec<Held>) -> Vec<Item> {
    let nodes = ["a", "b"].map(node).into();
    let snapshot = Snapshot { nodes, jobs: vec![job(1)], held, ..Snapshot::default() };
    vec![opened(1, 1, 0), Item::Snapshot(at(0), Box::new(snapshot))]
}

#[test]
fn a_moment_between_a_snapshot_and_what_came_then() {
    let mut items = with_held(vec![held("a", 0, 100, 10), held("b", 100, 120, 2)]);
    items.extend([
        event(10, tasks("a", (20, 40), 2, at(1), at(9))),
        event(20, Event::NodeLost { node: "b".into(), tasks: 2 }),
        event(20, state("b", NodeState::Lost)),
        event(
            30,
            Event::JobProgress {
                job: JobId(1),
                done: 120,
                failed: 1,
                out: 80,
                pending: 799,
                abandoned: 0,
                units_per_s: 5.0,
            },
        ),
        event(
            40,
            Event::JobState {
                job: JobId(1),
                state: JobChange::To(JobState::Paused),
                why: Some("ada said so".into()),
            },
        ),
        closed(50),
    ]);
    let exact = state_of(&items, 0);
    assert_eq!(
        (exact.snapshot_us, exact.held.len(), exact.jobs[&JobId(1)].units_done.0),
        (Some(at(0)), 2, 100)
    );
    let later = state_of(&items, 15);
    let parts: Vec<_> = later.held.iter().map(|held| (held.lo, held.hi, held.tasks)).collect();
    assert_eq!(parts, [(0, 20, 2), (40, 100, 6), (100, 120, 2)]);
    let later = state_of(&items, 35);
    assert_eq!(later.nodes["b"].state, NodeState::Lost);
    assert!(later.held.iter().all(|held| held.node.as_deref() == Some("a")));
    assert_eq!((later.jobs[&JobId(1)].units_done.0, later.jobs[&JobId(1)].state), (120, JobState::Running));
    let end = state_of(&items, 3_600);
    assert_eq!(
        (end.at_us, end.jobs[&JobId(1)].state),
        (at(50), JobState::Paused),
        "a log ends where it ends"
    );
    let before = state_at(items.into_iter().map(Ok), Moment::OfDay(60 * SECOND_US)).unwrap_err();
    assert!(matches!(&before, ReplayError::Moment(what) if what.contains("begins at 2026-11-21T12:00:00")));
}

#[test]
fn who_said_goodbye_is_gone_and_has_nothing() {
    let mut items = with_held(Vec::new());
    items.extend([
        event(5, Event::NodeIdle { node: "a".into(), reason: IdleReason::NoJob }),
        event(10, Event::NodeLeft { node: "a".into() }),
        event(10, state("a", NodeState::Lost)),
        event(20, state("b", NodeState::Lost)),
        event(30, Event::NodeJoined { node: "a".into(), boot: Boot(8), slots: 2 }),
        event(30, state("a", NodeState::Up)),
        closed(40),
    ]);
    let at = |seconds| {
        let state = state_of(&items, seconds);
        ["a", "b"].map(|name| (State::word(&state.nodes[name]), state.nodes[name].load.len()))
    };
    assert_eq!([at(7), at(15)], [[("up", 2), ("up", 2)], [("gone", 0), ("up", 2)]]);
    assert_eq!([at(25), at(35)], [[("gone", 0), ("lost", 0)], [("up", 0), ("lost", 0)]]);
    assert_eq!(state_of(&items, 15).nodes["a"].idle, None);
}

#[test]
fn what_was_given_out_before_the_moment_is_known_from_when_it_came_back() {
    let mut items = with_held(vec![held("a", 0, 10, 1)]);
    items.extend([
        event(10, tasks("a", (0, 10), 1, at(1), at(9))),
        // Given out at 5, over at 20: in between node b held it.
        event(20, given(tasks("b", (10, 20), 1, at(5), at(20)), at(5))),
        event(21, given(tasks("b", (20, 30), 1, at(5), at(21)), at(5))),
        // Part by part, of one task or of two: nobody can tell.
        event(22, given(tasks("a", (40, 41), 3, at(12), at(22)), at(12))),
        // Given out at 12.
        event(22, given(tasks("a", (30, 40), 1, at(12), at(22)), at(12))),
        closed(30),
        opened(1, 2, 30),
    ]);
    let held_then = vec![
        Held { since_us: at(8), ..held("a", 50, 60, 1) },
        Held { since_us: at(25), ..held("b", 60, 70, 1) },
    ];
    // Who gave this out is gone, and with it when: its node had it when it began.
    items.push(event(28, tasks("b", (90, 100), 1, at(20), at(28))));
    items.push(Item::Snapshot(at(30), Box::new(Snapshot { held: held_then, ..Snapshot::default() })));
    // Behind the next snapshot nothing new can come to light.
    items.push(event(40, given(tasks("a", (80, 90), 1, at(7), at(40)), at(7))));
    let of = |seconds: u64| -> Vec<_> {
        let held = state_of(&items, seconds).held;
        held.into_iter().map(|held| (held.node.unwrap().to_string(), held.lo, held.hi, held.tasks)).collect()
    };
    let a = |lo, hi, tasks| ("a".to_owned(), lo, hi, tasks);
    let b = |lo, hi, tasks| ("b".to_owned(), lo, hi, tasks);
    assert_eq!(of(3), [a(0, 10, 1)]);
    assert_eq!(of(9), [a(0, 10, 1), a(50, 60, 1), b(10, 30, 1)]);
    assert_eq!(of(15), [a(30, 41, 1), a(50, 60, 1), b(10, 30, 1)]);
    assert_eq!(of(26), [a(50, 60, 1), b(60, 70, 1), b(90, 100, 1)]);
}

fn given(mut event: Event, at_us: u64) -> Event {
    if let Event::Tasks { given_us, .. } = &mut event {
        *given_us = Some(at_us);
    }
    event
}

#[test]
fn what_is_held_is_what_a_set_of_units_holds() {
    let mut random = Random(3);
    for _ in 0..300 {
        let mut items = with_held(vec![held("a", 0, 30, 6), held("a", 40, 70, 6), held("b", 30, 40, 1)]);
        let mut model: BTreeSet<u128> = (0..30).chain(40..70).collect();
        for second in 0..random.below(8) {
            let lo = u128::from(random.below(75));
            let hi = lo + 1 + u128::from(random.below(20));
            model.retain(|unit| !(lo..hi).contains(unit));
            items.push(event(
                second + 1,
                match random.below(2) {
                    0 => tasks("a", (lo, hi), 1, at(0), at(1)),
                    _ => Event::TaskExpired { job: JobId(1), lo, hi, node: "a".into() },
                },
            ));
        }
        let state = state_of(&items, 100);
        let of_a = state.held.iter().filter(|held| held.node.as_deref() == Some("a"));
        let units: Vec<u128> = of_a.flat_map(|held| held.lo..held.hi).collect();
        assert_eq!(units.len(), model.len(), "none twice");
        assert_eq!(units.into_iter().collect::<BTreeSet<_>>(), model);
        assert!(state.held.iter().all(|held| held.lo < held.hi && held.tasks > 0));
    }
}

#[test]
fn a_moment_without_a_scheduler_is_told_as_one() {
    let items = [
        opened(1, 1, 0),
        snapshot(0, &["a"]),
        closed(50),
        opened(1, 2, 60),
        snapshot(60, &["a"]),
        closed(100),
        opened(2, 1, 200),
        snapshot(200, &["a"]),
        closed(300),
    ];
    let of = |seconds| {
        let state = state_of(&items, seconds);
        (state.away, state.notes.join(" "))
    };
    assert_eq!([of(10), of(55), of(250), of(300)], [0; 4].map(|_| (false, String::new())));
    let (away, note) = of(150);
    assert!(away && note.contains("was away then") && note.contains("12:01:40"), "{note}");
    let (away, note) = of(900);
    assert!(!away && note.contains("the log ends at 2026-11-21T12:05:00"), "{note}");
}

#[test]
fn what_is_known_of_a_machine_outlives_its_scheduler() {
    let known = NodeInfo { system: Some("lab".into()), cores: Some(8), ..node("a") };
    let unknown = NodeInfo { slots: 0, ..node("a") };
    let picture = |node: NodeInfo| Snapshot { nodes: vec![node], ..Snapshot::default() };
    let items = [
        opened(1, 1, 0),
        Item::Snapshot(at(0), Box::new(picture(known))),
        closed(50),
        opened(2, 1, 60),
        Item::Snapshot(at(60), Box::new(picture(unknown))),
        closed(100),
    ];
    let node = &state_of(&items, 70).nodes["a"];
    assert_eq!((node.slots, node.system.as_deref(), node.cores), (2, Some("lab"), Some(8)));
}

fn note(kind: NoteKind) -> Item {
    let place = Place { file: "x.xml".into(), line: 1, offset: 0 };
    Item::Note(Note { kind, place, what: "something is missing".into() })
}

#[test]
fn a_state_lacks_what_is_missing_since_its_snapshot() {
    let mut items = with_held(Vec::new());
    items.extend([note(NoteKind::Missing), closed(50), opened(1, 2, 50), snapshot(50, &["a"]), closed(100)]);
    let of = |items: &[Item], seconds| {
        let state = state_of(items, seconds);
        (state.partial, state.notes.len())
    };
    assert_eq!(of(&items, 20), (true, 1), "it may have been before the moment");
    assert_eq!(of(&items, 70), (false, 0), "a later snapshot has it");
    items.extend([note(NoteKind::Missing), opened(2, 1, 200), note(NoteKind::Missing)]);
    assert_eq!(of(&items, 20), (true, 1));
    assert_eq!(of(&items, 70), (true, 1), "not what the next epoch lacks");
}

#[test]
fn what_lies_far_behind_the_moment_is_not_read() {
    let mut items: Vec<_> = with_held(Vec::new()).into_iter().map(Ok).collect();
    items.extend([event(10, state("a", NodeState::Lost)), opened(1, 2, 20), snapshot(20, &["a"])].map(Ok));
    let place = Place { file: "x.xml".into(), line: 1, offset: 0 };
    items.push(Err(LogError { place, fault: Fault::Doctype }));
    let state = state_at(items.into_iter(), Moment::After(5 * SECOND_US)).unwrap();
    assert_eq!(state.nodes["a"].state, NodeState::Up);
}
