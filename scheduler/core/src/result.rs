//! What a result does. Its verdict rests on its job, specification and interval alone (R1); the attempt is
//! looked at only to know whose giving back is meant. Whatever a worker sends is answered with a verdict,
//! never with a panic; a verdict that is not about time is final, so the result is acknowledged and the
//! worker stops repeating it. What it says of speed decides how large the next tasks are.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::reason::Flaw;
use starfarm_protocol::trust::Untrue;
use starfarm_protocol::wire::{CommandUnit, FailReason, HitEntry, Outcome, ResultEntry, Results};

use crate::commits::{Unacknowledged, add_range};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::found::{Found, Speed, read_body, speed_of};
use crate::hits::Hit;
use crate::job::{Body, Job, Sizing};
use crate::limits::SICK_FAILURES;
use crate::outcomes::Ran;
use crate::queues::{Class, Position};
use crate::rights::Rights;
use crate::seat::Seat;
use crate::told::Verdict;

impl Farm {
    /// Applies the results of one message. `ages` says how long ago they were over: from which sequence on, and
    /// microseconds.
    pub(crate) fn on_results(
        &mut self,
        id: NodeId,
        results: Results<'_>,
        ages: &[(u64, u64)],
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let boot = self.nodes.at(id).health().boot().expect("before its hello a node has no results");
        let mut waiting = Vec::new();
        for entry in results {
            let Ok(entry) = entry else {
                self.nodes.at_mut(id).totals.malformed += 1;
                break;
            };
            let Some((verdict, given_us)) = self.on_result(id, &entry, now_us, deeds) else {
                // It comes again.
                continue;
            };
            if self.config.watch {
                let age_us =
                    ages.iter().rev().find(|(from, _)| *from <= entry.sequence).map_or(0, |age| age.1);
                self.watch_result(
                    id,
                    &entry,
                    verdict,
                    given_us,
                    now_us.saturating_sub(age_us),
                    now_us,
                    deeds,
                );
            }
            self.telemetry.verdicts.add(verdict);
            add_range(&mut waiting, (entry.sequence, entry.sequence));
        }
        self.commits.flush(deeds);
        // One message, one commit: they all wait for its last record.
        self.commits.wait(waiting.into_iter().map(|range| Unacknowledged { node: id, boot, range }));
        self.acknowledge_durable(now_us);
        self.nodes.mark(id);
    }

    /// Acknowledges results whose records are durable.
    pub(crate) fn acknowledge_durable(&mut self, now_us: u64) {
        while let Some(Unacknowledged { node: id, boot, range }) = self.commits.next_results() {
            // Another incarnation counts its results anew: the number would name the wrong one.
            if let Some(node) = self.nodes.get_mut(id)
                && node.health().boot() == Some(boot)
            {
                node.to_tell.ack(range, now_us);
                self.nodes.mark(id);
            }
        }
    }

    /// What becomes of a result, and when its task was given out, where that is known; none where that is known later.
    fn on_result(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Option<(Verdict, Option<u64>)> {
        match self.jobs.get(entry.job) {
            None => return Some((Verdict::UnknownJob, None)),
            Some(job) if job.facts.spec != entry.spec => return Some((Verdict::OtherSpecification, None)),
            _ => {}
        }
        // As a rule it is one task, or a part of one, that the node has.
        let position = self.queues.position(id, entry.job, entry.at());
        let is_its = position != Position::Elsewhere;
        if !is_its && self.nodes.at_mut(id).allowances.looks.take(1, now_us) == 0 {
            // It has had very much looked at.
            return None;
        }
        let before = self.queues.walked();
        let verdict = self.on_known_job(id, entry, position, now_us, deeds);
        if !is_its {
            self.looks_at(id, self.queues.walked() - before, now_us);
        }
        verdict
    }

    /// As [`Farm::on_result`], where the job is the one that the result names.
    fn on_known_job(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        position: Position,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Option<(Verdict, Option<u64>)> {
        let verdict = match entry.outcome {
            Outcome::Done if self.nodes.is_distrusted(id) => Verdict::Distrusted,
            Outcome::Done => return self.on_done(id, entry, position, now_us, deeds),
            Outcome::Returned => {
                self.take_back(id, entry, now_us);
                Verdict::Returned
            }
            Outcome::Refused => {
                let seat = self.queues.seat_with(id, entry.job, entry.lo);
                self.take_back(id, entry, now_us);
                self.on_refused(
                    seat,
                    (entry.job, String::from_utf8_lossy(entry.body).into_owned()),
                    now_us,
                    deeds,
                );
                Verdict::Refused
            }
        };
        Some((verdict, None))
    }

    /// A result cannot count: its units go to somebody else.
    fn on_flaw(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        flaw: Flaw,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Verdict {
        if flaw != Flaw::NotGiven {
            self.take_back(id, entry, now_us);
        }
        // An earlier scheduler may have given it what is in no record any more.
        let is_of_before = entry.attempt <= Attempt::before_epoch(self.config.epoch);
        if !(is_of_before && self.nodes.is_of_before(id)) {
            self.on_worthless(id, entry.job, flaw, now_us, deeds);
        }
        if flaw == Flaw::NotGiven { Verdict::NeverGiven } else { Verdict::Malformed }
    }

    fn on_done(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        position: Position,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Option<(Verdict, Option<u64>)> {
        let (job_id, at) = (entry.job, entry.at());
        let job = self.jobs.at(job_id);
        // Nearly all results of a search have no hits, and none of its hits is known.
        let tells = !(entry.body.is_empty() && job.hits.is_empty() && job.checks.planted.is_empty());
        let Some(found) = read_body(job.facts.work, entry) else {
            let flaw = Flaw::Body { bytes: entry.body.len() as u16, units: entry.units };
            return Some((self.on_flaw(id, entry, flaw, now_us, deeds), None));
        };
        let rights = match position {
            Position::Whole | Position::AtAnEnd | Position::Amidst => Rights::All,
            Position::Elsewhere => self.rights(id, job_id, at, now_us),
        };
        if matches!(rights, Rights::NotYet) {
            return None;
        }
        if let Some(verdict) = self.worthless(id, entry, &found, (position, tells), now_us, deeds) {
            return Some((verdict, None));
        }
        if let Found::Hits(hits) = &found
            && position != Position::Whole
        {
            self.compare(id, entry, hits, deeds);
        }
        self.forget_refusal(id, entry, &found);
        let passed_before = self.jobs.at(job_id).units.coverage().count(Class::Done) > 0;
        let (mut known, mut roomless, mut again) = (Vec::new(), Vec::new(), 0);
        let (counted, has_passed) = match &found {
            Found::Ran(ran) => self.on_ran(id, entry, ran, &rights, (&mut known, &mut roomless), deeds),
            Found::Together(outcome) => {
                let counted = self.on_together(id, entry, outcome, &rights, now_us, deeds);
                again = counted.again;
                (counted.units, counted.units > 0)
            }
            Found::Hits(hits) => (self.on_searched(id, entry, hits, &rights, now_us, deeds), false),
            Found::Nothing => (self.on_searched(id, entry, &[], &rights, now_us, deeds), false),
        };
        assert!(counted <= at.units(), "no unit of a result counts twice");
        let (owners, given_us, seat) = self.leave_tasks(id, entry.duration_us);
        known.into_iter().for_each(|unit| self.give_found_back(id, job_id, unit, now_us));
        again += self.take_roomless_back(id, (entry, &found), roomless, now_us, deeds);
        let lacks = rights.lacks();
        // What speaks of units that the node was not given says neither how fast nor how well it is.
        if counted > 0 && lacks == 0 {
            self.measured((id, seat), entry, &found, (counted, passed_before), now_us);
            self.on_worthy(id, has_passed, now_us);
        }
        let job = self.jobs.at_mut(job_id);
        if !job.state.ended() {
            // The end's record has told the sum; a late duplicate must not make live and replay differ.
            job.totals.duplicate_units += (at.units() - counted).saturating_sub(lacks.max(again));
        }
        let ran = matches!(found, Found::Ran(_) | Found::Together(_));
        if ran && (counted > 0 || again > 0) {
            self.judge(job_id, now_us, deeds);
        }
        self.drop_copies(job_id, at, &owners);
        if lacks > 0 {
            self.on_flaw(id, entry, Flaw::NotGiven, now_us, deeds);
        }
        self.end_if_over(job_id, now_us, deeds);
        Some((verdict_of(counted, (lacks, again), at.units()), given_us))
    }

    /// What becomes of a result that can be read and cannot count.
    fn worthless(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        found: &Found,
        (position, tells): (Position, bool),
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Option<Verdict> {
        if let Found::Hits(hits) = found
            && tells
            && let Some((unit, why)) = self.untruth(entry.job, entry.at(), hits)
        {
            self.distrust(entry.job, Untrue { unit, node: id, why, against: None }, deeds);
            return Some(Verdict::False);
        }
        let flaw = self.flaw(id, entry, found, position, now_us)?;
        Some(self.on_flaw(id, entry, flaw, now_us, deeds))
    }

    /// Why a result that can be read cannot count.
    fn flaw(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        found: &Found,
        position: Position,
        now_us: u64,
    ) -> Option<Flaw> {
        let (job, at) = (entry.job, entry.at());
        match found {
            Found::Ran(ran) if !self.outputs_are_there(job, at, ran) => Some(Flaw::NoOutput),
            Found::Together(outcome)
                if self.jobs.at(job).units.coverage().has_open_in(at) && !self.has_outputs(outcome) =>
            {
                Some(Flaw::NoOutput)
            }
            // As a rule it is a whole task. There are only as many ends as tasks.
            _ if matches!(position, Position::Whole | Position::AtAnEnd) => None,
            _ => self.one_piece_too_many(id, job, at, now_us),
        }
    }

    /// Units were looked through. How many of them nobody had decided before, and the node may report.
    fn on_searched(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        hits: &[HitEntry],
        rights: &Rights,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> u128 {
        let (job_id, at) = (entry.job, entry.at());
        let job = self.jobs.at(job_id);
        let (is_checked, mut decided) = (job.checks.are_asked_for(), Vec::new());
        let new = self.new_hits(job_id, at, hits, rights);
        let mut counts = |at: Interval| {
            let counted = self.commit_done(job_id, id, at, deeds);
            if is_checked {
                decided.extend(self.queues.decided().iter().map(|piece| piece.at));
            }
            counted
        };
        let counted = match rights {
            Rights::Some(parts, _) => parts.iter().map(|at| counts(*at)).sum(),
            _ => counts(at),
        };
        self.commit_hits(job_id, id, &new, deeds);
        if is_checked {
            self.on_checked(id, job_id, &decided, &new, now_us, deeds);
        }
        self.nodes.at_mut(id).totals.units_done += counted;
        counted
    }

    /// Hits of a result that count and are new. A hit that was shown is one, whoever found it. Of units that were decided
    /// before and are below the floor nobody here knows what was found, and what is early there would have to be
    /// remembered: then only a result that decides a unit brings its hits.
    fn new_hits(&self, job: JobId, at: Interval, hits: &[HitEntry], rights: &Rights) -> Vec<Hit> {
        if hits.is_empty() {
            return Vec::new();
        }
        let Job { hits: known, units, checks, .. } = self.jobs.at(job);
        let said: BTreeSet<Hit> =
            hits.iter().map(|hit| (at.lo + u128::from(hit.offset), hit.target)).collect();
        let counts = |&(unit, target): &Hit| {
            let decides = rights.has(unit) && units.coverage().is_open(unit);
            let may_count =
                !known.are_paged() || decides || (known.tell_of(unit) && units.coverage().is_done(unit));
            may_count && (rights.has(unit) || self.shown(job, (unit, target)) == Some(true))
        };
        let is_new = |hit: &Hit| !known.has(*hit) && !checks.is_planted(hit.1);
        said.into_iter().filter(is_new).filter(counts).collect()
    }

    /// Units of a result left the tasks that had them: who else had them, and when the node at hand was given the first
    /// of its tasks. One that was found at its node had been given out before that, nobody knows when. And which slots of
    /// the node at hand had them.
    fn leave_tasks(&mut self, by: NodeId, duration_us: u64) -> (Vec<NodeId>, Option<u64>, Option<Seat>) {
        let (mut owners, mut given_us, mut seat) = (Vec::new(), None, None);
        while let Some((task_id, task)) = self.queues.next_touched() {
            if task.node != by {
                owners.push(task.node);
                // A part of it may be wanted again: then this one's result is as good as any.
                self.may_report_later(task.node, task.job, task.at);
            } else {
                seat.get_or_insert(task.seat());
                if !task.is_found() {
                    given_us.get_or_insert(task.since_us);
                }
            }
            if task.left > 0 {
                self.queues.spend(task_id, duration_us);
                continue;
            }
            let node = self.nodes.at_mut(by);
            node.totals.tasks_done += 1;
            if task.node != by {
                self.nodes.mark(task.node);
                continue;
            }
            let spent_us = task.spent_us.saturating_add(duration_us);
            node.filling_mut(task.kind).into_iter().for_each(|filling| filling.did_task(spent_us));
            // Its results may have come unit by unit: it is the task that was not too large.
            if let Some(rate) = self.jobs.at_mut(task.job).rates.get_mut(task.seat()) {
                rate.largest = rate.largest.max(u64::try_from(task.at.units()).unwrap_or(u64::MAX));
            }
        }
        (owners, given_us, seat)
    }

    /// Units of a command ran: those that may be tried again go back, the others are decided. How many of them nobody had
    /// decided before, and whether one of these passed; `known` gets those whose failure was counted before, `roomless` those that
    /// the node has no room for.
    fn on_ran(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        ran: &[CommandUnit],
        rights: &Rights,
        (known, roomless): (&mut Vec<u128>, &mut Vec<u128>),
        deeds: &mut Deeds,
    ) -> (u128, bool) {
        assert!(ran.len() as u64 == entry.units, "its body was read as one outcome a unit");
        let (job_id, attempt) = (entry.job, entry.attempt);
        let (mut units, mut tried) = (Vec::new(), Vec::new());
        for (unit, outcome) in (entry.lo..).zip(ran) {
            let (job, has_failed) = (self.jobs.at_mut(job_id), outcome.failed.is_some());
            if has_failed && is_known_failure(job, unit, attempt) {
                known.push(unit);
                continue;
            }
            if !job.units.coverage().is_open(unit) || !rights.has(unit) {
                continue;
            }
            if outcome.failed == Some(FailReason::Room) {
                roomless.push(unit);
                continue;
            }
            let run = Ran { unit, node: id, attempt, result: entry.at() };
            job.blame.tally(&job.units, run, has_failed);
            if has_failed && self.may_try_again(job_id, run) {
                tried.push(unit);
            } else {
                units.push((unit, outcome.clone()));
            }
        }
        self.nodes.at_mut(id).totals.units_done += units.len() as u128;
        let has_passed = units.iter().any(|(_, outcome)| outcome.failed.is_none());
        let counted = (units.len() + tried.len()) as u128;
        if !units.is_empty() {
            self.commit(Record::Ran { job: job_id, attempt, node: id, units }, deeds);
        }
        if !tried.is_empty() {
            self.commit_tried(job_id, &tried, attempt, id, deeds);
            self.work_came();
        }
        (counted, has_passed)
    }

    /// Of the units that these outcomes can still decide, each has its outputs.
    fn outputs_are_there(&self, job: JobId, at: Interval, ran: &[CommandUnit]) -> bool {
        let coverage = self.jobs.at(job).units.coverage();
        (at.lo..).zip(ran).all(|(unit, outcome)| !coverage.is_open(unit) || self.has_outputs(outcome))
    }

    /// A unit that ran and failed has runs left. What a sick node fails spends nothing of the unit's budget, but it has an
    /// end all the same.
    fn may_try_again(&self, job_id: JobId, run: Ran) -> bool {
        let job = self.jobs.at(job_id);
        let Body::Outcomes { retries } = job.facts.work.body else {
            unreachable!("its body was read as outcomes");
        };
        let is_sick =
            |id: NodeId| self.nodes.get(id).is_some_and(|node| node.health().standing.sick_of().is_some());
        let before = || job.units.failures.of(run.unit).filter(|of| *of != (run.attempt, run.node));
        let runs = before().count() + 1;
        let spent = before().filter(|of| !is_sick(of.1)).count() + usize::from(!is_sick(run.node));
        spent <= retries as usize
            && runs <= retries.saturating_add(SICK_FAILURES) as usize
            && !job.state.ended()
    }

    /// What a counted result says about speed. `passed_before` it some unit of the job had.
    fn measured(
        &mut self,
        (id, seat): (NodeId, Option<Seat>),
        entry: &ResultEntry<'_>,
        found: &Found,
        (counted, passed_before): (u128, bool),
        now_us: u64,
    ) {
        // What it has lost since was one or the other: most nodes have cores alone.
        let seat = seat.or_else(|| self.nodes.at(id).all_devices().is_empty().then_some(Seat::cores(id)));
        let job = self.jobs.at_mut(entry.job);
        job.growth.iter_mut().for_each(|growth| growth.measured(entry.at().lo));
        match speed_of(entry, found) {
            Speed::Of(units, duration_us) => {
                if !passed_before && matches!(found, Found::Ran(_)) {
                    // Until now there were failures alone to go by.
                    job.rates.start_anew();
                }
                seat.into_iter().for_each(|seat| job.measured(seat, units, duration_us, now_us));
            }
            Speed::OfFailures if passed_before => {}
            Speed::OfFailures => {
                seat.into_iter().for_each(|seat| job.measured(seat, entry.units, entry.duration_us, now_us));
            }
        }
        let standard = match job.facts.sizing {
            Sizing::Units(units) => units as f64,
            Sizing::TargetUs(target_us) => job.rates.standard() * target_us as f64 / 1e6,
        };
        let node = self.nodes.at_mut(id);
        node.rating.add(counted as f64 / standard.max(1.0), now_us);
        node.given_back.did();
    }
}

/// What became of a result of so many units, of which these counted, the node lacked the right to those, and others are
/// wanted again.
fn verdict_of(counted: u128, (lacks, again): (u128, u128), units: u128) -> Verdict {
    match counted {
        _ if lacks > 0 => Verdict::NeverGiven,
        0 if again > 0 => Verdict::Returned,
        0 => Verdict::Duplicate,
        counted if counted == units => Verdict::Counted,
        _ => Verdict::CountedPartly,
    }
}

/// A failure of `unit` in this very attempt was counted before: the result has come again. The unit may run elsewhere by
/// now, so it must not touch it.
fn is_known_failure(job: &Job, unit: u128, attempt: Attempt) -> bool {
    let mut failures = job.units.failures.of(unit).chain(job.units.roomless.of(unit));
    failures.any(|run| run.0 == attempt) || job.units.reopened.get(unit).is_some_and(|first| attempt < first)
}
