//! Why a node has nothing to do, or is kept out.

use std::collections::BTreeMap;

use starfarm_events::IdleReason;
use starfarm_protocol::admin::explain::{AheadInfo, NodeReason, OfferReason, Silence, WorkReason};
use starfarm_protocol::admin::{FactValue, Reason, SizeInfo};
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::units::Units;

use super::findings::{Findings, NAMED, SIZES};
use crate::farm::Farm;
use crate::health::{Drain, Presence, Standing};
use crate::job::{Job, JobState, Refusal};
use crate::limits::{PREFETCH_SCARCE_US, PREFETCH_US};
use crate::node::{Ahead, Node};
use crate::queues::Class;
use crate::seat::Seat;

impl Farm {
    /// Why the node of that name idles, works or is kept out; none where there is none of that name.
    pub(super) fn explain_node(&self, name: &str, now_us: u64) -> Option<(Findings, Vec<SizeInfo>)> {
        let (id, node) = self.nodes.iter().find(|(_, node)| *node.name == *name)?;
        let mut found = Findings::default();
        if let Some(reason) = self.silence((id, node), now_us) {
            found.decides(Reason::KeptOut(reason));
        }
        kept_out(node, now_us, &mut found);
        self.work(id, node, now_us, &mut found);
        for (_, hangs) in self.hung_on(id, now_us).take(NAMED) {
            found.adds(Reason::Unit(hangs));
        }
        for (job, at) in self.conflicts_of(id).take(NAMED) {
            let (lo, hi) = (Units(at.lo), Units(at.hi));
            found.adds(Reason::KeptOut(NodeReason::Conflict { job, lo, hi }));
        }
        let jobs: Vec<&Job> = self.jobs.queued().collect();
        let gives = |job: &&&Job| {
            self.jobs.gives_out(job)
                && job.pending() > 0
                && job.could_run(id, &self.nodes)
                && self.may_hold(job, id)
        };
        if node.health().live() {
            if let Some(job) = jobs.iter().find(gives) {
                found.adds(Reason::Work(self.window_of(id, node, job, now_us)));
            }
            if let Some(reason) = self.idle_reason(id, now_us) {
                match reason {
                    IdleReason::Waiting if !jobs.iter().any(|job| gives(&job)) => {
                        found.decides(Reason::NoDisk);
                    }
                    IdleReason::Waiting => found.decides(Reason::Work(WorkReason::Waiting)),
                    IdleReason::NoJob => found.decides(Reason::Work(WorkReason::NoJob)),
                    IdleReason::Paused => found.decides(Reason::Work(WorkReason::Paused)),
                    IdleReason::After => found.decides(Reason::Work(WorkReason::After)),
                    IdleReason::MaxNodes => found.decides(Reason::Work(WorkReason::MaxNodes)),
                    IdleReason::Refused => found.decides(Reason::Work(WorkReason::Refused)),
                    IdleReason::NothingLeft => found.decides(Reason::Work(WorkReason::NothingLeft)),
                    IdleReason::NoTime => {
                        let ends_us = node.stay.map_or(now_us, |stay| stay.ends_us);
                        let left_us = ends_us.saturating_sub(now_us);
                        found.decides(Reason::Work(WorkReason::NoTime { left_us }));
                    }
                    IdleReason::TooSmall => found.decides(Reason::Work(WorkReason::TooSmall)),
                    // `silence` and `kept_out` have said it.
                    IdleReason::State => {}
                }
                let offers = jobs.iter().take(SIZES).map(|job| (job.facts.job, self.offer(id, job, now_us)));
                offers.for_each(|(job, offer)| found.adds(Reason::Offer(job, offer)));
            }
        }
        if let Some(stay) = node.stay.filter(|_| node.health().is_there()) {
            found.fact("time_left", FactValue::Lasts(stay.ends_us.saturating_sub(now_us)));
        }
        node_facts(node, self.queues.held_by(id), now_us, &mut found);
        let sizes = match node.health().live() {
            true => {
                let seats = |job| self.able_seats(job, id).map(move |seat| (job, seat));
                let all = jobs.iter().copied().filter(|job| gives(&job)).flat_map(seats);
                all.take(SIZES).map(|(job, seat)| self.size(job, seat, now_us)).collect()
            }
            false => Vec::new(),
        };
        Some((found, sizes))
    }

    /// It was not heard, if so.
    fn silence(&self, (id, node): (NodeId, &Node), now_us: u64) -> Option<NodeReason> {
        let (suspect_us, lost_us) = self.patience(id);
        let (health, silence) = (node.health(), silence_of(node, now_us));
        Some(match health.presence {
            Presence::Left { revoked: true, .. } => NodeReason::Revoked,
            Presence::Left { .. } => NodeReason::Left { silence },
            Presence::Lost(_) => NodeReason::Lost { silence, lost_us, units: Units(node.units_taken) },
            Presence::Unknown => NodeReason::NoHello { again: false },
            Presence::Suspect(_) => {
                NodeReason::Suspect { silence, suspect_us, lost_us, tasks: self.queues.held_by(id) as u64 }
            }
            Presence::Here(_) if !health.greeted => NodeReason::NoHello { again: true },
            Presence::Here(_) => return None,
        })
    }

    /// What it has.
    fn work(&self, id: NodeId, node: &Node, now_us: u64, found: &mut Findings) {
        let mut jobs: BTreeMap<JobId, (u64, u128, u64)> = BTreeMap::new();
        for task in self.queues.tasks_at(id) {
            let of = jobs.entry(task.job).or_insert((0, 0, u64::MAX));
            *of = (of.0 + 1, of.1 + task.left, of.2.min(task.since_us));
        }
        // What its heartbeats join is known by its units only.
        let ranges = self.queues.hides_tasks(id);
        for (&job, &(tasks, units, since_us)) in jobs.iter().take(NAMED) {
            let (units, for_us) = (Units(units), now_us.saturating_sub(since_us));
            found.decides(Reason::Work(WorkReason::Busy { job, tasks, ranges, units, for_us }));
        }
        // What came back since its last heartbeat runs no more.
        let has = |&&(job, unit): &&(JobId, u128)| self.queues.tasks_at(id).any(|task| task.has(job, unit));
        let running: Vec<_> = node.running.iter().filter(has).collect();
        if !running.is_empty() && !node.health().is_lost() {
            let units = running.iter().take(NAMED).map(|&&(job, unit)| (job, Units(unit))).collect();
            let more = running.len().saturating_sub(NAMED) as u64;
            found.adds(Reason::Work(WorkReason::Running { units, more }));
        }
    }

    /// Units of which it said something else than another node, and that one is believed.
    fn conflicts_of(&self, id: NodeId) -> impl Iterator<Item = (JobId, Interval)> {
        let of_job = move |job: &Job| {
            let untrue = || job.checks.untrue.iter().filter(|untrue| untrue.node == id);
            let its = job.conflicts.iter().filter(|(at, _)| untrue().any(|of| at.contains(of.unit)));
            its.map(|(at, _)| (job.facts.job, *at)).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job)
    }

    /// What `job` has for node `id`.
    fn offer(&self, id: NodeId, job: &Job, now_us: u64) -> OfferReason {
        if job.state == JobState::Paused {
            OfferReason::Paused { why: job.paused_for.clone() }
        } else if job.state == JobState::Waiting {
            OfferReason::After { jobs: self.waits_for(job) }
        } else if let Some(refusal) = self.refusal(job, id) {
            let again_us = refusal.probe.at_us.saturating_sub(now_us);
            OfferReason::Refused { why: refusal.why.clone(), again_us }
        } else if let Some((needs, has)) = self.lacks_device(job, id) {
            OfferReason::NoDevice { needs, has }
        } else if let Some(lack) = self.lack(job, id) {
            OfferReason::TooSmall { lack }
        } else if job.pending() == 0 {
            let units = Units(job.units.coverage().count(Class::Out));
            OfferReason::AllOut { units, copies: job.facts.speculative }
        } else if let Some(nodes) = job.terms.max_nodes.filter(|_| !self.may_hold(job, id)) {
            OfferReason::MaxNodes { nodes }
        } else if !self.has_time_for_one(job, id, now_us) {
            OfferReason::NoTime
        } else if job.blame.of(id).doubted {
            OfferReason::Doubted
        } else if job.waits_for_lease() {
            OfferReason::Lease
        } else {
            OfferReason::Waits { units: Units(job.pending()) }
        }
    }

    /// Why node `id` runs nothing of the job, where it said so of all slots that would.
    fn refusal<'a>(&self, job: &'a Job, id: NodeId) -> Option<&'a Refusal> {
        let refused = self.nodes.seats(id).find_map(|seat| job.refused_by.get(&seat));
        refused.filter(|_| !job.could_run(id, &self.nodes))
    }

    /// How many tasks it may hold, by what decides that.
    fn window_of(&self, id: NodeId, node: &Node, job: &Job, now_us: u64) -> WorkReason {
        let seat = self.able_seats(job, id).next().unwrap_or(Seat::cores(id));
        let ideal = self.next_task(job, seat, now_us).unwrap_or_else(|| self.ideal(job, seat));
        let ahead = self.ahead(job, &ideal);
        let window = self.window(job, seat, &ideal, now_us);
        WorkReason::Window {
            held: self.queues.held(seat) as u64,
            tasks: window.tasks as u64,
            a_slot: window.a_slot,
            slots: node.slots_of(seat.kind),
            ahead: match ahead {
                Ahead::Nothing => AheadInfo::Nothing(job.facts.job),
                Ahead::Least => AheadInfo::Learning,
                Ahead::Scarce => AheadInfo::Scarce(job.facts.job, PREFETCH_SCARCE_US),
                Ahead::Full => AheadInfo::Full(PREFETCH_US),
            },
            steps: window.steps,
            queue: node.queue_tasks_max,
        }
    }
}

/// Since when it was not heard. Records do not say when a node was heard last: the silence of one that this scheduler
/// knows from there only is counted from the start.
fn silence_of(node: &Node, now_us: u64) -> Silence {
    let us = now_us.saturating_sub(node.heard_us);
    if node.restored { Silence::SinceBefore(us) } else { Silence::For(us) }
}

/// It is up and gets nothing, or little.
fn kept_out(node: &Node, now_us: u64, found: &mut Findings) {
    let health = node.health();
    let lost = health.is_lost();
    if health.drain.by_person && !matches!(health.presence, Presence::Left { revoked: true, .. }) {
        found.decides(Reason::KeptOut(NodeReason::Drained { lost }));
    }
    if lost {
        return;
    }
    if health.drain.by_worker {
        found.decides(Reason::KeptOut(NodeReason::Stopping));
    }
    if let Standing::Distrusted(why) = health.standing {
        found.decides(Reason::KeptOut(NodeReason::Distrusted { why }));
    }
    let Some(probe) = health.standing.probe() else { return };
    // One that is drained is given nothing as a probe either.
    let probe = (probe.at_us.saturating_sub(now_us), probe.next_pause_us());
    let probe = (health.drain == Drain::NO).then_some(probe);
    found.decides(Reason::KeptOut(NodeReason::Quarantined { why: node.why(), probe }));
}

fn node_facts(node: &Node, held: usize, now_us: u64, found: &mut Findings) {
    let state = if node.health().has_left() { "left" } else { node.health().state().word() };
    found.fact("state", FactValue::Word(state.to_owned()));
    found.count("slots", node.slots());
    found.count("tasks_in_dq", held);
    found.count("tasks_in_its_queue", node.queued_tasks);
    found.fact("heard", FactValue::Silence(silence_of(node, now_us)));
    if node.health().boot().is_some() {
        found.fact("joined", FactValue::Ago(now_us.saturating_sub(node.joined_us)));
    }
}
