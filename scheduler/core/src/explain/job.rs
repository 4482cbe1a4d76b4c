//! Why a job waits, and where what is left of it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use starfarm_events::NodeState;
use starfarm_protocol::admin::explain::{JobReason, OfferState, PlaceReason, UnitReason};
use starfarm_protocol::admin::{FactValue, Reason, SizeInfo};
use starfarm_protocol::devices::RunsOn;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::NODE_TASKS_MAX;
use starfarm_protocol::units::Units;

use super::findings::{Findings, NAMED, SIZES};
use crate::farm::Farm;
use crate::job::{Job, JobState, Sizing};
use crate::limits::POISON_DEATHS;
use crate::node::Node;
use crate::queues::{Class, JobUnits, NOBODY, State, Task};

impl Farm {
    /// Why job `id` waits or runs as it does; none where there is no such job.
    pub(super) fn explain_job(&self, id: JobId, now_us: u64) -> Option<(Findings, Vec<SizeInfo>)> {
        let job = self.jobs.get(id)?;
        let mut found = Findings::default();
        let (copies, tasks): (Vec<&Task>, Vec<&Task>) = self
            .queues
            .tasks()
            .filter(|task| task.job == id && task.state != State::Back)
            .partition(|task| task.copy);
        if job.state.ended() {
            ended(job, now_us, &mut found);
            if let Some(broken) = self.broken_by(job) {
                let (job, state) = (broken.facts.job, broken.state);
                found.adds(Reason::Job(JobReason::AfterFailed { job, state }));
            }
        } else {
            self.why_it_waits(job, &tasks, now_us, &mut found);
            self.where_it_is(tasks.clone(), &copies, now_us, &mut found);
            self.what_befell_it(job, now_us, &mut found);
        }
        self.job_facts(job, unclaimed(tasks.iter().copied()), &mut found);
        found.count("tasks_in_dq", tasks.len() + copies.len());
        Some((found, self.job_sizes(job, now_us)))
    }

    fn why_it_waits(&self, job: &Job, tasks: &[&Task], now_us: u64, found: &mut Findings) {
        if job.state == JobState::Paused {
            found.decides(Reason::Job(JobReason::Paused { why: job.paused_for.clone() }));
        }
        let jobs = self.waits_for(job);
        if !jobs.is_empty() {
            found.decides(Reason::Job(JobReason::After { jobs }));
        }
        let (pending, unclaimed) = (job.pending(), unclaimed(tasks.iter().copied()));
        if unclaimed > 0 {
            let release_us = self.reconnect.release_us().map_or(0, |at_us| at_us.saturating_sub(now_us));
            let restart = Reason::Job(JobReason::Restart { units: Units(unclaimed), release_us });
            match pending {
                0 => found.decides(restart),
                _ => found.adds(restart),
            }
        }
        if job.active() && self.jobs.lacks_room(job) {
            found.decides(Reason::NoDisk);
        }
        if let Some(unit) = job.waits_for_room() {
            found.decides(Reason::Job(JobReason::WaitsForRoom { unit: Units(unit) }));
        }
        if pending > 0 && job.active() {
            self.who_takes_it(job, now_us, found);
        }
        if job.waits_for_lease() {
            let (durable, mark) = (Units(job.lease.durable()), Units(job.lease.mark()));
            let lease = Reason::Job(JobReason::Lease { durable, mark });
            match tasks {
                [] => found.decides(lease),
                // Nodes have work meanwhile: that is what leases are ahead for.
                _ => found.adds(lease),
            }
        }
        let out = job.units.coverage().count(Class::Out);
        if pending == 0 && job.active() && job.grows() {
            found.decides(Reason::Job(JobReason::Decomposer { units: Units(job.facts.units) }));
        }
        if pending == 0 && out > 0 && unclaimed == 0 {
            let copies = job.active().then_some(job.facts.speculative);
            found.decides(Reason::Job(JobReason::AllOut { units: Units(out), copies }));
        }
        if found.verdict.is_none() {
            let at: BTreeSet<NodeId> =
                tasks.iter().map(|task| task.node).filter(|node| *node != NOBODY).collect();
            let (nodes, taking) = (at.len() as u64, self.taking().count() as u64);
            found.decides(Reason::Job(JobReason::Runs { nodes, taking }));
        }
    }

    /// Units wait: who could take them, and what is in the way.
    fn who_takes_it(&self, job: &Job, now_us: u64, found: &mut Findings) {
        let id = job.facts.job;
        let mut able: Vec<NodeId> =
            self.taking().map(|(node, _)| node).filter(|node| job.could_run(*node, &self.nodes)).collect();
        if let Some(nodes) =
            job.terms.max_nodes.filter(|_| able.iter().any(|&node| !self.may_hold(job, node)))
        {
            found.adds(Reason::Job(JobReason::MaxNodes { nodes }));
        }
        if self.taking().next().is_none() {
            found.decides(self.nobody());
        } else if self.fits_nowhere(job) {
            found.decides(Reason::Job(match job.facts.work.on {
                RunsOn { cores: false, devices: Some(needs) } => JobReason::NoDeviceAnywhere { needs },
                _ => JobReason::FitsNowhere { needs: job.needs().amounts().collect() },
            }));
        } else if able.is_empty() {
            found.decides(Reason::Job(JobReason::RefusedByAll));
        } else if able.iter().all(|&node| !self.has_time_for_one(job, node, now_us)) {
            found.decides(Reason::Job(JobReason::NoTime));
        }
        let lacks = |node| Some((node, self.lack(job, node)?));
        let mut lacks = self.taking().filter_map(|(node, _)| lacks(node));
        for (node, lack) in lacks.by_ref().take(NAMED) {
            found.adds(Reason::Job(JobReason::TooSmall { node: self.name_of(node), lack }));
        }
        let nodes = lacks.count() as u64;
        if nodes > 0 {
            found.adds(Reason::Job(JobReason::TooSmallMore { nodes }));
        }
        let lacks = |node| Some((node, self.lacks_device(job, node)?));
        for (node, (needs, has)) in self.taking().filter_map(|(node, _)| lacks(node)).take(NAMED) {
            found.adds(Reason::Job(JobReason::NoDevice { node: self.name_of(node), needs, has }));
        }
        for (node, refusal) in job.refused_by.iter().take(NAMED) {
            let (node, why) = (self.name_of(node.node), refusal.why.clone());
            let again_us = refusal.probe.at_us.saturating_sub(now_us);
            found.adds(Reason::Job(JobReason::Refused { node, why, again_us }));
        }
        if job.refused_by.len() > NAMED {
            let nodes = (job.refused_by.len() - NAMED) as u64;
            found.adds(Reason::Job(JobReason::RefusedByMore { nodes }));
        }
        able.retain(|&node| self.may_hold(job, node));
        let place = self.jobs.place_of(id).expect("a job that has not ended is in jq");
        let first: Vec<Option<JobId>> = able.iter().map(|&node| self.goes_first(node, place)).collect();
        if let Some(Some(before)) = first.first().copied()
            && first.iter().all(Option::is_some)
        {
            found.decides(self.behind(before, place, &able));
        }
        let free = able.iter().zip(&first).filter(|(_, before)| before.is_none()).map(|(&node, _)| node);
        self.no_room(job, free, now_us, found);
    }

    /// The nodes whose turn it is for this job have all that they may have, of others too.
    fn no_room(&self, job: &Job, free: impl Iterator<Item = NodeId>, now_us: u64, found: &mut Findings) {
        let free: Vec<NodeId> = free.collect();
        let has_room = |seat| {
            let next = self.next_task(job, seat, now_us);
            next.is_some_and(|ideal| self.room(job, seat, &ideal, NODE_TASKS_MAX as usize, now_us) > 0)
        };
        let tasks = free.iter().flat_map(|&id| self.queues.tasks_at(id));
        let others = tasks.filter(|task| task.job != job.facts.job).count();
        if others > 0
            && job.units.coverage().count(Class::Out) == 0
            && !free.iter().any(|&node| self.able_seats(job, node).any(has_room))
        {
            found.decides(Reason::Job(JobReason::NoRoom { tasks: others as u64 }));
        }
    }

    /// The units of job `before` go first, and those of the others ahead of place `place` in jq that nodes of `able`
    /// can take.
    fn behind(&self, before: JobId, place: usize, able: &[NodeId]) -> Reason {
        let waits = |job: &&Job| job.active() && job.pending() > 0 && job.facts.job != before;
        let taken = |job: &&Job| able.iter().any(|node| job.could_run(*node, &self.nodes));
        let jobs = self.jobs.queued().take(place);
        let others: Vec<u128> = jobs.filter(waits).filter(taken).map(Job::pending).collect();
        Reason::Job(JobReason::Behind {
            place: place as u64 + 1,
            of: self.jobs.queue_len() as u64,
            job: before,
            units: Units(self.jobs.at(before).pending()),
            other_jobs: others.len() as u64,
            other_units: Units(others.iter().fold(0, |sum, units| sum.saturating_add(*units))),
        })
    }

    /// Why no node can be given anything, but for a probe.
    fn nobody(&self) -> Reason {
        // One that is up and cannot be given anything has a session in which it has not said hello.
        let word = |node: &Node| match node.health().state() {
            NodeState::Up => "no_hello",
            NodeState::Lost if node.health().boot().is_none() => "left",
            state => state.word(),
        };
        let mut states: BTreeMap<String, u64> = BTreeMap::new();
        self.nodes.iter().for_each(|(_, node)| *states.entry(word(node).to_owned()).or_default() += 1);
        let probed = self.nodes.iter().any(|(_, node)| node.health().is_probation());
        Reason::Job(JobReason::NoNode { states, probed })
    }

    /// The oldest of what is at nodes.
    fn where_it_is(&self, mut tasks: Vec<&Task>, copies: &[&Task], now_us: u64, found: &mut Findings) {
        tasks.sort_unstable_by_key(|task| (task.since_us, task.at.lo));
        for task in tasks.iter().take(NAMED) {
            let (lo, hi) = (Units(task.at.lo), Units(task.at.hi));
            found.adds(Reason::Place(match task.node {
                NOBODY => PlaceReason::Unclaimed { lo, hi },
                node => PlaceReason::AtNode {
                    node: self.name_of(node),
                    lo,
                    hi,
                    for_us: now_us.saturating_sub(task.since_us),
                    offer: match task.state {
                        State::Assigned => OfferState::Assigned,
                        State::Offered => OfferState::Offered,
                        State::Held { seen_us } => OfferState::Held(now_us.saturating_sub(seen_us)),
                        State::Back => unreachable!("what goes back was left out"),
                    },
                    copy: copies
                        .iter()
                        .find(|copy| copy.at.overlaps(task.at))
                        .map(|copy| (self.name_of(copy.node), now_us.saturating_sub(copy.since_us))),
                },
            }));
        }
        let rest = tasks.get(NAMED..).unwrap_or_default();
        let (unclaimed, more): (Vec<&Task>, Vec<&Task>) = rest.iter().partition(|task| task.node == NOBODY);
        if !unclaimed.is_empty() {
            let units = Units(unclaimed.iter().map(|task| task.left).sum());
            found.adds(Reason::Place(PlaceReason::MoreUnclaimed { ranges: unclaimed.len() as u64, units }));
        }
        if !more.is_empty() {
            found.adds(Reason::Place(PlaceReason::MoreAtNodes { tasks: more.len() as u64 }));
        }
    }

    /// Units that failed, killed workers or are too large for some, and are not given up.
    fn what_befell_it(&self, job: &Job, now_us: u64, found: &mut Findings) {
        let all = Interval::new(0, u128::MAX);
        let hung = self.nodes.iter().flat_map(|(id, _)| self.hung_on(id, now_us));
        let hung = hung.filter(|(of, _)| *of == job.facts.job).map(|(_, reason)| reason);
        let JobUnits { deaths, failures, roomless, .. } = &job.units;
        let suspects = deaths.units(all).map(|unit| {
            let (on, more) = self.names(deaths.of(unit).map(|death| death.0));
            let (times, most) = (deaths.of(unit).count() as u64, POISON_DEATHS as u64);
            UnitReason::SuspectUnit { unit: Units(unit), times, on, more, most }
        });
        let lacks_room = roomless.units(all).map(|unit| {
            let (on, more) = self.names(roomless.of(unit).map(|said| said.1));
            UnitReason::LacksRoom { unit: Units(unit), on, more }
        });
        let tried_again = failures.units(all).map(|unit| {
            let (on, more) = self.names(failures.of(unit).map(|run| run.1));
            UnitReason::TriedAgain { unit: Units(unit), times: failures.of(unit).count() as u64, on, more }
        });
        some_of("hangs", hung, found);
        some_of("suspect_unit", suspects, found);
        some_of("tried_again", tried_again, found);
        some_of("lacks_room", lacks_room, found);
    }

    /// The first of these nodes, those that are forgotten by no name, and how many more there are.
    fn names(&self, ids: impl Iterator<Item = NodeId>) -> (Vec<Option<String>>, u64) {
        let ids: BTreeSet<NodeId> = ids.collect();
        let names = ids.iter().take(NAMED).map(|&id| self.node_name(id)).collect();
        (names, ids.len().saturating_sub(NAMED) as u64)
    }

    fn job_facts(&self, job: &Job, unclaimed: u128, found: &mut Findings) {
        let id = job.facts.job;
        found.fact("state", FactValue::Word(job.state.word().to_owned()));
        if let Some(place) = self.jobs.place_of(id) {
            found.fact("place_in_jq", FactValue::Place(place as u64 + 1, self.jobs.queue_len() as u64));
        }
        match job.facts.sizing {
            Sizing::TargetUs(target_us) => found.fact("target", FactValue::Lasts(target_us)),
            Sizing::Units(units) => found.count("units_per_task", units),
        }
        if job.is_wide() {
            found.fact("needs", FactValue::Amounts(job.needs().amounts().collect()));
        }
        found.count("units_waiting", job.pending());
        found.count("units_at_nodes", job.units.coverage().count(Class::Out).saturating_sub(unclaimed));
        if unclaimed > 0 {
            found.count("units_unclaimed", unclaimed);
        }
        found.count("tasks_in_gq", self.queues.waiting_of(id));
    }

    /// Sizes on the largest of the nodes that could be given some of it.
    fn job_sizes(&self, job: &Job, now_us: u64) -> Vec<SizeInfo> {
        if job.pending() == 0 {
            return Vec::new();
        }
        let mut nodes: Vec<_> = self.taking().filter(|(id, _)| job.could_run(*id, &self.nodes)).collect();
        nodes.sort_by_key(|(id, node)| (Reverse(node.all_slots()), *id));
        let seats = nodes.iter().flat_map(|&(id, _)| self.able_seats(job, id));
        seats.take(SIZES).map(|seat| self.size(job, seat, now_us)).collect()
    }
}

/// The first units of one kind, and how many more there are.
fn some_of(code: &str, reasons: impl Iterator<Item = UnitReason>, found: &mut Findings) {
    let mut reasons = reasons.map(Reason::Unit);
    reasons.by_ref().take(NAMED).for_each(|reason| found.adds(reason));
    let units = reasons.count() as u64;
    if units > 0 {
        found.adds(Reason::Unit(UnitReason::Others { code: code.to_owned(), units }));
    }
}

/// Units that were leased before the scheduler's start, and that no node has said to hold.
fn unclaimed<'a>(tasks: impl Iterator<Item = &'a Task>) -> u128 {
    tasks.filter(|task| task.node == NOBODY).map(|task| task.left).sum()
}

fn ended(job: &Job, now_us: u64, found: &mut Findings) {
    let count = |class| Units(job.units.coverage().count(class));
    found.decides(Reason::Job(JobReason::Ended {
        state: job.state,
        ago_us: job.totals.ended_us.map(|ended_us| now_us.saturating_sub(ended_us)),
        of: Units(job.facts.units),
        done: count(Class::Done),
        failed: count(Class::Failed),
        abandoned: Units(job.abandoned()),
    }));
    if job.state == JobState::Failed && !job.units.failed.is_empty() {
        found.adds(Reason::Job(JobReason::FailedUnits));
    }
}
