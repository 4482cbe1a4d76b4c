//! Commands of users: what they do to jobs and nodes, and the end of a job. Each is recorded; the rim
//! answers the user once the record is durable.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::journal::record::{Ended, NodeMark};
use starfarm_protocol::wire::{Cancel, Revoke};

use crate::coverage::Class;
use crate::deed::Deeds;
use crate::dispatch::Reach;
use crate::farm::Farm;
use crate::job::{Job, JobFacts, JobState, JobTotals, NewJob, Place};
use crate::limits::JOBS_MAX;
use crate::node::{Node, NodeState};
use crate::record::Record;
use crate::task::{NodeId, TaskId};

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
    /// What failed is wanted again.
    Retry,
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
        let NewJob { name, user, spec, units, work, sizing, max_failures, speculative, place } = new;
        let at_us = now_us;
        let facts =
            JobFacts { job: id, spec, name, user, units, work, sizing, max_failures, speculative, at_us };
        self.jobs.insert(id, Job::new(facts.clone()));
        self.jq.push_back(id);
        deeds.event(Event::JobSubmitted {
            job: id,
            name: facts.name.clone(),
            user: facts.user.clone(),
            spec,
            units,
        });
        self.record(Record::Submitted(facts), deeds);
        if !self.hungry[Reach::Slots as usize].is_empty() {
            // Its first lease comes to the disk with it: where a node has room it starts as soon as it is there.
            self.lease_first(id, deeds);
        }
        match place {
            Place::Tail => self.mark_hungry(),
            Place::Head => self.put_front(id, deeds),
            Place::Now => self.switch_to(id, deeds),
        }
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
                return conflict("has not ended: `starfarm job delete --cancel` cancels it first");
            }
            JobCommand::Delete => {
                self.jobs.remove(&id);
                deeds.event(Event::JobState { job: id, state: "deleted".into(), why: None });
                self.record(Record::Deleted { job: id }, deeds);
            }
            JobCommand::Retry => {
                let units = job.failed.intervals();
                if units.is_empty() {
                    return conflict("has no failed unit");
                }
                if state.ended() && (state != JobState::Failed || job.satisfied()) {
                    return conflict(&format!("has ended ({}): submit it again", state.word()));
                }
                self.reopen(id, units, deeds);
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
                self.withdraw(id, Cancel::Graceful);
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
        self.mark_all();
        Ok(())
    }

    /// Nodes that said that they cannot run a job are asked again at once.
    fn ask_again(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).expect("the command's job is known");
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
        let joined = |node: &Node| node.boot.or(node.left).is_some();
        // What a person's `node resume` can undo.
        let undoes = |node: &Node| node.drained || node.distrusted.is_some() || node.probe.is_some();
        let found = self.nodes.iter_mut().find(|(_, node)| *node.name == *name && joined(node));
        let (&id, node) = found.ok_or(CommandError::NotFound)?;
        match command {
            NodeCommand::Drain => {
                if node.state() != NodeState::Draining {
                    deeds.event(Event::NodeDraining { node: name.into() });
                }
                node.drained = true;
            }
            NodeCommand::Resume if node.state() == NodeState::Draining && !undoes(node) => {
                return Err(CommandError::Conflict(format!(
                    "node {name} is draining since its worker stops: start the worker again to have it back"
                )));
            }
            NodeCommand::Resume => {
                if undoes(node) {
                    deeds.event(Event::NodeResumed { node: name.into() });
                }
                (node.drained, node.distrusted) = (false, None);
                node.rise();
                self.jobs.values_mut().for_each(|job| job.returned.retain(|_, back| back.node != id));
            }
            NodeCommand::Forget if node.state() != NodeState::Lost => {
                return Err(CommandError::Conflict(format!(
                    "node {name} is {}: only a lost node can be forgotten",
                    node.state().word()
                )));
            }
            NodeCommand::Forget => {
                self.forget(&[id], deeds);
                self.mark_all();
                return Ok(id);
            }
        }
        let mark = if command == NodeCommand::Drain { NodeMark::Drained } else { NodeMark::Resumed };
        self.record(Record::Mark { node: id, mark }, deeds);
        self.count_live(id);
        self.mark_all();
        Ok(id)
    }

    /// A paused job goes on.
    fn resume(&mut self, id: JobId, deeds: &mut Deeds) {
        self.forget_blame(id);
        let started = self.jobs.get(&id).is_some_and(|job| job.totals.started_us.is_some());
        self.set_state(id, if started { JobState::Running } else { JobState::Queued }, "", deeds);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.withdrawn = None;
        }
    }

    /// Behind the job that runs now, before all others.
    fn put_front(&mut self, id: JobId, deeds: &mut Deeds) {
        let running = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.state == JobState::Running);
        let head = usize::from(self.jq.front().is_some_and(|first| *first != id && running(first)));
        self.jq.retain(|&other| other != id);
        let place = head.min(self.jq.len());
        self.jq.insert(place, id);
        deeds.event(Event::JobMoved { job: id, place: place as u64 + 1 });
        self.record(Record::Moved { job: id, place: place as u32 }, deeds);
        self.mark_all();
    }

    /// Before all others; what runs of them stops at a unit's end and waits at the head of jq.
    fn switch_to(&mut self, id: JobId, deeds: &mut Deeds) {
        self.jq.retain(|&other| other != id);
        self.jq.push_front(id);
        deeds.event(Event::JobMoved { job: id, place: 1 });
        self.record(Record::Moved { job: id, place: 0 }, deeds);
        let running =
            self.jq.iter().filter(|&&other| other != id && self.jobs[&other].state == JobState::Running);
        for other in running.copied().collect::<Vec<_>>() {
            self.set_state(other, JobState::Queued, "", deeds);
            self.withdraw(other, Cancel::Graceful);
        }
        self.mark_all();
    }

    /// A job takes a state that is no end; `why` is for a person.
    pub(crate) fn set_state(&mut self, id: JobId, state: JobState, why: &str, deeds: &mut Deeds) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.take_state(state, why);
        self.open.is_stale = true;
        let said = (!why.is_empty()).then(|| why.to_owned());
        deeds.event(Event::JobState { job: id, state: state.word().into(), why: said });
        self.record(Record::State { job: id, state, why: why.to_owned() }, deeds);
    }

    /// Ends a job whose last unit is decided, or whose search has found what it was to find.
    pub(crate) fn end_if_over(&mut self, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let job = self.jobs.get(&job_id).expect("the caller has found the job");
        if job.state.ended() {
            return;
        }
        if job.coverage.is_decided() || job.satisfied() {
            let failed = job.coverage.count(Class::Failed) > 0;
            let state = if failed { JobState::Failed } else { JobState::Finished };
            self.end(job_id, state, now_us, deeds);
        }
    }

    /// Ends a job: what is not decided is abandoned, its tasks leave gq, and dq and the nodes as turns have time.
    /// Results that come all the same still count.
    pub(crate) fn end(&mut self, id: JobId, state: JobState, now_us: u64, deeds: &mut Deeds) {
        let withdraw = Revoke { job: id, cancel: Cancel::Forced, before: Attempt(self.next_attempt) };
        self.unwinding.end(withdraw);
        self.gq.clear(id);
        self.jq.retain(|&other| other != id);
        let job = self.jobs.get_mut(&id).expect("the caller found the job");
        job.withdrawn = Some((withdraw.before, withdraw.cancel));
        let totals = JobTotals { ended_us: Some(now_us), ..job.totals };
        let computed_by = job.rates.len() as u64 + job.forgotten;
        job.take_end(state, totals);
        let (done, failed) = (job.coverage.count(Class::Done), job.coverage.count(Class::Failed));
        let mut abandoned: Vec<_> = job.coverage.intervals(Class::Abandoned).collect();
        if job.coverage.fresh() > 0 {
            let (from, to) = (job.coverage.cursor(), job.coverage.units());
            match abandoned.last_mut() {
                Some((_, hi)) if *hi == from => *hi = to,
                _ => abandoned.push((from, to)),
            }
        }
        deeds.event(Event::JobState { job: id, state: state.word().into(), why: None });
        self.record(Record::Ended(Ended { job: id, state, done, failed, abandoned, totals }), deeds);
        if self.config.watch {
            self.certify(id, computed_by, deeds);
        }
        self.mark_hungry();
    }

    /// Tells every node that has tasks of the job to let go of them. With more tasks than nodes it asks the nodes: most
    /// have one of the job as the first that is looked at.
    pub(crate) fn withdraw(&mut self, id: JobId, letting: Cancel) {
        let before = Attempt(self.next_attempt);
        let withdraw = Revoke { job: id, cancel: letting, before };
        let of_job = |task: &TaskId| self.dq.peek(*task).is_some_and(|task| task.job == id);
        let told: BTreeSet<NodeId> = if self.dq.count_of_job(id) > self.nodes.len() {
            let nodes = self.nodes.iter().filter(|(_, node)| node.tasks.iter().any(of_job));
            nodes.map(|(&node, _)| node).collect()
        } else {
            let tasks = self.dq.of_job(id).into_iter().chain(self.dq.copies(id));
            tasks.map(|task| self.dq.at(task).node).collect()
        };
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
