//! What a result does. Its verdict rests on its job, specification and interval alone (R1); the attempt is
//! looked at only to know whose giving back is meant. Whatever a worker sends is answered with a verdict,
//! never with a panic; a verdict that is not about time is final, so the result is acknowledged and the
//! worker stops repeating it.

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{CommandUnit, HitEntry, Outcome, ResultEntry, Results};

use crate::coverage::{Class, Classes, Piece};
use crate::deed::Deeds;
use crate::farm::{Farm, Unacknowledged};
use crate::global_queue::Alone;
use crate::job::{FailedUnit, Job, Refusal, WorkFacts};
use crate::limits::SICK_FAILURES;
use crate::node::Probe;
use crate::record::Record;
use crate::task::{NOBODY, NodeId, State, Task, TaskId};

/// What became of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verdict {
    /// Every unit of it counts.
    Counted,
    /// Some of its units had been counted before; the others count now (R2).
    CountedPartly,
    /// Every unit of it had been counted before.
    Duplicate,
    /// Units were given back.
    Returned,
    /// The node cannot run the job.
    Refused,
    /// No such job: deleted, or of a scheduler before this one.
    UnknownJob,
    /// The job's number is right, its specification is another.
    OtherSpecification,
    /// The interval was never given to anybody.
    NeverGiven,
    /// The body is not what this kind of work answers with.
    Malformed,
}

/// How often each verdict was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdicts([u64; 9]);

impl Verdicts {
    /// How often `verdict` was given.
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }
}

const OUT: Classes = Classes::of(&[Class::Out]);

/// The body of a result that was computed, by the kind of work.
pub(crate) enum Found {
    Nothing,
    Hits(Vec<HitEntry>),
    Ran(Vec<CommandUnit>),
}

impl Farm {
    /// Applies the results of one message.
    pub(crate) fn on_results(&mut self, id: NodeId, results: Results<'_>, now_us: u64, deeds: &mut Deeds) {
        let Some(boot) = self.nodes.get(&id).and_then(|node| node.boot) else { return };
        let first = self.unacknowledged.len();
        for entry in results {
            let Ok(entry) = entry else {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.totals.malformed += 1;
                }
                break;
            };
            self.watched.given_us = None;
            let verdict = self.on_result(id, &entry, now_us, deeds);
            if self.config.watch {
                self.watch_result(id, &entry, (verdict, self.watched.given_us), now_us, deeds);
            }
            self.verdicts.0[verdict as usize] += 1;
            self.unacknowledged.push_back(Unacknowledged {
                record: 0,
                node: id,
                boot,
                result: entry.sequence,
            });
        }
        self.flush_done(deeds);
        // One message, one commit: they all wait for its last record.
        let record = self.last_sequence();
        self.unacknowledged.range_mut(first..).for_each(|waiting| waiting.record = record);
        self.acknowledge_durable(now_us);
        self.mark(id);
    }

    fn on_result(&mut self, id: NodeId, entry: &ResultEntry<'_>, now_us: u64, deeds: &mut Deeds) -> Verdict {
        let Some(job) = self.jobs.get(&entry.job) else { return Verdict::UnknownJob };
        if job.facts.spec != entry.spec {
            return Verdict::OtherSpecification;
        }
        let (lo, hi) = (entry.lo, entry.lo + u128::from(entry.units));
        if hi > job.coverage.cursor() {
            return Verdict::NeverGiven;
        }
        match entry.outcome {
            Outcome::Done => match self.found(entry) {
                Some(found) => self.on_done(id, entry, found, now_us, deeds),
                None => {
                    // The worker's word is worthless here; its units go to somebody else.
                    self.give_back(id, entry, (lo, hi), now_us);
                    Verdict::Malformed
                }
            },
            Outcome::Returned => {
                self.give_back(id, entry, (lo, hi), now_us);
                Verdict::Returned
            }
            Outcome::Refused => {
                self.give_back(id, entry, (lo, hi), now_us);
                self.on_refused(id, entry, now_us, deeds);
                Verdict::Refused
            }
        }
    }

    /// Reads the body; `None` where it does not fit the job and the interval.
    fn found(&self, entry: &ResultEntry<'_>) -> Option<Found> {
        match self.jobs.get(&entry.job)?.facts.work {
            WorkFacts::Search { targets, .. } => {
                let hits = HitEntry::read_all(entry.body).ok()?;
                let fits = hits.iter().all(|hit| hit.offset < entry.units && hit.target < targets);
                fits.then_some(Found::Hits(hits))
            }
            WorkFacts::Command { .. } => {
                let units = CommandUnit::read_all(entry.body).ok()?;
                (units.len() as u64 == entry.units).then_some(Found::Ran(units))
            }
            WorkFacts::Nothing => entry.body.is_empty().then_some(Found::Nothing),
        }
    }

    fn on_done(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        found: Found,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Verdict {
        let (job_id, lo, hi) = (entry.job, entry.lo, entry.lo + u128::from(entry.units));
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let Some(job) = self.jobs.get_mut(&job_id) else { return Verdict::UnknownJob };
        if job.refused_by.get(&id).is_some_and(|refusal| entry.attempt >= refusal.after) {
            // It can run the job after all.
            job.refused_by.remove(&id);
        }
        let mut from = lo;
        let known = known_failures(job, entry, &found);
        for &unit in &known {
            job.decide(from, unit, Class::Done, &mut pieces);
            from = unit + 1;
        }
        job.decide(from, hi, Class::Done, &mut pieces);
        let counted: u128 = pieces.iter().map(|piece| piece.hi - piece.lo).sum();
        if !job.state.ended() {
            // The end's record has told the sum; a late duplicate must not make live and replay differ.
            job.totals.duplicate_units += hi - lo - counted;
        }
        let owners = self.leave_queues(job_id, &pieces, id, entry.duration_us);
        // Not before dq agrees with the coverage again.
        known.into_iter().for_each(|unit| self.give_found_back(id, job_id, unit));
        if counted > 0 {
            // What failed and is tried again is taken off below.
            self.measured(id, entry, &found, counted, now_us);
        }
        match found {
            Found::Ran(ran) if counted > 0 => {
                self.record_ran(id, entry, &pieces, ran, deeds);
                self.judge(job_id, now_us, deeds);
            }
            Found::Hits(hits) => {
                if counted < hi - lo {
                    self.compare((id, job_id), (lo, hi), &hits, &pieces, deeds);
                }
                let new = self.on_hits(job_id, lo, &hits, deeds);
                self.record_done(id, job_id, &pieces, new, deeds);
            }
            Found::Nothing | Found::Ran(_) => self.record_done(id, job_id, &pieces, Vec::new(), deeds),
        }
        self.pieces = pieces;
        self.drop_copies(job_id, lo, hi, &owners);
        self.end_if_over(job_id, now_us, deeds);
        match counted {
            0 => Verdict::Duplicate,
            counted if counted == hi - lo => Verdict::Counted,
            _ => Verdict::CountedPartly,
        }
    }

    /// Units that are counted leave gq, or the tasks in dq that hold them. Other nodes that had all of such a
    /// task come back.
    fn leave_queues(&mut self, job: JobId, pieces: &[Piece], by: NodeId, duration_us: u64) -> Vec<NodeId> {
        let mut owners = Vec::new();
        for piece in pieces {
            match piece.was {
                Class::Pending => self.gq.remove(job, piece.lo, piece.hi),
                Class::Out => {
                    let Some((task_id, task)) = self.dq.holding(job, piece.lo) else { continue };
                    let end = task.hi;
                    if task.node != by {
                        owners.push(task.node);
                    } else if !task.is_found() {
                        // One that was found at its node had been given out before that, nobody knows when.
                        self.watched.given_us.get_or_insert(task.since_us);
                    }
                    if piece.hi <= end {
                        self.shrink_task(task_id, piece.hi - piece.lo, by, duration_us);
                        continue;
                    }
                    for task_id in self.dq.overlapping(job, piece.lo, piece.hi) {
                        let task = self.dq.at(task_id);
                        let units = task.hi.min(piece.hi) - task.lo.max(piece.lo);
                        if task.node != by {
                            owners.push(task.node);
                        }
                        self.shrink_task(task_id, units, by, duration_us);
                    }
                }
                _ => {}
            }
        }
        owners
    }

    fn shrink_task(&mut self, task_id: TaskId, units: u128, by: NodeId, duration_us: u64) {
        let left = self.dq.count(task_id, units);
        let task = self.dq.at(task_id);
        // What a worker says is no sum of ours that may overflow.
        task.spent_us = task.spent_us.saturating_add(duration_us);
        if left > 0 {
            return;
        }
        let (owner, spent_us) = (task.node, task.spent_us);
        if let Some(node) = self.nodes.get_mut(&by) {
            node.totals.tasks_done += 1;
        }
        let (job_id, units) = (task.job, u64::try_from(task.hi - task.lo).unwrap_or(u64::MAX));
        self.take_from_node(task_id);
        // Its results may have come unit by unit: it is the task that was not too large.
        if owner == by
            && let Some(rate) = self.jobs.get_mut(&job_id).and_then(|job| job.rates.get_mut(&by))
        {
            rate.largest = rate.largest.max(units);
        }
        if owner == by
            && let Some(node) = self.nodes.get_mut(&owner)
        {
            let weight = if node.task_us == 0.0 { 1.0 } else { 0.125 };
            node.task_us += (spent_us.max(1) as f64 - node.task_us) * weight;
        } else {
            self.mark(owner);
        }
    }

    /// A hit is recorded from whatever attempt, however late (R9).
    fn on_hits(&mut self, job_id: JobId, lo: u128, hits: &[HitEntry], deeds: &mut Deeds) -> Vec<(u128, u32)> {
        let Some(job) = self.jobs.get_mut(&job_id) else { return Vec::new() };
        let mut new = Vec::new();
        for hit in hits {
            let (unit, target) = (lo + u128::from(hit.offset), hit.target);
            if job.add_hit(unit, target) {
                new.push((unit, target));
                deeds.event(Event::Hit { job: job_id, unit, target });
            }
        }
        new
    }

    fn record_done(
        &mut self,
        node: NodeId,
        job_id: JobId,
        pieces: &[Piece],
        hits: Vec<(u128, u32)>,
        deeds: &mut Deeds,
    ) {
        let came_back = |job: &&mut Job| !(job.deaths.is_empty() && job.returned.is_empty());
        if let Some(job) = self.jobs.get_mut(&job_id).filter(came_back) {
            pieces.iter().for_each(|piece| job.acquit(piece.lo, piece.hi));
        }
        if !pieces.is_empty() || !hits.is_empty() {
            self.gather_done((job_id, node), pieces, hits, deeds);
        }
    }

    /// Units of a command ran: those that may be tried again go back, the others are decided.
    fn record_ran(
        &mut self,
        node: NodeId,
        entry: &ResultEntry<'_>,
        pieces: &[Piece],
        ran: Vec<CommandUnit>,
        deeds: &mut Deeds,
    ) {
        let (job_id, attempt) = (entry.job, entry.attempt);
        let mut units = Vec::new();
        let mut passed = false;
        for (unit, outcome) in (entry.lo..).zip(ran) {
            if !pieces.iter().any(|piece| (piece.lo..piece.hi).contains(&unit)) {
                continue;
            }
            let Some(job) = self.jobs.get_mut(&job_id) else { return };
            let hi = entry.lo + u128::from(entry.units);
            job.tally((node, attempt), unit, (entry.lo, hi), outcome.failed.is_some());
            passed |= outcome.failed.is_none();
            match outcome.failed {
                Some(reason) => {
                    let failed = FailedUnit { reason, code: Some(outcome.code), node: Some(node) };
                    if self.try_again(job_id, unit, (attempt, node), failed, deeds) {
                        if let Some(node) = self.nodes.get_mut(&node) {
                            node.totals.units_done -= 1;
                        }
                        continue;
                    }
                }
                None => job.acquit(unit, unit + 1),
            }
            units.push((unit, outcome));
        }
        if passed && let Some(of) = self.nodes.get_mut(&node) {
            of.rise();
            self.count_live(node);
        }
        if !units.is_empty() {
            self.record(Record::Ran { job: job_id, attempt, node, units }, deeds);
        }
    }

    /// A unit ran and failed: it goes back to gq if it may be tried again, else it has failed for good.
    fn try_again(
        &mut self,
        job_id: JobId,
        unit: u128,
        (attempt, node): (Attempt, NodeId),
        failed: FailedUnit,
        deeds: &mut Deeds,
    ) -> bool {
        const DONE: Classes = Classes::of(&[Class::Done]);
        let Some(job) = self.jobs.get_mut(&job_id) else { return false };
        let WorkFacts::Command { retries } = job.facts.work else { return false };
        job.failures.insert(unit, (attempt, node));
        // What a sick node fails spends nothing of the unit's budget, but it has an end all the same.
        let sick = |id: &NodeId| self.nodes.get(id).is_some_and(|node| node.sick.is_some());
        let runs = job.failures.of(unit).count();
        let spent = job.failures.of(unit).filter(|(_, id)| !sick(id)).count();
        let again = spent <= retries as usize
            && runs <= retries.saturating_add(SICK_FAILURES) as usize
            && !job.state.ended();
        let class = if again { Class::Pending } else { Class::Failed };
        let mut pieces = Vec::new();
        job.coverage.change(unit, unit + 1, DONE, class, &mut pieces);
        job.deaths.remove(unit, unit + 1);
        if again {
            // The task that had it may still have others out.
            for task_id in self.dq.overlapping(job_id, unit, unit + 1) {
                self.cut_out(task_id, unit, unit + 1);
            }
            self.gq.put_alone(job_id, unit, Alone::Failed);
            self.record(Record::Tried { job: job_id, unit, attempt, node }, deeds);
            self.mark_hungry();
        } else {
            job.acquit(unit, unit + 1);
            job.failed.insert(unit, unit + 1, failed);
            self.tell_failed(job_id, unit, failed, deeds);
        }
        again
    }

    /// What of [lo, hi) is out at this node goes back to gq, but for what was given to it after the attempt
    /// that it gives back: then this result is an old one that comes again.
    fn give_back(&mut self, id: NodeId, entry: &ResultEntry<'_>, (lo, hi): (u128, u128), now_us: u64) {
        for task_id in self.dq.overlapping(entry.job, lo, hi) {
            let task = self.dq.at(task_id);
            if task.node == id && task.attempt <= entry.attempt {
                let (lo, hi) = (lo.max(task.lo), hi.min(task.hi));
                self.back_to_gq(task_id, lo, hi);
                if let Some(job) = self.jobs.get_mut(&entry.job)
                    && job.withdrawn.is_none_or(|(before, _)| before <= entry.attempt)
                {
                    job.returned_by(id, (lo, hi), now_us);
                }
            }
        }
        self.forget_copies(id, entry.job, (lo, hi), entry.attempt);
    }

    /// The units of [lo, hi) that a task in dq still has out go back to gq; it leaves dq with its last one.
    pub(crate) fn back_to_gq(&mut self, task_id: TaskId, lo: u128, hi: u128) {
        if self.dq.at(task_id).copy {
            return self.take_from_node(task_id);
        }
        let job_id = self.dq.at(task_id).job;
        let Some(job) = self.jobs.get_mut(&job_id).filter(|job| !job.state.ended()) else {
            // Nothing of it is wanted any more, and a deleted job left it behind.
            return self.take_from_node(task_id);
        };
        let mut pieces = Vec::new();
        job.coverage.change(lo, hi, OUT, Class::Pending, &mut pieces);
        if !pieces.is_empty() {
            job.totals.resent += pieces.len() as u64;
            self.totals.resent += pieces.len() as u64;
            self.cut_out(task_id, lo, hi);
            pieces.iter().for_each(|piece| self.put_back(job_id, piece.lo, piece.hi));
            self.mark_hungry();
        }
    }

    /// [lo, hi) of a task in dq may be given out again: the task keeps what lies before, and a second one
    /// what lies behind, so that the tasks of a job never overlap. With nothing left it leaves dq.
    pub(crate) fn cut_out(&mut self, task_id: TaskId, lo: u128, hi: u128) {
        let task = self.dq.at(task_id).clone();
        let (head, tail) = ((task.lo, lo.max(task.lo)), (hi.min(task.hi), task.hi));
        let Some(job) = self.jobs.get(&task.job) else { return };
        let left = |(lo, hi)| job.coverage.count_in(lo, hi, Class::Out);
        match (left(head), left(tail)) {
            (0, 0) => self.take_from_node(task_id),
            (0, left) => self.dq.narrow(task_id, tail, left),
            (left, 0) => self.dq.narrow(task_id, head, left),
            (before, left) => {
                self.dq.narrow(task_id, head, before);
                self.put_behind(Task { lo: tail.0, hi: tail.1, left, ..task });
            }
        }
    }

    /// The second half of a task that was cut in two enters dq, and the node queue if the first is there.
    fn put_behind(&mut self, mut task: Task) {
        let goes_back = task.state == State::Back;
        if task.state == State::Assigned {
            task.attempt = self.new_attempt();
        } else {
            // Its offer is under way or was heard, and named both halves. Where it is lost, no heartbeat
            // lists this half, and it expires.
            task.state = State::Held { seen_us: task.since_us };
        }
        if task.node == NOBODY {
            if goes_back {
                task.state = State::Back;
                let task_id = self.dq.put(task);
                self.unwinding.push_back(task_id);
            } else {
                self.dq.put(task);
            }
            return;
        }
        let Some(node) = self.nodes.get_mut(&task.node) else { return };
        let (assigned, attempt) = (task.state == State::Assigned, task.attempt);
        let task_id = self.dq.put_at(task, &mut node.tasks);
        if assigned {
            node.queue.push_back((task_id, attempt));
        }
    }

    /// The node lacks something that the job needs. The first word begins the pause until it is asked again; those
    /// that follow are of tasks that it had already, or the answer to that.
    fn on_refused(&mut self, id: NodeId, entry: &ResultEntry<'_>, now_us: u64, deeds: &mut Deeds) {
        let (Some(job), Some(node)) = (self.jobs.get_mut(&entry.job), self.nodes.get(&id)) else { return };
        let (why, after) = (String::from_utf8_lossy(entry.body).into_owned(), Attempt(self.next_attempt));
        if let Some(refusal) = job.refused_by.get_mut(&id) {
            (refusal.why, refusal.after) = (why, after);
            return;
        }
        job.refused_by.insert(id, Refusal { why: why.clone(), probe: Probe::first(now_us), after });
        deeds.event(Event::NodeRefused { node: node.name.clone(), job: entry.job, why });
    }
}

/// Units of a command's result whose failure in this very attempt was counted before, in order: the result
/// has come again. They may run elsewhere by now, so it must not touch them.
fn known_failures(job: &Job, entry: &ResultEntry<'_>, found: &Found) -> Vec<u128> {
    let Found::Ran(ran) = found else { return Vec::new() };
    let counted = |unit: u128| job.failures.of(unit).any(|run| run.0 == entry.attempt);
    let before = |unit: u128| job.reopened.get(unit).is_some_and(|first| entry.attempt < first);
    let failed = (entry.lo..).zip(ran).filter(|(_, outcome)| outcome.failed.is_some());
    failed.map(|(unit, _)| unit).filter(|&unit| counted(unit) || before(unit)).collect()
}
