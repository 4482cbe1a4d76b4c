//! A job as the scheduler knows it, and jq. What a unit *is* lies outside: the core sees N, an interval
//! set and a few facts about the work. What changes durably changes by the methods here, the same live and
//! when a journal is applied.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{Attempt, Boot, ContentHash};
pub use starfarm_protocol::job::{FailedUnit, JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
pub use starfarm_protocol::journal::record::JobTotals;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::wire::Cancel;

use crate::blame::Outcomes;
use crate::coverage::{Class, Classes, Coverage, Piece};
use crate::limits::{RETURN_PAUSE_MAX_US, RETURN_PAUSE_MIN_US, TARGET_US};
use crate::node::Probe;
use crate::per_unit::PerUnit;
use crate::runs::Runs;
use crate::task::NodeId;

/// Units of the first task for a slot of unknown speed: small enough to be over soon.
pub(crate) fn first_units(work: &WorkFacts) -> u64 {
    match work {
        WorkFacts::Search { .. } => 1 << 16,
        WorkFacts::Command { .. } => 1,
        WorkFacts::Nothing => 1 << 10,
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
    pub work: WorkFacts,
    /// How large its tasks are.
    pub sizing: Sizing,
    /// What it bears before it pauses.
    pub max_failures: MaxFailures,
    /// Near its end idle nodes get copies of what others still compute.
    pub speculative: bool,
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

/// What one node does of one job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Units per second of one slot, from measured durations; newer ones weigh more.
    pub(crate) units_per_s: f64,
    /// Largest task that it has done, in units.
    pub(crate) largest: u64,
}

/// An interval that a node gave back unasked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// Its end, exclusive.
    pub(crate) hi: u128,
    pub(crate) node: NodeId,
    /// The same node gets it again after this.
    pub(crate) until_us: u64,
    pub(crate) pause_us: u64,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) facts: JobFacts,
    pub(crate) state: JobState,
    /// Why it is in that state, for a person; mostly empty.
    pub(crate) note: String,
    pub(crate) coverage: Coverage,
    pub(crate) lease: Lease,
    pub(crate) rates: BTreeMap<NodeId, Rate>,
    pub(crate) mean_rate: f64,
    /// Nodes that computed of it and are forgotten.
    pub(crate) forgotten: u64,
    /// Targets not found yet; empty once it has ended.
    pub(crate) missing: BTreeSet<u32>,
    pub(crate) hits: BTreeSet<(u128, u32)>,
    pub(crate) failed: Runs<FailedUnit>,
    /// Units that failed and are tried again, and the attempts that they failed in: a result that comes
    /// twice tells of one run.
    pub(crate) failures: PerUnit<(Attempt, NodeId)>,
    /// Units that had failed and were wanted again, and the first attempt after that: what fails in an
    /// earlier one was counted before.
    pub(crate) reopened: Runs<Attempt>,
    /// Deaths of workers that ran a unit, by incarnation.
    pub(crate) deaths: PerUnit<(NodeId, Boot)>,
    /// What nodes gave back, by first unit.
    pub(crate) returned: BTreeMap<u128, Returned>,
    /// Units in gq that should go to another node than the one that asked first, and when that was.
    pub(crate) denied: BTreeMap<u128, u64>,
    /// How its units went on each node.
    pub(crate) outcomes: BTreeMap<NodeId, Outcomes>,
    /// Nodes of these with failures enough to be sick: mostly none, so that no result looks at all nodes.
    pub(crate) suspects: BTreeSet<NodeId>,
    /// Units of a command that passed in this epoch.
    pub(crate) passes: u64,
    /// What was given out before this attempt says nothing of nodes: a person let the job go on since.
    pub(crate) judged_from: Attempt,
    /// Units failed when a person let it go on after failures: what it bears counts from there.
    pub(crate) forgiven: u128,
    /// Intervals that were computed twice with different results, and whose result came second.
    pub(crate) conflicts: Vec<(u128, u128, NodeId)>,
    /// Nodes that said that they cannot run it.
    pub(crate) refused_by: BTreeMap<NodeId, Refusal>,
    /// A run of it was told to hang.
    pub(crate) hang_told: bool,
    /// Attempts before this number were withdrawn from their nodes, and how.
    pub(crate) withdrawn: Option<(Attempt, Cancel)>,
    pub(crate) totals: JobTotals,
    /// The counters that the journal has last heard of.
    pub(crate) noted: JobTotals,
}

/// A node said that it cannot run a job. What it lacks may be there later, so that it is asked again now and then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The node's words.
    pub(crate) why: String,
    /// When it is asked again.
    pub(crate) probe: Probe,
    /// A result of this attempt or a later one shows that it can.
    pub(crate) after: Attempt,
}

/// How far a job's units may be given out: below a mark that is durable, so that a scheduler which starts
/// again knows what may be at nodes (R5).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    /// The mark of the last record.
    pub(crate) mark: u128,
    /// The mark that is durable.
    pub(crate) durable: u128,
    /// Units that the next mark lies ahead.
    pub(crate) ahead: u128,
    /// Tasks had to wait for the lease that is on its way.
    pub(crate) waited: bool,
}

/// Units that a result can still decide. Abandoned ones too: the work was done.
const OPEN: Classes = Classes::of(&[Class::Pending, Class::Out, Class::Abandoned]);

impl Job {
    pub(crate) fn new(facts: JobFacts) -> Self {
        let coverage = Coverage::new(facts.units);
        let totals = JobTotals { submitted_us: facts.at_us, ..JobTotals::default() };
        let missing = match facts.work {
            WorkFacts::Search { targets, .. } => (0..targets).collect(),
            _ => BTreeSet::new(),
        };
        Self {
            facts,
            state: JobState::Queued,
            note: String::new(),
            coverage,
            lease: Lease::default(),
            rates: BTreeMap::new(),
            mean_rate: 0.0,
            forgotten: 0,
            missing,
            hits: BTreeSet::new(),
            failed: Runs::default(),
            failures: PerUnit::default(),
            reopened: Runs::default(),
            deaths: PerUnit::default(),
            returned: BTreeMap::new(),
            denied: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            suspects: BTreeSet::new(),
            passes: 0,
            judged_from: Attempt(0),
            forgiven: 0,
            conflicts: Vec::new(),
            refused_by: BTreeMap::new(),
            hang_told: false,
            withdrawn: None,
            totals,
            noted: JobTotals::default(),
        }
    }

    /// [lo, hi) is decided, as far as it was not: `pieces` gets what changed.
    pub(crate) fn decide(&mut self, lo: u128, hi: u128, to: Class, pieces: &mut Vec<Piece>) {
        self.coverage.change(lo, hi, OPEN, to, pieces);
    }

    /// A hit; false if it was known.
    pub(crate) fn add_hit(&mut self, unit: u128, target: u32) -> bool {
        self.missing.remove(&target);
        self.hits.insert((unit, target))
    }

    /// Units ran to their end: nothing is held against them any more.
    pub(crate) fn acquit(&mut self, lo: u128, hi: u128) {
        self.deaths.remove(lo, hi);
        self.failures.remove(lo, hi);
        self.reopened.remove(lo, hi);
        remove_range(&mut self.returned, lo, hi);
        remove_range(&mut self.denied, lo, hi);
    }

    /// Node `node` gave [lo, hi) back unasked: others may have it first. It does so again and again: ever later.
    pub(crate) fn returned_by(&mut self, node: NodeId, (lo, hi): (u128, u128), now_us: u64) {
        let before = self.returned.range(..=lo).next_back();
        let again = before.filter(|(_, back)| back.node == node && back.hi > lo);
        let pause_us =
            again.map_or(RETURN_PAUSE_MIN_US, |(_, back)| 2 * back.pause_us).min(RETURN_PAUSE_MAX_US);
        self.returned.insert(lo, Returned { hi, node, until_us: now_us + pause_us, pause_us });
    }

    /// A state that is no end.
    pub(crate) fn take_state(&mut self, state: JobState, why: &str) {
        if self.state == JobState::Paused && state != JobState::Paused {
            self.forgive();
        }
        self.state = state;
        why.clone_into(&mut self.note);
    }

    /// The end: what is not decided is abandoned. What is kept of single units is what they came to: intervals, hits
    /// and failures, for `results` and for `retry`.
    pub(crate) fn take_end(&mut self, state: JobState, totals: JobTotals) {
        const UNDECIDED: Classes = Classes::of(&[Class::Pending, Class::Out]);
        self.coverage.change_all(UNDECIDED, Class::Abandoned);
        (self.state, self.totals) = (state, totals);
        self.note.clear();
        (self.failures, self.reopened, self.deaths) = Default::default();
        (self.returned, self.denied) = Default::default();
        self.outcomes.clear();
        self.suspects.clear();
        self.rates.clear();
        self.refused_by.clear();
        self.missing.clear();
    }

    /// Failed units are wanted again; those that had failed go to `pieces`.
    pub(crate) fn reopen(&mut self, units: &[(u128, u128)], pieces: &mut Vec<Piece>) {
        const FAILED: Classes = Classes::of(&[Class::Failed]);
        for &(lo, hi) in units {
            self.coverage.change(lo, hi, FAILED, Class::Pending, pieces);
            self.failed.remove(lo, hi);
        }
        self.forgive();
        if self.state.ended() {
            if let WorkFacts::Search { targets, .. } = self.facts.work {
                let found = self.targets_found();
                self.missing = (0..targets).filter(|target| !found.contains(target)).collect();
            }
            self.state = JobState::Queued;
            self.totals.ended_us = None;
            self.withdrawn = None;
        }
    }

    /// What it bears counts from now on.
    fn forgive(&mut self) {
        self.forgiven = self.coverage.count(Class::Failed);
    }

    /// Node `id` said that it cannot run the job, and it is not time yet to ask again.
    pub(crate) fn is_refused(&self, id: NodeId, now_us: u64) -> bool {
        self.refused_by.get(&id).is_some_and(|refusal| now_us < refusal.probe.at_us)
    }

    /// Units that a node could be given: fresh or in gq.
    pub(crate) fn pending(&self) -> u128 {
        if self.state.ended() { 0 } else { self.coverage.fresh() + self.coverage.count(Class::Pending) }
    }

    /// It has units to give out, all of them beyond a lease that is on its way to the disk.
    pub(crate) fn waits_for_lease(&self) -> bool {
        self.coverage.count(Class::Pending) == 0
            && self.coverage.fresh() > 0
            && self.lease.mark > self.lease.durable
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
        match self.facts.sizing {
            Sizing::TargetUs(target_us) => target_us,
            Sizing::Units(_) => TARGET_US,
        }
    }

    fn targets_found(&self) -> BTreeSet<u32> {
        self.hits.iter().map(|hit| hit.1).collect()
    }

    /// The search has found what it was to find.
    pub(crate) fn satisfied(&self) -> bool {
        match self.facts.work {
            WorkFacts::Search { stop: Stop::FirstHit, .. } => !self.hits.is_empty(),
            WorkFacts::Search { stop: Stop::AllTargets, targets } if self.state.ended() => {
                self.targets_found().len() as u64 == u64::from(targets)
            }
            WorkFacts::Search { stop: Stop::AllTargets, .. } => self.missing.is_empty(),
            _ => false,
        }
    }

    /// Node `id` is not known any more.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        self.forgotten += u64::from(self.rates.remove(&id).is_some());
        self.outcomes.remove(&id);
        self.suspects.remove(&id);
        self.refused_by.remove(&id);
        self.returned.retain(|_, back| back.node != id);
    }

    /// What was measured so far says nothing.
    pub(crate) fn forget_speeds(&mut self) {
        self.rates.clear();
        self.mean_rate = 0.0;
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

fn remove_range<T>(map: &mut BTreeMap<u128, T>, lo: u128, hi: u128) {
    if !map.is_empty() && lo < hi {
        let units: Vec<u128> = map.range(lo..hi).map(|(&unit, _)| unit).collect();
        units.iter().for_each(|unit| drop(map.remove(unit)));
    }
}
