//! The one way in which anything durable changes. Live, a stage decides and commits a record; after a restart the same
//! records are applied. What is not in a record (who holds which task, what was measured) is found out anew.

use starfarm_events::{Event, JobChange};
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{Ended, NodeMark};
use starfarm_protocol::trust::Untrue;
use starfarm_protocol::wire::{CommandUnit, FailReason};

use crate::checks::Checks;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::hits::Hit;
use crate::job::{Body, FailedUnit, Job, JobFacts, JobState};
use crate::jobs::Jobs;
use crate::queues::{Class, DECIDED, FAILED, Queues};
use crate::reconnect::Periods;
use crate::seat::Seat;

/// What cannot be, since it is decided from what was decided before.
const FITS: &str = "what is decided here fits what was decided before";

impl Farm {
    /// Changes what is durable, tells what follows from it, and hands the record on; its sequence comes back.
    pub(crate) fn commit(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        self.tell(&record, deeds);
        self.commit_untold(record, deeds)
    }

    /// As [`Farm::commit`], where the caller has told what follows.
    pub(crate) fn commit_untold(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        self.apply(&record).expect(FITS);
        self.commits.push(record, deeds)
    }

    /// As [`Farm::commit`], for units of a result that nobody decided before: they go on record with those of the results
    /// beside it. How many units that are.
    pub(crate) fn commit_done(&mut self, id: JobId, node: NodeId, at: Interval, deeds: &mut Deeds) -> u128 {
        let counted = self.decide(id, at, Class::Done).expect(FITS);
        self.commits.gather(id, node, self.queues.decided(), &[], deeds);
        counted
    }

    /// As [`Farm::commit_done`], for the new hits of a result.
    pub(crate) fn commit_hits(&mut self, id: JobId, node: NodeId, hits: &[Hit], deeds: &mut Deeds) {
        if hits.is_empty() {
            return;
        }
        for &(unit, target) in hits {
            let is_new = self.jobs.at_mut(id).add_hit((unit, target));
            assert!(is_new, "a hit is recorded once");
            deeds.event(Event::Hit { job: id, unit, target });
        }
        self.commits.gather(id, node, &[], hits, deeds);
    }

    /// As [`Farm::commit`], for units of one result that failed and are tried again.
    pub(crate) fn commit_tried(
        &mut self,
        job: JobId,
        units: &[u128],
        attempt: Attempt,
        node: NodeId,
        deeds: &mut Deeds,
    ) {
        for &unit in units {
            let one = Interval::one(unit);
            // Whoever else has it, or had it, may still report it.
            let tasks = self.queues.overlapping(job, one).into_iter();
            let nodes: Vec<NodeId> = tasks.map(|id| self.queues.task(id).node).collect();
            nodes.into_iter().chain([node]).for_each(|node| self.may_report_later(node, job, one));
        }
        self.try_again(job, units, attempt, node).expect(FITS);
        for &unit in units {
            self.commits.push(Record::Tried { job, unit, attempt, node }, deeds);
        }
    }

    /// What follows from a record that is about to be applied is told.
    fn tell(&self, record: &Record, deeds: &mut Deeds) {
        let name = |id: &NodeId| self.nodes.at(*id).name.clone();
        let state = |job: JobId, state| Event::JobState { job, state: JobChange::To(state), why: None };
        let event = match record {
            Record::Submitted(facts) => return self.submitted(facts, deeds),
            Record::State { job, state: to, why } => {
                let why = why.as_ref().map(ToString::to_string);
                Event::JobState { job: *job, state: JobChange::To(*to), why }
            }
            Record::Ended(ended) => self.ends(ended),
            Record::Deleted { job } => Event::JobState { job: *job, state: JobChange::Deleted, why: None },
            Record::Retried { job, .. } | Record::Rerun { job, .. } if self.jobs.at(*job).state.ended() => {
                state(*job, JobState::Queued)
            }
            Record::Grown { job, chunks, .. } => {
                let more: u128 = chunks.iter().map(|chunk| u128::from(chunk.units)).sum();
                Event::JobGrown { job: *job, units: self.jobs.at(*job).facts.units + more }
            }
            &Record::Limited { job, limit } => self.limited(job, limit),
            &Record::Moved { job, place } => Event::JobMoved { job, place: u64::from(place) + 1 },
            Record::Ran { job, units, node, .. } => {
                for (unit, ran) in units {
                    if let Some(failed) = failure(ran, *node) {
                        deeds.event(self.unit_failed(*job, *unit, failed));
                    }
                }
                return;
            }
            Record::Failed { job, unit, failed } => self.unit_failed(*job, *unit, *failed),
            Record::Conflict { job, lo, hi, node } => {
                Event::Conflict { job: *job, lo: *lo, hi: *hi, node: name(node) }
            }
            Record::Untrue { job, untrue } => Event::Untrue {
                job: *job,
                unit: untrue.unit,
                node: self.nodes.name(untrue.node),
                why: untrue.why,
                believed: untrue.against.and_then(|id| self.nodes.name(id)),
            },
            &Record::Doubtful { job, node, units } => {
                Event::Doubtful { job, units, node: self.nodes.name(node) }
            }
            Record::Node { node, boot, .. } => {
                Event::NodeJoined { node: name(node), boot: *boot, slots: self.nodes.at(*node).slots() }
            }
            Record::Mark { node, mark } => {
                return self.marked(*node, *mark).into_iter().for_each(|e| deeds.event(e));
            }
            _ => return,
        };
        deeds.event(event);
    }

    fn submitted(&self, facts: &JobFacts, deeds: &mut Deeds) {
        let JobFacts { job, spec, units, .. } = *facts;
        let (name, user) = (facts.name.clone(), facts.user.clone());
        deeds.event(Event::JobSubmitted { job, name, user, spec, units });
        if let Some((_, checks)) = self.jobs.asked.as_ref().filter(|(id, _)| *id == job) {
            let (check, planted) = (checks.share.fraction(), checks.planted.len() as u64);
            deeds.event(Event::TrustChecks { job, check, planted });
        }
        self.waits(job).into_iter().for_each(|event| deeds.event(event));
    }

    /// What a node's mark tells, if it is news.
    fn marked(&self, id: NodeId, mark: NodeMark) -> Option<Event> {
        let known = self.nodes.get(id)?;
        let node = known.name.clone();
        Some(match mark {
            // A copy does not go back: the first dispatch goes on.
            NodeMark::Gone => {
                let tasks = self.queues.tasks_at(id).filter(|task| !task.copy).count() as u64;
                Event::NodeLost { node, tasks }
            }
            NodeMark::Back => Event::NodeBack { node },
            NodeMark::Left | NodeMark::Revoked => Event::NodeLeft { node },
            NodeMark::Forgotten => Event::NodeForgotten { node },
            NodeMark::Drained if known.health().is_draining() => return None,
            NodeMark::Drained => Event::NodeDraining { node },
            NodeMark::Resumed if known.health().can_resume() => Event::NodeResumed { node },
            NodeMark::Resumed => return None,
            NodeMark::Distrusted | NodeMark::FalseHit | NodeMark::MissedHit => {
                let why = mark.distrust().expect("these marks say so").words().to_owned();
                Event::NodeQuarantined { node, why }
            }
        })
    }

    fn unit_failed(&self, job: JobId, unit: u128, failed: FailedUnit) -> Event {
        // Only a program that ended has a code that says something.
        let ended = matches!(failed.reason, FailReason::Exit | FailReason::Signal | FailReason::Output);
        Event::UnitFailed {
            job,
            unit,
            reason: failed.reason,
            node: failed.node.and_then(|id| self.nodes.name(id)),
            code: failed.code.filter(|_| ended).and_then(|code| u32::try_from(code).ok()),
        }
    }

    /// Applies a record: one that is committed now, or one of an earlier scheduler.
    ///
    /// # Errors
    /// It does not fit those before it: it is not of this farm, or a bug wrote it.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Epoch { .. } => (self.jobs.asked, self.jobs.linked) = (None, None),
            &Record::Periods { lost_us, period_us } => self.reconnect.noted = Periods { lost_us, period_us },
            Record::Submitted(facts) => self.apply_submitted(facts)?,
            Record::State { job, state, why } => {
                self.unfinished(*job)?;
                if state.ended() {
                    return Err(format!("job {} ends without a sum", job.0));
                }
                self.jobs.change_state(*job, |job| job.take_state(*state, why.clone()));
            }
            Record::Moved { job, place } => {
                self.unfinished(*job)?;
                self.jobs.move_to(*job, *place as usize);
            }
            Record::Leased { job, mark } => {
                let job = self.known(*job)?;
                if *mark > job.facts.units {
                    return Err(format!("units are leased up to {mark} of {}", job.facts.units));
                }
                job.lease.raise(*mark);
            }
            Record::Done { .. } | Record::Ran { .. } | Record::Failed { .. } | Record::FailedAlike { .. } => {
                self.apply_decided(record)?
            }
            Record::Tried { .. } | Record::Died { .. } | Record::Pardoned { .. } => {
                self.apply_trial(record)?
            }
            Record::Retried { .. } | Record::Rerun { .. } => self.apply_again(record)?,
            Record::Grown { job, chunks, state, end } => {
                self.unfinished(*job)?;
                self.jobs.at_mut(*job).grow(chunks, state, *end)?;
            }
            Record::Trust { job, check, planted } => {
                self.jobs.asked = Some((*job, Checks::asked(*check, planted)));
            }
            Record::Linked { job, terms } => self.jobs.linked = Some((*job, terms.clone())),
            &Record::Limited { job, limit } => self.apply_limit(job, limit)?,
            Record::Checked { job, units } => self.known(*job)?.checks.add_checked(*units),
            Record::Untrue { job, untrue } => self.apply_untrue(*job, *untrue)?,
            Record::Doubtful { job, node, units } => self.known(*job)?.checks.add_doubtful(*node, *units),
            Record::Ended(ended) => self.apply_end(ended)?,
            Record::Deleted { job } => {
                if !self.known(*job)?.state.ended() {
                    return Err(format!("job {} is deleted and has not ended", job.0));
                }
                self.jobs.remove(*job);
                self.queues.forget_job(*job);
            }
            Record::Conflict { job, lo, hi, node } => {
                self.known(*job)?.add_conflict(Interval::new(*lo, *hi), *node);
            }
            Record::Node { .. } | Record::Joined { .. } | Record::Mark { .. } | Record::Rating { .. } => {
                self.apply_node(record)
            }
            Record::Rates { .. } | Record::DeviceRates { .. } => self.apply_rates(record)?,
            Record::HitsPaged { job, .. } | Record::TargetsHit { job, .. } => {
                self.known(*job)?.hits.restore(record);
            }
            Record::Totals { job, totals } => self.known(*job)?.note(*totals),
            Record::Given { job, node } => {
                self.jobs.given(*job);
                self.nodes.given(*node);
            }
        }
        Ok(())
    }

    fn apply_submitted(&mut self, facts: &JobFacts) -> Result<(), String> {
        if self.jobs.get(facts.job).is_some() {
            return Err(format!("job {} is submitted twice", facts.job.0));
        }
        let mut job = Job::new(facts.clone(), self.config.hits_kept);
        if let Some((_, checks)) = self.jobs.asked.take().filter(|(id, _)| *id == facts.job) {
            job.checks = checks;
        }
        if let Some((_, terms)) = self.jobs.linked.take().filter(|(id, _)| *id == facts.job) {
            job = job.with_terms(terms);
        }
        if job.terms.max_nodes.is_some() || job.terms.own_tree() {
            self.queues.count_nodes(facts.job);
        }
        self.jobs.insert(job);
        Ok(())
    }

    fn apply_untrue(&mut self, id: JobId, untrue: Untrue) -> Result<(), String> {
        self.known(id)?.checks.add_untrue(untrue);
        self.nodes.forgotten.distrust(untrue.node, untrue.why);
        Ok(())
    }

    fn apply_rates(&mut self, record: &Record) -> Result<(), String> {
        let (id, kind, mean, seats): (_, _, _, Vec<(Seat, f64, u64)>) = match record {
            Record::Rates { job, mean, nodes } => {
                let rates = nodes.iter().map(|of| (Seat::cores(of.0), of.1, of.2)).collect();
                (*job, SlotKind::CORES, *mean, rates)
            }
            Record::DeviceRates { job, mean, seats } => {
                let rates = seats.iter().map(|of| (Seat::new(of.0, of.1), of.2, of.3)).collect();
                (*job, SlotKind(1), *mean, rates)
            }
            _ => return Ok(()),
        };
        let job = self.known(id)?;
        if seats.iter().any(|of| of.0.kind.is_device() != kind.is_device()) {
            return Err(format!("job {} has a speed of devices that are cores", id.0));
        }
        if seats.iter().map(|of| of.1).chain([mean]).any(|rate| !rate.is_finite() || rate < 0.0) {
            return Err(format!("job {} has a speed that is none", id.0));
        }
        job.rates.restore(kind, mean, seats.into_iter());
        Ok(())
    }

    fn apply_end(&mut self, Ended { job, state, totals, .. }: &Ended) -> Result<(), String> {
        self.unfinished(*job)?;
        if !state.ended() {
            return Err(format!("job {} ends as {}", job.0, state.word()));
        }
        self.queues.abandon(&mut self.jobs.at_mut(*job).units);
        self.jobs.change_state(*job, |job| job.take_end(*state, *totals));
        self.jobs.leave_queue(*job);
        Ok(())
    }

    /// Units are done, or failed for good.
    fn apply_decided(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Done { job, pieces, hits, .. } => {
                for &(lo, hi) in pieces {
                    self.decide_all(*job, Interval::new(lo, hi), Class::Done)?;
                }
                let job = self.known(*job)?;
                for &hit in hits {
                    job.add_hit(hit);
                }
            }
            Record::Ran { job, node, units, .. } => {
                for (unit, ran) in units {
                    let at = Interval::new(*unit, unit.saturating_add(ran.units.into()));
                    match failure(ran, *node) {
                        None => self.decide_all(*job, at, Class::Done)?,
                        Some(failed) => self.fail(*job, at, failed)?,
                    }
                }
            }
            Record::Failed { job, unit, failed } => self.fail(*job, Interval::one(*unit), *failed)?,
            Record::FailedAlike { job, units, failed } => {
                for &(lo, hi) in units {
                    self.fail(*job, Interval::new(lo, hi), *failed)?;
                }
            }
            _ => unreachable!("the caller has looked at its kind"),
        }
        Ok(())
    }

    fn fail(&mut self, id: JobId, at: Interval, failed: FailedUnit) -> Result<(), String> {
        self.decide_all(id, at, Class::Failed)?;
        self.jobs.at_mut(id).checks.came(at);
        let units = &mut self.jobs.at_mut(id).units;
        units.failed.insert(at, failed);
        assert!(units.failed.units() == units.coverage().count(Class::Failed), "each failed unit is named");
        Ok(())
    }

    /// Units that no record decided before are decided.
    fn decide_all(&mut self, id: JobId, at: Interval, to: Class) -> Result<(), String> {
        if at.is_empty() {
            return Err(format!("{at} of job {} has no unit", id.0));
        }
        match self.decide(id, at, to)? == at.units() {
            true => Ok(()),
            false => Err(format!("{at} of job {} is decided twice, or was never leased", id.0)),
        }
    }

    /// Units are decided, as far as they were not; how many of them.
    fn decide(&mut self, id: JobId, at: Interval, to: Class) -> Result<u128, String> {
        let job = reach(&mut self.jobs, &mut self.queues, id, at.hi)?;
        let pieces = self.queues.decide(&mut job.units, at, to);
        pieces.iter().for_each(|piece| job.acquit(piece.at));
        Ok(pieces.iter().map(|piece| piece.at.units()).sum())
    }

    /// A unit is tried again, or a worker died of it.
    fn apply_trial(&mut self, record: &Record) -> Result<(), String> {
        match *record {
            Record::Tried { job, unit, attempt, node } => self.try_again(job, &[unit], attempt, node)?,
            Record::Died { job: id, unit, node, boot } => {
                let job = reach(&mut self.jobs, &mut self.queues, id, unit + 1)?;
                job.units.deaths.insert(unit, (node, boot));
                self.queues.isolate(&job.units, unit);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.charged.push((id, unit, boot));
                }
            }
            Record::Pardoned { node: id, boot } => {
                let Some(node) = self.nodes.get_mut(id) else { return Ok(()) };
                for (job, unit, _) in node.charged.extract_if(.., |charge| charge.2 == boot) {
                    if let Some(job) = self.jobs.get_mut(job) {
                        job.units.deaths.retract(unit, (id, boot));
                    }
                }
            }
            _ => unreachable!("the caller has looked at its kind"),
        }
        Ok(())
    }

    fn try_again(&mut self, id: JobId, units: &[u128], attempt: Attempt, node: NodeId) -> Result<(), String> {
        for unit in units {
            let job = reach(&mut self.jobs, &mut self.queues, id, unit + 1)?;
            if job.state.ended() || !job.units.coverage().is_open(*unit) {
                return Err(format!("unit {unit} of job {} is tried again, and was decided", id.0));
            }
        }
        let job = self.jobs.at_mut(id);
        for &unit in units {
            job.units.deaths.remove(Interval::one(unit));
            job.units.failures.insert(unit, (attempt, node));
        }
        self.queues.retry(&mut job.units, units);
        Ok(())
    }

    /// Units that failed, or that are decided, are wanted again.
    fn apply_again(&mut self, record: &Record) -> Result<(), String> {
        let (id, units, from) = match record {
            Record::Retried { job, units } => (*job, units, FAILED),
            Record::Rerun { job, units } => (*job, units, DECIDED),
            _ => unreachable!("the caller has looked at its kind"),
        };
        // What was given out before may have failed before these units were wanted again.
        let before = self.queues.next_attempt();
        self.known(id)?;
        let job = self.jobs.at_mut(id);
        for &(lo, hi) in units {
            let at = Interval::new(lo, hi);
            job.hits_again(at);
            self.queues.reopen(&mut job.units, at, from);
            job.units.failed.remove(at);
            if matches!(job.facts.work.body, Body::Outcomes { .. }) {
                job.units.reopened.insert(at, before);
            }
        }
        let units = &job.units;
        assert!(units.failed.units() == units.coverage().count(Class::Failed), "each failed unit is named");
        if job.reopen(matches!(record, Record::Retried { .. })) {
            self.jobs.queue_up(id);
        }
        Ok(())
    }

    fn known(&mut self, job: JobId) -> Result<&mut Job, String> {
        known(&mut self.jobs, job)
    }

    fn unfinished(&mut self, id: JobId) -> Result<(), String> {
        match self.known(id)?.state.ended() {
            true => Err(format!("job {} has ended", id.0)),
            false => Ok(()),
        }
    }
}

fn known(jobs: &mut Jobs, job: JobId) -> Result<&mut Job, String> {
    jobs.get_mut(job).ok_or_else(|| format!("job {} was never submitted", job.0))
}

/// A record speaks of units of a job up to `hi`: an earlier scheduler may have cut more than this one knows of.
fn reach<'a>(jobs: &'a mut Jobs, queues: &mut Queues, id: JobId, hi: u128) -> Result<&'a mut Job, String> {
    let job = known(jobs, id)?;
    if hi > job.units.coverage().cursor() {
        if hi > job.lease.mark() {
            return Err(format!("unit {} of job {} was never leased", hi - 1, id.0));
        }
        queues.cut_as_before(&mut job.units, hi, job.state.ended());
    }
    Ok(job)
}

/// How a unit of a command failed, if it did.
fn failure(ran: &CommandUnit, node: NodeId) -> Option<FailedUnit> {
    ran.failed.map(|reason| FailedUnit { reason, code: Some(ran.code), node: Some(node) })
}
