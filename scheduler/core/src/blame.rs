//! Blame: whose fault a failure is. A unit that fails wherever it runs is at fault itself; a node that fails what others
//! pass is sick and gets a probe now and then instead of work; results that differ from what was counted are a conflict.
//! A job of which too much fails waits for a person. Deaths of workers are in `deaths`.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::reason::{Distrust, Fault, QuarantineReason};
use starfarm_protocol::trust::Untrue;
use starfarm_protocol::wire::{Cancel, HitEntry, ResultEntry};

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::health::Ailment;
use crate::hits::Hit;
use crate::job::{Job, JobState};
use crate::limits::SICK_FAILURES;
use crate::queues::Class;
use crate::trace::Trace;

impl Farm {
    /// Units of a command ran: is a node, or is the job, to blame for those that failed?
    pub(crate) fn judge(&mut self, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let Some(job) = self.jobs.unfinished(job_id) else { return };
        for id in job.blame.suspects() {
            self.judge_node(id, job_id, now_us, deeds);
        }
        // A job whose last unit is decided ends: there is nothing to wait with.
        let job = self.jobs.at(job_id);
        if job.active()
            && !job.is_decided()
            && let Some(why) = job.bears_no_more()
        {
            self.set_state(job_id, JobState::Paused, Some(why), deeds);
            self.revoke(job_id, Cancel::Graceful);
        }
    }

    /// Others do well with job `job` now.
    fn others_pass(&self, job: &Job, id: NodeId) -> bool {
        let others = job.blame.others(id).filter(|(other, _)| self.nodes.is_live(*other));
        let (passed, failed) = others.fold((0, 0), |(p, f), (_, o)| (p + o.passed, f + o.refuted + o.streak));
        passed >= SICK_FAILURES && passed >= 4 * failed
    }

    /// Node `id` failed what others passed, or a row of units. In the latter case it has to show at once what it does
    /// elsewhere: one that is well has met bad inputs, and one that is sick fails there too.
    fn judge_node(&mut self, id: NodeId, job_id: JobId, now_us: u64, deeds: &mut Deeds) {
        let job = self.jobs.at(job_id);
        let known = job.blame.of(id);
        if known.doubted {
            // What it may have goes by how the others do.
            self.nodes.mark(id);
        }
        if known.streak == 0 || !self.others_pass(job, id) {
            return;
        }
        let in_a_row = job.blame.fails_everywhere(id);
        if (in_a_row || job.blame.is_refuted(id)) && self.bears_one_more(id, job) {
            let units = if in_a_row { known.streak } else { known.refuted };
            self.quarantine(id, Fault { job: job_id, units, in_a_row }, now_us, deeds);
        } else if known.streak >= SICK_FAILURES && !known.doubted {
            self.jobs.at_mut(job_id).blame.doubt(id);
            self.revoke_from(id, self.so_far(job_id, Cancel::Graceful));
        }
    }

    /// Of the nodes that could run the job at most half are quarantined for what others passed. Those whose results cannot
    /// count, or are not trusted, are no help anyway.
    fn bears_one_more(&self, id: NodeId, job: &Job) -> bool {
        let able = self.nodes.iter().filter(|(id, node)| {
            let health = node.health();
            health.greeted && (health.live() || health.is_outdone()) && job.could_run(*id, &self.nodes)
        });
        let (sick, all) = able.fold((0, 0), |(sick, all), (other, node)| {
            (sick + usize::from(node.health().is_outdone() || other == id), all + 1)
        });
        2 * sick <= all
    }

    /// Node `id` fails what others pass.
    pub(crate) fn doubts(&self, job: &Job, id: NodeId) -> bool {
        job.blame.of(id).doubted && self.others_pass(job, id)
    }

    /// What was said of nodes in this job is forgotten: a person has repaired something, or lets it go on.
    pub(crate) fn forget_blame(&mut self, job: JobId) {
        let before = self.queues.next_attempt();
        self.jobs.at_mut(job).blame.forget(before);
        let sick = self.nodes.iter().filter(|(_, node)| node.health().standing.sick_of() == Some(job));
        for id in sick.map(|(id, _)| id).collect::<Vec<_>>() {
            self.nodes.alter(id, |health| health.rises());
        }
    }

    /// A node is sick: it gets one task at a time, with growing pauses, until one passes. What it failed for
    /// good was its fault, so others get it; what waits there comes back. What it was given before fails there
    /// as well, and so do probes: of a node that is known to be sick that is no news.
    fn quarantine(&mut self, id: NodeId, fault: Fault, now_us: u64, deeds: &mut Deeds) {
        let revoke = self.so_far(fault.job, Cancel::Graceful);
        let job = self.jobs.at_mut(fault.job);
        job.blame.convict(id, revoke.before);
        let its = job.units.failed.iter().filter(|(_, failed)| failed.node == Some(id));
        let its: Vec<(u128, u128)> = its.map(|(at, _)| (at.lo, at.hi)).collect();
        let mut is_news = false;
        self.nodes.alter(id, |health| is_news = health.sickens(Ailment::Fails(fault), now_us));
        if is_news {
            let node = self.nodes.at(id);
            let why = QuarantineReason::Fails(fault).to_string();
            deeds.event(Event::NodeQuarantined { node: node.name.clone(), why });
        }
        self.revoke_from(id, revoke);
        if !its.is_empty() {
            self.reopen(fault.job, Record::Retried { job: fault.job, units: its }, deeds);
        }
    }

    /// What node `id` says of units that were counted before must be what was counted then.
    pub(crate) fn compare(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        hits: &[HitEntry],
        deeds: &mut Deeds,
    ) {
        let (job_id, at) = (entry.job, entry.at());
        let job = self.jobs.at(job_id);
        if !job.units.coverage().has_in(at, Class::Done) {
            return;
        }
        // Of a unit that is not done (it may be poison) somebody's late hit may be known, and nothing else.
        // What was counted of units below the floor is in the journal alone.
        let is_old = |unit: u128| job.hits.tell_of(unit) && job.units.coverage().is_done(unit);
        let said = hits.iter().map(|hit| (at.lo + u128::from(hit.offset), hit.target));
        let said = said.filter(|&(unit, target)| is_old(unit) && !job.checks.is_planted(target));
        let said: BTreeSet<(u128, u32)> = said.collect();
        let known = job.hits.kept().range((at.lo, 0)..(at.hi, 0)).copied().filter(|&(unit, _)| is_old(unit));
        let known: BTreeSet<(u128, u32)> = known.collect();
        let missed: Vec<Hit> = said.difference(&known).copied().collect();
        let are_shown = missed.iter().all(|&hit| self.shown(job_id, hit) == Some(true));
        // Of a conflict the hits of both sides are recorded: whoever repeats what it said would now differ. Hits that nobody
        // named so far are news all the same.
        let is_told = job.conflicts.iter().any(|(known, _)| known.overlaps(at));
        if said == known || is_told && (missed.is_empty() || !are_shown) {
            return;
        }
        let is_right = are_shown
            && (is_told || known.difference(&said).all(|&hit| self.shown(job_id, hit) == Some(false)));
        self.commit(Record::Conflict { job: job_id, lo: at.lo, hi: at.hi, node: id }, deeds);
        if is_right {
            // Whoever counted these units was not right, and is on record there: one node, or several.
            let of = |hit| Deed::Trace(Trace::Missed { job: job_id, hit, at, second: id });
            deeds.0.extend(missed.into_iter().map(of));
        } else {
            let unit = missed.first().map_or(at.lo, |hit| hit.0);
            let untrue = Untrue { unit, node: id, why: Distrust::Differs, against: None };
            self.distrust(job_id, untrue, deeds);
        }
    }
}
