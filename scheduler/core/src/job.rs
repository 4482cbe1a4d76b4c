//! A job as the scheduler knows it. What a unit *is* lies outside: the core sees N, an interval
//! set and a few facts about the work. What changes durably changes by the methods here, the same live and
//! when a journal is applied.

use std::collections::BTreeMap;

use starfarm_protocol::admin::{MergeState, Place};
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{Attempt, ContentHash};
use starfarm_protocol::interval::Interval;
pub use starfarm_protocol::job::{
    Body, FailedUnit, JobFacts, JobState, MaxFailures, Sizing, TARGET_US, WorkFacts,
};
pub use starfarm_protocol::journal::record::JobTotals;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::resources::{Resource, Resources};
use starfarm_protocol::spec::Stop;
use starfarm_protocol::terms::Terms;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Cancel;

use crate::checks::{Checks, Trust};
use crate::growth::Growth;
use crate::health::Probe;
use crate::hits::{Hit, Hits, HitsKept};
use crate::late::Late;
use crate::lease::Lease;
use crate::limits::{
    CONFLICTS_KEPT, FIRST_FAILURES_MAX, HALF_FAILURES_OF, RETURN_PAUSE_MAX_US, RETURN_PAUSE_MIN_US, SEEN_US,
};
use crate::outcomes::Blame;
use crate::pace::Pace;
use crate::queues::{Class, Classes, JobUnits, NodeId};
use crate::rates::Rates;
use crate::seat::Seat;
use crate::stored::Stored;

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
    /// How its results are checked; for searches alone.
    pub trust: Trust,
    /// Which jobs it starts after, its labels, how many nodes it may have.
    pub terms: Terms,
    /// Where in jq it goes.
    pub place: Place,
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
    pub(crate) terms: Terms,
    pub(crate) state: JobState,
    /// Why the farm paused it; none where a person did, or it is not paused.
    pub(crate) paused_for: Option<HoldReason>,
    /// What became of its units.
    pub(crate) units: JobUnits,
    pub(crate) lease: Lease,
    /// Units below this were leased by an earlier scheduler.
    pub(crate) leased_before: u128,
    /// What nodes lost of it and may still report.
    pub(crate) late: Late,
    pub(crate) rates: Rates,
    /// What it was seen to do.
    pub(crate) pace: Pace<SEEN_US>,
    /// Nodes that computed of it and are forgotten.
    pub(crate) forgotten: u64,
    pub(crate) hits: Hits,
    /// What nodes gave back, by first unit.
    pub(crate) returned: BTreeMap<u128, Returned>,
    /// Units in gq that should go to another node than the one that asked first, and when that was.
    pub(crate) denied: BTreeMap<u128, u64>,
    /// How its units went on each node.
    pub(crate) blame: Blame,
    /// Units failed when a person let it go on after failures: what it bears counts from there.
    pub(crate) forgiven: u128,
    /// What its outputs take on the disk.
    pub(crate) stored: Stored,
    /// Where a program names its units: those that it has named so far.
    pub(crate) growth: Option<Box<Growth>>,
    /// Its trust checks.
    pub(crate) checks: Checks,
    /// Intervals that were computed twice with different results, and whose result came second.
    pub(crate) conflicts: Vec<(Interval, NodeId)>,
    /// Where nodes said that they cannot run it.
    pub(crate) refused_by: BTreeMap<Seat, Refusal>,
    /// A run of it was told to hang.
    pub(crate) hang_told: bool,
    /// Attempts before this number were revoked from their nodes, and how.
    pub(crate) revoked: Option<(Attempt, Cancel)>,
    /// How the merge of its results stands, where they are to be merged.
    pub(crate) merge: Option<MergeState>,
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

impl Job {
    pub(crate) fn new(facts: JobFacts, hits_kept: HitsKept) -> Self {
        let units = JobUnits::new(facts.job, facts.units);
        let targets = match facts.work.body {
            Body::Hits { stop: Stop::AllTargets, targets } => Some(targets),
            _ => None,
        };
        let growth = (facts.units == 0).then(Box::default);
        let totals = JobTotals { submitted_us: facts.at_us, ..JobTotals::default() };
        Self {
            facts,
            terms: Terms::default(),
            state: JobState::Queued,
            paused_for: None,
            units,
            lease: Lease::default(),
            leased_before: 0,
            late: Late::default(),
            rates: Rates::default(),
            pace: Pace::default(),
            forgotten: 0,
            hits: Hits::new(hits_kept, targets),
            returned: BTreeMap::new(),
            denied: BTreeMap::new(),
            blame: Blame::default(),
            stored: Stored::default(),
            forgiven: 0,
            growth,
            checks: Checks::default(),
            conflicts: Vec::new(),
            refused_by: BTreeMap::new(),
            hang_told: false,
            revoked: None,
            merge: None,
            totals,
            noted: JobTotals::default(),
        }
    }

    /// Its terms, as it was submitted.
    pub(crate) fn with_terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self.state = self.first_state();
        self
    }

    /// The state in which it is submitted.
    pub(crate) fn first_state(&self) -> JobState {
        if self.terms.waits() { JobState::Waiting } else { JobState::Queued }
    }

    /// A hit; false if it was known.
    pub(crate) fn add_hit(&mut self, hit: Hit) -> bool {
        assert!(!self.checks.is_planted(hit.1), "a planted answer is no result");
        let is_done = self.units.coverage().is_done(hit.0);
        self.hits.add(hit, is_done)
    }

    /// Units are about to be wanted again.
    pub(crate) fn hits_again(&mut self, at: Interval) {
        let Self { hits, units, .. } = self;
        units.coverage().within(at, Classes::of(&[Class::Done])).for_each(|at| hits.again(at));
    }

    /// Two nodes said different things of `at`; the result of `second` came second.
    pub(crate) fn add_conflict(&mut self, at: Interval, second: NodeId) {
        self.totals.conflicts += 1;
        if self.conflicts.len() < CONFLICTS_KEPT {
            self.conflicts.push((at, second));
        }
    }

    /// The journal has heard of these counters.
    pub(crate) fn note(&mut self, totals: JobTotals) {
        (self.totals, self.noted) = (totals, totals);
    }

    /// Planted answers that were found: no result that leaves one out counts.
    pub(crate) fn planted_found(&self) -> u64 {
        let is_found = |unit: &&u128| self.units.coverage().is_done(**unit);
        self.checks.planted.keys().filter(is_found).count() as u64
    }

    /// Units ran to their end: nothing is held against them any more.
    pub(crate) fn acquit(&mut self, at: Interval) {
        self.units.acquit(at);
        if self.hits.wait() && self.units.coverage().is_done(at.lo) {
            self.hits.done(at);
        }
        self.forget_returned(at);
        remove_range(&mut self.denied, at);
    }

    /// Node `node` gave `at` back unasked: others may have it first. It does so again and again: ever later.
    pub(crate) fn returned_by(&mut self, node: NodeId, at: Interval, now_us: u64) {
        let again =
            self.returned_at(at.lo).filter(|back| back.node == node).map_or(0, |back| 2 * back.pause_us);
        self.pause(node, at, now_us, again.clamp(RETURN_PAUSE_MIN_US, RETURN_PAUSE_MAX_US));
    }

    /// Node `node` does not get `at` for a while.
    pub(crate) fn pause(&mut self, node: NodeId, at: Interval, now_us: u64, pause_us: u64) {
        assert!(!at.is_empty() && pause_us >= RETURN_PAUSE_MIN_US);
        self.forget_returned(at);
        self.returned.insert(at.lo, Returned { hi: at.hi, node, until_us: now_us + pause_us, pause_us });
    }

    /// Who gave `unit` back.
    pub(crate) fn returned_at(&self, unit: u128) -> Option<&Returned> {
        self.returned.range(..=unit).next_back().map(|(_, back)| back).filter(|back| back.hi > unit)
    }

    /// Who gave the units of `at` back does not matter any more.
    pub(crate) fn forget_returned(&mut self, at: Interval) {
        while let Some((&lo, &back)) =
            self.returned.range(..at.hi).next_back().filter(|(_, back)| back.hi > at.lo)
        {
            self.returned.remove(&lo);
            if lo < at.lo {
                self.returned.insert(lo, Returned { hi: at.lo, ..back });
            }
            if at.hi < back.hi {
                self.returned.insert(at.hi, back);
            }
        }
    }

    /// A state that is no end.
    pub(crate) fn take_state(&mut self, state: JobState, why: Option<HoldReason>) {
        assert!(!state.ended() && !self.state.ended(), "an end has a record of its own");
        if self.state == JobState::Paused && state != JobState::Paused {
            self.forgive();
            self.stored.go_on(self.terms.storage_limit, self.paused_for.as_ref());
        }
        self.state = state;
        self.paused_for = why;
    }

    /// The end. Of single units it is kept what they came to, for `results` and for `retry`.
    pub(crate) fn take_end(&mut self, state: JobState, totals: JobTotals) {
        assert!(state.ended() && !self.state.ended(), "a job ends once");
        (self.state, self.totals, self.paused_for) = (state, totals, None);
        self.stored.count_all();
        self.units.forget_trials();
        (self.returned, self.denied) = Default::default();
        self.blame.clear();
        self.rates.forget_all();
        self.refused_by.clear();
        // What counted once, and was to be computed again, counts again if who computed it repeats it.
        for (at, first) in self.checks.end() {
            self.late.add(first, at, self.units.coverage());
        }
        self.late.end(self.units.coverage());
        self.hits.ended(true);
        self.growth.iter_mut().for_each(|growth| growth.close());
    }

    /// Units are wanted again, failed ones or any; true where it had ended, and goes on.
    pub(crate) fn reopen(&mut self, failed: bool) -> bool {
        if failed || self.state.ended() {
            self.forgive();
        } else {
            self.forgiven = self.forgiven.min(self.units.coverage().count(Class::Failed));
        }
        if !self.state.ended() {
            return false;
        }
        self.hits.ended(false);
        // What was computed by nodes that are not trusted is computed again.
        self.checks.doubtful.clear();
        self.state = JobState::Queued;
        // They are merged anew at the next end.
        self.merge = self.merge.map(|_| MergeState::Waiting);
        self.totals.ended_us = None;
        self.revoked = None;
        true
    }

    /// What it bears counts from now on.
    fn forgive(&mut self) {
        self.forgiven = self.units.coverage().count(Class::Failed);
    }

    /// When a seat, whose node said that it cannot run the job there, is asked again.
    pub(crate) fn asked_again_us(&self, seat: Seat) -> Option<u64> {
        self.refused_by.get(&seat).map(|refusal| refusal.probe.at_us)
    }

    /// Units that a node could be given: fresh or in gq.
    pub(crate) fn pending(&self) -> u128 {
        if self.state.ended() {
            0
        } else {
            self.units.coverage().fresh() + self.units.coverage().count(Class::Pending)
        }
    }

    /// It has units to give out, all of them beyond a lease that is on its way to the disk.
    pub(crate) fn waits_for_lease(&self) -> bool {
        self.lease.holds_up(self.units.coverage())
    }

    /// Units that nobody wants any more.
    pub(crate) fn abandoned(&self) -> u128 {
        let fresh = if self.state.ended() { self.units.coverage().fresh() } else { 0 };
        fresh + self.units.coverage().count(Class::Abandoned)
    }

    /// Units done, failed, out, waiting and abandoned.
    pub(crate) fn classes(&self) -> [u128; 5] {
        let count = |class| self.units.coverage().count(class);
        let (out, pending, abandoned) = (count(Class::Out), self.pending(), self.abandoned());
        let classes = [count(Class::Done), count(Class::Failed), out, pending, abandoned];
        assert!(classes.iter().sum::<u128>() == self.facts.units, "each unit is in one class");
        classes
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

    /// The search has found what it was to find.
    pub(crate) fn satisfied(&self) -> bool {
        match self.facts.work.body {
            Body::Hits { stop, targets } => {
                self.hits.satisfy(stop, targets.saturating_sub(self.checks.planted.len() as u32))
            }
            _ => false,
        }
    }

    /// Node `id` is not known any more.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        self.forgotten += u64::from(self.rates.forget_node(id));
        self.blame.forget_node(id);
        self.refused_by.retain(|seat, _| seat.node != id);
        self.returned.retain(|_, back| back.node != id);
        self.late.forget(id);
    }

    /// Units per second of a slot of `seat`, as far as was measured there, else the mean of such slots.
    pub(crate) fn rate_on(&self, seat: Seat) -> f64 {
        self.rates.on(seat)
    }

    /// A measured interval moves the rates of its seat and of the job.
    pub(crate) fn measured(&mut self, seat: Seat, units: u64, duration_us: u64, now_us: u64) {
        let target_us = self.target_us().max(1);
        let rate = self.rates.measured(seat, units, (duration_us, target_us), now_us);
        if self.facts.work.is_whole_run() {
            rate.start.measured(units, duration_us);
        }
        self.pace.count(units, now_us);
    }
}

impl Job {
    /// What a run of it takes of its node.
    pub(crate) fn needs(&self) -> Resources {
        self.facts.work.needs
    }

    /// Slots that a run of it takes.
    pub(crate) fn width(&self) -> usize {
        self.needs().of(Resource::Slots) as usize
    }

    /// What a run of it takes of slots of one kind, and what is beside them: on a device that is the device.
    pub(crate) fn needs_on(&self, kind: SlotKind) -> Resources {
        if kind.is_device() { Resources::ONE_SLOT } else { self.needs() }
    }

    /// A run of it takes other than one slot of its node's cores.
    pub(crate) fn is_wide(&self) -> bool {
        self.needs() != Resources::ONE_SLOT
    }

    /// It has not started, and may have to wait for others before it does.
    pub(crate) fn is_follower(&self) -> bool {
        match self.state {
            JobState::Waiting => true,
            JobState::Paused => self.terms.waits() && self.totals.started_us.is_none(),
            _ => false,
        }
    }

    /// So much failed that it should wait for a person.
    pub(crate) fn bears_no_more(&self) -> Option<HoldReason> {
        let coverage = self.units.coverage();
        let (done, all_failed) = (coverage.count(Class::Done), coverage.count(Class::Failed));
        let failed = all_failed.checked_sub(self.forgiven).expect("what was forgiven had failed");
        match self.facts.max_failures {
            MaxFailures::Units(max) if failed >= u128::from(max) => {
                Some(HoldReason::MaxFailures { failed: Units(failed), max })
            }
            MaxFailures::Usual if done == 0 && failed >= FIRST_FAILURES_MAX => {
                Some(HoldReason::FirstFailed(Units(all_failed)))
            }
            MaxFailures::Usual if done + failed >= HALF_FAILURES_OF && failed > done => {
                Some(HoldReason::MostFailed { failed: Units(failed), decided: Units(done + failed) })
            }
            MaxFailures::Never | MaxFailures::Units(_) | MaxFailures::Usual => None,
        }
    }
}

fn remove_range<T>(map: &mut BTreeMap<u128, T>, at: Interval) {
    if !map.is_empty() && !at.is_empty() {
        let units: Vec<u128> = map.range(at.lo..at.hi).map(|(&unit, _)| unit).collect();
        units.iter().for_each(|unit| drop(map.remove(unit)));
    }
}
