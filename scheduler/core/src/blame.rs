//! Blame: whose fault a failure is. A unit that fails wherever it runs is at fault itself; a node that fails what others
//! pass is sick and gets a probe now and then instead of work; results that differ from what was counted are a conflict.
//! A job of which too much fails waits for a person. Deaths of workers are in `deaths`.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::wire::{Cancel, FailReason, HitEntry, Revoke};

use crate::coverage::{Class, Piece};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::global_queue::Alone;
use crate::job::{FailedUnit, Job, JobState, MaxFailures};
use crate::limits::{
    CONFLICTS_KEPT, FIRST_FAILURES_MAX, HALF_FAILURES_OF, OUTCOMES_KEPT, SICK_FAILURES, SICK_PLACES,
};
use crate::node::Node;
use crate::record::Record;
use crate::task::NodeId;

/// How a job's units went on one node. A failure says something of the node where others do well at the same time:
/// with the same unit, or in several places of the space. Neighbours that fail are one place: such inputs may be bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcomes {
    /// Units that passed here; old ones weigh less.
    passed: u32,
    /// Units that failed here and passed elsewhere; likewise.
    refuted: u32,
    /// Units that failed here since one passed, none of which had failed before.
    pub(crate) streak: u32,
    /// The first of these in each place: others are done between any two.
    places: [Option<u128>; SICK_PLACES],
    /// Units passed since, elsewhere: in these places the inputs are bad.
    cleared: bool,
    /// Units of the job that had passed anywhere when the streak began.
    began: u64,
    /// It gets one unit at a time, in other places, until one passes.
    pub(crate) doubted: bool,
    /// What was given out before this attempt says nothing any more.
    from: Option<Attempt>,
}

impl Outcomes {
    /// A unit passed here, or one that had failed here passed elsewhere.
    fn add(&mut self, passed: bool) {
        if self.passed + self.refuted >= OUTCOMES_KEPT {
            (self.passed, self.refuted) = (self.passed / 2, self.refuted / 2);
        }
        (self.passed, self.refuted) = (self.passed + u32::from(passed), self.refuted + u32::from(!passed));
    }

    fn is_suspect(&self) -> bool {
        self.streak >= SICK_FAILURES || self.refuted >= SICK_FAILURES
    }
}

impl Job {
    /// A unit ran on `node`, in a result of [lo, hi). Where it failed elsewhere before and passed now, that was the
    /// other node's fault; where it fails once more, nobody's.
    pub(crate) fn tally(
        &mut self,
        (node, attempt): (NodeId, Attempt),
        unit: u128,
        result: (u128, u128),
        failed: bool,
    ) {
        let failed_before = self.failures.has(unit) || self.reopened.get(unit).is_some();
        let known = self.outcomes.get(&node).copied().unwrap_or_default();
        if attempt < known.from.unwrap_or(self.judged_from) {
            return;
        }
        if failed && !failed_before {
            let elsewhere = self.is_elsewhere(node, unit, result);
            let outcomes = self.outcomes.entry(node).or_default();
            if elsewhere && std::mem::take(&mut outcomes.cleared) {
                outcomes.places = Default::default();
            }
            if elsewhere && let Some(place) = outcomes.places.iter_mut().find(|place| place.is_none()) {
                *place = Some(unit);
            }
            if !outcomes.cleared {
                if outcomes.streak == 0 {
                    outcomes.began = self.passes;
                }
                outcomes.streak += 1;
            }
        } else if !failed {
            let others = self.failures.of(unit).filter(|(ran, other)| {
                let from = self.outcomes.get(other).and_then(|outcomes| outcomes.from);
                *other != node && *ran >= from.unwrap_or(self.judged_from)
            });
            let others: BTreeSet<NodeId> = others.map(|(_, other)| other).collect();
            for other in others {
                self.outcomes.entry(other).or_default().add(false);
                self.suspect(other);
            }
            self.passes += 1;
            let outcomes = self.outcomes.entry(node).or_default();
            outcomes.add(true);
            (outcomes.streak, outcomes.doubted) = (0, false);
            outcomes.cleared = outcomes.places[0].is_some();
        }
        self.suspect(node);
    }

    fn suspect(&mut self, node: NodeId) {
        match self.outcomes.get(&node).is_some_and(Outcomes::is_suspect) {
            true => self.suspects.insert(node),
            false => self.suspects.remove(&node),
        };
    }

    /// `unit` is not of a block in which node `node` failed: units between them are done, those of a result of
    /// [lo, hi) at hand aside.
    pub(crate) fn is_elsewhere(&self, node: NodeId, unit: u128, (lo, hi): (u128, u128)) -> bool {
        let apart = |place: u128| {
            let (from, to) = (place.min(unit) + 1, place.max(unit));
            self.coverage.has_in(from, to.min(lo), Class::Done)
                || self.coverage.has_in(from.max(hi), to, Class::Done)
        };
        let places = self.outcomes.get(&node).map_or([None; SICK_PLACES], |outcomes| outcomes.places);
        places.into_iter().flatten().all(apart)
    }

    /// What was said of nodes is forgotten; what was given out before `attempt` will say nothing.
    pub(crate) fn forget_outcomes(&mut self, attempt: Attempt) {
        self.outcomes.clear();
        self.suspects.clear();
        self.judged_from = attempt;
    }

    /// So much failed that it should wait for a person; the sentence says how much.
    pub(crate) fn bears_no_more(&self) -> Option<String> {
        let (done, all_failed) = (self.coverage.count(Class::Done), self.coverage.count(Class::Failed));
        let failed = all_failed.saturating_sub(self.forgiven);
        let why = match self.facts.max_failures {
            MaxFailures::Never => return None,
            MaxFailures::Units(most) if failed >= u128::from(most) => {
                format!("{failed} units failed, and max_failures is {most}")
            }
            MaxFailures::Usual if done == 0 && failed >= FIRST_FAILURES_MAX => {
                format!("all of the first {all_failed} units failed")
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
        for id in job.suspects.iter().copied().collect::<Vec<_>>() {
            self.judge_node(id, job_id, now_us, deeds);
        }
        // A job whose last unit is decided ends: there is nothing to wait with.
        let goes_on = |job: &&Job| job.active() && !job.coverage.is_decided();
        let Some(job) = self.jobs.get(&job_id).filter(goes_on) else { return };
        if let Some(why) = job.bears_no_more() {
            self.set_state(job_id, JobState::Paused, &why, deeds);
            self.withdraw(job_id, Cancel::Graceful);
        }
    }

    /// Others do well with job `job` now.
    fn others_pass(&self, job: &Job, id: NodeId) -> bool {
        let live = |id: &NodeId| self.nodes.get(id).is_some_and(Node::live);
        let others = job.outcomes.iter().filter(|(other, _)| **other != id && live(other));
        let (passed, failed) = others.fold((0, 0), |(p, f), (_, o)| (p + o.passed, f + o.refuted + o.streak));
        passed >= SICK_FAILURES && passed >= 4 * failed
    }

    /// Node `id` failed what others passed, or a row of units. In the latter case it has to show at once what it does
    /// elsewhere: one that is well has met bad inputs, and one that is sick fails there too.
    fn judge_node(&mut self, id: NodeId, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let job = self.jobs.get(&job_id).expect("the caller has found the job");
        let Some(&known) = job.outcomes.get(&id).filter(|known| known.streak > 0) else { return };
        if !self.others_pass(job, id) {
            return;
        }
        let everywhere = known.streak >= SICK_FAILURES
            && known.places.iter().all(Option::is_some)
            && job.passes > known.began;
        let refuted = known.refuted >= SICK_FAILURES && known.refuted > known.passed;
        if (everywhere || refuted) && self.bears_one_more(id, job) {
            let why = match everywhere {
                true => format!(
                    "failed the last {} units of job {} that it ran, and others pass",
                    known.streak, job_id.0
                ),
                false => format!("failed {} units of job {} that others pass", known.refuted, job_id.0),
            };
            self.quarantine(id, job_id, why, now_us, deeds);
        } else if known.streak >= SICK_FAILURES && !known.doubted {
            let before = Attempt(self.next_attempt);
            if let (Some(job), Some(node)) = (self.jobs.get_mut(&job_id), self.nodes.get_mut(&id)) {
                job.outcomes.entry(id).or_default().doubted = true;
                node.to_tell.withdraws.push(Revoke { job: job_id, cancel: Cancel::Graceful, before });
            }
        }
        // It may have waited for others to pass something.
        self.mark(id);
    }

    /// At most half of the nodes that could run the job are quarantined.
    fn bears_one_more(&self, id: NodeId, job: &Job) -> bool {
        let able = self.nodes.iter().filter(|(id, node)| {
            node.greeted && (node.live() || node.is_sick()) && !job.refused_by.contains_key(id)
        });
        let (sick, all) = able.fold((0, 0), |(sick, all), (other, node)| {
            (sick + usize::from(node.is_sick() || *other == id), all + 1)
        });
        2 * sick <= all
    }

    /// Node `id` fails what others pass.
    pub(crate) fn doubts(&self, job: &Job, id: NodeId) -> bool {
        job.outcomes.get(&id).is_some_and(|outcomes| outcomes.doubted) && self.others_pass(job, id)
    }

    /// What was said of nodes in this job is forgotten: a person has repaired something, or lets it go on.
    pub(crate) fn forget_blame(&mut self, job_id: JobId) {
        let before = Attempt(self.next_attempt);
        if let Some(job) = self.jobs.get_mut(&job_id) {
            job.forget_outcomes(before);
        }
        let sick = self.nodes.iter().filter(|(_, node)| node.sick == Some(job_id));
        for id in sick.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.nodes.get_mut(&id).expect("it was found just now").rise();
            self.count_live(id);
        }
    }

    /// A node is sick: it gets one task at a time, with growing pauses, until one passes. What it failed for
    /// good was its fault, so others get it; what waits there comes back. What it was given before fails there
    /// as well, and so do probes: of a node that is known to be sick that is no news.
    fn quarantine(&mut self, id: NodeId, job_id: JobId, why: String, now_us: u64, deeds: &mut Deeds) {
        let before = Attempt(self.next_attempt);
        let (Some(job), Some(node)) = (self.jobs.get_mut(&job_id), self.nodes.get_mut(&id)) else { return };
        job.outcomes.insert(id, Outcomes { from: Some(before), ..Outcomes::default() });
        job.suspects.remove(&id);
        if node.sick.replace(job_id).is_none() {
            node.why = why;
            node.sink(now_us);
            deeds.event(Event::NodeQuarantined { node: node.name.clone(), why: node.why.clone() });
        }
        node.to_tell.withdraws.push(Revoke { job: job_id, cancel: Cancel::Graceful, before });
        let its: Vec<(u128, u128)> = job
            .failed
            .iter()
            .filter(|(.., failed)| failed.node == Some(id))
            .map(|(lo, hi, _)| (lo, hi))
            .collect();
        if !its.is_empty() {
            self.reopen(job_id, its, deeds);
        }
        self.count_live(id);
        self.mark(id);
    }

    /// Failed units of a job are wanted again.
    pub(crate) fn reopen(&mut self, job_id: JobId, units: Vec<(u128, u128)>, deeds: &mut Deeds) {
        self.unwind_job(job_id);
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
            for unit in lo..hi {
                self.gq.put_alone(job_id, unit, Alone::Failed);
            }
            let job = self.jobs.get_mut(&job_id).expect("its pieces were cut out of it");
            job.reopened.insert(lo, hi, before);
        }
        if had_ended {
            self.jq.push_back(job_id);
            deeds.event(Event::JobState { job: job_id, state: JobState::Queued.word().into(), why: None });
        }
        self.record(Record::Retried { job: job_id, units }, deeds);
        self.mark_hungry();
    }

    /// A unit has failed for good.
    pub(crate) fn tell_failed(&self, job: JobId, unit: u128, failed: FailedUnit, deeds: &mut Deeds) {
        let node = failed.node.and_then(|id| self.nodes.get(&id)).map(|node| node.name.clone());
        // Only a program that ended has a code that says something.
        let ended = matches!(failed.reason, FailReason::Exit | FailReason::Signal | FailReason::Output);
        let code = failed.code.filter(|_| ended).and_then(|code| u32::try_from(code).ok());
        deeds.event(Event::UnitFailed { job, unit, reason: failed.reason.word().into(), node, code });
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
        // Of a unit that is not done (it may be poison) somebody's late hit may be known, and nothing else.
        let is_old = |unit: u128| {
            !new.iter().any(|piece| (piece.lo..piece.hi).contains(&unit))
                && job.coverage.has_in(unit, unit + 1, Class::Done)
        };
        let mut said: BTreeSet<(u128, u32)> =
            hits.iter().map(|hit| (lo + u128::from(hit.offset), hit.target)).collect();
        said.retain(|&(unit, _)| is_old(unit));
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
        self.count_live(id);
    }
}
