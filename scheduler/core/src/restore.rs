//! A farm that starts again: records become a farm, and a farm becomes the records of a checkpoint. What
//! lay below a job's lease mark and is not decided may be at nodes. It belongs to nobody until the node
//! that holds it says so, which makes it that node's again; what is left when every node of before has
//! spoken, or is lost, goes to gq (R5).

use std::collections::BTreeMap;

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::journal::record::{Ended, NodeMark};
use starfarm_protocol::wire::Cancel;

use crate::coverage::{Class, Classes, Piece};
use crate::deed::Deeds;
use crate::farm::{Config, Farm, Noted};
use crate::job::{FailedUnit, Job, JobState};
use crate::record::Record;
use crate::task::{NOBODY, NodeId, State, Task};

/// Intervals in one record of a checkpoint.
const PIECES_A_RECORD: usize = 4_096;

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
    /// It does not fit those before it.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        self.0.apply(record)
    }

    /// The farm, which goes on after the record of `sequence`.
    pub fn finish(self, sequence: u64, now_us: u64) -> Farm {
        const PENDING: Classes = Classes::of(&[Class::Pending]);
        let Restoring(mut farm) = self;
        farm.next_sequence = sequence + 1;
        farm.durable = sequence;
        let before = Attempt(farm.next_attempt);
        for (&id, job) in &mut farm.jobs {
            let mut pieces = Vec::new();
            let before_all = job.rates.len();
            job.rates.retain(|node, _| farm.nodes.contains_key(node));
            job.forgotten = (before_all - job.rates.len()) as u64;
            if job.state.ended() {
                job.withdrawn = Some((before, Cancel::Forced));
                continue;
            }
            if job.state == JobState::Paused {
                job.withdrawn = Some((before, Cancel::Graceful));
            }
            let cursor = job.coverage.cursor();
            job.coverage.change(0, cursor, PENDING, Class::Out, &mut pieces);
            for Piece { lo, hi, .. } in pieces {
                farm.dq.put(Task::held(NOBODY, id, (lo, hi), now_us));
            }
        }
        farm.unheard_us = farm.config.settings.lost_us.max(farm.noted.lost_us);
        let ids: Vec<NodeId> = farm.nodes.keys().copied().collect();
        for id in ids {
            let Some(node) = farm.nodes.get_mut(&id) else { continue };
            node.heard_us = now_us;
            if node.slots == 0 {
                // Records from before kind 68 say nothing of its joining.
                node.joined_us = now_us;
            }
            node.restored = true;
            node.rating.rebase(farm.config.settings.period_us, now_us);
            node.feedback = None;
            if !node.lost {
                node.suspect = true;
                farm.unsettled.insert(id);
                farm.set_timer(id, now_us);
            }
        }
        farm.restored = true;
        // With all of them lost or gone before, their tasks had come back: nobody can hold anything.
        farm.release_us = if farm.unsettled.is_empty() { now_us } else { now_us + farm.unheard_us };
        farm
    }
}

impl Farm {
    /// A crash may have come between the last unit of a job, or what a job could not bear, and the record of
    /// what follows from it.
    pub(crate) fn end_what_is_over(&mut self, now_us: u64, deeds: &mut Deeds) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.judge(id, now_us, deeds);
            self.end_if_over(id, now_us, deeds);
        }
    }

    /// Node `id` has said all that it holds, or will say nothing any more.
    pub(crate) fn settle(&mut self, id: NodeId) {
        if self.unsettled.remove(&id) && self.unsettled.is_empty() {
            self.release_us = 0;
        }
    }

    /// What nobody said to hold goes to gq, once it is time.
    pub(crate) fn release_leases(&mut self, now_us: u64) {
        if now_us < self.release_us {
            return;
        }
        self.release_us = u64::MAX;
        self.unsettled.clear();
        for task_id in self.dq.of_nobody() {
            let task = self.dq.at(task_id);
            let (lo, hi) = (task.lo, task.hi);
            self.back_to_gq(task_id, lo, hi);
        }
    }

    /// Of what belongs to nobody, [lo, hi) is at node `id`.
    pub(crate) fn claim(&mut self, id: NodeId, job_id: JobId, lo: u128, hi: u128, now_us: u64) {
        const OUT: Classes = Classes::of(&[Class::Out]);
        const PENDING: Classes = Classes::of(&[Class::Pending]);
        if self.release_us == u64::MAX {
            return;
        }
        for task_id in self.dq.overlapping(job_id, lo, hi) {
            let task = self.dq.at(task_id);
            if task.node != NOBODY || task.state == State::Back {
                continue;
            }
            let (lo, hi) = (lo.max(task.lo), hi.min(task.hi));
            let Some(job) = self.jobs.get_mut(&job_id) else { return };
            let mut pieces = Vec::new();
            job.coverage.change(lo, hi, OUT, Class::Pending, &mut pieces);
            if pieces.is_empty() {
                continue;
            }
            self.cut_out(task_id, lo, hi);
            let Some(job) = self.jobs.get_mut(&job_id) else { return };
            job.coverage.change(lo, hi, PENDING, Class::Out, &mut Vec::new());
            for Piece { lo, hi, .. } in pieces {
                self.put_held(id, job_id, (lo, hi), now_us);
            }
        }
    }

    /// A failure of `unit` in an attempt of an earlier scheduler was counted before, or was not: nobody can say. Where it
    /// is out at this node by what a heartbeat listed it is run once more.
    pub(crate) fn give_found_back(&mut self, id: NodeId, job: JobId, unit: u128) {
        for task_id in self.dq.overlapping(job, unit, unit + 1) {
            let task = self.dq.at(task_id);
            if task.node == id && task.is_found() {
                self.back_to_gq(task_id, unit, unit + 1);
            }
        }
    }

    /// A task that node `id` was found to hold enters dq.
    pub(crate) fn put_held(&mut self, id: NodeId, job: JobId, interval: (u128, u128), now_us: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.dq.put_at(Task::held(id, job, interval, now_us), &mut node.tasks);
    }

    /// The nodes of before, by name, and the first index that was never given.
    pub fn known_nodes(&self) -> (Vec<(NodeId, String)>, NodeId) {
        let names = self.nodes.iter().map(|(&id, node)| (id, node.name.to_string())).collect();
        (names, NodeId(self.next_node))
    }

    /// The records that a checkpoint keeps: applied to an empty farm they give this one, as far as it is
    /// durable, and what was measured. The sequence is that of the last record that went before.
    pub fn snapshot(&mut self, deeds: &mut Deeds) -> (u64, Vec<Record>) {
        self.flush_done(deeds);
        let mut records = self.durable_state();
        for (&node, known) in &self.nodes {
            let (started_us, period, periods) = known.rating.parts();
            records.push(Record::Rating { node, started_us, period, periods: periods.to_vec() });
        }
        for (&job, known) in &self.jobs {
            records.push(Record::Totals { job, totals: known.totals });
            let rates = known.rates.iter().map(|(&node, rate)| (node, rate.units_per_s, rate.largest));
            records.push(Record::Rates { job, mean: known.mean_rate, nodes: rates.collect() });
        }
        (self.last_sequence(), records)
    }

    /// What is durable, as the shortest records: two farms that say the same here are the same to a user.
    pub fn durable_state(&self) -> Vec<Record> {
        let mut records = Vec::new();
        if self.noted != Noted::DEFAULT {
            records.push(Record::Periods { lost_us: self.noted.lost_us, period_us: self.noted.period_us });
        }
        for (&node, known) in &self.nodes {
            // A session alone leaves no trace.
            let Some(boot) = known.boot.or(known.left) else { continue };
            records.push(Record::Node { node, name: known.name.to_string(), boot });
            records.push(Record::Joined { node, slots: known.slots, at_us: known.joined_us });
            let mut mark = |mark| records.push(Record::Mark { node, mark });
            match (known.lost, known.boot) {
                (_, None) if known.revoked => mark(NodeMark::Revoked),
                (_, None) => mark(NodeMark::Left),
                (true, _) => mark(NodeMark::Gone),
                (false, _) => {}
            }
            if known.drained {
                mark(NodeMark::Drained);
            }
            if known.distrusted.is_some() {
                mark(NodeMark::Distrusted);
            }
        }
        self.jobs.values().for_each(|job| job.state_records(&mut records));
        records.extend(self.jq.iter().zip(0..).map(|(&job, place)| Record::Moved { job, place }));
        let (job, node) = (JobId(self.next_job - 1), NodeId(self.next_node.wrapping_sub(1)));
        records.push(Record::Given { job, node });
        records
    }
}

impl Job {
    fn state_records(&self, records: &mut Vec<Record>) {
        let job = self.facts.job;
        records.push(Record::Submitted(self.facts.clone()));
        if self.lease.mark > 0 {
            records.push(Record::Leased { job, mark: self.lease.mark });
        }
        self.decided_records(records);
        let node = NOBODY;
        let hits: Vec<_> = self.hits.iter().copied().collect();
        for hits in hits.chunks(PIECES_A_RECORD) {
            records.push(Record::Done { job, node, pieces: Vec::new(), hits: hits.to_vec() });
        }
        let tried = |(unit, (attempt, node))| Record::Tried { job, unit, attempt, node };
        records.extend(self.failures.iter().map(tried));
        let died = |(unit, (node, boot))| Record::Died { job, unit, node, boot };
        records.extend(self.deaths.iter().map(died));
        let conflicts = self.conflicts.iter();
        records.extend(conflicts.map(|&(lo, hi, node)| Record::Conflict { job, lo, hi, node }));
        if self.state.ended() {
            let (done, failed) = (self.coverage.count(Class::Done), self.coverage.count(Class::Failed));
            let (state, totals, abandoned) = (self.state, self.totals, Vec::new());
            records.push(Record::Ended(Ended { job, state, done, failed, abandoned, totals }));
        } else if self.state != JobState::Queued || !self.note.is_empty() {
            records.push(Record::State { job, state: self.state, why: self.note.clone() });
        }
    }

    /// Done and failed units. A pause and its end stand behind what was decided when a person last let the
    /// job go on, so that it is forgiven again.
    fn decided_records(&self, records: &mut Vec<Record>) {
        let (job, node) = (self.facts.job, NOBODY);
        let forgiven = if self.state.ended() { 0 } else { self.forgiven };
        let done: Vec<_> = self.coverage.intervals(Class::Done).collect();
        let pieces =
            |pieces: &[(u128, u128)]| Record::Done { job, node, pieces: pieces.to_vec(), hits: Vec::new() };
        records.extend(done.chunks(PIECES_A_RECORD).map(pieces));
        let (mut before, mut after) = (FailedAlike::default(), FailedAlike::default());
        let mut left = forgiven;
        for (lo, hi, failed) in self.failed.iter() {
            let at = lo + left.min(hi - lo);
            left -= at - lo;
            before.add(lo, at, failed);
            after.add(at, hi, failed);
        }
        before.records(job, records);
        if forgiven > 0 {
            for state in [JobState::Paused, JobState::Queued] {
                records.push(Record::State { job, state, why: String::new() });
            }
        }
        if !self.reopened.is_empty() {
            records.push(Record::Retried { job, units: self.reopened.intervals() });
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
    fn add(&mut self, lo: u128, hi: u128, failed: FailedUnit) {
        if lo < hi {
            let key = (failed.reason as u8, failed.code, failed.node);
            self.0.entry(key).or_insert((failed, Vec::new())).1.push((lo, hi));
        }
    }

    fn records(self, job: JobId, records: &mut Vec<Record>) {
        for (failed, units) in self.0.into_values() {
            let alike = |units: &[(u128, u128)]| Record::FailedAlike { job, units: units.to_vec(), failed };
            records.extend(units.chunks(PIECES_A_RECORD).map(alike));
        }
    }
}
