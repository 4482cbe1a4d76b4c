//! The farm's state at a moment: a snapshot, and what happened since.

mod ahead;
mod held;

use std::collections::BTreeMap;

use starfarm_events::{Event, Held, JobChange, JobInfo, Name, NodeInfo, NodeState, Sample, Snapshot};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::journal::record::JobTotals;
use starfarm_protocol::units::Units;

use super::items::{Notes, follows};
use crate::{Item, Note, NoteKind, Opening, Utc};

use ahead::Ahead;
use held::HeldRuns;

/// More nodes or jobs than this are no farm's: what is told of further ones is passed over.
const KNOWN_MAX: usize = 200_000;

/// The farm at a moment of its log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    /// The moment, microseconds of the farm's clock.
    pub at_us: u64,
    /// The farm, as hexadecimal digits.
    pub farm: String,
    /// The scheduler's incarnation.
    pub epoch: u64,
    /// When the log told of anything last, at or before the moment.
    pub told_us: u64,
    /// When the snapshot was taken that this comes from; none where the log has none before the moment.
    pub snapshot_us: Option<u64>,
    /// When the figures are of.
    pub sample_us: u64,
    /// The farm's figures.
    pub sample: Sample,
    /// Jobs by number.
    pub jobs: BTreeMap<JobId, JobInfo>,
    /// Nodes by name.
    pub nodes: BTreeMap<Name, NodeInfo>,
    /// Tasks that nodes held: those of the snapshot whose results had not come, and those that the log tells of
    /// later, up to its next snapshot.
    pub held: Vec<Held>,
    /// The scheduler was away at the moment: what is told is what it knew last.
    pub away: bool,
    /// Something of what this comes from could not be read.
    pub partial: bool,
    /// What a reader should know.
    pub notes: Vec<String>,
    noted: Notes,
    opening: Option<Opening>,
    is_over: bool,
    held_runs: HeldRuns,
    ahead: Ahead,
}

impl State {
    /// Takes the next item, unless it comes after `end_us`.
    pub fn feed(&mut self, item: &Item, end_us: u64) {
        if let Some(at_us) = item.at_us() {
            // The log is in order: nothing that comes behind a later moment is wanted, even where clocks go back.
            if self.is_over || at_us > end_us {
                if let (false, Item::Opened(next)) = (self.is_over, item) {
                    self.away = self.opening.as_ref().is_some_and(|last| !follows(last, next));
                }
                self.is_over = true;
                return self.ahead.feed(item, end_us);
            }
            self.told_us = self.told_us.max(at_us);
        }
        match item {
            Item::Opened(opening) => {
                (self.farm, self.epoch) = (opening.farm.clone(), opening.epoch);
                self.opening = Some(opening.clone());
            }
            Item::Snapshot(at_us, snapshot) => self.snapshot(*at_us, snapshot),
            Item::Event(at_us, event) => self.event(*at_us, event),
            Item::Closed(_) => {}
            Item::Note(note) => self.note(note),
        }
    }

    /// Nothing that the log tells further on can change it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_over && self.ahead.done
    }

    /// The word for a node's state: of one that said goodbye `gone`, as in a picture.
    pub fn word(node: &NodeInfo) -> &'static str {
        // Who is lost in silence keeps its incarnation.
        match (node.state, node.boot) {
            (NodeState::Lost, None) => "gone",
            (state, _) => state.word(),
        }
    }

    fn note(&mut self, note: &Note) {
        // At its end a segment tells what it lacks: that may have been before the moment.
        let is_wanted = !self.is_over || matches!(note.kind, NoteKind::Missing | NoteKind::Skipped);
        if is_wanted {
            self.noted.add(note);
        }
    }

    /// There is no more.
    pub(crate) fn end(&mut self, at_us: u64) {
        let (told, end) = (Utc(self.told_us), at_us > self.told_us && !self.is_over);
        self.partial = self.noted.has_loss();
        self.notes = self.noted.told();
        if self.away {
            self.notes.push(format!("the scheduler was away then: this is what it knew last, at {told}"));
        }
        if end {
            self.notes.push(format!("the log ends at {told}: this is what it tells of its end"));
        }
        self.at_us = match self.is_over {
            true => at_us,
            false => at_us.min(self.told_us),
        };
        self.held = self.ahead.join(std::mem::take(&mut self.held_runs).into_list());
    }

    fn snapshot(&mut self, at_us: u64, snapshot: &Snapshot) {
        (self.snapshot_us, self.sample_us) = (Some(at_us), at_us);
        self.sample = snapshot.sample.clone();
        self.jobs = snapshot.jobs.iter().map(|job| (job.id, job.clone())).collect();
        // What a node told of its machine stays true; a scheduler that was just started does not know it yet.
        let known = std::mem::take(&mut self.nodes);
        for node in &snapshot.nodes {
            let mut node = node.clone();
            let name = Name::from(node.name.as_str());
            if let Some(before) = known.get(&name) {
                keep_facts(&mut node, before);
            }
            self.nodes.insert(name, node);
        }
        self.held_runs = HeldRuns::of(&snapshot.held);
        // What was missing before counts no more; where a clock was set back does.
        self.noted.keep_clocks();
    }

    fn event(&mut self, at_us: u64, event: &Event) {
        match event {
            Event::Sampled(sample) => (self.sample_us, self.sample) = (at_us, sample.clone()),
            Event::Tasks { node, job, lo, hi, .. } | Event::TaskExpired { node, job, lo, hi } => {
                self.held_runs.came_back(Some(node), *job, *lo, *hi);
            }
            Event::NodeLost { node, .. } | Event::NodeLeft { node } => self.held_runs.lost(node),
            _ => {}
        }
        self.job_event(at_us, event);
        if let Event::NodeForgotten { node } = event {
            self.nodes.remove(node);
        } else if let Some(name) = event.node()
            && let Some(node) = self.node(name, at_us)
        {
            node_event(node, event);
        }
    }

    fn node(&mut self, name: &Name, at_us: u64) -> Option<&mut NodeInfo> {
        if !self.nodes.contains_key(name) {
            if self.nodes.len() >= KNOWN_MAX {
                return None;
            }
            let (joined_us, heard_us) = (at_us, Some(at_us));
            let new = NodeInfo { name: name.to_string(), joined_us, heard_us, ..NodeInfo::default() };
            self.nodes.insert(name.clone(), new);
        }
        self.nodes.get_mut(name)
    }

    fn job_event(&mut self, at_us: u64, event: &Event) {
        if let Event::JobSubmitted { job, name, user, spec, units } = event
            && self.jobs.len() < KNOWN_MAX
        {
            let new = JobInfo {
                id: *job,
                name: name.clone(),
                user: user.clone(),
                spec: *spec,
                units_total: Units(*units),
                units_pending: Units(*units),
                totals: JobTotals { submitted_us: at_us, ..JobTotals::default() },
                ..JobInfo::default()
            };
            self.jobs.insert(*job, new);
        }
        if let Event::JobState { job, state: JobChange::Deleted, .. } = event {
            self.jobs.remove(job);
        }
        let Some(job) = event.job().and_then(|id| self.jobs.get_mut(&id)) else { return };
        match event {
            Event::JobState { state: JobChange::To(state), why, .. } => {
                (job.state, job.note) = (*state, why.clone().unwrap_or_default());
                if *state == JobState::Running {
                    job.totals.started_us.get_or_insert(at_us);
                }
                job.totals.ended_us = state.ended().then_some(at_us);
            }
            Event::JobGrown { units, .. } => job.units_total = Units(*units),
            Event::JobProgress { done, failed, out, pending, abandoned, units_per_s, .. } => {
                (job.units_done, job.units_failed) = (Units(*done), Units(*failed));
                (job.units_out, job.units_pending) = (Units(*out), Units(*pending));
                (job.units_abandoned, job.units_per_s) = (Units(*abandoned), *units_per_s);
            }
            Event::Certificate { done, failed, abandoned, hits, .. } => {
                (job.units_done, job.units_failed) = (Units(*done), Units(*failed));
                (job.units_out, job.units_pending) = (Units(0), Units(0));
                (job.units_abandoned, job.hits) = (Units(*abandoned), *hits);
            }
            Event::Hit { .. } => job.hits = job.hits.saturating_add(1),
            _ => {}
        }
    }
}

fn keep_facts(node: &mut NodeInfo, before: &NodeInfo) {
    if node.slots == 0 {
        node.slots = before.slots;
    }
    node.system = node.system.take().or_else(|| before.system.clone());
    node.cpu = node.cpu.take().or_else(|| before.cpu.clone());
    (node.cores, node.memory_bytes) =
        (node.cores.or(before.cores), node.memory_bytes.or(before.memory_bytes));
    node.accelerators = node.accelerators.take().or_else(|| before.accelerators.clone());
}

fn node_event(node: &mut NodeInfo, event: &Event) {
    match event {
        Event::NodeJoined { boot, slots, .. } => (node.boot, node.slots) = (Some(*boot), *slots),
        Event::NodeFacts { system, cpu, cores, memory_bytes, accelerators, .. } => {
            node.system = Some(system.clone());
            node.cpu = Some(cpu.clone());
            (node.cores, node.memory_bytes) = (Some(*cores), Some(*memory_bytes));
            node.accelerators = (!accelerators.is_empty()).then(|| accelerators.clone());
        }
        Event::NodeState { state, why, .. } => {
            (node.state, node.why) = (*state, why.clone().unwrap_or_default());
            if *state == NodeState::Lost {
                (node.tasks, node.tasks_queued, node.idle, node.idle_us) = (0, 0, None, 0);
                node.load.clear();
            }
        }
        Event::NodeIdle { reason, .. } => {
            node.idle = Some(*reason);
            (node.tasks, node.tasks_queued) = (0, 0);
        }
        Event::NodeBusy { .. } => node.idle = None,
        Event::NodeLeft { .. } => node.boot = None,
        Event::NodeLoad {
            tasks,
            queued,
            power,
            load,
            idle_us,
            tasks_done,
            units_done,
            speed_ups,
            slow_downs,
            ..
        } => {
            (node.tasks, node.tasks_queued, node.power) = (*tasks, *queued, *power);
            (node.load, node.idle_us) = (load.clone(), *idle_us);
            (node.tasks_done, node.units_done) = (*tasks_done, Units(*units_done));
            (node.speed_ups, node.slow_downs) = (*speed_ups, *slow_downs);
        }
        Event::OffersRepeated { tasks, .. } => {
            node.offers_repeated = node.offers_repeated.saturating_add(*tasks);
        }
        _ => {}
    }
}
