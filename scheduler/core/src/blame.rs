//! Blame: whose fault a failure is. A unit that fails wherever it runs is at fault itself; a unit that was
//! running when workers died is poison; a node that fails what others pass is sick and gets a probe now
//! and then instead of work; results that differ from what was counted are a conflict. A job of which too
//! much fails waits for a person.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::wire::{FailReason, HitEntry, Letting, Withdraw};

use crate::coverage::{Class, Classes, Piece};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{FailedUnit, Job, JobState, MaxFailures};
use crate::limits::{
    CONFLICTS_KEPT, FIRST_FAILURES_MAX, HALF_FAILURES_OF, OUTCOMES_KEPT, POISON_DEATHS, SICK_FAILURES,
};
use crate::record::Record;
use crate::task::NodeId;

/// How a job's units went on one node; old ones weigh less.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    /// Units that failed here and passed elsewhere.
    pub(crate) refuted: u32,
}

impl Outcomes {
    fn add(&mut self, failed: bool) {
        if self.passed + self.failed >= OUTCOMES_KEPT {
            (self.passed, self.failed, self.refuted) = (self.passed / 2, self.failed / 2, self.refuted / 2);
        }
        if failed {
            self.failed += 1;
        } else {
            self.passed += 1;
        }
    }
}

impl Job {
    /// A unit ran on `node`. Where it failed elsewhere before and passed now, that was the other node's fault.
    pub(crate) fn tally(&mut self, node: NodeId, unit: u128, failed: bool) {
        let outcomes = self.outcomes.entry(node).or_default();
        outcomes.add(failed);
        match outcomes.failed >= SICK_FAILURES {
            true => self.suspects.insert(node),
            false => self.suspects.remove(&node),
        };
        if !failed && let Some(runs) = self.failures.get(&unit) {
            let elsewhere: BTreeSet<NodeId> = runs.iter().map(|run| run.1).filter(|id| *id != node).collect();
            for other in elsewhere {
                self.outcomes.entry(other).or_default().refuted += 1;
            }
        }
    }

    /// The nodes that fail what others pass.
    fn sick(&self) -> Vec<NodeId> {
        if self.suspects.is_empty() {
            return Vec::new();
        }
        let all = self.outcomes.values().fold(Outcomes::default(), |sum, o| Outcomes {
            passed: sum.passed + o.passed,
            failed: sum.failed + o.failed,
            refuted: 0,
        });
        let is_sick = |o: &Outcomes| {
            let (passed, failed) = (all.passed - o.passed, all.failed - o.failed);
            let mostly = o.failed >= SICK_FAILURES && o.failed > o.passed;
            let others_pass = passed >= SICK_FAILURES && passed >= 4 * failed;
            mostly && (others_pass || o.refuted >= SICK_FAILURES)
        };
        self.suspects.iter().copied().filter(|id| self.outcomes.get(id).is_some_and(is_sick)).collect()
    }

    /// So much failed that it should wait for a person; the sentence says how much.
    pub(crate) fn bears_no_more(&self) -> Option<String> {
        let done = self.coverage.count(Class::Done).saturating_sub(self.forgiven.0);
        let failed = self.coverage.count(Class::Failed).saturating_sub(self.forgiven.1);
        let why = match self.facts.max_failures {
            MaxFailures::Never => return None,
            MaxFailures::Units(most) if failed >= u128::from(most) => {
                format!("{failed} units failed, and max_failures is {most}")
            }
            MaxFailures::Usual if done == 0 && failed >= FIRST_FAILURES_MAX => {
                format!("all of the first {failed} units failed")
            }
            MaxFailures::Usual if done + failed >= HALF_FAILURES_OF && failed > done => {
                format!("{failed} of {} units failed", done + failed)
            }
            _ => return None,
        };
        Some(why)
    }
}

impl Farm {
    /// Units of a command ran on node `id`: is it, or is the job, to blame for those that failed?
    pub(crate) fn judge(&mut self, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let Some(job) = self.jobs.get(&job_id).filter(|job| !job.state.ended()) else { return };
        for id in job.sick() {
            self.quarantine(id, job_id, now_us, deeds);
        }
        // A job whose last unit is decided ends: there is nothing to wait with.
        let goes_on = |job: &&Job| job.active() && !job.coverage.is_decided();
        let Some(job) = self.jobs.get(&job_id).filter(goes_on) else { return };
        if let Some(why) = job.bears_no_more() {
            let why = format!("{why}: see `starfarm results {}`, then resume or cancel it", job_id.0);
            self.set_state(job_id, JobState::Paused, &why, deeds);
            self.withdraw(job_id, Letting::Trim);
        }
    }

    /// A node is sick: it gets one task at a time, with growing pauses, until one passes. What it failed for
    /// good was its fault, so others get it; what waits there comes back. What it was given before fails there
    /// as well, and so do probes: of a node that is known to be sick that is no news.
    fn quarantine(&mut self, id: NodeId, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let before = Attempt(self.next_attempt);
        let (Some(job), Some(node)) = (self.jobs.get_mut(&job_id), self.nodes.get_mut(&id)) else { return };
        let outcomes = job.outcomes.remove(&id).unwrap_or_default();
        job.suspects.remove(&id);
        if !std::mem::replace(&mut node.sick, true) {
            node.why = format!(
                "failed {} of {} units of job {} that others pass",
                outcomes.failed,
                outcomes.failed + outcomes.passed,
                job_id.0
            );
            node.sink(now_us);
            deeds.event(Event::NodeQuarantined { node: node.name.clone(), why: node.why.clone() });
        }
        node.to_tell.withdraws.push(Withdraw { job: job_id, letting: Letting::Trim, before });
        let its: Vec<(u128, u128)> = job
            .failed
            .iter()
            .filter(|(_, failed)| failed.node == Some(id))
            .map(|(&unit, _)| (unit, unit + 1))
            .collect();
        if !its.is_empty() {
            self.reopen(job_id, its, deeds);
        }
        self.count_live();
        self.mark(id);
    }

    /// Failed units of a job are wanted again.
    pub(crate) fn reopen(&mut self, job_id: JobId, units: Vec<(u128, u128)>, deeds: &mut Deeds) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let had_ended = job.state.ended();
        let mut pieces = Vec::new();
        job.reopen(&units, &mut pieces);
        let before = Attempt(self.next_attempt);
        for Piece { lo, hi, .. } in pieces {
            // The task that had them may still have others out.
            for task_id in self.dq.overlapping(job_id, lo, hi) {
                self.cut_out(task_id, lo, hi);
            }
            // Alone, each: a unit that fails again takes nothing with it.
            let mut unit = lo;
            while unit < hi {
                self.gq.put(job_id, unit, unit + 1);
                if let Some(job) = self.jobs.get_mut(&job_id) {
                    job.reopened.insert(unit, before);
                }
                unit += 1;
            }
        }
        if had_ended {
            self.jq.push_back(job_id);
            deeds.event(Event::JobState { job: job_id, state: JobState::Queued.word().into(), why: None });
        }
        self.record(Record::Retried { job: job_id, units }, deeds);
        self.mark_all();
    }

    /// [lo, hi) waits in gq; units that workers died of, or that failed, lie there alone.
    pub(crate) fn put_back(&mut self, job_id: JobId, lo: u128, hi: u128) {
        let Some(job) = self.jobs.get(&job_id) else { return };
        let suspects: BTreeSet<u128> = (job.deaths.range(lo..hi).map(|(&unit, _)| unit))
            .chain(job.failures.range(lo..hi).map(|(&unit, _)| unit))
            .collect();
        let mut at = lo;
        for unit in suspects {
            if at < unit {
                self.gq.put(job_id, at, unit);
            }
            self.gq.put(job_id, unit, unit + 1);
            at = unit + 1;
        }
        if at < hi {
            self.gq.put(job_id, at, hi);
        }
    }

    /// A worker died while it ran `unit`. After enough deaths on enough nodes the unit is poison.
    pub(crate) fn charge(
        &mut self,
        (job_id, unit): (JobId, u128),
        (id, boot): (NodeId, Boot),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        const PENDING: Classes = Classes::of(&[Class::Pending]);
        let live: Vec<NodeId> =
            self.nodes.iter().filter(|(_, node)| node.live()).map(|(&id, _)| id).collect();
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        if unit >= job.coverage.cursor()
            || job.state.ended()
            || job.coverage.count_in(unit, unit + 1, Class::Pending) == 0
        {
            return;
        }
        let deaths = job.deaths.entry(unit).or_default();
        if !deaths.contains(&(id, boot)) {
            deaths.push((id, boot));
            let died = Record::Died { job: job_id, unit, node: id, boot };
            self.record(died, deeds);
        }
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let deaths = job.deaths.entry(unit).or_default();
        let died: BTreeSet<NodeId> = deaths.iter().map(|&(id, _)| id).collect();
        // Nodes that are gone for good will never die of it, so they do not count as seen.
        let nodes = died.len() + live.iter().filter(|id| !died.contains(id)).count();
        let poison = deaths.len() >= POISON_DEATHS && died.len() >= POISON_DEATHS.min(nodes);
        let mut pieces = Vec::new();
        if poison {
            job.coverage.change(unit, unit + 1, PENDING, Class::Failed, &mut pieces);
        }
        if self.gq.intervals(job_id).any(|(lo, hi)| (lo..hi).contains(&unit)) {
            // Alone in its task it takes nothing with it.
            self.gq.remove(job_id, unit, unit + 1);
            if !poison {
                self.gq.put(job_id, unit, unit + 1);
            }
        }
        if !pieces.is_empty()
            && let Some(job) = self.jobs.get_mut(&job_id)
        {
            let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
            job.failed.insert(unit, failed);
            job.acquit(unit, unit + 1);
            self.tell_failed(job_id, unit, failed, deeds);
            self.record(Record::Failed { job: job_id, unit, failed }, deeds);
            self.judge(job_id, now_us, deeds);
            self.end_if_over(job_id, now_us, deeds);
        }
    }

    /// A unit has failed for good.
    pub(crate) fn tell_failed(&self, job: JobId, unit: u128, failed: FailedUnit, deeds: &mut Deeds) {
        let node = failed.node.and_then(|id| self.nodes.get(&id)).map(|node| node.name.clone());
        // Only a program that ended has a code that says something.
        let ended = matches!(failed.reason, FailReason::Exit | FailReason::Signal);
        let code = failed.code.filter(|_| ended).and_then(|code| u32::try_from(code).ok());
        deeds.event(Event::UnitFailed { job, unit, reason: failed.reason.word().into(), node, code });
    }

    /// An incarnation that was thought dead is not: nothing that it was running killed it.
    pub(crate) fn pardon(&mut self, id: NodeId, boot: Boot) {
        for job in self.jobs.values_mut().filter(|job| !job.deaths.is_empty()) {
            job.deaths.retain(|_, deaths| {
                deaths.retain(|&death| death != (id, boot));
                !deaths.is_empty()
            });
        }
    }

    /// What node `id` says of units that were counted before must be what was counted then. `new` are the
    /// intervals that this result decided.
    pub(crate) fn compare(
        &mut self,
        (id, job_id): (NodeId, JobId),
        (lo, hi): (u128, u128),
        hits: &[HitEntry],
        new: &[Piece],
        deeds: &mut Deeds,
    ) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        if job.conflicts.iter().any(|&(from, to, _)| from < hi && lo < to) {
            // The hits of both sides are recorded here: whoever repeats what it said would now differ.
            return;
        }
        let is_old = |unit: u128| !new.iter().any(|piece| (piece.lo..piece.hi).contains(&unit));
        let mut said: BTreeSet<(u128, u32)> =
            hits.iter().map(|hit| (lo + u128::from(hit.offset), hit.target)).collect();
        said.retain(|&(unit, _)| is_old(unit) && job.coverage.count_in(unit, unit + 1, Class::Done) == 1);
        let known = job.hits.range((lo, 0)..(hi, 0)).copied().filter(|&(unit, _)| is_old(unit));
        if said == known.collect() {
            return;
        }
        job.totals.conflicts += 1;
        if job.conflicts.len() < CONFLICTS_KEPT {
            job.conflicts.push((lo, hi, id));
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.distrust("its results differ from those of others");
        deeds.event(Event::Conflict { job: job_id, lo, hi, node: node.name.clone() });
        self.record(Record::Conflict { job: job_id, lo, hi, node: id }, deeds);
        self.record(Record::Mark { node: id, mark: NodeMark::Distrusted }, deeds);
        self.count_live();
    }
}
