//! Exports, read by readers of their own.

use std::collections::BTreeMap;

use serde_json::Value;
use starfarm_events::{Event, JobUsage, NodeState, Sample};
use starfarm_logs::export::{Format, export};
use starfarm_logs::{Item, Note, NoteKind, Place};
use starfarm_protocol::admin::UsageSpan;
use starfarm_protocol::ids::{Boot, JobId};

use crate::farm::*;

fn exported(items: &[Item], format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    export(items.iter().cloned().map(Ok), format, &mut out).unwrap();
    out
}

fn log() -> Vec<Item> {
    vec![
        opened(1, 1, 0),
        snapshot(0, &["a"]),
        event(1, Event::NodeJoined { node: "tab\there".into(), boot: Boot(0xff), slots: 2 }),
        event(2, Event::Hit { job: JobId(1), unit: u128::MAX, target: 3 }),
        event(9, tasks("a", (0, 40), 4, at(2), at(8))),
        event(9, tasks("tab\there", (40, 50), 1, at(3), at(7))),
        event(10, Event::Sampled(Sample { gq: 7, power_mean: 2.5, ..Sample::default() })),
        event(11, state("a", NodeState::Lost)),
        closed(12),
    ]
}

#[test]
fn json_lines_hold_each_entry() {
    let place = Place { file: "x.xml".into(), line: 3, offset: 40 };
    let mut items = log();
    items.push(Item::Note(Note { kind: NoteKind::Cut, place, what: "cut".into() }));
    let text = String::from_utf8(exported(&items, Format::Jsonl)).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "opened",
            "sample",
            "node",
            "job",
            "node_joined",
            "hit",
            "tasks",
            "tasks",
            "sample",
            "node_state",
            "closed",
            "note"
        ]
    );
    let hit = &lines[5];
    assert_eq!((&hit["at"], &hit["utc"]), (&at(2).into(), &"2026-11-21T12:00:02.000000Z".into()));
    assert_eq!(hit["unit"], "340282366920938463463374607431768211455", "as text: no number of JSON holds it");
    assert_eq!((&lines[4]["boot"], &lines[4]["node"]), (&"00000000000000ff".into(), &"tab\there".into()));
    assert_eq!((&lines[2]["load"], &lines[8]["power_mean"]), (&serde_json::json!([1000, 500]), &2.5.into()));
    assert_eq!((&lines[0]["epoch"], &lines[11]["line"]), (&1.into(), &3.into()));
}

#[test]
fn rows_have_the_columns_of_a_job_log() {
    let text = String::from_utf8(exported(&log(), Format::Tsv)).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let head = ["Seq", "Host", "Starttime", "JobRuntime", "Send", "Receive", "Exitval", "Signal", "Command"];
    assert_eq!(rows[0], head);
    let command = "job 1 units [0, 40) 4 results counted";
    assert_eq!(rows[1], ["1", "a", "1795262402.000", "6.000", "0", "0", "0", "0", command]);
    assert_eq!((rows[2][1], rows[2].len(), rows.len()), ("tab here", 9, 3));
}

/// A protobuf field: a number or bytes.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A message's fields by their numbers, as the encoding guide describes them.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return number;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(eight.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(inner.to_vec())
            }
            wire => panic!("wire type {wire}"),
        };
        all.push((key >> 3, field));
    }
    all
}

fn number(message: &[(u64, Field)], field: u64) -> Option<u64> {
    message.iter().find_map(|(at, value)| match value {
        Field::Number(number) if *at == field => Some(*number),
        _ => None,
    })
}

fn inner(message: &[(u64, Field)], field: u64) -> Option<Vec<u8>> {
    message.iter().find_map(|(at, value)| match value {
        Field::Bytes(bytes) if *at == field => Some(bytes.clone()),
        _ => None,
    })
}

/// What a trace holds: names of tracks, and events as (time, type, track, name).
type Tracks = BTreeMap<u64, (String, Option<u64>)>;
type TrackEvent = (u64, u64, u64, Option<String>);

fn trace(items: &[Item]) -> (Tracks, Vec<TrackEvent>) {
    let (mut tracks, mut events) = (BTreeMap::new(), Vec::new());
    for (field, packet) in fields(&exported(items, Format::Perfetto)) {
        let Field::Bytes(packet) = packet else { panic!("a trace has packets only") };
        assert_eq!(field, 1);
        let packet = fields(&packet);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if let Some(track) = inner(&packet, 60) {
            let track = fields(&track);
            let (uuid, name) = (number(&track, 1).unwrap(), text(inner(&track, 2).unwrap()));
            assert!(tracks.insert(uuid, (name, number(&track, 5))).is_none(), "described once");
        } else {
            let event = fields(&inner(&packet, 11).unwrap());
            let name = inner(&event, 23).map(text);
            let track = number(&event, 11).unwrap();
            assert!(tracks.contains_key(&track), "described before it is used");
            events.push((number(&packet, 8).unwrap(), number(&event, 9).unwrap(), track, name));
        }
    }
    (tracks, events)
}

#[test]
fn a_trace_has_tracks_slices_counters_and_instants() {
    let (tracks, events) = trace(&log());
    let named = |name: &str| *tracks.iter().find(|(_, (one, _))| one == name).unwrap().0;
    assert_eq!(tracks[&named("node a")].1, Some(named("nodes")));
    assert_eq!(tracks[&named("slot 1")].1, Some(named("node a")));
    let ns = |seconds: u64| at(seconds) * 1_000;
    let slice = [(ns(2), 1, named("slot 1"), Some("job 1".to_owned())), (ns(8), 2, named("slot 1"), None)];
    assert!(slice.iter().all(|event| events.contains(event)), "{events:?}");
    assert!(events.contains(&(ns(10), 4, named("gq"), None)));
    let hit = "hit in job 1: unit 340282366920938463463374607431768211455, target 3";
    assert!(events.contains(&(ns(2), 3, named("what happened"), Some(hit.to_owned()))));
    let joined = events.iter().find(|event| event.2 == named("node tab\there")).unwrap();
    assert_eq!((joined.0, joined.1), (ns(1), 3));
}

#[test]
fn the_cores_of_a_job_are_a_counter() {
    let usage = |over| JobUsage {
        job: JobId(7),
        over,
        for_us: 60 * SECOND_US,
        cpu_cores_sum: Some(1.5),
        ..JobUsage::default()
    };
    let mut items = log();
    items.insert(7, event(70, Event::JobUsage(usage(UsageSpan::Minute))));
    items.insert(8, event(71, Event::JobUsage(usage(UsageSpan::Life))));
    let (tracks, events) = trace(&items);
    let track = *tracks.iter().find(|(_, (name, _))| name == "cores of job 7").unwrap().0;
    let of_job: Vec<_> =
        events.iter().filter(|event| event.2 == track).map(|event| (event.0, event.1)).collect();
    assert_eq!(of_job, [(at(10) * 1_000, 4), (at(70) * 1_000, 4)], "its minutes, and not its life once more");
}

#[test]
fn slices_of_a_lane_never_overlap() {
    let (mut random, mut items, mut now_us) = (Random(8), vec![opened(1, 1, 0)], NOON_US);
    for _ in 0..5_000 {
        now_us += random.below(SECOND_US);
        let begun_us = now_us - random.below(3 * SECOND_US).min(now_us - NOON_US);
        items.push(Item::Event(now_us, tasks("a", (0, 1), 1, begun_us, now_us)));
    }
    let (_, events) = trace(&items);
    let mut lanes: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (at_ns, kind, lane, _) in events {
        let slices = lanes.entry(lane).or_default();
        match kind {
            1 => slices.push((at_ns, u64::MAX)),
            2 => slices.last_mut().unwrap().1 = at_ns,
            _ => {}
        }
    }
    assert_eq!(lanes.values().map(Vec::len).sum::<usize>(), 5_000);
    assert!(lanes.values().all(|slices| slices.windows(2).all(|pair| pair[0].1 <= pair[1].0)));
    assert!(lanes.len() < 16, "as many lanes as tasks overlap: {}", lanes.len());
}

#[test]
fn results_that_come_close_after_each_other_share_a_lane() {
    let mut items = vec![opened(1, 1, 0)];
    // One slot: each task is told to begin a little before the last one ended.
    for second in 1..100 {
        let (begun_us, ended_us) = (at(second) - 20_000, at(second + 1));
        items.push(Item::Event(ended_us, tasks("a", (0, 1), 1, begun_us, ended_us)));
    }
    let (tracks, _) = trace(&items);
    let lanes = tracks.values().filter(|(name, _)| name.starts_with("slot ")).count();
    assert_eq!(lanes, 1);
}
