//! Questions about the farm, answered as plain values. Nothing here changes anything, but for ratings,
//! which age when they are looked at.

use starfarm_events::NodeState;
use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::wire::Facts;

use crate::farm::Farm;
use crate::job::{FailedUnit, Job, JobState, JobTotals, Sizing};
use crate::node::{Node, NodeTotals};
use crate::queues::Class;
use crate::told::{Totals, Traffic, Verdicts};

/// A job, seen from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct JobView {
    /// Its number.
    pub id: JobId,
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// Its units are programs.
    pub is_command: bool,
    /// Its state.
    pub state: JobState,
    /// What it waits for; none where a person or its own end put it in its state.
    pub note: Option<HoldReason>,
    /// N.
    pub units: u128,
    /// Units done.
    pub done: u128,
    /// Units failed for good.
    pub failed: u128,
    /// Units at nodes.
    pub out: u128,
    /// Units that wait, cut or not.
    pub pending: u128,
    /// Units that nobody wants any more.
    pub abandoned: u128,
    /// Hits found.
    pub hits: usize,
    /// Units per second of all live slots, by the mean of measured durations.
    pub rate_per_s: f64,
    /// Nodes that cannot run it, and why.
    pub refused_by: Vec<(String, String)>,
    /// Intervals that were computed twice with different results, and whose result came second.
    pub conflicts: Vec<(u128, u128, String)>,
    /// Counters.
    pub totals: JobTotals,
}

/// A node, seen from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeView {
    /// Its index.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: NodeState,
    /// Why it is quarantined, else empty.
    pub why: String,
    /// A person drains it, whatever its state.
    pub drained: bool,
    /// Its slots.
    pub slots: u16,
    /// Standard tasks a period of 10 s, over the last 64 periods.
    pub power: f64,
    /// Tasks in dq that it has.
    pub tasks: usize,
    /// Tasks in its own queue, by its last heartbeat.
    pub queued_tasks: u32,
    /// Load of each slot in thousandths, of many slots the mean, by its last heartbeat; empty where it is lost
    /// or did not tell.
    pub load: Vec<u16>,
    /// Microseconds that no slot had run anything, by its last heartbeat.
    pub idle_us: u64,
    /// Microseconds since it was heard; none where this incarnation of the scheduler has not heard it.
    pub silent_us: Option<u64>,
    /// Microseconds since this incarnation of it joined.
    pub joined_us: u64,
    /// What its machine is, where it told.
    pub facts: Option<Facts>,
    /// Counters.
    pub totals: NodeTotals,
}

/// A page of what a job found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FoundPage {
    /// Unit and target, by unit.
    pub hits: Vec<(u128, u32)>,
    /// Units that failed for good, by unit.
    pub failed: Vec<(u128, FailedUnit)>,
    /// Another page follows.
    pub more: bool,
}

/// The farm, seen from outside: the paper's online figures.
#[derive(Clone, PartialEq, Debug)]
pub struct FarmView {
    /// Tasks in gq.
    pub gq: usize,
    /// Tasks in dq.
    pub dq: usize,
    /// Age of the oldest task in dq, in microseconds.
    pub dq_oldest_us: u64,
    /// Target computing time of a task of the current job; none with fixed units or without a job.
    pub target_us: Option<u64>,
    /// Jobs in jq.
    pub jq: usize,
    /// The scheduler's incarnation.
    pub epoch: u64,
    /// Counters.
    pub totals: Totals,
    /// Verdicts on results.
    pub verdicts: Verdicts,
    /// Datagrams of workers and to them since the start.
    pub traffic: [Traffic; 2],
}

impl Farm {
    /// All jobs, by number.
    pub fn jobs(&self) -> Vec<JobView> {
        self.jobs.iter().map(|job| self.job_view(job)).collect()
    }

    /// Up to `take` jobs from number `from` on, by number.
    pub fn jobs_from(&self, from: JobId, take: usize) -> Vec<JobView> {
        self.jobs.from(from).take(take).map(|job| self.job_view(job)).collect()
    }

    /// What all jobs are made from: BLAKE3 of their specifications.
    pub fn specs(&self) -> impl Iterator<Item = ContentHash> + '_ {
        self.jobs.iter().map(|job| job.facts.spec)
    }

    /// The name of a node; empty for one that is forgotten.
    pub fn node_name(&self, id: NodeId) -> String {
        self.nodes.get(id).map_or_else(String::new, |node| node.name.to_string())
    }

    /// One job.
    pub fn job(&self, id: JobId) -> Option<JobView> {
        self.jobs.get(id).map(|job| self.job_view(job))
    }

    fn job_view(&self, job: &Job) -> JobView {
        let [done, failed, out, pending, abandoned] = job.classes();
        let name = |id: &NodeId| self.node_name(*id);
        JobView {
            id: job.facts.job,
            name: job.facts.name.clone(),
            user: job.facts.user.clone(),
            spec: job.facts.spec,
            is_command: job.facts.work.programs,
            state: job.state,
            note: match &job.paused_for {
                None if job.active() && pending > 0 && self.jobs.lacks_room(job) => Some(HoldReason::NoDisk),
                reason => reason.clone(),
            },
            units: job.facts.units,
            done,
            failed,
            out,
            pending,
            abandoned,
            hits: job.hits.len(),
            rate_per_s: self.speed(job),
            refused_by: job.refused_by.iter().map(|(id, refusal)| (name(id), refusal.why.clone())).collect(),
            conflicts: job.conflicts.iter().map(|(at, id)| (at.lo, at.hi, name(id))).collect(),
            totals: job.totals,
        }
    }

    /// Units per second of all live slots. Nothing of an ended or paused job is computed, however fast it would go.
    pub(crate) fn speed(&self, job: &Job) -> f64 {
        if job.active() { job.mean_rate * self.nodes.live_slots() as f64 } else { 0.0 }
    }

    /// Hits of a job: unit and target, by unit.
    pub fn hits(&self, id: JobId) -> Vec<(u128, u32)> {
        self.jobs.get(id).map_or_else(Vec::new, |job| job.hits.iter().copied().collect())
    }

    /// Units of a job that failed for good, by unit.
    pub fn failed_units(&self, id: JobId) -> Vec<(u128, FailedUnit)> {
        self.jobs.get(id).map_or_else(Vec::new, |job| job.units.failed.page(0, usize::MAX))
    }

    /// Up to `take` hits and failed units of a job from the `skip`th of each on, and whether more follow.
    pub fn found_page(&self, id: JobId, skip: usize, take: usize) -> FoundPage {
        let Some(job) = self.jobs.get(id) else { return FoundPage::default() };
        let end = skip.saturating_add(take);
        FoundPage {
            hits: job.hits.iter().skip(skip).take(take).copied().collect(),
            failed: job.units.failed.page(skip, take),
            more: job.hits.len() > end || job.units.failed.units() > end as u128,
        }
    }

    /// Intervals that are done, in order.
    pub fn done_intervals(&self, id: JobId) -> Vec<(u128, u128)> {
        let done = |job: &Job| job.units.coverage().intervals(Class::Done).map(|at| (at.lo, at.hi)).collect();
        self.jobs.get(id).map_or_else(Vec::new, done)
    }

    /// All nodes, by index.
    pub fn nodes(&mut self, now_us: u64) -> Vec<NodeView> {
        let queues = &self.queues;
        let view = |(id, node): (NodeId, &mut Node)| NodeView {
            id,
            name: node.name.to_string(),
            state: node.health().state(),
            why: node.why().map_or_else(String::new, |why| why.to_string()),
            drained: node.health().drain.by_person,
            slots: node.slots(),
            power: node.rating.power(now_us),
            tasks: queues.held(id),
            queued_tasks: node.queued_tasks,
            load: node.load.clone(),
            idle_us: node.idle_us,
            silent_us: (!node.restored).then(|| now_us.saturating_sub(node.heard_us)),
            joined_us: now_us.saturating_sub(node.joined_us),
            facts: node.facts.clone(),
            totals: node.totals,
        };
        self.nodes.iter_mut().map(view).collect()
    }

    /// The paper's online figures.
    pub fn status(&self, now_us: u64) -> FarmView {
        FarmView {
            gq: self.queues.waiting(),
            dq: self.queues.out(),
            dq_oldest_us: self.oldest_us(now_us),
            target_us: self.jobs.queued().next().and_then(|job| match job.facts.sizing {
                Sizing::TargetUs(target_us) => Some(target_us),
                Sizing::Units(_) => None,
            }),
            jq: self.jobs.queue_len(),
            epoch: self.config.epoch.0,
            totals: self.telemetry.totals,
            verdicts: self.telemetry.verdicts,
            traffic: self.telemetry.traffic,
        }
    }

    /// Age of the oldest task in dq.
    pub(crate) fn oldest_us(&self, now_us: u64) -> u64 {
        self.queues.tasks().map(|task| now_us.saturating_sub(task.since_us)).max().unwrap_or(0)
    }

    /// The job has ended, or never was.
    pub fn has_ended(&self, id: JobId) -> bool {
        self.jobs.unfinished(id).is_none()
    }
}
