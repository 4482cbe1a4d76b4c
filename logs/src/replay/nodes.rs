//! Nodes over time: the changes of each one's state, what it did, and its row of the grids.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};
use starfarm_events::{Event, IdleReason, Name, Node, NodeState, Outcome};

use super::bins::{self, Axis, BINS_MAX};
use super::changes::Changes;
use super::runs::Runs;
use super::shown::Shown;

/// Nodes that are followed at most; more than a picture has room for.
pub(crate) const NODES_MAX: usize = 4_096;
/// Changes of states that are kept at most, of all nodes.
const CHANGES_MAX: usize = 200_000;
/// Longest text about a node's machine, in characters.
const FACT_CHARS_MAX: usize = 120;

/// A counter of a node, as reports tell it now and then: what it grew by within the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grown {
    sum: u128,
    last: Option<u128>,
    /// Grown since the last report, as results tell.
    since: u128,
}

impl Grown {
    /// The counter began at zero, within the log.
    fn anew(&mut self) {
        self.last.get_or_insert(0);
    }

    fn report(&mut self, value: u128, counts: bool) {
        if counts {
            // A counter that fell began anew. What stood there before the log is not the log's.
            let before = self.last.unwrap_or(value);
            self.sum = self.sum.saturating_add(value.checked_sub(before).unwrap_or(value));
        }
        (self.last, self.since) = (Some(value), 0);
    }

    fn add(&mut self, amount: u128) {
        self.since = self.since.saturating_add(amount);
    }

    fn total(&self) -> u128 {
        self.sum.saturating_add(self.since)
    }
}

/// A node over the whole of a report.
#[derive(Clone, Debug)]
pub struct NodeLine {
    /// Its name.
    pub name: Name,
    /// Its slots.
    pub slots: u16,
    /// Host name and operating system.
    pub system: Option<String>,
    /// Model of its processor.
    pub cpu: Option<String>,
    /// Cores.
    pub cores: Option<u32>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Accelerators.
    pub accelerators: Option<String>,
    /// When it joined first, as far as the log tells.
    pub joined_us: u64,
    /// Results of any outcome.
    pub results: u64,
    /// How long its slots computed, in all.
    pub busy_us: u64,
    /// How long it was up.
    pub up_us: u64,
    /// Of this, how long it was idle, by reason in the order of [`IdleReason::ALL`].
    pub idle_us: [u64; IdleReason::ALL.len()],
    /// How long it was suspect.
    pub suspect_us: u64,
    /// How long it was lost.
    pub lost_us: u64,
    /// How often it was lost.
    pub times_lost: u64,
    /// Tasks that went back to gq from it.
    pub resent: u64,
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
    worst: Vec<Shown>,
    busy: Vec<f32>,
}

impl NodeLine {
    fn new(name: Name, from_us: u64) -> Self {
        Self {
            name,
            slots: 0,
            system: None,
            cpu: None,
            cores: None,
            memory_bytes: None,
            accelerators: None,
            joined_us: from_us,
            results: 0,
            busy_us: 0,
            up_us: 0,
            idle_us: [0; IdleReason::ALL.len()],
            suspect_us: 0,
            lost_us: 0,
            times_lost: 0,
            resent: 0,
            runs: Runs::default(),
            tasks: Grown::default(),
            units: Grown::default(),
            speed_ups: Grown::default(),
            slow_downs: Grown::default(),
            changes: Changes::default(),
            state: NodeState::Up,
            idle: None,
            left: false,
            shown: Shown::Gone,
            since_us: from_us,
            worst: vec![Shown::Gone; BINS_MAX],
            busy: vec![0.0; BINS_MAX],
        }
    }

    /// Tasks that it finished.
    pub fn tasks_done(&self) -> u64 {
        u64::try_from(self.tasks.total()).unwrap_or(u64::MAX)
    }

    /// Units counted from it.
    pub fn units_done(&self) -> u128 {
        self.units.total()
    }

    /// Speed-ups and slow-downs heard from it.
    pub fn feedback(&self) -> (u64, u64) {
        let number = |grown: &Grown| u64::try_from(grown.total()).unwrap_or(u64::MAX);
        (number(&self.speed_ups), number(&self.slow_downs))
    }

    /// Changes of what is shown of it, ascending; before the first it was not in the farm.
    pub fn changes(&self) -> &[(u64, Shown)] {
        self.changes.as_slice()
    }

    /// The worst that is shown of it in each bin.
    pub fn worst(&self) -> &[Shown] {
        &self.worst
    }

    /// Time that its slots computed, in each bin, in microseconds.
    pub fn busy_bins(&self) -> &[f32] {
        &self.busy
    }

    /// Share of its slots' time that it computed while it was up, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let room = self.up_us as f64 * f64::from(self.slots);
        if room > 0.0 { (self.busy_us as f64 / room).min(1.0) } else { 0.0 }
    }

    fn show(&mut self, axis: &Axis, at_us: u64, shown: Shown) {
        if shown != self.shown {
            self.settle(axis, at_us);
            self.shown = shown;
            self.changes.push(at_us.max(axis.from_us), shown);
        }
    }

    fn show_state(&mut self, axis: &Axis, at_us: u64) {
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
            Shown::State(NodeState::Lost) => self.lost_us += spent_us,
            _ => {}
        }
        for (bin, _) in axis.split(from_us, at_us) {
            self.worst[bin] = self.worst[bin].worse(self.shown);
        }
    }

    fn picture(&mut self, node: &Node, counts: bool) {
        (self.state, self.idle) = (node.state, node.idle);
        // A scheduler that has just been started does not know yet.
        if node.slots > 0 {
            self.slots = node.slots;
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

    /// Begin of a span at whose end so much computing time was spent: no slot computes for longer than time goes by.
    fn begin(&self, tasks: &TasksOf) -> u64 {
        let least_us = tasks.busy_us / u64::from(self.slots.max(1));
        tasks.begun_us.min(tasks.ended_us.saturating_sub(least_us))
    }

    /// Holds the time that its slots computed to what is possible: results that a node sent twice are told twice. Gives
    /// that time for each bin.
    pub(crate) fn settle_busy(&mut self, axis: &Axis) -> impl Iterator<Item = f64> {
        let room_us = axis.width_us as f64 * f64::from(self.slots);
        if self.slots > 0 {
            self.busy.iter_mut().for_each(|busy_us| *busy_us = busy_us.min(room_us as f32));
        }
        let busy = self.busy.iter().map(|busy_us| f64::from(*busy_us));
        self.busy_us = busy.clone().sum::<f64>() as u64;
        busy
    }

    /// Results came.
    pub(crate) fn results(&mut self, axis: &Axis, tasks: &TasksOf) {
        self.results = self.results.saturating_add(tasks.results);
        if matches!(tasks.outcome, Outcome::Counted | Outcome::Partly) {
            self.tasks.add(tasks.results.into());
        }
        if tasks.outcome == Outcome::Counted {
            self.units.add(tasks.units);
        }
        let begun_us = self.begin(tasks);
        if begun_us >= tasks.ended_us {
            self.busy[axis.bin(tasks.ended_us)] += tasks.busy_us as f32;
            return;
        }
        let rate = tasks.busy_us as f64 / (tasks.ended_us - begun_us) as f64;
        for (bin, inside_us) in axis.split(begun_us, tasks.ended_us) {
            self.busy[bin] += (rate * inside_us as f64) as f32;
        }
    }

    /// After the bins have doubled their width.
    fn double(&mut self) {
        bins::double(&mut self.worst, Shown::Gone, Shown::worse);
        bins::double(&mut self.busy, 0.0, |a, b| a + b);
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

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_name: HashMap<Name, usize>,
    all: Vec<NodeLine>,
    /// Changes at most, since the last look.
    changes: usize,
    /// Spells shorter than this are left out.
    pub(crate) least_us: u64,
    /// There are more nodes than are followed.
    pub(crate) crowded: bool,
}

impl Nodes {
    /// A node by its name; none where there are too many.
    pub(crate) fn get(&mut self, axis: &Axis, name: &Name) -> Option<&mut NodeLine> {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None if self.all.len() == NODES_MAX => {
                self.crowded = true;
                return None;
            }
            None => {
                self.by_name.insert(name.clone(), self.all.len());
                self.all.push(NodeLine::new(name.clone(), axis.from_us));
                self.all.len() - 1
            }
        };
        self.all.get_mut(at)
    }

    /// All of them.
    pub(crate) fn all(&mut self) -> &mut Vec<NodeLine> {
        &mut self.all
    }

    /// How the nodes stand at a moment; whom the picture lacks is not in the farm.
    pub(crate) fn snapshot(&mut self, axis: &Axis, at_us: u64, nodes: &[Node], counts: bool) {
        let mut absent = vec![true; self.all.len()];
        for node in nodes {
            let Some(line) = self.get(axis, &node.node) else { continue };
            line.picture(node, counts);
            line.show_state(axis, at_us);
            if let Some(at) = self.by_name.get(&node.node).filter(|at| **at < absent.len()) {
                absent[*at] = false;
            }
        }
        let lines = self.all.iter_mut().zip(absent).filter(|(_, is_absent)| *is_absent);
        lines.for_each(|(line, _)| line.show(axis, at_us, Shown::Gone));
        self.changed(nodes.len());
    }

    /// Nobody looks at the farm from a moment on.
    pub(crate) fn leave(&mut self, axis: &Axis, at_us: u64) {
        self.all.iter_mut().for_each(|line| line.show(axis, at_us, Shown::Unknown));
        self.changed(self.all.len());
    }

    /// Something happened to a node.
    pub(crate) fn event(&mut self, axis: &Axis, at_us: u64, event: &Event, counts: bool) {
        let Some(line) = event.node().and_then(|name| self.get(axis, name)) else { return };
        match event {
            Event::NodeJoined { slots, .. } => {
                if line.changes().is_empty() {
                    line.joined_us = at_us;
                }
                (line.slots, line.left) = (*slots, false);
                [&mut line.tasks, &mut line.units, &mut line.speed_ups, &mut line.slow_downs]
                    .into_iter()
                    .for_each(Grown::anew);
            }
            Event::NodeFacts { system, cpu, cores, memory_bytes, accelerators, .. } => {
                let said = |text: &String| Some(text.clone());
                line.facts(&said(system), &said(cpu), &said(accelerators));
                (line.cores, line.memory_bytes) = (Some(*cores), Some(*memory_bytes));
            }
            Event::NodeState { state, .. } => line.state = *state,
            Event::NodeIdle { reason, .. } => line.idle = Some(*reason),
            Event::NodeBusy { .. } => line.idle = None,
            Event::NodeLoad { tasks_done, units_done, speed_ups, slow_downs, .. } => {
                line.report(*tasks_done, *units_done, (*speed_ups, *slow_downs), counts);
            }
            Event::NodeLeft { .. } => line.left = true,
            Event::NodeLost { tasks, .. } if counts => {
                line.times_lost += 1;
                line.resent = line.resent.saturating_add(*tasks);
            }
            Event::TaskExpired { .. } if counts => line.resent = line.resent.saturating_add(1),
            _ => {}
        }
        if matches!(event, Event::NodeState { .. } | Event::NodeIdle { .. } | Event::NodeBusy { .. }) {
            line.show_state(axis, at_us);
            self.changed(1);
        }
    }

    /// After the bins have doubled their width.
    pub(crate) fn double(&mut self) {
        self.all.iter_mut().for_each(NodeLine::double);
    }

    /// So many changes came at most. Where there are too many, the shortest spells are left out, trouble last.
    fn changed(&mut self, changes: usize) {
        const SECOND_US: u64 = 1_000_000;
        const HOUR_US: u64 = 3_600 * SECOND_US;
        self.changes += changes;
        if self.changes <= CHANGES_MAX {
            return;
        }
        let count = |all: &[NodeLine]| all.iter().map(|line| line.changes().len()).sum::<usize>();
        self.changes = count(&self.all);
        while self.changes > CHANGES_MAX / 2 && self.least_us < u64::MAX {
            self.least_us = self.least_us.saturating_mul(4).max(SECOND_US);
            let only_well = self.least_us < HOUR_US;
            self.all.iter_mut().for_each(|line| line.changes.thin(self.least_us, only_well));
            self.changes = count(&self.all);
        }
    }
}

impl Serialize for NodeLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            node: &'a str,
            slots: u16,
            system: &'a Option<String>,
            cpu: &'a Option<String>,
            cores: Option<u32>,
            memory_bytes: Option<u64>,
            accelerators: &'a Option<String>,
            joined_us: u64,
            results: u64,
            tasks_done: u64,
            units_done: String,
            busy_us: u64,
            up_us: u64,
            idle_us: BTreeMap<&'static str, u64>,
            suspect_us: u64,
            lost_us: u64,
            times_lost: u64,
            resent: u64,
            speed_ups: u64,
            slow_downs: u64,
        }
        let (speed_ups, slow_downs) = self.feedback();
        Line {
            node: &self.name,
            slots: self.slots,
            system: &self.system,
            cpu: &self.cpu,
            cores: self.cores,
            memory_bytes: self.memory_bytes,
            accelerators: &self.accelerators,
            joined_us: self.joined_us,
            results: self.results,
            tasks_done: self.tasks_done(),
            units_done: self.units_done().to_string(),
            busy_us: self.busy_us,
            up_us: self.up_us,
            idle_us: IdleReason::ALL.iter().map(|reason| reason.word()).zip(self.idle_us).collect(),
            suspect_us: self.suspect_us,
            lost_us: self.lost_us,
            times_lost: self.times_lost,
            resent: self.resent,
            speed_ups,
            slow_downs,
        }
        .serialize(serializer)
    }
}

/// Names in the order in which a person counts: `n-2` before `n-10`.
pub(crate) fn by_number(a: &str, b: &str) -> std::cmp::Ordering {
    let parts = |name: &str| -> Vec<(String, u128)> {
        let mut parts = Vec::new();
        let mut rest = name;
        while !rest.is_empty() {
            let (word, behind) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
            let (digits, behind) =
                behind.split_at(behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len()));
            parts.push((word.to_owned(), digits.parse().unwrap_or(u128::MAX)));
            rest = behind;
        }
        parts
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}
