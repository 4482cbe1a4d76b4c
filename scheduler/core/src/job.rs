//! A job as the scheduler knows it, and jq. What a unit *is* lies outside: the core sees N, an interval
//! set and a few facts about the work.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{Attempt, Boot, ContentHash};
use starfarm_protocol::spec::{JobSpec, Stop, Work};
use starfarm_protocol::wire::{FailReason, Letting};

use crate::coverage::{Class, Coverage};
use crate::limits::TARGET_US;
use crate::task::NodeId;

/// State of a job. The words are the same in JSON, tables and docs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobState {
    /// Waits in jq; no task was ever given out, or it was switched away from.
    Queued,
    /// Tasks of it are given out.
    Running,
    /// Gives out nothing until it is resumed.
    Paused,
    /// Ended, no unit failed; what was not wanted any more is abandoned.
    Finished,
    /// Ended, and units failed.
    Failed,
    /// Ended by command.
    Cancelled,
}

impl JobState {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Finished => "finished",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// The job is over.
    pub fn ended(self) -> bool {
        matches!(self, JobState::Finished | JobState::Failed | JobState::Cancelled)
    }
}

/// How large its tasks are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizing {
    /// As large as takes this long on the slot, in microseconds.
    TargetUs(u64),
    /// This many units, whatever it takes.
    Units(u64),
}

/// What the core must know of the work.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// Hits are looked for.
    Search {
        /// When to end early.
        stop: Stop,
        /// Targets not found yet.
        missing: BTreeSet<u32>,
        /// Targets in all.
        targets: u32,
    },
    /// Units have outcomes of their own.
    Command {
        /// Times that a failed unit is run again.
        retries: u32,
    },
    /// Nothing comes back.
    Nothing,
}

impl Kind {
    /// The facts in a specification.
    pub fn of(spec: &JobSpec) -> Self {
        match &spec.work {
            Work::Search(search) => {
                let targets = search.targets.len() as u32;
                Kind::Search { stop: search.stop, missing: (0..targets).collect(), targets }
            }
            Work::Command(command) => Kind::Command { retries: command.retries },
            Work::Nothing => Kind::Nothing,
        }
    }

    /// Units of the first task for a slot of unknown speed: small enough to be over soon.
    pub(crate) fn first_units(&self) -> u64 {
        match self {
            Kind::Search { .. } => 1 << 16,
            Kind::Command { .. } => 1,
            Kind::Nothing => 1 << 10,
        }
    }
}

/// A job to submit.
#[derive(Clone, PartialEq, Debug)]
pub struct NewJob {
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// Its units, 1 or more.
    pub units: u128,
    /// What the work is.
    pub kind: Kind,
    /// How large its tasks are.
    pub sizing: Sizing,
    /// Where in jq it goes.
    pub place: Place,
}

/// Where in jq a job goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The tail.
    #[default]
    Tail,
    /// The head: it is next.
    Head,
    /// At once: the running job goes to the head of jq.
    Now,
}

/// Why a unit failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedUnit {
    /// Reason.
    pub reason: FailReason,
    /// Exit code or signal number, where there is one.
    pub code: Option<i32>,
}

/// What one node does of one job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Units per second of one slot, from measured durations; newer ones weigh more.
    pub(crate) units_per_s: f64,
    /// Largest task that it has done, in units.
    pub(crate) largest: u64,
}

/// Deaths of workers that ran a unit, by incarnation.
pub(crate) type Deaths = Vec<(NodeId, Boot)>;

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) new: NewJob,
    pub(crate) state: JobState,
    pub(crate) coverage: Coverage,
    pub(crate) rates: BTreeMap<NodeId, Rate>,
    pub(crate) mean_rate: f64,
    pub(crate) hits: BTreeSet<(u128, u32)>,
    pub(crate) failed: BTreeMap<u128, FailedUnit>,
    /// Units that failed and are tried again, and the attempts that they failed in: a result that comes
    /// twice tells of one run.
    pub(crate) failures: BTreeMap<u128, Vec<Attempt>>,
    pub(crate) deaths: BTreeMap<u128, Deaths>,
    /// Nodes that said that they cannot run it, and why.
    pub(crate) refused_by: BTreeMap<NodeId, String>,
    /// Attempts before this number were withdrawn from their nodes, and how.
    pub(crate) withdrawn: Option<(Attempt, Letting)>,
    pub(crate) totals: JobTotals,
}

/// Counters of a job, for its certificate and for status.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct JobTotals {
    /// Tasks cut from the space.
    pub decomposed: u64,
    /// Units in these.
    pub decomposed_units: u128,
    /// Tasks given out, again or for the first time.
    pub dispatched: u64,
    /// Units of results that were counted before.
    pub duplicate_units: u128,
    /// Tasks that went back to gq.
    pub resent: u64,
    /// When it was submitted, on the scheduler's clock.
    pub submitted_us: u64,
    /// When its first task was given out.
    pub started_us: Option<u64>,
    /// When it ended.
    pub ended_us: Option<u64>,
}

impl Job {
    pub(crate) fn new(new: NewJob, now_us: u64) -> Self {
        let coverage = Coverage::new(new.units);
        let totals = JobTotals { submitted_us: now_us, ..JobTotals::default() };
        Self {
            new,
            state: JobState::Queued,
            coverage,
            rates: BTreeMap::new(),
            mean_rate: 0.0,
            hits: BTreeSet::new(),
            failed: BTreeMap::new(),
            failures: BTreeMap::new(),
            deaths: BTreeMap::new(),
            refused_by: BTreeMap::new(),
            withdrawn: None,
            totals,
        }
    }

    /// Units that a node could be given: fresh or in gq.
    pub(crate) fn pending(&self) -> u128 {
        if self.state.ended() { 0 } else { self.coverage.fresh() + self.coverage.count(Class::Pending) }
    }

    /// Units that nobody wants any more.
    pub(crate) fn abandoned(&self) -> u128 {
        let fresh = if self.state.ended() { self.coverage.fresh() } else { 0 };
        fresh + self.coverage.count(Class::Abandoned)
    }

    /// The job may be given out.
    pub(crate) fn active(&self) -> bool {
        matches!(self.state, JobState::Queued | JobState::Running)
    }

    /// Computing time that a task should take, in microseconds.
    pub(crate) fn target_us(&self) -> u64 {
        match self.new.sizing {
            Sizing::TargetUs(target_us) => target_us,
            Sizing::Units(_) => TARGET_US,
        }
    }

    /// The search has found what it was to find.
    pub(crate) fn satisfied(&self) -> bool {
        match &self.new.kind {
            Kind::Search { stop: Stop::FirstHit, .. } => !self.hits.is_empty(),
            Kind::Search { stop: Stop::AllTargets, missing, .. } => missing.is_empty(),
            _ => false,
        }
    }

    /// A measured interval moves the rates of its node and of the job.
    pub(crate) fn measured(&mut self, node: NodeId, units: u64, duration_us: u64) {
        let sample = units as f64 * 1e6 / duration_us.max(1) as f64;
        let target_us = self.target_us().max(1) as f64;
        let rate = self.rates.entry(node).or_default();
        let first = rate.largest == 0;
        // A sample that took a target time replaces most of what was known; a short one moves it little.
        let weight = (duration_us as f64 / target_us).clamp(0.05, 0.5);
        let mix = |old: f64, weight: f64| old + (sample - old) * weight;
        rate.units_per_s = if first { sample } else { mix(rate.units_per_s, weight) };
        rate.largest = rate.largest.max(units);
        self.mean_rate = if self.mean_rate == 0.0 { sample } else { mix(self.mean_rate, weight / 4.0) };
    }
}
