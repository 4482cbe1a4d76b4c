//! A node over time: how its time went, what it did, and its row of the grids.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use starfarm_events::{Event, IdleReason, NodeInfo, NodeState, Outcome};
use starfarm_protocol::units::Units;

use super::bins::{self, Axis, BINS_MAX};
use super::changes::Changes;
use super::grown::Grown;
use super::runs::Runs;
use super::shown::Shown;

/// Longest text about a node's machine, in characters.
const FACT_CHARS_MAX: usize = 120;

/// A node over the whole of a report. What `_us` ends is how long it was in that state.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "most fields are those of the event model")]
pub struct NodeLine {
    #[serde(rename = "node")]
    pub name: String,
    /// Its slots: the largest number that it had.
    pub slots: u16,
    pub system: Option<String>,
    pub cpu: Option<String>,
    pub cores: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub accelerators: Option<String>,
    /// When it joined first, as far as the log tells.
    pub joined_us: u64,
    /// Results, without those that gave units back.
    pub results: u64,
    /// Tasks that it finished.
    pub tasks_done: u64,
    /// Units counted from it.
    pub units_done: Units,
    /// How long its slots computed, in all, while it was known to be able to.
    pub busy_us: u64,
    /// The time that its slots had for that: while it was up, suspect or draining.
    pub slots_us: u64,
    /// Share of its slots' time that they computed, 0 to 1.
    pub utilisation: f64,
    /// How long the log tells of it: in the farm, and watched.
    pub known_us: u64,
    pub up_us: u64,
    /// Of `up_us`, how long it was idle, by reason in the order of [`IdleReason::ALL`].
    #[serde(serialize_with = "by_reason")]
    pub idle_us: [u64; IdleReason::ALL.len()],
    pub suspect_us: u64,
    pub draining_us: u64,
    pub quarantined_us: u64,
    pub lost_us: u64,
    pub times_lost: u64,
    /// Tasks that went back to gq from it: lost with it, expired, or given back.
    pub resent: u64,
    pub speed_ups: u64,
    pub slow_downs: u64,
    /// The worst that is shown of it in each bin.
    #[serde(skip)]
    pub worst: Vec<Shown>,
    /// Time that its slots computed, in each bin, in microseconds.
    #[serde(skip)]
    pub busy_bins: Vec<f32>,
    /// Time that its slots had, in each bin, in microseconds.
    #[serde(skip)]
    pub room_bins: Vec<f32>,
    #[serde(skip)]
    pub(crate) runs: Runs,
    #[serde(skip)]
    now: Now,
}

/// What a node's line is made of while the log is read.
#[derive(Clone, Debug, Default)]
struct Now {
    /// Tasks and units done, speed-ups, slow-downs.
    counters: [Grown; 4],
    changes: Changes,
    state: NodeState,
    idle: Option<IdleReason>,
    /// It said goodbye.
    left: bool,
    shown: Shown,
    since_us: u64,
    slots: u16,
}

fn by_reason<S: Serializer>(idle_us: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let words = IdleReason::ALL.iter().map(|reason| reason.word());
    words.zip(idle_us).collect::<BTreeMap<_, _>>().serialize(serializer)
}

impl NodeLine {
    pub(super) fn new(name: &str, from_us: u64) -> Self {
        let (worst, busy_bins, room_bins) =
            (vec![Shown::Gone; BINS_MAX], vec![0.0; BINS_MAX], vec![0.0; BINS_MAX]);
        let (name, now) = (name.to_owned(), Now { since_us: from_us, ..Now::default() });
        Self { name, joined_us: from_us, worst, busy_bins, room_bins, now, ..Self::default() }
    }

    /// Changes of what is shown of it, ascending; before the first it was not in the farm.
    pub fn changes(&self) -> &[(u64, Shown)] {
        self.now.changes.as_slice()
    }

    /// From a moment on it has so many slots.
    fn set_slots(&mut self, axis: &Axis, at_us: u64, slots: u16) {
        if slots != self.now.slots {
            self.settle(axis, at_us);
            self.now.slots = slots;
        }
        if at_us >= axis.from_us {
            self.slots = self.slots.max(slots);
        }
    }

    pub(super) fn show(&mut self, axis: &Axis, at_us: u64, shown: Shown) {
        if shown != self.now.shown {
            self.settle(axis, at_us);
            self.now.shown = shown;
            self.now.changes.push(at_us.max(axis.from_us), shown);
        }
    }

    pub(super) fn show_state(&mut self, axis: &Axis, at_us: u64) {
        let shown = match (self.now.left, self.now.state) {
            (true, NodeState::Lost) => Shown::Gone,
            (_, state) => Shown::of(state, self.now.idle),
        };
        self.show(axis, at_us, shown);
    }

    /// Books the time since the last change.
    pub(crate) fn settle(&mut self, axis: &Axis, at_us: u64) {
        let from_us = std::mem::replace(&mut self.now.since_us, at_us).max(axis.from_us);
        let spent_us = at_us.saturating_sub(from_us);
        match self.now.shown {
            Shown::State(NodeState::Up) => self.up_us += spent_us,
            Shown::Idle(reason) => {
                self.up_us += spent_us;
                self.idle_us[reason as usize] += spent_us;
            }
            Shown::State(NodeState::Suspect) => self.suspect_us += spent_us,
            Shown::State(NodeState::Draining) => self.draining_us += spent_us,
            Shown::State(NodeState::Quarantined) => self.quarantined_us += spent_us,
            Shown::State(NodeState::Lost) => self.lost_us += spent_us,
            Shown::Gone | Shown::Unknown => {}
        }
        let slots = if self.now.shown.computes() { f32::from(self.now.slots) } else { 0.0 };
        for (bin, inside_us) in axis.split(from_us, at_us) {
            self.worst[bin] = self.worst[bin].worse(self.now.shown);
            self.room_bins[bin] += slots * inside_us as f32;
        }
    }

    pub(super) fn picture(&mut self, axis: &Axis, at_us: u64, node: &NodeInfo, counts: bool) {
        (self.now.state, self.now.idle) = (node.state, node.idle);
        // Who is lost in silence keeps its incarnation.
        self.now.left = node.state == NodeState::Lost && node.boot.is_none();
        // A scheduler that has just been started does not know yet.
        if node.slots > 0 {
            self.set_slots(axis, at_us, node.slots);
        }
        if self.changes().is_empty() {
            self.joined_us = node.joined_us;
        }
        self.facts(node.system.as_deref(), node.cpu.as_deref(), node.accelerators.as_deref());
        self.cores = node.cores.or(self.cores);
        self.memory_bytes = node.memory_bytes.or(self.memory_bytes);
        self.report(node.tasks_done, node.units_done.0, (node.speed_ups, node.slow_downs), counts);
    }

    fn facts(&mut self, system: Option<&str>, cpu: Option<&str>, accelerators: Option<&str>) {
        for (kept, told) in
            [(&mut self.system, system), (&mut self.cpu, cpu), (&mut self.accelerators, accelerators)]
        {
            if let Some(told) = told.filter(|told| !told.is_empty()) {
                *kept = Some(told.chars().take(FACT_CHARS_MAX).collect());
            }
        }
    }

    fn report(&mut self, tasks: u64, units: u128, feedback: (u64, u64), counts: bool) {
        let values = [tasks.into(), units, feedback.0.into(), feedback.1.into()];
        let counters = self.now.counters.iter_mut().zip(values);
        counters.for_each(|(counter, value)| counter.report(value, counts));
    }

    /// Another scheduler counts; see [`Grown::restart`].
    pub(super) fn restart(&mut self, from_zero: bool) {
        self.now.counters.iter_mut().for_each(|counter| counter.restart(from_zero));
    }

    /// Adds it all up, and holds the time that its slots computed to the time that they had: results that a node sent twice are told
    /// twice, and of what it did while nobody watched, or while it counted as lost, only a part is ever told. Gives
    /// that time for each bin.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = f64> {
        let bins = self.busy_bins.iter_mut().zip(&self.room_bins);
        bins.for_each(|(busy_us, room_us)| *busy_us = busy_us.min(*room_us));
        let sum = |bins: &[f32]| bins.iter().map(|us| f64::from(*us)).sum::<f64>() as u64;
        (self.busy_us, self.slots_us) = (sum(&self.busy_bins), sum(&self.room_bins));
        if self.slots_us > 0 {
            self.utilisation = self.busy_us as f64 / self.slots_us as f64;
        }
        self.known_us = self.up_us + self.suspect_us + self.draining_us + self.quarantined_us + self.lost_us;
        let [tasks, units, speed_ups, slow_downs] = &self.now.counters;
        (self.tasks_done, self.units_done) = (tasks.count(), Units(units.total()));
        (self.speed_ups, self.slow_downs) = (speed_ups.count(), slow_downs.count());
        self.busy_bins.iter().map(|busy_us| f64::from(*busy_us))
    }

    /// Results came; whether within what is wanted.
    pub(crate) fn results(&mut self, axis: &Axis, tasks: &TasksOf, counts: bool) {
        let [done, units, ..] = &mut self.now.counters;
        if matches!(tasks.outcome, Outcome::Counted | Outcome::Partly) {
            done.add(tasks.results.into(), counts);
        }
        if tasks.outcome == Outcome::Counted {
            units.add(tasks.units, counts);
        }
        if !counts {
            return;
        }
        if tasks.outcome != Outcome::Returned {
            self.results = self.results.saturating_add(tasks.results);
        }
        // No slot computes for longer than time goes by.
        let least_us = tasks.busy_us / u64::from(self.now.slots.max(1));
        let begun_us = tasks.begun_us.min(tasks.ended_us.saturating_sub(least_us));
        for (bin, busy_us) in axis.spread(tasks.busy_us as f64, begun_us, tasks.ended_us) {
            self.busy_bins[bin] += busy_us as f32;
        }
    }

    /// Something happened to it; whether it may be shown otherwise now.
    pub(super) fn event(&mut self, axis: &Axis, at_us: u64, event: &Event, counts: bool) -> bool {
        match event {
            Event::NodeJoined { slots, .. } => {
                if self.changes().is_empty() {
                    self.joined_us = at_us;
                }
                self.now.left = false;
                self.set_slots(axis, at_us, *slots);
                self.now.counters.iter_mut().for_each(Grown::anew);
            }
            Event::NodeFacts { system, cpu, cores, memory_bytes, accelerators, .. } => {
                self.facts(Some(system), Some(cpu), Some(accelerators));
                (self.cores, self.memory_bytes) = (Some(*cores), Some(*memory_bytes));
            }
            Event::NodeState { state, .. } => self.now.state = *state,
            Event::NodeIdle { reason, .. } => self.now.idle = Some(*reason),
            Event::NodeBusy { .. } => self.now.idle = None,
            Event::NodeLoad { tasks_done, units_done, speed_ups, slow_downs, .. } => {
                self.report(*tasks_done, *units_done, (*speed_ups, *slow_downs), counts);
            }
            Event::NodeLeft { .. } => self.now.left = true,
            Event::NodeLost { .. } if counts => self.times_lost += 1,
            _ => {}
        }
        if counts {
            self.resent = self.resent.saturating_add(sent_back(event));
        }
        let shows =
            matches!(event, Event::NodeState { .. } | Event::NodeIdle { .. } | Event::NodeBusy { .. });
        if shows {
            self.show_state(axis, at_us);
        }
        shows
    }

    /// What it adds to the farm's nodes that are up, to its nodes, and to its slots.
    pub(super) fn share_of_farm(&self) -> [i64; 3] {
        match self.now.shown {
            Shown::Gone | Shown::Unknown | Shown::State(NodeState::Lost) => [0, 0, 0],
            shown if shown.is_well() => [1, 1, i64::from(self.now.slots)],
            _ => [0, 1, 0],
        }
    }

    /// Leaves out short spells, see [`Changes::thin`].
    pub(super) fn thin(&mut self, least_us: u64, only_well: bool) {
        self.now.changes.thin(least_us, only_well);
    }

    /// After the bins have doubled their width.
    pub(super) fn double(&mut self) {
        bins::double(&mut self.worst, Shown::Gone, Shown::worse);
        bins::double(&mut self.busy_bins, 0.0, |a, b| a + b);
        bins::double(&mut self.room_bins, 0.0, |a, b| a + b);
    }
}

/// Tasks that go back to gq from a node.
pub(super) fn sent_back(event: &Event) -> u64 {
    match event {
        Event::NodeLost { tasks, .. } => *tasks,
        Event::TaskExpired { .. } => 1,
        Event::Tasks { outcome: Outcome::Returned | Outcome::Refused, results, .. } => *results,
        _ => 0,
    }
}

/// A run of results, with times that make sense.
pub(crate) struct TasksOf {
    pub(crate) outcome: Outcome,
    pub(crate) results: u64,
    pub(crate) units: u128,
    pub(crate) begun_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) busy_us: u64,
}
