//! Logs made by hand.

use starfarm_events::{Event, Held, JobInfo, NodeInfo, NodeState, Outcome, Sample, Snapshot};
use starfarm_logs::replay::{Report, Window, replay};
use starfarm_logs::{Closing, Item, Opening};
use starfarm_protocol::ids::{Boot, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::journal::record::JobTotals;
pub(crate) use starfarm_protocol::random::SplitMix64 as Random;
use starfarm_protocol::units::Units;

/// 2026-11-21, 12:00 UTC.
pub(crate) const NOON_US: u64 = 1_795_262_400_000_000;
pub(crate) const SECOND_US: u64 = 1_000_000;

/// Seconds after noon, as the farm's clock.
pub(crate) fn at(seconds: u64) -> u64 {
    NOON_US + seconds * SECOND_US
}

pub(crate) fn opened(epoch: u64, segment: u64, seconds: u64) -> Item {
    Item::Opened(Opening {
        version: 1,
        farm: "ab".repeat(16),
        epoch,
        segment,
        program: "starfarm 0.1.0".into(),
        at_us: at(seconds),
        utc_us: at(seconds),
        mono_us: 0,
    })
}

pub(crate) fn closed(seconds: u64) -> Item {
    Item::Closed(Closing { at_us: at(seconds), utc_us: at(seconds), entries: 0 })
}

pub(crate) fn event(seconds: u64, event: Event) -> Item {
    Item::Event(at(seconds), event)
}

pub(crate) fn snapshot(seconds: u64, names: &[&str]) -> Item {
    let nodes: Vec<NodeInfo> = names.iter().map(|name| node(name)).collect();
    let slots = nodes.iter().map(|node| u64::from(node.slots)).sum();
    let sample =
        Sample { nodes_up: nodes.len() as u64, nodes: nodes.len() as u64, slots, ..Sample::default() };
    Item::Snapshot(at(seconds), Box::new(Snapshot { sample, nodes, jobs: vec![job(1)], held: Vec::new() }))
}

pub(crate) fn node(name: &str) -> NodeInfo {
    NodeInfo {
        name: name.into(),
        boot: Some(Boot(7)),
        joined_us: NOON_US,
        heard_us: Some(NOON_US),
        slots: 2,
        tasks: 4,
        tasks_queued: 2,
        power: 1.5,
        load: vec![1_000, 500],
        tasks_done: 10,
        units_done: Units(100),
        speed_ups: 3,
        slow_downs: 1,
        ..NodeInfo::default()
    }
}

pub(crate) fn job(id: u64) -> JobInfo {
    JobInfo {
        id: JobId(id),
        name: "keys".into(),
        user: "ada".into(),
        state: JobState::Running,
        units_total: Units(1_000),
        units_done: Units(100),
        units_out: Units(40),
        units_pending: Units(860),
        units_per_s: 10.0,
        totals: JobTotals {
            submitted_us: NOON_US - SECOND_US,
            started_us: Some(NOON_US),
            dispatched: 14,
            ..JobTotals::default()
        },
        ..JobInfo::default()
    }
}

pub(crate) fn held(node: &str, lo: u128, hi: u128, tasks: u64) -> Held {
    Held { node: Some(node.into()), job: JobId(1), lo, hi, tasks, since_us: NOON_US, offered: 1 }
}

/// Results of `node`: units from `lo` to `hi` by `results` tasks, computed between two moments.
pub(crate) fn tasks(node: &str, (lo, hi): (u128, u128), results: u64, begun_us: u64, ended_us: u64) -> Event {
    Event::Tasks {
        node: node.into(),
        job: JobId(1),
        lo,
        hi,
        results,
        outcome: Outcome::Counted,
        given_us: None,
        begun_us,
        ended_us,
        busy_us: (ended_us - begun_us) * results,
    }
}

pub(crate) fn state(node: &str, state: NodeState) -> Event {
    Event::NodeState { node: node.into(), state, why: None }
}

pub(crate) fn replayed(items: &[Item], window: Window) -> Report {
    replay(items.iter().cloned().map(Ok), window).unwrap()
}
