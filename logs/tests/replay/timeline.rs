//! What a report says of a farm over time.

use starfarm_events::JobChange;
use starfarm_events::{Event, IdleReason, NodeState, Outcome, Sample, Snapshot};
use starfarm_logs::replay::{Moment, ReplayError, Shown, Window, replay};
use starfarm_logs::{Item, Note, NoteKind, Place};
use starfarm_protocol::ids::{Boot, JobId};
use starfarm_protocol::job::JobState;

use crate::farm::*;

const UP: Shown = Shown::State(NodeState::Up);
const SUSPECT: Shown = Shown::State(NodeState::Suspect);
const LOST: Shown = Shown::State(NodeState::Lost);
const PAUSED: Shown = Shown::Idle(IdleReason::Paused);

/// Node b is killed at 12:01:40; 5 s later it is suspect, after 15 s lost. It comes back at 12:05.
fn killed() -> Vec<Item> {
    vec![
        opened(1, 1, 0),
        snapshot(0, &["a", "b"]),
        event(60, Event::NodeIdle { node: "a".into(), reason: IdleReason::Paused }),
        event(90, Event::NodeBusy { node: "a".into() }),
        event(105, Event::NodeSuspect { node: "b".into() }),
        event(105, state("b", NodeState::Suspect)),
        event(115, Event::NodeLost { node: "b".into(), tasks: 3 }),
        event(115, state("b", NodeState::Lost)),
        event(300, Event::NodeJoined { node: "b".into(), boot: Boot(9), slots: 4 }),
        event(300, state("b", NodeState::Up)),
        event(590, tasks("b", (0, 40), 2, at(400), at(580))),
        event(600, Event::Sampled(Sample::default())),
        closed(600),
    ]
}

#[test]
fn a_node_that_was_killed_is_lost_from_then_on() {
    let report = replayed(&killed(), Window::default());
    let [a, b] = &report.nodes[..] else { panic!("{:?}", report.nodes) };
    assert_eq!(a.changes(), [(at(0), UP), (at(60), PAUSED), (at(90), UP)]);
    assert_eq!(b.changes(), [(at(0), UP), (at(105), SUSPECT), (at(115), LOST), (at(300), UP)]);
    assert_eq!((a.up_us, a.idle_us[IdleReason::Paused as usize]), (600 * SECOND_US, 30 * SECOND_US));
    assert_eq!((b.up_us, b.suspect_us, b.lost_us), (405 * SECOND_US, 10 * SECOND_US, 185 * SECOND_US));
    assert_eq!((b.times_lost, b.resent, b.slots), (1, 3, 4));
    let bin = |seconds: u64| (seconds * SECOND_US / report.axis.width_us) as usize;
    assert!((bin(116)..bin(299)).all(|bin| b.worst[bin] == LOST));
    assert!((0..bin(104)).all(|bin| b.worst[bin] == UP));
    let lost = report.marks.iter().find(|mark| mark.kind == "node_lost").unwrap();
    assert_eq!((lost.at_us, lost.node.as_deref()), (at(115), Some("b")));
    assert!(report.complete && report.notes.is_empty());
}

#[test]
fn a_window_is_a_report_of_its_own() {
    let window =
        Window { from: Some(Moment::After(110 * SECOND_US)), to: Some(Moment::OfDay(43_210 * SECOND_US)) };
    let error = replay(killed().into_iter().map(Ok), window).unwrap_err();
    assert!(matches!(error, ReplayError::Moment(_)), "12:00:10 is before 12:01:50: {error}");
    let window = Window { from: Some(Moment::After(110 * SECOND_US)), to: Some(Moment::At(at(400))) };
    let report = replayed(&killed(), window);
    let b = &report.nodes[1];
    assert_eq!(b.changes(), [(at(110), SUSPECT), (at(115), LOST), (at(300), UP)]);
    assert_eq!((b.suspect_us, b.lost_us, b.up_us), (5 * SECOND_US, 185 * SECOND_US, 100 * SECOND_US));
    assert_eq!((b.results, report.from_us, report.to_us), (0, at(110), at(400)));
    assert!(report.complete, "a part of a complete log");
    assert!(!report.marks.iter().any(|mark| mark.kind == "node_suspect"), "that was before");
    let early = Window { from: Some(Moment::At(1)), to: None };
    assert_eq!(replayed(&killed(), early).from_us, at(0), "before the log there is nothing to draw");
    let late = Window { from: Some(Moment::After(3_600 * SECOND_US)), to: None };
    assert!(
        replay(killed().into_iter().map(Ok), late)
            .unwrap_err()
            .to_string()
            .contains("from 2026-11-21T12:00:00")
    );
}

#[test]
fn nothing_is_known_while_the_scheduler_is_away() {
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a", "b"]), closed(100)];
    items.extend([opened(1, 2, 100), snapshot(100, &["a", "b"]), closed(200)]);
    items.extend([opened(2, 1, 300), snapshot(300, &["a"]), closed(400)]);
    let report = replayed(&items, Window::default());
    assert_eq!(report.nodes[0].changes(), [(at(0), UP), (at(200), Shown::Unknown), (at(300), UP)]);
    assert_eq!(report.nodes[1].changes()[1..], [(at(200), Shown::Unknown), (at(300), Shown::Gone)]);
    let epochs: Vec<_> =
        report.epochs.iter().map(|epoch| (epoch.epoch, epoch.from_us, epoch.to_us)).collect();
    assert_eq!(epochs, [(1, at(0), at(200)), (2, at(300), at(400))]);
    let known: Vec<bool> = report.series("nodes_up").iter().map(|value| value.is_finite()).collect();
    let bin = |seconds: u64| (seconds * SECOND_US / report.axis.width_us) as usize;
    assert!(known[..bin(200)].iter().all(|is| *is) && !known[bin(202)..bin(299)].iter().any(|is| *is));
    // A segment that is missing is a gap too.
    items.drain(3..6);
    items.insert(3, opened(1, 3, 150));
    items.insert(4, snapshot(150, &["a", "b"]));
    items.insert(5, closed(200));
    let report = replayed(&items, Window::default());
    assert_eq!(report.nodes[0].changes()[1..3], [(at(100), Shown::Unknown), (at(150), UP)]);
}

#[test]
fn who_said_goodbye_is_gone_and_not_lost() {
    let items = [
        opened(1, 1, 0),
        snapshot(0, &["a"]),
        event(10, Event::NodeLeft { node: "a".into() }),
        event(10, state("a", NodeState::Lost)),
        event(20, Event::NodeJoined { node: "a".into(), boot: Boot(8), slots: 2 }),
        event(20, state("a", NodeState::Up)),
        event(30, state("a", NodeState::Lost)),
        closed(40),
    ];
    let report = replayed(&items, Window::default());
    assert_eq!(report.nodes[0].changes(), [(at(0), UP), (at(10), Shown::Gone), (at(20), UP), (at(30), LOST)]);
    // A segment that begins behind its goodbye says the same: who is lost in silence keeps its incarnation.
    let (mut a, mut b) = (node("a"), node("b"));
    (a.state, a.boot, b.state) = (NodeState::Lost, None, NodeState::Lost);
    let picture = Snapshot { nodes: vec![a, b], ..Snapshot::default() };
    let report =
        replayed(&[opened(1, 1, 0), Item::Snapshot(at(0), Box::new(picture)), closed(9)], Window::default());
    assert_eq!([0, 1].map(|at| report.nodes[at].worst[0]), [Shown::Gone, LOST]);
}

#[test]
fn counters_of_a_node_are_those_of_the_log() {
    let load = |tasks_done, units_done, speed_ups| Event::NodeLoad {
        devices: Vec::new(),
        node: "a".into(),
        tasks: 0,
        queued: 0,
        power: 1.0,
        load: Vec::new(),
        idle_us: 0,
        tasks_done,
        units_done,
        speed_ups,
        slow_downs: 1,
    };
    let items = [
        opened(1, 1, 0),
        // It had done 10 tasks of 100 units before, and was told to speed up 3 times.
        snapshot(0, &["a"]),
        event(10, tasks("a", (0, 20), 2, at(1), at(9))),
        event(60, load(12, 120, 5)),
        event(70, tasks("a", (20, 50), 3, at(61), at(69))),
        closed(80),
        opened(2, 1, 90),
        event(90, load(4, 40, 1)),
        closed(100),
    ];
    let a = &replayed(&items, Window::default()).nodes[0];
    let counted = (2 + 3 + 4, 20 + 30 + 40, (2 + 1, 1));
    assert_eq!(
        (a.tasks_done, a.units_done.0, (a.speed_ups, a.slow_downs)),
        counted,
        "another scheduler counts from zero"
    );
    // From 12:00:30 on: the load at 12:01 tells of nothing that was not before.
    let window = Window { from: Some(Moment::At(at(30))), to: Some(Moment::At(at(80))) };
    let a = &replayed(&items, window).nodes[0];
    assert_eq!((a.tasks_done, a.units_done.0, a.results), (3, 30, 3));
    let a = &replayed(&items[..6], Window::default()).nodes[0];
    assert_eq!((a.tasks_done, a.units_done.0, a.results), (5, 50, 5), "what came after the last load counts");
}

#[test]
fn rates_are_of_watched_time_and_what_was_sent_back_is_counted_once_over_restarts() {
    let sampled = |resent| Event::Sampled(Sample { resent, ..Sample::default() });
    let returned = |node: &str, results| {
        let mut event = tasks(node, (0, 4), results, at(1), at(1));
        if let Event::Tasks { outcome, .. } = &mut event {
            *outcome = Outcome::Returned;
        }
        event
    };
    let items = [
        opened(1, 1, 0),
        snapshot(0, &["a", "b"]),
        event(3, returned("a", 2)),
        event(4, Event::NodeLost { node: "b".into(), tasks: 3 }),
        // It knows of one that no event told of.
        event(10, sampled(6)),
        event(12, returned("a", 1)),
        event(13, tasks("a", (4, 8), 3, at(11), at(12))),
        closed(14),
        // Nobody watched for an hour.
        opened(2, 1, 3_600),
        snapshot(3_600, &["a"]),
        event(3_604, tasks("a", (8, 16), 6, at(1_000), at(1_400))),
        // Half of it was computed before.
        event(3_606, tasks("a", (16, 20), 2, at(3_598), at(3_602))),
        event(3_610, sampled(1)),
        closed(3_612),
    ];
    let report = replayed(&items, Window::default());
    let resent: Vec<u64> = report.nodes.iter().map(|node| node.resent).collect();
    assert_eq!((report.totals.resent, &resent[..]), (6 + 1 + 1, &[3, 3][..]));
    let told = report.series("told");
    assert!(told.iter().any(|share| *share > 0.0 && *share < 1.0), "a bin is known in part");
    let sum = |name: &str| -> f64 {
        let known = report.series(name).iter().zip(told).filter(|(rate, _)| rate.is_finite());
        known.map(|(rate, share)| f64::from(rate * share)).sum::<f64>() * report.axis.width_us as f64 / 1e6
    };
    assert_eq!(report.totals.results, 3 + 6 + 2);
    assert!((sum("results_per_s") - 4.0).abs() < 1e-3, "of watched time: {}", sum("results_per_s"));
    assert!((sum("units_per_s") - 6.0).abs() < 1e-3, "of watched time: {}", sum("units_per_s"));
    assert!((sum("resent_per_s") - 7.0).abs() < 1e-3, "what samples told: {}", sum("resent_per_s"));
}

/// A note that something of the log is missing.
fn stopped() -> Item {
    Item::Note(Note { kind: NoteKind::Stopped, place: Place::default(), what: "it breaks off".to_owned() })
}

#[test]
fn a_log_that_lost_something_on_its_way_is_not_complete() {
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a"]), stopped(), closed(100)];
    items.extend([opened(2, 1, 200), snapshot(200, &["a"]), event(300, Event::Sampled(Sample::default()))]);
    items.push(closed(400));
    assert!(!replayed(&items, Window::default()).complete, "a later scheduler brings nothing back");
    let from = |seconds| Window { from: Some(Moment::At(at(seconds))), to: None };
    assert!(!replayed(&items, from(150)).complete, "the gap reaches into the window");
    assert!(replayed(&items, from(250)).complete, "what was lost before the window is no loss to it");
    items.remove(2);
    assert!(replayed(&items, Window::default()).complete);
    // Retention has removed the first segment.
    items[0] = opened(1, 3, 0);
    let report = replayed(&items, Window::default());
    assert!(!report.complete && report.notes[0].contains("begins with segment 3"), "{:?}", report.notes);
    let report = replayed(&items, from(150));
    assert!(report.complete && report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn bins_hold_what_a_naive_sum_holds() {
    let mut random = Random(4);
    let joined = Event::NodeJoined { node: "a".into(), boot: Boot(7), slots: 64 };
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a"]), event(0, joined)];
    let (mut runs, mut now_us) = (Vec::new(), NOON_US);
    for _ in 0..2_000 {
        now_us += random.below(9 * SECOND_US);
        let ended_us = now_us - random.below(3 * SECOND_US).min(now_us - NOON_US);
        let begun_us = ended_us - random.below(40 * SECOND_US).min(ended_us - NOON_US);
        runs.push((begun_us, ended_us));
        items.push(Item::Event(now_us, tasks("a", (0, 8), 1, begun_us, ended_us)));
    }
    let report = replayed(&items, Window::default());
    let (width_us, bins) = (report.axis.width_us, report.bins);
    assert!(bins > 512 && width_us.is_multiple_of(1_000));
    for bin in (0..bins - 1).step_by(7) {
        let (lo, hi) = (NOON_US + bin as u64 * width_us, NOON_US + (bin as u64 + 1) * width_us);
        let inside_us: u64 =
            runs.iter().map(|(from, to)| (*to).min(hi).saturating_sub((*from).max(lo))).sum();
        let (busy, naive) = (f64::from(report.series("slots_busy")[bin]), inside_us as f64 / width_us as f64);
        assert!((busy - naive).abs() < 1e-3 * naive.max(1.0), "bin {bin}: {busy}, {naive}");
        let row = f64::from(report.nodes[0].busy_bins[bin]) / width_us as f64;
        assert!((row - naive).abs() < 1e-3 * naive.max(1.0), "bin {bin}: {row}, {naive}");
    }
    let units: f64 =
        report.series("units_per_s").iter().map(|rate| f64::from(*rate) * width_us as f64 / 1e6).sum();
    // The last bin is not known to its end, so that its mean is over less.
    assert!((units - 16_000.0).abs() < 80.0, "{units}");
}

#[test]
fn states_by_bin_are_the_worst_of_a_naive_look() {
    let (mut random, mut now_us) = (Random(11), NOON_US);
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a"])];
    let mut spells = vec![(NOON_US, UP)];
    for _ in 0..3_000 {
        now_us += 1 + random.below(2 * SECOND_US);
        let new = NodeState::ALL[random.below(5) as usize];
        items.push(Item::Event(now_us, state("a", new)));
        spells.push((now_us, Shown::State(new)));
    }
    let report = replayed(&items, Window::default());
    let width_us = report.axis.width_us;
    for bin in 0..report.bins {
        let (lo, hi) = (NOON_US + bin as u64 * width_us, NOON_US + (bin as u64 + 1) * width_us);
        let touching = spells.iter().enumerate().filter(|(at, (from, _))| {
            let to = spells.get(at + 1).map_or(now_us, |(to, _)| *to);
            *from < hi && to > lo && from < &to
        });
        let worst = touching.map(|(_, (_, shown))| shown.severity()).max().unwrap_or(0);
        assert_eq!(report.nodes[0].worst[bin].severity(), worst, "bin {bin}");
    }
}

#[test]
fn a_job_is_followed_to_its_certificate() {
    let items = [
        opened(1, 1, 0),
        event(
            5,
            Event::JobSubmitted {
                job: JobId(3),
                name: "sweep".into(),
                user: "eve".into(),
                spec: starfarm_protocol::ids::ContentHash([1; 32]),
                units: 1 << 70,
            },
        ),
        event(6, Event::JobState { job: JobId(3), state: JobChange::To(JobState::Running), why: None }),
        event(7, Event::Hit { job: JobId(3), unit: 5, target: 0 }),
        event(8, Event::JobState { job: JobId(3), state: JobChange::To(JobState::Paused), why: None }),
        event(9, Event::JobState { job: JobId(3), state: JobChange::To(JobState::Running), why: None }),
        event(20, Event::JobState { job: JobId(3), state: JobChange::To(JobState::Finished), why: None }),
        closed(30),
    ];
    let job = &replayed(&items, Window::default()).jobs[0];
    let states: Vec<(u64, &str)> = job.states.iter().map(|(at_us, state)| (*at_us, state.word())).collect();
    let words =
        [(at(5), "queued"), (at(6), "running"), (at(8), "paused"), (at(9), "running"), (at(20), "finished")];
    assert_eq!(states, words);
    assert_eq!((job.started_us, job.ended_us, job.hits), (Some(at(6)), Some(at(20)), 1));
    assert_eq!((job.units.0, job.name.as_str()), (1 << 70, "sweep"));
}

#[test]
fn a_partial_log_says_so() {
    let place = Place { file: "x.xml".into(), line: 9, offset: 99 };
    let cut = Item::Note(Note { kind: NoteKind::Cut, place, what: "the log is cut here".into() });
    let mut items = killed();
    items.pop();
    let report = replayed(&items, Window::default());
    assert!(!report.complete && report.notes[0].contains("not closed"), "{:?}", report.notes);
    items.push(cut);
    let report = replayed(&items, Window::default());
    assert!(!report.complete);
    assert_eq!(report.notes, ["x.xml, line 9 (byte 99): the log is cut here"]);
    let mut items = killed();
    items.insert(2, event(1, Event::EventsDropped { events: 12 }));
    let report = replayed(&items, Window::default());
    assert!(!report.complete && report.notes[0].starts_with("12 events are missing"));
    assert!(matches!(replay(std::iter::empty(), Window::default()), Err(ReplayError::Empty)));
}

#[test]
fn outcomes_are_kept_apart() {
    let of = |outcome| match tasks("a", (0, 10), 1, at(1), at(2)) {
        Event::Tasks { node, job, lo, hi, results, given_us, begun_us, ended_us, busy_us, .. } => {
            Event::Tasks { node, job, lo, hi, results, outcome, given_us, begun_us, ended_us, busy_us }
        }
        other => other,
    };
    let events = Outcome::ALL.iter().map(|outcome| event(3, of(*outcome)));
    let items: Vec<Item> = [opened(1, 1, 0), snapshot(0, &["a"])].into_iter().chain(events).collect();
    let report = replayed(&items, Window::default());
    let a = &report.nodes[0];
    assert_eq!((a.results, a.tasks_done, a.units_done.0), (4, 2, 10), "what was given back is no result");
    assert_eq!((report.jobs[0].results, report.jobs[0].durations.bins()), (4, vec![(524_288, 4)]));
}

#[test]
fn a_result_that_is_told_twice_was_computed_once() {
    let again = || event(11, tasks("a", (0, 10), 2, at(0), at(10)));
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a"])];
    items.extend([again(), again(), again(), closed(20)]);
    let report = replayed(&items, Window::default());
    let a = &report.nodes[0];
    // To a bin: in the one where the result ends, it may count as often as it was told.
    assert!((a.utilisation - 0.5).abs() < 0.01, "{}", a.utilisation);
    assert!(report.series("slots_busy").iter().all(|busy| *busy <= 2.0));
}

#[test]
fn slots_are_busy_of_the_time_that_they_had() {
    let joined = |slots| Event::NodeJoined { node: "a".into(), boot: Boot(9), slots };
    let items = [
        opened(1, 1, 0),
        snapshot(0, &["a"]),
        // Two slots for 100 s, draining for half of it; then lost for 100 s, in which it goes on unseen.
        event(50, state("a", NodeState::Draining)),
        event(100, state("a", NodeState::Lost)),
        closed(200),
        // Nobody watched for 100 s.
        opened(2, 1, 300),
        snapshot(300, &["a"]),
        event(310, tasks("a", (0, 60), 2, at(0), at(310))),
        // Four slots for 100 s.
        event(350, joined(4)),
        event(350, state("a", NodeState::Up)),
        event(450, tasks("a", (60, 90), 2, at(350), at(450))),
        closed(450),
    ];
    let report = replayed(&items, Window::default());
    let a = &report.nodes[0];
    assert_eq!((a.up_us, a.draining_us, a.lost_us), (200 * SECOND_US, 50 * SECOND_US, 100 * SECOND_US));
    assert_eq!(a.known_us, 350 * SECOND_US, "100 s are unknown");
    let seconds = |us: u64| (us as f64 / 1e6).round() as u64;
    assert_eq!((seconds(a.slots_us), a.slots), (2 * 100 + 2 * 50 + 4 * 100, 4));
    // The first 100 s, 10 s, and half of the last 100; to a bin at each end.
    let busy = a.busy_us as f64 / 1e6;
    assert!((busy - (200.0 + 20.0 + 200.0)).abs() < 4.0, "{busy}");
    assert!((a.utilisation - 0.6).abs() < 0.01, "{}", a.utilisation);
    let bin = (50 * SECOND_US / report.axis.width_us) as usize;
    assert!((a.busy_bins[bin] / a.room_bins[bin] - 1.0).abs() < 0.01, "of the slots that it had then");
}

#[test]
fn a_window_ends_where_another_segment_goes_on() {
    let mut items = vec![opened(1, 1, 0), snapshot(0, &["a"])];
    items.extend([event(50, state("a", NodeState::Up)), closed(50), opened(1, 2, 100), closed(200)]);
    let window = Window { from: None, to: Some(Moment::At(at(90))) };
    assert_eq!(replayed(&items, window).nodes[0].changes(), [(at(0), UP)]);
    items[4] = opened(2, 1, 100);
    assert_eq!(replayed(&items, window).nodes[0].changes(), [(at(0), UP), (at(50), Shown::Unknown)]);
}

#[test]
fn a_log_may_begin_with_notes() {
    let place = Place { file: "x.xml".into(), line: 0, offset: 0 };
    let note = Item::Note(Note { kind: NoteKind::Cut, place, what: "the log ends before it begins".into() });
    let items: Vec<Item> = [note.clone()].into_iter().chain(killed()).collect();
    let report = replayed(&items, Window::default());
    assert_eq!((report.from_us, report.to_us), (at(0), at(600)));
    assert!(!report.complete && report.notes.len() == 1, "what that scheduler saw is lost");
    let empty = replay([Ok(note)].into_iter(), Window::default());
    assert!(matches!(empty, Err(ReplayError::Empty)));
}

#[test]
fn a_lost_node_is_missing_from_the_curves_at_once() {
    let report = replayed(&killed()[..11], Window::default());
    let value =
        |name, seconds: u64| report.series(name)[(seconds * SECOND_US / report.axis.width_us) as usize];
    let of = |seconds| ["nodes_up", "nodes", "slots"].map(|name| value(name, seconds));
    assert_eq!(
        [of(50), of(110), of(200), of(400)],
        [[2.0, 2.0, 4.0], [1.0, 2.0, 2.0], [1.0, 1.0, 2.0], [2.0, 2.0, 6.0]]
    );
}
