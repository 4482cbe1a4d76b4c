//! Trust: whether what a result says is so, and what becomes of a node whose results are untrue or cannot count. One that
//! reported what is not so gets nothing until a person says so, and what it has goes to others; one whose results cannot
//! count gets a task now and then.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::reason::{Distrust, Flaw, QuarantineReason, Worthless};
use starfarm_protocol::trust::Untrue;
use starfarm_protocol::wire::{Cancel, CommandUnit, HitEntry};

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::health::Ailment;
use crate::hits::Hit;
use crate::job::Job;
use crate::limits::{LOOKS, PIECES_A_RECORD, SICK_FAILURES};
use crate::trace::{Trace, Traced};

impl Farm {
    /// Whether a unit is a hit; none where nobody can tell.
    pub(crate) fn shown(&self, job: JobId, (unit, target): (u128, u32)) -> Option<bool> {
        let evidence = self.config.evidence.as_ref()?;
        evidence.is_hit(&self.jobs.at(job).facts.spec, unit, target)
    }

    /// What is untrue of a result that names these hits in `at`, and no others.
    pub(crate) fn untruth(&self, job: JobId, at: Interval, hits: &[HitEntry]) -> Option<(u128, Distrust)> {
        let Job { hits: known, checks, .. } = self.jobs.at(job);
        let said = || hits.iter().map(|hit| (at.lo + u128::from(hit.offset), hit.target));
        // What is known was shown when it came, but for what an older version put on record.
        let is_told = |hit: &Hit| known.has(*hit) || checks.plants(*hit);
        let is_false = |hit: &Hit| !is_told(hit) && self.shown(job, *hit) == Some(false);
        if let Some((unit, _)) = said().find(is_false) {
            return Some((unit, Distrust::FalseHit));
        }
        let missed = |hit: &Hit| !said().any(|said| said == *hit) && self.shown(job, *hit) == Some(true);
        let missed = known.known_in(at).find(missed).map(|hit| hit.0);
        let missed = missed.or_else(|| self.missed_planted(job, at, hits));
        missed.map(|unit| (unit, Distrust::MissedHit))
    }

    /// What node `id` computed first and another was to compute again waits for anybody: none of its results counts.
    pub(crate) fn check_no_more(&mut self, id: NodeId) {
        for job in self.jobs.iter_mut().filter(|job| job.checks.are_out()) {
            let all = Interval::new(0, job.facts.units);
            let its = job.checks.first_by(id, all);
            its.into_iter().for_each(|at| job.checks.came(at));
            self.queues.end_apart(job.facts.job, id);
        }
    }

    /// The first planted answer in `at` that is not among these hits.
    pub(crate) fn missed_planted(&self, job_id: JobId, at: Interval, hits: &[HitEntry]) -> Option<u128> {
        let planted = self.jobs.at(job_id).checks.planted_in(at);
        let is_said =
            |of: (u128, u32)| hits.iter().any(|hit| (at.lo + u128::from(hit.offset), hit.target) == of);
        let mut missed = planted.filter(|of| !is_said(*of) && self.shown(job_id, *of) == Some(true));
        missed.next().map(|of| of.0)
    }

    /// A unit's outputs that are stored apart are there.
    pub(crate) fn has_outputs(&self, unit: &CommandUnit) -> bool {
        let Some(evidence) = &self.config.evidence else { return true };
        unit.outputs.uploaded().all(|(hash, bytes)| evidence.is_stored(&hash, bytes))
    }

    /// The results of a node are not trusted any more: what it has goes to others, and what it reports does not count.
    pub(crate) fn distrust(&mut self, job: JobId, untrue: Untrue, deeds: &mut Deeds) {
        let id = untrue.node;
        if self.nodes.get(id).is_none() {
            return self.distrust_forgotten(job, untrue, deeds);
        }
        if self.nodes.is_distrusted(id) {
            return;
        }
        self.commit(Record::Mark { node: id, mark: untrue.why.into() }, deeds);
        self.commit(Record::Untrue { job, untrue }, deeds);
        self.check_no_more(id);
        let jobs: BTreeSet<JobId> = self.queues.tasks_at(id).map(|task| task.job).collect();
        jobs.into_iter().for_each(|job| self.revoke_from(id, self.so_far(job, Cancel::Forced)));
        self.orphan_all(id);
        self.nodes.at_mut(id).taken.clear();
        self.jobs.iter_mut().for_each(|job| job.late.distrust(id));
        self.reconnect.settle(id);
        assert!(self.queues.ids_at(id).is_empty(), "who is not trusted has nothing");
        self.trace(id, deeds);
    }

    /// The node has gone and is forgotten: it has nothing, but what it computed is not to be relied on.
    fn distrust_forgotten(&mut self, job: JobId, untrue: Untrue, deeds: &mut Deeds) {
        if self.jobs.at(job).checks.untrue.iter().any(|known| known.node == untrue.node) {
            return;
        }
        self.commit(Record::Untrue { job, untrue }, deeds);
        self.check_no_more(untrue.node);
        self.trace(untrue.node, deeds);
    }

    /// The scheduler before may have died before it knew what these computed, or a job goes on that had ended when that was
    /// asked.
    pub(crate) fn trace_distrusted(&mut self, deeds: &mut Deeds) {
        if self.jobs.iter().all(|job| job.state.ended()) {
            return;
        }
        let distrusted = self.nodes.iter().filter(|(_, node)| node.health().is_distrusted());
        let untrue = self.jobs.iter().flat_map(|job| &job.checks.untrue).map(|untrue| untrue.node);
        let forgotten = untrue.filter(|id| self.nodes.get(*id).is_none());
        let all: BTreeSet<NodeId> = distrusted.map(|(id, _)| id).chain(forgotten).collect();
        all.into_iter().for_each(|id| self.trace(id, deeds));
    }

    /// The scheduler before may have died before it knew who had left out a hit that another one found.
    pub(crate) fn trace_conflicts(&self, deeds: &mut Deeds) {
        for job in self.jobs.queued() {
            let is_open = |hit: &&Hit| job.checks.untrue.iter().all(|untrue| untrue.unit != hit.0);
            for &(at, second) in &job.conflicts {
                let hits = job.hits.kept().range((at.lo, 0)..(at.hi, 0)).filter(is_open).take(LOOKS);
                let of = |&hit: &Hit| Deed::Trace(Trace::Missed { job: job.facts.job, hit, at, second });
                deeds.0.extend(hits.map(of));
            }
        }
    }

    /// What a node that is not trusted computed is asked of the records. Until that is known no job ends by it.
    fn trace(&mut self, id: NodeId, deeds: &mut Deeds) {
        if self.nodes.trace(id) {
            deeds.0.push(Deed::Trace(Trace::Node(id)));
        }
    }

    /// What the records say of who computed what.
    pub fn on_traced(&mut self, traced: Traced, now_us: u64, deeds: &mut Deeds) {
        match traced {
            Traced::Missed { job, unit, node, second } => self.on_missed((job, unit), node, second, deeds),
            Traced::Node(node, units) => self.on_its_work(node, &units, now_us, deeds),
        }
    }

    /// Node `id` computed a unit of a job. Where a hit in it came from node `second`, it left that out.
    fn on_missed(&mut self, (job, unit): (JobId, u128), id: NodeId, second: NodeId, deeds: &mut Deeds) {
        let Some(known) = self.jobs.get(job) else { return };
        let mut hits = known.hits.kept().range((unit, 0)..=(unit, u32::MAX));
        if hits.any(|&hit| self.shown(job, hit) == Some(true)) {
            let against = Some(second).filter(|second| *second != id);
            self.distrust(job, Untrue { unit, node: id, why: Distrust::MissedHit, against }, deeds);
        }
    }

    /// What a node that is not trusted computed is computed again, unless a person trusts the node by now. Hits were shown to
    /// be some, and stay. Of a job that has ended it is said that this is doubtful.
    fn on_its_work(&mut self, id: NodeId, units: &[(JobId, Vec<Interval>)], now_us: u64, deeds: &mut Deeds) {
        self.nodes.traced(id);
        let is_trusted = self.nodes.get(id).is_some_and(|node| !node.health().is_distrusted());
        for (job_id, units) in units.iter().filter(|_| !is_trusted) {
            let Some(job) = self.jobs.get(*job_id) else { continue };
            let coverage = job.units.coverage();
            let decided = units.iter().flat_map(|at| coverage.decided_in(*at)).map(|at| (at.lo, at.hi));
            let decided: Vec<(u128, u128)> = decided.collect();
            if job.state.ended() {
                let units = decided.iter().map(|(lo, hi)| hi - lo).sum();
                if units > 0 && job.checks.may_doubt(id) {
                    self.commit(Record::Doubtful { job: *job_id, node: id, units }, deeds);
                }
                continue;
            }
            for units in decided.chunks(PIECES_A_RECORD) {
                self.reopen(*job_id, Record::Rerun { job: *job_id, units: units.to_vec() }, deeds);
            }
        }
        // They waited for this.
        for job in self.jobs.iter().map(|job| job.facts.job).collect::<Vec<_>>() {
            self.end_if_over(job, now_us, deeds);
        }
        self.look_at_all();
    }

    /// A result of a node cannot count. One that sends such results again and again is sick.
    pub(crate) fn on_worthless(
        &mut self,
        id: NodeId,
        job: JobId,
        last: Flaw,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let node = self.nodes.at_mut(id);
        node.totals.worthless += 1;
        node.worthless = node.worthless.saturating_add(1);
        let results = node.worthless;
        if results < SICK_FAILURES || node.health().is_distrusted() {
            return;
        }
        let worthless = Worthless { job, results, last };
        let mut is_news = false;
        self.nodes.alter(id, |health| is_news = health.sickens(Ailment::Worthless(worthless), now_us));
        if is_news {
            let why = QuarantineReason::Worthless(worthless).to_string();
            deeds.event(Event::NodeQuarantined { node: self.nodes.at(id).name.clone(), why });
            self.revoke_from(id, self.so_far(job, Cancel::Graceful));
        }
    }

    /// A result of a node counts, and a unit of a command may have passed: the node may be well.
    pub(crate) fn on_worthy(&mut self, id: NodeId, has_passed: bool, now_us: u64) {
        let node = self.nodes.at_mut(id);
        node.worthless = node.worthless.saturating_sub(1);
        if node.health().may_rise(has_passed, now_us) {
            node.worthless = 0;
            self.nodes.alter(id, |health| health.rises());
        }
    }
}
