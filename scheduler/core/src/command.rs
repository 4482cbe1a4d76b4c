//! Commands of users: what they do to jobs and nodes, and the end of a job. Each is recorded; the rim
//! answers the user once the record is durable.

use starfarm_logs::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{Letting, Withdraw};

use crate::coverage::{Class, Classes};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Job, JobState, NewJob, Place};
use crate::limits::JOBS_MAX;
use crate::node::NodeState;
use crate::record::Record;
use crate::task::NodeId;

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// No job or node of that name.
    NotFound,
    /// It does not fit the state that the job or node is in; the sentence says which.
    Conflict(String),
}

/// What a user does to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobCommand {
    /// End it; keep what is done.
    Cancel,
    /// Give out nothing more of it; running tasks stop at a unit's end.
    Pause,
    /// Go on.
    Resume,
    /// Put it at the head of jq: it is next.
    Front,
    /// Run it at once; the running job goes to the head of jq.
    Switch,
    /// Forget it. It must have ended.
    Delete,
}

/// What a user does to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeCommand {
    /// No new tasks; what it has is finished.
    Drain,
    /// Tasks again.
    Resume,
    /// Drop it from the list. It must be lost.
    Forget,
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
        let id = self.new_job_id();
        let (spec, units, place) = (new.spec, new.units, new.place);
        self.jobs.insert(id, Job::new(new, now_us));
        self.jq.push_back(id);
        deeds.event(Event::JobSubmitted { job: id, units });
        self.record(Record::Submitted { job: id, spec }, deeds);
        match place {
            Place::Tail => {}
            Place::Head => self.put_front(id),
            Place::Now => self.switch_to(id, deeds),
        }
        self.mark_all();
        Ok(id)
    }

    /// Carries out a command on a job.
    pub fn command_job(
        &mut self,
        id: JobId,
        command: JobCommand,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Result<(), CommandError> {
        let job = self.jobs.get(&id).ok_or(CommandError::NotFound)?;
        let state = job.state;
        let conflict = |why: &str| Err(CommandError::Conflict(format!("job {} {why}", id.0)));
        match command {
            JobCommand::Delete if !state.ended() => {
                return conflict("has not ended: cancel it first");
            }
            JobCommand::Delete => {
                self.withdraw(id, Letting::Kill);
                self.jobs.remove(&id);
                deeds.event(Event::JobState { job: id, state: "deleted" });
            }
            _ if state.ended() => return conflict(&format!("has ended ({})", state.word())),
            JobCommand::Cancel => self.end(id, JobState::Cancelled, now_us, deeds),
            JobCommand::Pause if state == JobState::Paused => {}
            JobCommand::Pause => {
                self.set_state(id, JobState::Paused, deeds);
                self.withdraw(id, Letting::Trim);
            }
            JobCommand::Resume if state != JobState::Paused => return conflict("is not paused"),
            JobCommand::Resume => {
                let started = job.totals.started_us.is_some();
                self.set_state(id, if started { JobState::Running } else { JobState::Queued }, deeds);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.withdrawn = None;
                }
            }
            JobCommand::Front => self.put_front(id),
            JobCommand::Switch if state == JobState::Paused => {
                return conflict("is paused: resume it first");
            }
            JobCommand::Switch => self.switch_to(id, deeds),
        }
        self.mark_all();
        Ok(())
    }

    /// Carries out a command on the node of that name.
    pub fn command_node(
        &mut self,
        name: &str,
        command: NodeCommand,
        deeds: &mut Deeds,
    ) -> Result<NodeId, CommandError> {
        let found = self.nodes.iter_mut().find(|(_, node)| node.name == name);
        let (&id, node) = found.ok_or(CommandError::NotFound)?;
        match command {
            NodeCommand::Drain => {
                if !node.draining {
                    deeds.event(Event::NodeDraining { node: name.to_owned() });
                }
                node.draining = true;
            }
            NodeCommand::Resume => (node.draining, node.probe) = (false, None),
            NodeCommand::Forget if node.state() != NodeState::Lost => {
                return Err(CommandError::Conflict(format!(
                    "node {name} is {}: only a lost node can be forgotten",
                    node.state().word()
                )));
            }
            NodeCommand::Forget => {
                self.nodes.remove(&id);
            }
        }
        self.count_live();
        self.mark_all();
        Ok(id)
    }

    /// Behind the job that runs now, before all others.
    fn put_front(&mut self, id: JobId) {
        let running = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.state == JobState::Running);
        let head = usize::from(self.jq.front().is_some_and(|first| *first != id && running(first)));
        self.jq.retain(|&other| other != id);
        self.jq.insert(head.min(self.jq.len()), id);
    }

    /// Before all others; what runs of them stops at a unit's end and waits at the head of jq.
    fn switch_to(&mut self, id: JobId, deeds: &mut Deeds) {
        self.jq.retain(|&other| other != id);
        self.jq.push_front(id);
        let running =
            self.jq.iter().filter(|&&other| other != id && self.jobs[&other].state == JobState::Running);
        for other in running.copied().collect::<Vec<_>>() {
            self.set_state(other, JobState::Queued, deeds);
            self.withdraw(other, Letting::Trim);
        }
    }

    fn set_state(&mut self, id: JobId, state: JobState, deeds: &mut Deeds) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = state;
        deeds.event(Event::JobState { job: id, state: state.word() });
        self.record(Record::State(id, state), deeds);
    }

    /// Ends a job: what is not decided is abandoned, its tasks leave gq, dq and the nodes. Results that
    /// come all the same still count.
    pub(crate) fn end(&mut self, id: JobId, state: JobState, now_us: u64, deeds: &mut Deeds) {
        const OPEN: Classes = Classes::of(&[Class::Pending, Class::Out]);
        self.withdraw(id, Letting::Kill);
        self.gq.clear(id);
        for task_id in self.dq.of_job(id) {
            self.take_from_node(task_id);
        }
        self.jq.retain(|&other| other != id);
        if let Some(job) = self.jobs.get_mut(&id) {
            let mut pieces = Vec::new();
            job.coverage.change(0, job.coverage.cursor(), OPEN, Class::Abandoned, &mut pieces);
            job.totals.ended_us = Some(now_us);
            (job.failures, job.deaths) = Default::default();
            job.rates.clear();
        }
        self.set_state(id, state, deeds);
        self.mark_all();
    }

    /// Tells every node that has tasks of the job to let go of them.
    fn withdraw(&mut self, id: JobId, letting: Letting) {
        let before = Attempt(self.next_attempt);
        let withdraw = Withdraw { job: id, letting, before };
        let mut told: Vec<NodeId> =
            self.dq.of_job(id).into_iter().map(|task| self.dq.at(task).node).collect();
        told.sort_unstable();
        told.dedup();
        for node_id in told {
            if let Some(node) = self.nodes.get_mut(&node_id) {
                node.to_tell.withdraws.push(withdraw);
                self.mark(node_id);
            }
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.withdrawn = Some((before, letting));
        }
    }
}
