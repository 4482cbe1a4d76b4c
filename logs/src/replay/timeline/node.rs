//! A node over time: how its time went, what it did, and its row of the grids.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use starfarm_events::{Event, IdleReason, Name, Node, NodeState, Outcome};

use super::bins::{self, Axis, BINS_MAX};
use super::changes::Changes;
use super::grown::Grown;
use super::runs::Runs;
use super::shown::Shown;

/// Longest text about a node's machine, in characters.
const FACT_CHARS_MAX: usize = 120;

/// A node over the whole of a report. What `_us` ends is how long it was in that state.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "most fields are those of the event model")]
pub struct NodeLine {
    pub name: Name,
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
    /// How long its slots computed, in all, while it was known to be able to.
    pub busy_us: u64,
    /// The time that its slots had for that: while it was up, suspect or draining.
    pub slots_us: u64,
    pub up_us: u64,
    /// Of `up_us`, how long it was idle, by reason in the order of [`IdleReason::ALL`].
    pub idle_us: [u64; IdleReason::ALL.len()],
    pub suspect_us: u64,
    pub draining_us: u64,
    pub quarantined_us: u64,
    pub lost_us: u64,
    pub times_lost: u64,
    /// Tasks that went back to gq from it: lost with it, expired, or given back.
    pub resent: u64,
    /// The worst that is shown of it in each bin.
    pub worst: Vec<Shown>,
    /// Time that its slots computed, in each bin, in microseconds.
    pub busy_bins: Vec<f32>,
    /// Time that its slots had, in each bin, in microseconds.
    pub room_bins: Vec<f32>,
    pub(crate) runs: Runs,
    tasks: Grown,
    units: Grown,
    speed_ups: Grown,
    slow_downs: Grown,
    changes: Changes,
    state: NodeState,
    idle: Option<IdleReason>,
    /// It said goodbye.
    left: bool,
    shown: Shown,
    since_us: u64,
    /// Slots as of now.
    slots_now: u16,
}

impl NodeLine {
    pub(super) fn new(name: Name, from_us: u64) -> Self {
        let (worst, busy_bins, room_bins) =
            (vec![Shown::Gone; BINS_MAX], vec![0.0; BINS_MAX], vec![0.0; BINS_MAX]);
        Self { name, joined_us: from_us, since_us: from_us, worst, busy_bins, room_bins, ..Self::default() }
    }

    /// Tasks that it finished.
    pub fn tasks_done(&self) -> u64 {
        self.tasks.count()
    }

    /// Units counted from it.
    pub fn units_done(&self) -> u128 {
        self.units.total()
    }

    /// Speed-ups and slow-downs heard from it.
    pub fn feedback(&self) -> (u64, u64) {
        (self.speed_ups.count(), self.slow_downs.count())
    }

    /// Changes of what is shown of it, ascending; before the first it was not in the farm.
    pub fn changes(&self) -> &[(u64, Shown)] {
        self.changes.as_slice()
    }

    /// Share of its slots' time that they computed, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        if self.slots_us > 0 { self.busy_us as f64 / self.slots_us as f64 } else { 0.0 }
    }

    /// How long the log tells of it: in the farm, and watched.
    pub fn known_us(&self) -> u64 {
        self.up_us + self.suspect_us + self.draining_us + self.quarantined_us + self.lost_us
    }

    /// From a moment on it has so many slots.
    fn set_slots(&mut self, axis: &Axis, at_us: u64, slots: u16) {
        if slots != self.slots_now {
            self.settle(axis, at_us);
            self.slots_now = slots;
        }
        if at_us >= axis.from_us {
            self.slots = self.slots.max(slots);
        }
    }

    pub(super) fn show(&mut self, axis: &Axis, at_us: u64, shown: Shown) {
        if shown != self.shown {
            self.settle(axis, at_us);
            self.shown = shown;
            self.changes.push(at_us.max(axis.from_us), shown);
        }
    }

    pub(super) fn show_state(&mut self, axis: &Axis, at_us: u64) {
        let shown = match (self.left, self.state) {
            (true, NodeState::Lost) => Shown::Gone,
            (_, state) => Shown::of(state, self.idle),
        };
        self.show(axis, at_us, shown);
    }

    /// Books the time since the last change.
    pub(crate) fn settle(&mut self, axis: &Axis, at_us: u64) {
        let from_us = std::mem::replace(&mut self.since_us, at_us).max(axis.from_us);
        let spent_us = at_us.saturating_sub(from_us);
        match self.shown {
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
        let slots = if self.shown.computes() { f32::from(self.slots_now) } else { 0.0 };
        for (bin, inside_us) in axis.split(from_us, at_us) {
            self.worst[bin] = self.worst[bin].worse(self.shown);
            self.room_bins[bin] += slots * inside_us as f32;
        }
    }

    pub(super) fn picture(&mut self, axis: &Axis, at_us: u64, node: &Node, counts: bool) {
        (self.state, self.idle) = (node.state, node.idle);
        // Who is lost in silence keeps its incarnation.
        self.left = node.state == NodeState::Lost && node.boot.is_none();
        // A scheduler that has just been started does not know yet.
        if node.slots > 0 {
            self.set_slots(axis, at_us, node.slots);
        }
        if self.changes().is_empty() {
            self.joined_us = node.joined_us;
        }
        self.facts(&node.system, &node.cpu, &node.accelerators);
        self.cores = node.cores.or(self.cores);
        self.memory_bytes = node.memory_bytes.or(self.memory_bytes);
        self.report(node.tasks_done, node.units_done, (node.speed_ups, node.slow_downs), counts);
    }

    fn facts(&mut self, system: &Option<String>, cpu: &Option<String>, accelerators: &Option<String>) {
        for (kept, told) in
            [(&mut self.system, system), (&mut self.cpu, cpu), (&mut self.accelerators, accelerators)]
        {
            if let Some(told) = told.as_ref().filter(|told| !told.is_empty()) {
                *kept = Some(told.chars().take(FACT_CHARS_MAX).collect());
            }
        }
    }

    fn report(&mut self, tasks: u64, units: u128, feedback: (u64, u64), counts: bool) {
        self.tasks.report(tasks.into(), counts);
        self.units.report(units, counts);
        self.speed_ups.report(feedback.0.into(), counts);
        self.slow_downs.report(feedback.1.into(), counts);
    }

    fn counters(&mut self) -> [&mut Grown; 4] {
        [&mut self.tasks, &mut self.units, &mut self.speed_ups, &mut self.slow_downs]
    }

    /// Another scheduler counts; see [`Grown::restart`].
    pub(super) fn restart(&mut self, from_zero: bool) {
        self.counters().into_iter().for_each(|counter| counter.restart(from_zero));
    }

    /// Begin of a span at whose end so much computing time was spent: no slot computes for longer than time goes by.
    fn begin(&self, tasks: &TasksOf) -> u64 {
        let least_us = tasks.busy_us / u64::from(self.slots_now.max(1));
        tasks.begun_us.min(tasks.ended_us.saturating_sub(least_us))
    }

    /// Holds the time that its slots computed to the time that they had: results that a node sent twice are told
    /// twice, and of what it did while nobody watched, or while it counted as lost, only a part is ever told. Gives
    /// that time for each bin.
    pub(crate) fn settle_busy(&mut self) -> impl Iterator<Item = f64> {
        let bins = self.busy_bins.iter_mut().zip(&self.room_bins);
        bins.for_each(|(busy_us, room_us)| *busy_us = busy_us.min(*room_us));
        let sum = |bins: &[f32]| bins.iter().map(|us| f64::from(*us)).sum::<f64>() as u64;
        (self.busy_us, self.slots_us) = (sum(&self.busy_bins), sum(&self.room_bins));
        self.busy_bins.iter().map(|busy_us| f64::from(*busy_us))
    }

    /// Results grew its counters; whether they came within what is wanted.
    pub(crate) fn count(&mut self, tasks: &TasksOf, counts: bool) {
        if matches!(tasks.outcome, Outcome::Counted | Outcome::Partly) {
            self.tasks.add(tasks.results.into(), counts);
        }
        if tasks.outcome == Outcome::Counted {
            self.units.add(tasks.units, counts);
        }
    }

    /// Results came.
    pub(crate) fn results(&mut self, axis: &Axis, tasks: &TasksOf) {
        if tasks.outcome != Outcome::Returned {
            self.results = self.results.saturating_add(tasks.results);
        }
        let begun_us = self.begin(tasks);
        if begun_us >= tasks.ended_us {
            self.busy_bins[axis.bin(tasks.ended_us)] += tasks.busy_us as f32;
            return;
        }
        let rate = tasks.busy_us as f64 / (tasks.ended_us - begun_us) as f64;
        for (bin, inside_us) in axis.split(begun_us, tasks.ended_us) {
            self.busy_bins[bin] += (rate * inside_us as f64) as f32;
        }
    }

    /// Something happened to it; whether it may be shown otherwise now.
    pub(super) fn event(&mut self, axis: &Axis, at_us: u64, event: &Event, counts: bool) -> bool {
        match event {
            Event::NodeJoined { slots, .. } => {
                if self.changes().is_empty() {
                    self.joined_us = at_us;
                }
                self.left = false;
                self.set_slots(axis, at_us, *slots);
                self.counters().into_iter().for_each(Grown::anew);
            }
            Event::NodeFacts { system, cpu, cores, memory_bytes, accelerators, .. } => {
                let said = |text: &String| Some(text.clone());
                self.facts(&said(system), &said(cpu), &said(accelerators));
                (self.cores, self.memory_bytes) = (Some(*cores), Some(*memory_bytes));
            }
            Event::NodeState { state, .. } => self.state = *state,
            Event::NodeIdle { reason, .. } => self.idle = Some(*reason),
            Event::NodeBusy { .. } => self.idle = None,
            Event::NodeLoad { tasks_done, units_done, speed_ups, slow_downs, .. } => {
                self.report(*tasks_done, *units_done, (*speed_ups, *slow_downs), counts);
            }
            Event::NodeLeft { .. } => self.left = true,
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
        match self.shown {
            Shown::Gone | Shown::Unknown | Shown::State(NodeState::Lost) => [0, 0, 0],
            shown if shown.is_well() => [1, 1, i64::from(self.slots_now)],
            _ => [0, 1, 0],
        }
    }

    /// Leaves out short spells, see [`Changes::thin`].
    pub(super) fn thin(&mut self, least_us: u64, only_well: bool) {
        self.changes.thin(least_us, only_well);
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

impl Serialize for NodeLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (speed_ups, slow_downs) = self.feedback();
        let idle_us = IdleReason::ALL.iter().map(|reason| reason.word()).zip(self.idle_us);
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("node", &*self.name)?;
        line.serialize_entry("slots", &self.slots)?;
        line.serialize_entry("system", &self.system)?;
        line.serialize_entry("cpu", &self.cpu)?;
        line.serialize_entry("cores", &self.cores)?;
        line.serialize_entry("memory_bytes", &self.memory_bytes)?;
        line.serialize_entry("accelerators", &self.accelerators)?;
        line.serialize_entry("joined_us", &self.joined_us)?;
        line.serialize_entry("results", &self.results)?;
        line.serialize_entry("tasks_done", &self.tasks_done())?;
        line.serialize_entry("units_done", &self.units_done().to_string())?;
        line.serialize_entry("busy_us", &self.busy_us)?;
        line.serialize_entry("slots_us", &self.slots_us)?;
        line.serialize_entry("utilisation", &self.utilisation())?;
        line.serialize_entry("known_us", &self.known_us())?;
        line.serialize_entry("up_us", &self.up_us)?;
        line.serialize_entry("idle_us", &idle_us.collect::<BTreeMap<_, _>>())?;
        line.serialize_entry("suspect_us", &self.suspect_us)?;
        line.serialize_entry("draining_us", &self.draining_us)?;
        line.serialize_entry("quarantined_us", &self.quarantined_us)?;
        line.serialize_entry("lost_us", &self.lost_us)?;
        line.serialize_entry("times_lost", &self.times_lost)?;
        line.serialize_entry("resent", &self.resent)?;
        line.serialize_entry("speed_ups", &speed_ups)?;
        line.serialize_entry("slow_downs", &slow_downs)?;
        line.end()
    }
}
