//! The farm's state at a moment of its log.

use std::collections::BTreeSet;

use starfarm_events::{Event, Held, NodeState, Snapshot};
use starfarm_logs::Item;
use starfarm_logs::replay::{Moment, ReplayError, State, state_at};
use starfarm_protocol::ids::JobId;

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
        event(40, Event::JobState { job: JobId(1), state: "paused".into(), why: Some("ada said so".into()) }),
        closed(50),
    ]);
    let exact = state_of(&items, 0);
    assert_eq!((exact.snapshot_us, exact.held.len(), exact.jobs[&JobId(1)].done), (Some(at(0)), 2, 100));
    let later = state_of(&items, 15);
    let parts: Vec<_> = later.held.iter().map(|held| (held.lo, held.hi, held.tasks)).collect();
    assert_eq!(parts, [(0, 20, 2), (100, 120, 2), (40, 100, 6)]);
    let later = state_of(&items, 35);
    assert_eq!(later.nodes["b"].state, NodeState::Lost);
    assert!(later.held.iter().all(|held| held.node.as_deref() == Some("a")));
    assert_eq!((later.jobs[&JobId(1)].done, &*later.jobs[&JobId(1)].state), (120, "running"));
    let end = state_of(&items, 3_600);
    assert_eq!((end.at_us, &*end.jobs[&JobId(1)].state), (at(50), "paused"), "a log ends where it ends");
    let before = state_at(items.into_iter().map(Ok), Moment::OfDay(60 * SECOND_US)).unwrap_err();
    assert!(matches!(&before, ReplayError::Moment(what) if what.contains("begins at 2026-11-21T12:00:00")));
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
