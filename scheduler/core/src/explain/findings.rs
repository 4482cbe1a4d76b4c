//! What is found out about a job or a node, and what both kinds of questions ask.

use starfarm_protocol::admin::explain::{Lack, UnitReason};
use starfarm_protocol::admin::{Explanation, Fact, FactValue, Reason, SizeInfo, Subject};
use starfarm_protocol::devices::{DeviceFacts, DeviceNeeds};
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::units::Units;

use crate::farm::Farm;
use crate::job::Job;
use crate::node::Node;
use crate::refill::{Ideal, whole_units};
use crate::seat::Seat;

/// How many of a kind are named; the rest are counted.
pub(super) const NAMED: usize = 3;
/// Nodes whose sizes are told.
pub(super) const SIZES: usize = 10;

/// What is found out about a job or a node.
#[derive(Default)]
pub(super) struct Findings {
    reasons: Vec<Reason>,
    /// Place of the first reason that decides.
    pub(super) verdict: Option<usize>,
    facts: Vec<Fact>,
}

impl Findings {
    /// A reason. The first one that decides is the verdict.
    pub(super) fn decides(&mut self, reason: Reason) {
        self.verdict.get_or_insert(self.reasons.len());
        self.adds(reason);
    }

    /// A reason that plays a part.
    pub(super) fn adds(&mut self, reason: Reason) {
        self.reasons.push(reason);
    }

    pub(super) fn fact(&mut self, name: &str, value: FactValue) {
        self.facts.push(Fact { name: name.to_owned(), value });
    }

    pub(super) fn count(&mut self, name: &str, count: impl TryInto<u128>) {
        let count = count.try_into().unwrap_or(u128::MAX);
        self.fact(name, FactValue::Count(Units(count)));
    }

    pub(super) fn explanation(self, subject: &Subject, sizes: Vec<SizeInfo>) -> Explanation {
        let verdict =
            self.verdict.expect("a job waits, runs or has ended; a node is kept out, works or idles");
        let Self { reasons, facts, .. } = self;
        Explanation { subject: subject.clone(), reasons, verdict, sizes, facts }
    }
}

impl Farm {
    /// The first job in jq before place `end` that has something for node `id`: its slots go there.
    pub(super) fn goes_first(&self, id: NodeId, end: usize) -> Option<JobId> {
        let has_some =
            |job: &&Job| self.jobs.gives_out(job) && job.pending() > 0 && job.could_run(id, &self.nodes);
        let jobs = self.jobs.queued().take(end);
        jobs.filter(has_some).map(|job| job.facts.job).next()
    }

    /// What a device must be for the job, and all that node `id` has, where none of these is and its cores do not run it.
    pub(super) fn lacks_device(&self, job: &Job, id: NodeId) -> Option<(DeviceNeeds, Vec<DeviceFacts>)> {
        let (on, node) = (job.facts.work.on, self.nodes.at(id));
        let needs = on.devices.filter(|_| !on.cores && !job.fits(id, &self.nodes))?;
        Some((needs, node.all_devices().iter().map(|at| at.told.facts.clone()).collect()))
    }

    /// What node `id` has too little of for a run of the job on its cores, if that is so.
    pub(super) fn lack(&self, job: &Job, id: NodeId) -> Option<Lack> {
        if !job.facts.work.on.cores {
            return None;
        }
        let (has, needs) = (self.nodes.at(id).has(), job.needs());
        let resource = has.lacks(needs)?;
        Some(Lack { resource, needs: needs.of(resource), has: has.of(resource) })
    }

    /// Nodes that can be given tasks.
    pub(super) fn taking(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.taking()
    }

    /// What node `id` was told to run for too long.
    pub(super) fn hung_on(&self, id: NodeId, now_us: u64) -> impl Iterator<Item = (JobId, UnitReason)> {
        let node = self.nodes.at(id);
        let told = node.runs.iter().filter(|(_, run)| run.told);
        told.filter_map(move |(&(job, unit), run)| {
            let usual_us = self.usual(id, job, unit)?.takes_us;
            let facts = &self.jobs.at(job).facts;
            let (copies, program) = (facts.speculative, facts.work.programs);
            let (node, for_us) = (node.name.to_string(), now_us.saturating_sub(run.since_us));
            let unit = Units(unit);
            Some((job, UnitReason::Hangs { job, unit, node, for_us, usual_us, copies, program }))
        })
    }

    /// The seats of node `id` that could run the job.
    pub(super) fn able_seats(&self, job: &Job, id: NodeId) -> impl Iterator<Item = Seat> {
        self.nodes.seats(id).filter(|seat| job.could_run_at(*seat, &self.nodes))
    }

    /// The size of the next task of `job` at `seat`, as it would be decided now.
    pub(super) fn size(&self, job: &Job, seat: Seat, now_us: u64) -> SizeInfo {
        let ideal = self.next_task(job, seat, now_us).unwrap_or_else(|| self.ideal(job, seat));
        let devices = self.nodes.at(seat.node).devices(seat.kind);
        let Ideal { units, rule, units_per_s, measured, target, grown, tail, .. } = ideal;
        SizeInfo {
            job: job.facts.job,
            node: self.name_of(seat.node),
            device: devices.map(|at| at.told.facts.name.clone()),
            units: Units(units.into()),
            rule,
            units_per_s,
            measured,
            start_seconds: job.start_on(seat).us().map(|us| us / 1e6),
            target_seconds: job.task_us(seat).map(|us| us as f64 / 1e6),
            target_units: (target > 0).then(|| Units(target.into())),
            growth_units_max: (grown > 0).then(|| Units(grown.into())),
            tail_units_max: (tail < u64::MAX).then(|| Units(tail.into())),
            units_max: Units(whole_units(job, &ideal).into()),
        }
    }
}
