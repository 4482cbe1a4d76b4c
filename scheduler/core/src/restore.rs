//! A farm that starts again: records become a farm, and a farm becomes the records of a checkpoint. What
//! lay below a job's lease mark and is not decided may be at nodes. It belongs to nobody until the node
//! that holds it says so, which makes it that node's again; what is left when every node of before has
//! spoken, or is lost, goes to gq (R5).

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{Ended, NodeMark};
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::wire::Cancel;

use crate::checks::Checks;
use crate::commits::Commits;
use crate::deed::Deeds;
use crate::farm::{Config, Farm};
use crate::job::{FailedUnit, Job, JobFacts, JobState};
use crate::limits::{PIECES_A_RECORD, TARGETS_BYTES_A_RECORD};
use crate::queues::{Class, NOBODY};
use crate::reconnect::Periods;

/// A farm that is being put together from records.
#[derive(Debug)]
pub struct Restoring(Farm);

impl Restoring {
    /// Nothing yet.
    pub fn new(config: Config, now_us: u64) -> Self {
        Self(Farm::new(config, now_us))
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// It does not fit those before it, or names what cannot be.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        self.0.vet(record)?;
        self.0.apply(record)
    }

    /// The farm, which goes on after the record of `sequence`.
    pub fn finish(self, sequence: u64, now_us: u64) -> Farm {
        let Restoring(mut farm) = self;
        farm.commits = Commits::after(sequence);
        // Its job never was: the scheduler died between the two.
        (farm.jobs.asked, farm.jobs.linked) = (None, None);
        let before = farm.queues.next_attempt();
        for job in farm.jobs.iter_mut() {
            job.forgotten = job.rates.keep_nodes(|node| farm.nodes.get(node).is_some());
            let mark = job.lease.mark();
            job.lease.settle(mark);
            job.leased_before = mark;
            farm.queues.cut_as_before(&mut job.units, mark, job.state.ended());
            if job.state.ended() {
                job.revoked = Some((before, Cancel::Forced));
                continue;
            }
            if job.state == JobState::Paused {
                job.revoked = Some((before, Cancel::Graceful));
            }
            farm.queues.lease_out(&mut job.units, now_us);
        }
        farm.agenda.links_changed = true;
        farm.nodes.start();
        let period_us = farm.config.settings.period_us;
        for (_, node) in farm.nodes.iter_mut() {
            node.heard_us = now_us;
            if node.slots() == 0 {
                // A crash came between its record and the one of its joining, or kind 68 was not known yet.
                node.joined_us = now_us;
            }
            (node.restored, node.may_claim) = (true, true);
            node.rating.rebase(period_us, now_us);
            node.cores.feedback = None;
        }
        let there = farm.nodes.iter().filter(|(_, node)| !node.health().is_lost());
        let silent: BTreeSet<NodeId> = there.map(|(id, _)| id).collect();
        farm.reconnect.begin(silent.clone(), now_us);
        for id in silent {
            farm.nodes.alter(id, |health| health.is_silent());
            farm.set_timer(id, now_us);
        }
        debug_assert_eq!(farm.check_all(), Ok(()), "records that fit make a farm that holds");
        farm
    }
}

impl Farm {
    /// A crash may have come between the last unit of a job, or what a job could not bear, and the record of
    /// what follows from it.
    pub(crate) fn end_what_is_over(&mut self, now_us: u64, deeds: &mut Deeds) {
        for id in self.jobs.iter().map(|job| job.facts.job).collect::<Vec<_>>() {
            self.judge(id, now_us, deeds);
            self.end_if_over(id, now_us, deeds);
        }
    }

    /// The nodes of before, by name, those that are forgotten first, and the first index that was never given.
    pub fn known_nodes(&self) -> (Vec<(NodeId, String)>, NodeId) {
        let forgotten = self.nodes.forgotten.iter().map(|(id, name, _)| (id, name.to_string()));
        let known = self.nodes.iter().map(|(id, node)| (id, node.name.to_string()));
        (forgotten.chain(known).collect(), NodeId(self.nodes.next()))
    }

    /// The nodes whose keys were revoked, by name, and that were not heard under another key since.
    pub fn revoked_nodes(&self) -> Vec<String> {
        let known = self.nodes.iter().map(|(_, node)| (&node.name, node.health()));
        let forgotten = self.nodes.forgotten.iter().map(|(_, name, health)| (name, health));
        let revoked = known.chain(forgotten).filter(|(_, health)| health.is_revoked());
        revoked.map(|(name, _)| name.to_string()).collect()
    }

    /// The records that a checkpoint keeps: applied to an empty farm they give this one, as far as it is
    /// durable, and what was measured. The sequence is that of the last record that went before.
    pub fn snapshot(&mut self, deeds: &mut Deeds) -> (u64, Vec<Record>) {
        self.commits.flush(deeds);
        let mut records = self.durable_state();
        for (node, known) in self.nodes.iter() {
            let (started_us, period, periods) = known.rating.parts();
            records.push(Record::Rating { node, started_us, period, periods: periods.to_vec() });
        }
        for known in self.jobs.iter() {
            let job = known.facts.job;
            records.push(Record::Totals { job, totals: known.totals });
            records.extend(known.rates.records(job));
        }
        (self.last_sequence(), records)
    }

    /// What is durable, as the shortest records: two farms that say the same here are the same to a user.
    pub fn durable_state(&self) -> Vec<Record> {
        let mut records = Vec::new();
        let Periods { lost_us, period_us } = self.reconnect.noted;
        if self.reconnect.noted != Periods::DEFAULT {
            records.push(Record::Periods { lost_us, period_us });
        }
        for (node, known) in self.nodes.iter() {
            let health = known.health();
            // A session alone leaves no trace.
            let Some(boot) = health.last_boot() else { continue };
            records.push(Record::Node { node, name: known.name.to_string(), boot });
            if known.slots() > 0 {
                records.push(Record::Joined { node, slots: known.slots(), at_us: known.joined_us });
            }
            records.extend(health.marks().map(|mark| Record::Mark { node, mark }));
        }
        self.jobs.iter().for_each(|job| job.state_records(&mut records));
        // Behind the jobs: what is untrue there may have been forgiven since.
        for (node, name, health) in self.nodes.forgotten.iter() {
            let boot = health.last_boot().expect("who never said hello is not remembered");
            records.push(Record::Node { node, name: name.to_string(), boot });
            let marks = health.marks().chain([NodeMark::Forgotten]);
            records.extend(marks.map(|mark| Record::Mark { node, mark }));
        }
        let places = self.jobs.queued().zip(0..);
        records.extend(places.map(|(job, place)| Record::Moved { job: job.facts.job, place }));
        let (job, node) = (self.jobs.last(), NodeId(self.nodes.next().wrapping_sub(1)));
        records.push(Record::Given { job, node });
        records
    }
}

impl Job {
    fn state_records(&self, records: &mut Vec<Record>) {
        let job = self.facts.job;
        if !self.terms.is_empty() {
            records.push(Record::Linked { job, terms: self.terms.clone() });
        }
        let Checks { share, planted, units_checked, untrue, doubtful, .. } = &self.checks;
        if self.checks.are_asked_for() {
            let planted = planted.iter().map(|(&unit, &target)| (unit, target)).collect();
            records.push(Record::Trust { job, check: *share, planted });
        }
        let units = if self.growth.is_some() { 0 } else { self.facts.units };
        records.push(Record::Submitted(JobFacts { units, ..self.facts.clone() }));
        records.extend(self.growth.iter().map(|growth| growth.record(job)));
        if *units_checked > 0 {
            records.push(Record::Checked { job, units: *units_checked });
        }
        records.extend(untrue.iter().map(|&untrue| Record::Untrue { job, untrue }));
        records.extend(doubtful.iter().map(|&(node, units)| Record::Doubtful { job, node, units }));
        if self.lease.mark() > 0 {
            records.push(Record::Leased { job, mark: self.lease.mark() });
        }
        self.decided_records(records);
        let node = NOBODY;
        for hits in self.hits.for_checkpoint().chunks(PIECES_A_RECORD) {
            records.push(Record::Done { job, node, pieces: Vec::new(), hits: hits.to_vec() });
        }
        if let Some(floor) = self.hits.floor() {
            let hits = &self.hits;
            let (targets, again) = (Vec::new(), hits.counted().iter().collect());
            records.push(Record::HitsPaged { job, floor, count: hits.count(), targets, again });
            let parts = hits.targets().into_iter().flat_map(|targets| targets.parts(TARGETS_BYTES_A_RECORD));
            records.extend(parts.map(|(from, bits)| Record::TargetsHit { job, from, bits: bits.into() }));
        }
        let tried = |(unit, (attempt, node))| Record::Tried { job, unit, attempt, node };
        records.extend(self.units.failures.iter().map(tried));
        let died = |(unit, (node, boot))| Record::Died { job, unit, node, boot };
        records.extend(self.units.deaths.iter().map(died));
        let conflicts = self.conflicts.iter();
        records.extend(conflicts.map(|&(at, node)| Record::Conflict { job, lo: at.lo, hi: at.hi, node }));
        if self.state.ended() {
            let coverage = self.units.coverage();
            let (done, failed) = (coverage.count(Class::Done), coverage.count(Class::Failed));
            let (state, totals, abandoned) = (self.state, self.totals, Vec::new());
            records.push(Record::Ended(Ended { job, state, done, failed, abandoned, totals }));
        } else if self.state != self.first_state() || self.paused_for.is_some() {
            records.push(Record::State { job, state: self.state, why: self.paused_for.clone() });
        }
    }

    /// Done and failed units. A pause and its end stand behind what was decided when a person last let the
    /// job go on, so that it is forgiven again.
    fn decided_records(&self, records: &mut Vec<Record>) {
        let (job, node) = (self.facts.job, NOBODY);
        let forgiven = if self.state.ended() { 0 } else { self.forgiven };
        let done = self.units.coverage().intervals(Class::Done);
        let done: Vec<_> = done.map(|at| (at.lo, at.hi)).collect();
        let pieces =
            |pieces: &[(u128, u128)]| Record::Done { job, node, pieces: pieces.to_vec(), hits: Vec::new() };
        records.extend(done.chunks(PIECES_A_RECORD).map(pieces));
        let (mut before, mut after) = (FailedAlike::default(), FailedAlike::default());
        let mut left = forgiven;
        for (at, failed) in self.units.failed.iter() {
            let end = at.lo + left.min(at.units());
            left -= end - at.lo;
            before.add(Interval::new(at.lo, end), failed);
            after.add(Interval::new(end, at.hi), failed);
        }
        assert!(left == 0, "what was forgiven had failed");
        before.records(job, records);
        let stored = if self.state.ended() { 0 } else { self.stored.before() };
        if forgiven > 0 || stored > 0 {
            let limit = self.terms.storage_limit.unwrap_or_default();
            let why = (stored > 0).then_some(HoldReason::Storage { stored, limit });
            records.push(Record::State { job, state: JobState::Paused, why });
            records.push(Record::State { job, state: JobState::Queued, why: None });
        }
        if !self.units.reopened.is_empty() {
            let units = self.units.reopened.intervals().into_iter().map(|at| (at.lo, at.hi)).collect();
            records.push(Record::Retried { job, units });
        }
        after.records(job, records);
    }
}

/// Reason, code and node of a failure.
type Failure = (u8, Option<i32>, Option<NodeId>);

/// Failed units by what is said of them: what nodes failed by turns has a list for each of them.
#[derive(Default)]
struct FailedAlike(BTreeMap<Failure, (FailedUnit, Vec<(u128, u128)>)>);

impl FailedAlike {
    fn add(&mut self, at: Interval, failed: FailedUnit) {
        if !at.is_empty() {
            let key = (failed.reason as u8, failed.code, failed.node);
            self.0.entry(key).or_insert((failed, Vec::new())).1.push((at.lo, at.hi));
        }
    }

    fn records(self, job: JobId, records: &mut Vec<Record>) {
        for (failed, units) in self.0.into_values() {
            let alike = |units: &[(u128, u128)]| Record::FailedAlike { job, units: units.to_vec(), failed };
            records.extend(units.chunks(PIECES_A_RECORD).map(alike));
        }
    }
}
