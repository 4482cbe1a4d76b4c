//! Commands of users: what they do to jobs and nodes. Each is recorded; the rim answers the user once the record is
//! durable.

use starfarm_events::NodeState;
use starfarm_protocol::admin::{JobCommand, NodeCommand, Place};
use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::terms::Limit;
use starfarm_protocol::wire::Cancel;

use crate::checks::Trust;
use crate::conflict::Conflict;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Body, Job, JobFacts, JobState, NewJob};
use crate::limits::JOBS_MAX;
use crate::nodes::Reach;

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// No job or node of that name.
    NotFound,
    /// It does not fit the state of things.
    Conflict(Conflict),
}

impl From<Conflict> for CommandError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl Farm {
    /// Adds a job.
    pub fn submit(&mut self, new: NewJob, now_us: u64, deeds: &mut Deeds) -> Result<JobId, Conflict> {
        match new.units {
            0 => Err(Conflict::NoUnit),
            _ => self.add(new, now_us, deeds),
        }
    }

    /// The job of this name and specification that has not ended, the first if there are several.
    pub fn same_job(&self, name: &str, spec: ContentHash) -> Option<JobId> {
        let same = |job: &&Job| job.facts.spec == spec && job.facts.name == name && !job.state.ended();
        self.jobs.iter().find(same).map(|job| job.facts.job)
    }

    /// Adds a job whose units a program names: so far it has none.
    pub fn submit_growing(&mut self, new: NewJob, now_us: u64, deeds: &mut Deeds) -> Result<JobId, Conflict> {
        self.add(NewJob { units: 0, ..new }, now_us, deeds)
    }

    fn add(&mut self, new: NewJob, now_us: u64, deeds: &mut Deeds) -> Result<JobId, Conflict> {
        if self.jobs.len() >= JOBS_MAX {
            return Err(Conflict::TooManyJobs);
        }
        self.may_have(&new.terms, new.place)?;
        match new.work.body {
            Body::Hits { targets, .. } if !self.is_planted_well(&new, targets) => {
                return Err(Conflict::Planted);
            }
            Body::Outcomes { .. } | Body::Nothing if new.trust != Trust::default() => {
                return Err(Conflict::NoSearch);
            }
            _ => {}
        }
        let job = JobId(self.jobs.last().0 + 1);
        let NewJob { name, user, spec, units, work, sizing, max_failures, speculative, trust, terms, place } =
            new;
        let at_us = now_us;
        let facts = JobFacts { job, spec, name, user, units, work, sizing, max_failures, speculative, at_us };
        if !terms.is_empty() {
            // As below: no job may start before those that it waits for.
            self.commit(Record::Linked { job, terms }, deeds);
        }
        if trust != Trust::default() {
            // Before the job: a crash between the two leaves no job that has what is planted among its results.
            let Trust { check, planted } = trust;
            self.commit(Record::Trust { job, check, planted }, deeds);
        }
        self.commit(Record::Submitted(facts), deeds);
        if self.jobs.at(job).is_follower() {
            self.agenda.links_changed = true;
            self.start_followers(now_us, deeds);
        }
        if self.jobs.at(job).active() && self.nodes.hungry_from(NodeId(0), Reach::Slots).is_some() {
            // Its first lease comes to the disk with it: where a node has room it starts as soon as it is there.
            self.lease_first(job, deeds);
        }
        match place {
            Place::Tail => self.work_came(),
            Place::Front => self.put_front(job, deeds),
            Place::Now => self.switch_to(job, deeds),
        }
        Ok(job)
    }

    /// Carries out a command on a job.
    pub fn command_job(
        &mut self,
        id: JobId,
        command: JobCommand,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Result<(), CommandError> {
        let job = self.jobs.get(id).ok_or(CommandError::NotFound)?;
        let state = job.state;
        match command {
            JobCommand::Delete => {
                self.may_delete(id, now_us, deeds)?;
                self.commit(Record::Deleted { job: id }, deeds);
            }
            JobCommand::Retry => {
                let units = job.units.failed.intervals();
                if units.is_empty() {
                    return Err(Conflict::NoFailedUnit.into());
                }
                if state.ended() && (state != JobState::Failed || job.satisfied()) {
                    return Err(Conflict::EndedForGood(state).into());
                }
                let units = units.into_iter().map(|at| (at.lo, at.hi)).collect();
                self.want_again(id, Record::Retried { job: id, units }, deeds);
            }
            _ if state.ended() => return Err(Conflict::Ended(state).into()),
            JobCommand::Cancel => self.end(id, JobState::Cancelled, now_us, deeds),
            JobCommand::Pause if state == JobState::Paused => {}
            JobCommand::Pause => {
                self.set_state(id, JobState::Paused, None, deeds);
                self.revoke(id, Cancel::Graceful);
            }
            JobCommand::Resume
                if state != JobState::Paused
                    && job.refused_by.is_empty()
                    && job.units.roomless.is_empty() =>
            {
                return Err(Conflict::NotPaused.into());
            }
            JobCommand::Resume => {
                // Whoever resumes it has given the nodes what they lacked.
                self.ask_again(id);
                if state == JobState::Paused {
                    self.resume(id, deeds);
                }
            }
            JobCommand::Front => self.put_front(id, deeds),
            JobCommand::Limit(limit) => self.limit(id, limit, deeds),
            JobCommand::Switch if state == JobState::Paused => return Err(Conflict::Paused.into()),
            JobCommand::Switch => match self.waits_for(job).first() {
                Some(&first) => return Err(Conflict::Waits(first).into()),
                None => self.switch_to(id, deeds),
            },
        }
        self.look_at_all();
        Ok(())
    }

    /// Whether a job can be deleted.
    ///
    /// # Errors
    /// There is none, or it has not ended, or another one waits for its merge.
    pub(crate) fn may_delete(
        &mut self,
        id: JobId,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Result<(), CommandError> {
        let job = self.jobs.get(id).ok_or(CommandError::NotFound)?;
        if !job.state.ended() {
            return Err(Conflict::NotEnded.into());
        }
        // Who waited for it hears how it ended while it is known.
        self.start_followers(now_us, deeds);
        match self.awaits_merge_of(id) {
            Some(follower) => Err(Conflict::Awaited(follower).into()),
            None => Ok(()),
        }
    }

    /// Units of a job whose outputs are lost are wanted again, as far as they ran to their end; how many these are.
    ///
    /// # Errors
    /// There is no such job; it has no outputs, or was cancelled; or none of the units has run.
    pub fn rerun(
        &mut self,
        id: JobId,
        lost: &[(u128, u128)],
        deeds: &mut Deeds,
    ) -> Result<u128, CommandError> {
        let job = self.jobs.get(id).ok_or(CommandError::NotFound)?;
        if !matches!(job.facts.work.body, Body::Outcomes { .. }) {
            return Err(Conflict::NoOutputs.into());
        }
        // What was abandoned with it would be wanted again as well.
        if job.state == JobState::Cancelled {
            return Err(Conflict::EndedForGood(job.state).into());
        }
        let units: Vec<_> = lost
            .iter()
            .flat_map(|&(lo, hi)| job.units.coverage().decided_in(Interval::new(lo, hi)))
            .map(|at| (at.lo, at.hi))
            .collect();
        if units.is_empty() {
            return Err(Conflict::NoLostOutput.into());
        }
        let count = units.iter().map(|(lo, hi)| hi - lo).sum();
        self.want_again(id, Record::Rerun { job: id, units }, deeds);
        self.look_at_all();
        Ok(count)
    }

    /// Units of a job are wanted again: whoever wants that has mended what was wrong.
    fn want_again(&mut self, id: JobId, record: Record, deeds: &mut Deeds) {
        let state = self.jobs.at(id).state;
        self.reopen(id, record, deeds);
        if state.ended() {
            self.trace_distrusted(deeds);
        }
        self.forget_blame(id);
        self.ask_again(id);
        if state == JobState::Paused {
            self.resume(id, deeds);
        }
    }

    /// Nodes that said that they cannot run a job are asked again at once.
    fn ask_again(&mut self, id: JobId) {
        let job = self.jobs.at_mut(id);
        job.refused_by.clear();
        job.returned.clear();
        job.units.roomless = Default::default();
    }

    /// Carries out a command on the node of that name.
    pub fn command_node(
        &mut self,
        name: &str,
        command: NodeCommand,
        deeds: &mut Deeds,
    ) -> Result<NodeId, CommandError> {
        // What never said hello is in no record, so that nothing could be kept of a command on it.
        let found =
            self.nodes.iter().find(|(_, node)| *node.name == *name && node.health().last_boot().is_some());
        let (id, health) = found.map(|(id, node)| (id, *node.health())).ok_or(CommandError::NotFound)?;
        let mark = match command {
            NodeCommand::Drain => NodeMark::Drained,
            NodeCommand::Resume if health.is_draining() && !health.can_resume() => {
                return Err(Conflict::WorkerStops.into());
            }
            NodeCommand::Resume => {
                self.jobs.iter_mut().for_each(|job| job.returned.retain(|_, back| back.node != id));
                let node = self.nodes.at_mut(id);
                (node.given_back, node.worthless) = Default::default();
                NodeMark::Resumed
            }
            NodeCommand::Forget if health.state() != NodeState::Lost => {
                return Err(Conflict::NotLost(health.state()).into());
            }
            // It would come back as a good one.
            NodeCommand::Forget if health.is_distrusted() && !health.is_revoked() => {
                return Err(Conflict::NotTrusted.into());
            }
            NodeCommand::Forget => {
                self.forget(&[id], deeds);
                self.look_at_all();
                return Ok(id);
            }
        };
        self.commit(Record::Mark { node: id, mark }, deeds);
        self.look_at_all();
        Ok(id)
    }

    /// A paused job goes on.
    fn resume(&mut self, id: JobId, deeds: &mut Deeds) {
        self.forget_blame(id);
        self.jobs.at_mut(id).revoked = None;
        let job = self.jobs.at(id);
        let state = match job.totals.started_us {
            Some(_) => JobState::Running,
            None if self.waits_for(job).is_empty() => JobState::Queued,
            None => JobState::Waiting,
        };
        self.set_state(id, state, None, deeds);
    }

    /// A job has another limit from now on. It goes on where it was paused for what it stores and may store more, and is
    /// paused where it has stored too much.
    fn limit(&mut self, id: JobId, limit: Limit, deeds: &mut Deeds) {
        self.commit(Record::Limited { job: id, limit }, deeds);
        let job = self.jobs.at(id);
        let (most, held) = (job.terms.storage_limit, job.paused_for.as_ref());
        if matches!(held, Some(HoldReason::Storage { .. })) && job.stored.full(most, held).is_none() {
            self.resume(id, deeds);
        }
        self.pause_if_full(id, deeds);
    }

    /// Behind the job that runs now, before all others.
    fn put_front(&mut self, job: JobId, deeds: &mut Deeds) {
        let place = u32::from(self.jobs.another_runs(job));
        self.commit(Record::Moved { job, place }, deeds);
        self.look_at_all();
    }

    /// Before all others; what runs of them stops at a unit's end and waits at the head of jq.
    fn switch_to(&mut self, job: JobId, deeds: &mut Deeds) {
        self.commit(Record::Moved { job, place: 0 }, deeds);
        let others = self.jobs.queued().filter(|other| other.facts.job != job);
        let running = others.filter(|other| other.state == JobState::Running);
        for other in running.map(|other| other.facts.job).collect::<Vec<_>>() {
            self.set_state(other, JobState::Queued, None, deeds);
            self.revoke(other, Cancel::Graceful);
        }
        self.look_at_all();
    }
}
