//! Logs that nobody's farm would write: no panic, no more memory than for any other.

use starfarm_events::JobChange;
use starfarm_events::{Event, Held, IdleReason, NodeState, Outcome, Sample, Snapshot};
use starfarm_logs::export::{Format, export};
use starfarm_logs::replay::{BINS_MAX, Moment, PAGE_BYTES_MAX, ReplayError, Window, fill, replay, state_at};
use starfarm_logs::{Closing, Item};
use starfarm_protocol::ids::{Boot, JobId};
use starfarm_protocol::job::JobState;

use crate::farm::*;

const TEMPLATE: &str = "<!--starfarm:meta-->|<!--starfarm:data-->";

/// A number that is small, near an edge, or anything.
fn number(random: &mut Random) -> u64 {
    match random.below(5) {
        0 => random.below(10),
        1 => u64::MAX - random.below(3),
        2 => NOON_US + random.below(1_000 * SECOND_US),
        3 => 1 << random.below(64),
        _ => random.draw(),
    }
}

fn item(random: &mut Random) -> Item {
    let name = ["a", "b", "\0\u{1b}", ""][random.below(4) as usize];
    let units = |random: &mut Random| u128::from(number(random)) << random.below(65);
    let (job, at_us) = (JobId(random.below(4)), number(random));
    let event = match random.below(12) {
        0 => return opened(number(random), number(random), random.below(100)),
        1 => return Item::Closed(Closing { at_us, utc_us: number(random), entries: 0 }),
        2 => {
            let mut nodes = vec![crate::farm::node(name)];
            nodes[0].slots = random.draw() as u16;
            (nodes[0].units_done.0, nodes[0].tasks_done) = (units(random), number(random));
            let (lo, hi) = (units(random), units(random));
            let held = Held { lo, hi, tasks: number(random), offered: number(random), ..held(name, 0, 1, 1) };
            let sample = Sample { gq: number(random), resent: number(random), ..Sample::default() };
            let snapshot =
                Snapshot { sample, nodes, jobs: vec![crate::farm::job(random.below(4))], held: vec![held] };
            return Item::Snapshot(at_us, Box::new(snapshot));
        }
        3 => state(name, NodeState::ALL[random.below(5) as usize]),
        4 => Event::NodeIdle { node: name.into(), reason: IdleReason::ALL[random.below(6) as usize] },
        5 => Event::NodeJoined { node: name.into(), boot: Boot(random.draw()), slots: random.draw() as u16 },
        6 => Event::NodeLost { node: name.into(), tasks: number(random) },
        7 => {
            Event::Sampled(Sample { results_counted: number(random), power_mean: 1e300, ..Sample::default() })
        }
        8 => Event::EventsDropped { events: number(random) },
        9 => Event::TaskExpired { job, lo: units(random), hi: units(random), node: name.into() },
        _ => Event::Tasks {
            node: name.into(),
            job,
            lo: units(random),
            hi: units(random),
            results: number(random),
            outcome: Outcome::ALL[random.below(5) as usize],
            given_us: None,
            begun_us: number(random),
            ended_us: number(random),
            busy_us: number(random),
        },
    };
    Item::Event(at_us, event)
}

#[test]
fn whatever_a_log_says_it_is_drawn() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let items: Vec<Item> = (0..60).map(|_| item(&mut random)).collect();
        let log = || items.iter().cloned().map(Ok);
        let windows = [None, Some(Moment::At(number(&mut random)))];
        for from in windows {
            let Ok(report) = replay(log(), Window { from, to: None }) else { continue };
            assert!(report.bins <= BINS_MAX && report.to_us >= report.from_us);
            fill(TEMPLATE, report, &mut Vec::new()).unwrap();
        }
        let _ = state_at(log(), Moment::At(number(&mut random)));
        for format in [Format::Jsonl, Format::Tsv, Format::Perfetto] {
            export(log(), format, &mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn a_hundred_thousand_nodes_are_a_page_all_the_same() {
    let names = (0..100_000).map(|number| event(number / 1_000, state(&format!("n{number}"), NodeState::Up)));
    let items: Vec<Item> = std::iter::once(opened(1, 1, 0)).chain(names).collect();
    let report = replayed(&items, Window::default());
    assert!(report.nodes.len() * report.bins <= 1 << 20, "{} x {}", report.nodes.len(), report.bins);
    assert!(report.notes.iter().any(|note| note.contains("nodes are drawn")), "{:?}", report.notes);
    assert_eq!((report.totals.nodes, report.nodes_left_out), (100_000, 100_000 - report.nodes.len() as u64));
    assert!(page_bytes(report) <= PAGE_BYTES_MAX);
}

#[test]
fn a_node_that_flickers_is_drawn_in_spells() {
    let mut items = vec![opened(1, 1, 0)];
    for step in 0..500_000_u64 {
        let event = match step % 2 {
            0 => Event::NodeIdle { node: "a".into(), reason: IdleReason::Waiting },
            _ => Event::NodeBusy { node: "a".into() },
        };
        items.push(Item::Event(NOON_US + step * 1_500, event));
        if step == 200_000 {
            items.push(Item::Event(NOON_US + step * 1_500, state("a", NodeState::Suspect)));
        }
        if step == 200_010 {
            items.push(Item::Event(NOON_US + step * 1_500, state("a", NodeState::Up)));
        }
    }
    let report = replayed(&items, Window::default());
    let changes = report.nodes[0].changes();
    assert!(changes.len() <= 200_000 && changes.is_sorted_by_key(|(at_us, _)| *at_us), "{}", changes.len());
    let suspect = starfarm_logs::replay::Shown::State(NodeState::Suspect);
    assert!(changes.contains(&(NOON_US + 200_000 * 1_500, suspect)), "15 ms of trouble are kept");
    assert!(report.notes.iter().any(|note| note.contains("too many")), "{:?}", report.notes);
}

#[test]
fn runs_of_a_large_log_get_coarser_until_they_fit() {
    let mut random = Random(5);
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let (mut now_us, mut count) = (NOON_US, 0);
    let items = std::iter::from_fn(|| {
        count += 1;
        now_us += random.below(2_000);
        let begun_us = now_us - random.below(40_000_000).min(now_us - NOON_US);
        let name = &names[random.below(100) as usize];
        (count <= 1_400_000).then(|| Ok(Item::Event(now_us, tasks(name, (0, 1), 1, begun_us, now_us))))
    });
    let report = replay(items, Window::default()).unwrap();
    let results: u64 = report.nodes.iter().map(|node| node.results).sum();
    assert_eq!((results, report.grain_us), (1_400_000, 1_000));
    let mut out = Vec::new();
    fill(TEMPLATE, report, &mut out).unwrap();
    let (meta, _, blob) = crate::page::opened(&out);
    let grain_us = meta["grain_us"].as_u64().unwrap();
    assert!(out.len() <= PAGE_BYTES_MAX && grain_us > 1_000, "{} bytes, grain {grain_us} us", out.len());
    let drawn: u64 = crate::page::runs(&meta, &blob).iter().flatten().map(|run| run.results).sum();
    assert_eq!(drawn, 1_400_000, "no result is left out");
}

fn page_bytes(report: starfarm_logs::replay::Report) -> usize {
    let mut out = Vec::new();
    fill(TEMPLATE, report, &mut out).unwrap();
    out.len()
}

#[test]
fn an_export_that_cannot_be_written_says_so() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let items = [opened(1, 1, 0)].map(Ok);
    let outcome = export(items.into_iter(), Format::Jsonl, &mut Full);
    assert!(matches!(outcome, Err(ReplayError::Io(_))));
}

#[test]
fn of_very_many_jobs_the_latest_keep_their_results() {
    let tasks_of = |id: u64| match tasks("a", (0, 1), 1, at(1), at(2)) {
        Event::Tasks { node, lo, hi, results, outcome, given_us, begun_us, ended_us, busy_us, .. } => {
            let job = JobId(id);
            Event::Tasks { node, job, lo, hi, results, outcome, given_us, begun_us, ended_us, busy_us }
        }
        other => other,
    };
    let jobs = (2..=20_001).flat_map(|id| {
        let state = Event::JobState { job: JobId(id), state: JobChange::To(JobState::Finished), why: None };
        [event(3, tasks_of(id)), event(3, state)]
    });
    let items: Vec<Item> = [opened(1, 1, 0), snapshot(0, &["a"])].into_iter().chain(jobs).collect();
    let report = replayed(&items, Window::default());
    assert_eq!((report.jobs.len(), report.jobs_left_out), (1_000, 19_002));
    assert!(
        report.jobs.iter().any(|job| job.job == 1),
        "the snapshot says that it runs: {:?}",
        report.jobs[0]
    );
    let mut out = Vec::new();
    fill(TEMPLATE, report.clone(), &mut out).unwrap();
    let (meta, _, blob) = crate::page::opened(&out);
    let mut drawn = vec![0; report.jobs.len()];
    crate::page::runs(&meta, &blob)
        .iter()
        .flatten()
        .for_each(|run| drawn[run.tag as usize / 8] += run.results);
    let told: Vec<u64> = report.jobs.iter().map(|job| job.results).collect();
    assert_eq!(drawn, told, "a run is of its job, wherever that went");
    assert_eq!((told.iter().sum::<u64>(), report.totals.results), (20_000, 20_000));
}
