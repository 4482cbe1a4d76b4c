//! Commands of users: what they do to jobs and nodes. Each is recorded; the rim answers the user once the record is
//! durable.

use starfarm_events::NodeState;
use starfarm_protocol::admin::{JobCommand, NodeCommand, Place};
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::wire::Cancel;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{JobFacts, JobState, NewJob};
use crate::limits::JOBS_MAX;
use crate::nodes::Reach;

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// No job or node of that name.
    NotFound,
    /// It does not fit the state that the job or node is in; the sentence says which.
    Conflict(String),
}

impl Farm {
    /// Adds a job.
    pub fn submit(&mut self, new: NewJob, now_us: u64, deeds: &mut Deeds) -> Result<JobId, CommandError> {
        if new.units == 0 {
            return Err(CommandError::Conflict("a job has at least one unit".into()));
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(CommandError::Conflict(format!(
                "the farm knows {JOBS_MAX} jobs; delete ended ones with `starfarm job delete ID`"
            )));
        }
        let job = JobId(self.jobs.last().0 + 1);
        let NewJob { name, user, spec, units, work, sizing, max_failures, speculative, place } = new;
        let at_us = now_us;
        let facts = JobFacts { job, spec, name, user, units, work, sizing, max_failures, speculative, at_us };
        self.commit(Record::Submitted(facts), deeds);
        if self.nodes.hungry_from(NodeId(0), Reach::Slots).is_some() {
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
        let conflict = |why: &str| Err(CommandError::Conflict(format!("job {} {why}", id.0)));
        match command {
            JobCommand::Delete if !state.ended() => {
                return conflict("has not ended: `starfarm job delete --cancel` cancels it first");
            }
            JobCommand::Delete => {
                self.commit(Record::Deleted { job: id }, deeds);
            }
            JobCommand::Retry => {
                let units = job.units.failed.intervals();
                if units.is_empty() {
                    return conflict("has no failed unit");
                }
                if state.ended() && (state != JobState::Failed || job.satisfied()) {
                    return conflict(&format!("has ended ({}): submit it again", state.word()));
                }
                self.reopen(id, units.into_iter().map(|at| (at.lo, at.hi)).collect(), deeds);
                self.forget_blame(id);
                self.ask_again(id);
                if state == JobState::Paused {
                    self.resume(id, deeds);
                }
            }
            _ if state.ended() => return conflict(&format!("has ended ({})", state.word())),
            JobCommand::Cancel => self.end(id, JobState::Cancelled, now_us, deeds),
            JobCommand::Pause if state == JobState::Paused => {}
            JobCommand::Pause => {
                self.set_state(id, JobState::Paused, "", deeds);
                self.revoke(id, Cancel::Graceful);
            }
            JobCommand::Resume if state != JobState::Paused && job.refused_by.is_empty() => {
                return conflict("is not paused");
            }
            JobCommand::Resume => {
                // Whoever resumes it has given the nodes what they lacked.
                self.ask_again(id);
                if state == JobState::Paused {
                    self.resume(id, deeds);
                }
            }
            JobCommand::Front => self.put_front(id, deeds),
            JobCommand::Switch if state == JobState::Paused => {
                return conflict("is paused: resume it first");
            }
            JobCommand::Switch => self.switch_to(id, deeds),
        }
        self.look_at_all();
        Ok(())
    }

    /// Nodes that said that they cannot run a job are asked again at once.
    fn ask_again(&mut self, id: JobId) {
        let job = self.jobs.at_mut(id);
        job.refused_by.clear();
        job.returned.clear();
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
                return Err(CommandError::Conflict(format!(
                    "node {name} is draining since its worker stops: start the worker again to have it back"
                )));
            }
            NodeCommand::Resume => {
                self.jobs.iter_mut().for_each(|job| job.returned.retain(|_, back| back.node != id));
                NodeMark::Resumed
            }
            NodeCommand::Forget if health.state() != NodeState::Lost => {
                return Err(CommandError::Conflict(format!(
                    "node {name} is {}: only a lost node can be forgotten",
                    health.state().word()
                )));
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
        let job = self.jobs.at_mut(id);
        job.revoked = None;
        let state = if job.totals.started_us.is_some() { JobState::Running } else { JobState::Queued };
        self.set_state(id, state, "", deeds);
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
            self.set_state(other, JobState::Queued, "", deeds);
            self.revoke(other, Cancel::Graceful);
        }
        self.look_at_all();
    }
}
