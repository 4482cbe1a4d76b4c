//! A job as the simulated world knows it: what its units do, and a ledger of its own of what was computed,
//! recorded and durable. The ledger shares no code with the core's accounting; it is what the core is
//! judged by.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::Per;
use starfarm_protocol::journal::record::Ended;
use starfarm_protocol::resources::Resources;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::trust::Share;
use starfarm_protocol::wire::{FailReason, HitEntry};
use starfarm_scheduler_core::{
    JobState, MaxFailures, NewJob, Place, Record, Sizing, TARGET_US, Terms, Trust, WorkFacts,
};

use crate::how::{How, Roomless, divides};
use crate::intervals::Intervals;
use crate::random::Random;
use crate::scenario::{JobModel, WorkModel};
use crate::together::{self, End, Owes, Runs, Together};
use crate::violation::{Broken, rule};

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) model: JobModel,
    /// Its number, once submitted.
    pub(crate) id: Option<JobId>,
    pub(crate) state: Option<JobState>,
    pub(crate) deleted: bool,
    /// Planted hits: unit and target.
    planted: BTreeMap<u128, u32>,
    /// Units that failed in some run.
    failed_runs: BTreeSet<u128>,
    /// Units that were ever offered to anybody.
    pub(crate) offered: Intervals,
    /// Units that some slot computed, to whatever outcome.
    computed: Intervals,
    roomless: Roomless,
    /// Units that a record says are done.
    done: Intervals,
    /// Decided units, by first one: the end, and the node that the record names.
    by: BTreeMap<u128, (u128, NodeId)>,
    /// Units that a record says have failed for good.
    failed: BTreeSet<u128>,
    /// Units of such records that are durable, and of those which say that a unit is tried again.
    durable: Intervals,
    /// Units of computed results that were acknowledged.
    acknowledged: Intervals,
    /// Runs over whole tasks.
    pub(crate) runs: Runs,
    hits: BTreeSet<(u128, u32)>,
    /// What the records said of a result when it was found to differ from them.
    conflicts: Vec<Conflict>,
    /// The farm has few of its hits in memory.
    pages_hits: bool,
    /// Then these are the units that were wanted again: what is found there may be recorded once more, and what was missed
    /// at first is not counted.
    again: Intervals,
}

/// The records as they were when a result was found to differ from them.
#[derive(Debug)]
struct Conflict {
    at: Interval,
    second: NodeId,
    by: BTreeMap<u128, NodeId>,
    hits: BTreeSet<(u128, u32)>,
}

impl Job {
    pub(crate) fn new(model: &JobModel, pages_hits: bool, random: &mut Random) -> Self {
        let mut planted = BTreeMap::new();
        while planted.len() < (model.hits as usize).min(model.units as usize) {
            let target = planted.len() as u32;
            planted.entry(u128::from(random.below(model.units))).or_insert(target);
        }
        Self {
            model: model.clone(),
            id: None,
            state: None,
            deleted: false,
            planted,
            failed_runs: BTreeSet::new(),
            offered: Intervals::default(),
            computed: Intervals::default(),
            roomless: Roomless::default(),
            done: Intervals::default(),
            by: BTreeMap::new(),
            failed: BTreeSet::new(),
            durable: Intervals::default(),
            acknowledged: Intervals::default(),
            runs: Runs::default(),
            hits: BTreeSet::new(),
            conflicts: Vec::new(),
            pages_hits,
            again: Intervals::default(),
        }
    }

    /// Its hits.
    pub(crate) fn planted(&self) -> &BTreeMap<u128, u32> {
        &self.planted
    }

    /// The target is of an answer that only the scheduler knows.
    fn is_known(&self, target: u32) -> bool {
        target < self.model.known
    }

    /// Those that are results.
    fn wanted(&self) -> usize {
        self.planted.values().filter(|target| !self.is_known(**target)).count()
    }

    /// What the farm is told of the job. `place` makes its specification unlike all others.
    pub(crate) fn to_submit(&self, place: usize) -> NewJob {
        let targets = self.planted.len() as u32;
        let stop = if self.model.stop_at_last_hit { Stop::AllTargets } else { Stop::Never };
        let is_known = |of: &(u128, u32)| self.is_known(of.1);
        NewJob {
            name: format!("job{place}"),
            user: "sim".to_owned(),
            spec: ContentHash([place as u8 + 1; 32]),
            units: u128::from(self.model.units),
            work: WorkFacts {
                needs: self.needs(),
                ..match self.model.work {
                    WorkModel::Search => WorkFacts::search(stop, targets),
                    WorkModel::Command => WorkFacts {
                        per: if self.model.together.is_some() { Per::Task } else { Per::Unit },
                        ..WorkFacts::command(self.model.retries)
                    },
                    WorkModel::Nothing => WorkFacts::NOTHING,
                }
            },
            max_failures: match self.model.bears_the_usual {
                true => MaxFailures::Usual,
                false => MaxFailures::Never,
            },
            speculative: self.model.work == WorkModel::Search || self.model.copies,
            trust: Trust {
                check: Share::try_from(self.model.check).expect("a scenario names a share"),
                planted: self
                    .planted
                    .iter()
                    .map(|(&unit, &target)| (unit, target))
                    .filter(is_known)
                    .collect(),
            },
            sizing: match (self.model.units_per_task, self.model.target_s) {
                (Some(units), _) => Sizing::Units(units),
                (None, target_s) => Sizing::TargetUs(target_s.map_or(TARGET_US, crate::plan::us)),
            },
            terms: Terms {
                after: self.model.after.iter().copied().map(JobId).collect(),
                max_nodes: self.model.max_nodes,
                ..Terms::default()
            },
            place: if self.model.now { Place::Now } else { Place::Tail },
        }
    }

    /// What a run of it takes of its machine.
    pub(crate) fn needs(&self) -> Resources {
        self.model.needs()
    }

    /// Computing time that a task should take, in microseconds; `None` where the user fixed the size.
    pub(crate) fn target_us(&self) -> Option<u64> {
        match (self.model.units_per_task, self.model.target_s) {
            (Some(_), _) => None,
            (None, target_s) => Some(target_s.map_or(TARGET_US, crate::plan::us)),
        }
    }

    /// The unit kills its worker.
    pub(crate) fn is_poison(&self, unit: u128) -> bool {
        self.model.poison.iter().any(|&poison| u128::from(poison) == unit)
    }

    /// A slot ran one unit of a command: its record is appended to `body`.
    pub(crate) fn run_unit(
        &mut self,
        unit: u128,
        duration_us: u64,
        How { sick, hung, has_room }: How,
        body: &mut Vec<u8>,
    ) {
        if !has_room {
            self.roomless.add(unit);
            return together::write(1, Some(FailReason::Room), 0, Vec::new(), body);
        }
        let fails = sick || hung || self.fails(unit);
        if fails {
            self.failed_runs.insert(unit);
        }
        self.computed.insert(unit, unit + 1);
        let failed = match (hung, fails) {
            (true, _) => Some(FailReason::Timeout),
            (false, true) => Some(FailReason::Exit),
            (false, false) => None,
        };
        together::write(1, failed, duration_us, b"out".to_vec(), body);
    }

    /// How a run over all of `at` will go; none where the job's runs are of one unit.
    pub(crate) fn begin_together(&self, at: Interval, sick: bool, random: &mut Random) -> Option<Together> {
        let model = self.model.together?;
        let end_at = |unit: u128| match () {
            () if self.is_poison(unit) => Some(End::Dies),
            () if sick || self.fails(unit) => Some(End::Fails),
            () => None,
        };
        let bad = (0..).zip(at.lo..at.hi).find_map(|(place, unit)| Some((place, end_at(unit)?)));
        Some(Together::draw(model, at.units() as u64, bad, random))
    }

    /// A run over `at` has ended, or was stopped: its first units, so many, are done, and the others have failed or go back. Its
    /// results, each with its first unit and their number.
    pub(crate) fn ran_together(
        &mut self,
        at: Interval,
        (done, failed): (u64, Option<FailReason>),
        duration_us: u64,
    ) -> Vec<(u128, u64, Vec<u8>)> {
        let end = if failed.is_some() { at.hi } else { at.lo + u128::from(done) };
        if end > at.lo {
            self.computed.insert(at.lo, end);
        }
        self.runs.results(at, (done, failed), duration_us)
    }

    /// A run of this unit fails.
    fn fails(&self, unit: u128) -> bool {
        let first_time = !self.failed_runs.contains(&unit);
        divides(self.model.fail_always, unit) || (divides(self.model.fail_once, unit) && first_time)
    }

    /// A run over a task failed at this unit.
    pub(crate) fn failed_at(&mut self, unit: u128) {
        if self.fails(unit) {
            self.failed_runs.insert(unit);
        }
    }

    /// A slot searched an interval; the body of its result.
    pub(crate) fn scan(&mut self, lo: u128, units: u64) -> Vec<u8> {
        let hi = lo + u128::from(units);
        self.computed.insert(lo, hi);
        let mut body = Vec::new();
        for (&unit, &target) in self.planted.range(lo..hi) {
            HitEntry { offset: (unit - lo) as u64, target }.write(&mut body);
        }
        body
    }

    /// Nobody can tell that no slot computed these.
    pub(crate) fn is_taken_as_computed(&mut self, lo: u128, hi: u128) {
        self.computed.insert(lo, hi);
    }

    /// A record about this job, in the order of sequences. Intervals that it settles go to `settled`.
    pub(crate) fn on_record(
        &mut self,
        record: &Record,
        settled: &mut Vec<(u128, u128)>,
    ) -> Result<(), Broken> {
        match record {
            Record::Done { pieces, hits, node, .. } => {
                for &(lo, hi) in pieces {
                    self.by.insert(lo, (hi, *node));
                    rule(self.computed.covers(lo, hi), "what is done was computed", || {
                        format!("[{lo}, {hi}) is recorded as done, but no slot computed all of it")
                    })?;
                    let new = self.done.insert(lo, hi);
                    rule(new == hi - lo, "a unit is recorded once", || format!("[{lo}, {hi}): {new} new"))?;
                    settled.push((lo, hi));
                }
                for &(unit, target) in hits {
                    let is_one = self.planted.get(&unit) == Some(&target) && !self.is_known(target);
                    rule(is_one, "a hit was planted", || format!("unit {unit}, target {target}"))?;
                    let is_new = self.hits.insert((unit, target));
                    rule(is_new || self.again.covers(unit, unit + 1), "a hit is recorded once", || {
                        format!("unit {unit}, target {target}")
                    })?;
                }
            }
            Record::Ran { units, node, .. } => {
                for (unit, ran) in units {
                    let end = unit + u128::from(ran.units);
                    self.by.insert(*unit, (end, *node));
                    rule(self.computed.covers(*unit, end), "what ran was computed", || {
                        format!("[{unit}, {end}) is recorded as run, but no slot ran it")
                    })?;
                    match self.model.together {
                        Some(_) => self.runs.on_ran(*unit, ran)?,
                        None => rule(ran.units == 1, "a run is of one unit", || format!("{unit}: {ran:?}"))?,
                    }
                    (*unit..end).try_for_each(|unit| self.decide(unit, ran.failed.is_some()))?;
                    settled.push((*unit, end));
                }
            }
            Record::Failed { unit, .. } => self.decide(*unit, true)?,
            Record::Tried { unit, .. } => settled.push((*unit, unit + 1)),
            Record::Retried { units, .. } | Record::Rerun { units, .. } => {
                self.again(units);
                for &(lo, hi) in units.iter().filter(|_| self.pages_hits) {
                    self.again.insert(lo, hi);
                }
                self.state = self.state.map(|state| if state.ended() { JobState::Queued } else { state });
            }
            Record::Conflict { lo, hi, node, .. } => {
                let by = (*lo..*hi).filter_map(|unit| Some((unit, self.computed_by(unit)?))).collect();
                let hits = self.hits.range((*lo, 0)..(*hi, 0)).copied().collect();
                self.conflicts.push(Conflict { at: Interval::new(*lo, *hi), second: *node, by, hits });
            }
            Record::Submitted(facts) => (self.id, self.state) = (Some(facts.job), Some(JobState::Queued)),
            Record::Deleted { .. } => (self.id, self.deleted) = (None, true),
            Record::State { state, .. } => self.state = Some(*state),
            Record::Ended(ended) => self.state = Some(ended.state),
            _ => {}
        }
        Ok(())
    }

    /// Units are wanted again.
    fn again(&mut self, units: &[(u128, u128)]) {
        self.failed.retain(|unit| !units.iter().any(|(lo, hi)| (lo..hi).contains(&unit)));
        for &(lo, hi) in units {
            self.done.remove(lo, hi);
            let near = self.by.range(..hi).rev().take_while(|(_, (end, _))| *end > lo);
            for (from, (to, node)) in near.map(|(from, to)| (*from, *to)).collect::<Vec<_>>() {
                self.by.remove(&from);
                if from < lo {
                    self.by.insert(from, (lo, node));
                }
                if hi < to {
                    self.by.insert(hi, (to, node));
                }
            }
        }
    }

    fn decide(&mut self, unit: u128, failed: bool) -> Result<(), Broken> {
        let fresh = !self.failed.contains(&unit) && !self.done.covers(unit, unit + 1);
        rule(fresh, "a unit of a command is recorded once", || format!("unit {unit}"))?;
        self.runs.decided(unit, unit + 1);
        if failed {
            self.failed.insert(unit);
        } else {
            self.done.insert(unit, unit + 1);
        }
        Ok(())
    }

    /// How many of these units ran to their end, or were given up.
    pub(crate) fn decided_in(&self, units: &[(u128, u128)]) -> u128 {
        let is_decided = |unit: &u128| self.failed.contains(unit) || self.done.covers(*unit, unit + 1);
        units.iter().flat_map(|&(lo, hi)| lo..hi).filter(is_decided).count() as u128
    }

    /// Units whose records name this node.
    pub(crate) fn computed_at(&self, id: NodeId) -> Vec<Interval> {
        let its = self.by.iter().filter(|(_, (_, node))| *node == id);
        its.map(|(lo, (hi, _))| Interval::new(*lo, *hi)).collect()
    }

    /// The node that had computed the unit of this hit, and had not named it, when node `second` said other things of `at`.
    pub(crate) fn missed_by(&self, hit: (u128, u32), at: Interval, second: NodeId) -> Option<NodeId> {
        let of = self.conflicts.iter().find(|of| of.at == at && of.second == second)?;
        of.by.get(&hit.0).filter(|_| !of.hits.contains(&hit)).copied()
    }

    /// The node whose record says that this unit is done.
    fn computed_by(&self, unit: u128) -> Option<NodeId> {
        self.by.range(..=unit).next_back().filter(|(_, (hi, _))| unit < *hi).map(|(_, (_, node))| *node)
    }

    /// Records of these units are durable.
    pub(crate) fn on_durable(&mut self, lo: u128, hi: u128) {
        self.durable.insert(lo, hi);
    }

    /// A computed result over [lo, hi) is acknowledged.
    pub(crate) fn on_acknowledged(&mut self, lo: u128, hi: u128, owes: Owes) -> Result<(), Broken> {
        if owes == Owes::AllOrNone && !self.durable.covers(lo, hi) && !self.deleted {
            return self.runs.on_vain(lo, hi);
        }
        // Of some units it says that they did not run.
        self.roomless.ran(lo, hi, &self.durable).into_iter().try_for_each(|(lo, hi)| {
            self.acknowledged.insert(lo, hi);
            rule(self.durable.covers(lo, hi) || self.deleted, "acknowledged only after it is durable", || {
                format!("the result over [{lo}, {hi}) is acknowledged")
            })
        })
    }

    /// A scheduler has died: what its records said is read anew from those that are left.
    pub(crate) fn forget_records(&mut self) {
        (self.id, self.state, self.deleted) = (None, None, false);
        (self.done, self.durable, self.by) = Default::default();
        (self.failed, self.hits, self.again, self.conflicts) = Default::default();
        self.runs.forget_records();
    }

    /// The job needs nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.deleted || self.state.is_some_and(JobState::ended)
    }

    /// All that was acknowledged is in the records.
    pub(crate) fn keeps_promises(&self) -> Result<(), Broken> {
        let lost = self.acknowledged.iter().find(|&(lo, hi)| !self.durable.covers(lo, hi));
        rule(lost.is_none() || self.deleted, "what was acknowledged is in the journal", || {
            format!("job {:?}: results in {lost:?} were acknowledged", self.id)
        })
    }

    /// These are the intervals that are done.
    pub(crate) fn is_done(&self, intervals: &[(u128, u128)]) -> Result<(), Broken> {
        rule(self.done.iter().eq(intervals.iter().copied()), "the same units are done", || {
            format!("{intervals:?}, the records say {:?}", self.done)
        })
    }

    /// What was done, failed and abandoned at the job's end is its whole space, each unit once.
    pub(crate) fn tiles(&self, ended: &Ended) -> Result<(), Broken> {
        let units = u128::from(self.model.units);
        let mut space = Intervals::default();
        let mut abandoned = 0;
        for &(lo, hi) in &ended.abandoned {
            abandoned += space.insert(lo, hi);
        }
        for (lo, hi) in self.done.iter().chain(self.failed.iter().map(|&unit| (unit, unit + 1))) {
            space.insert(lo, hi);
        }
        let counted = ended.done + ended.failed + abandoned;
        rule(
            (counted, space.units()) == (units, units) || self.deleted,
            "the end accounts for every unit",
            || format!("{counted} counted, {} named, of {units}", space.units()),
        )
    }

    /// What the farm says of the job is what the ledger says.
    pub(crate) fn agrees(&self, view: &JobInfo) -> Result<(), Broken> {
        rule(view.units_done == self.done.units(), "every unit is counted once", || {
            format!("{} units counted as done, the records say {}", view.units_done, self.done.units())
        })?;
        rule(view.units_failed == self.failed.len() as u128, "every failed unit is counted once", || {
            format!("{} units counted as failed, the records say {}", view.units_failed, self.failed.len())
        })?;
        let all = self.hits.len() as u64;
        let in_doubt = || self.hits.iter().filter(|hit| self.again.covers(hit.0, hit.0 + 1)).count() as u64;
        let agree = view.hits == all || (all - in_doubt()..=all).contains(&view.hits);
        rule(agree, "hits and records agree", || {
            format!("{} hits, the records say {}", view.hits, self.hits.len())
        })?;
        let decided = view.units_done.0 + view.units_failed.0 + view.units_abandoned.0;
        let sum = decided + view.units_out.0 + view.units_pending.0;
        rule(view.units_total == sum, "conservation", || {
            format!("{sum} of {} units: {view:?}", view.units_total)
        })
    }

    /// What holds of a job that has ended.
    pub(crate) fn ended_well(&self, view: &JobInfo) -> Result<(), Broken> {
        self.agrees(view)?;
        let decided = view.units_done.0 + view.units_failed.0 + view.units_abandoned.0;
        rule(view.units_total == decided, "conservation at the end", || {
            format!("{decided} of {}", view.units_total)
        })?;
        let whole =
            matches!(view.state, JobState::Finished | JobState::Failed) && !self.model.stop_at_last_hit;
        if whole {
            rule(view.units_abandoned == 0, "a finished job is whole", || format!("{view:?}"))?;
            rule(self.hits.len() == self.wanted(), "every planted hit is found", || {
                format!("{} of {}", self.hits.len(), self.wanted())
            })?;
            let poison = self.model.poison.iter().map(|&unit| u128::from(unit));
            let failing = (0..u128::from(self.model.units)).step_by(self.model.fail_always.max(1) as usize);
            let failing = failing.take_while(|_| self.model.fail_always > 0);
            let expected: BTreeSet<u128> = failing.chain(poison).collect();
            rule(self.failed == expected, "the failing units have failed and no others", || {
                format!("{:?}, not {expected:?}", self.failed)
            })?;
        }
        let found_all = self.hits.len() == self.wanted();
        rule(
            found_all || !self.model.stop_at_last_hit || view.state == JobState::Cancelled,
            "it ends with its last hit",
            || format!("{} of {}", self.hits.len(), self.wanted()),
        )
    }
}
