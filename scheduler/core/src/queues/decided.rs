//! What records change of a job's units, live and when they are replayed: units are decided, fail, are wanted again or
//! abandoned, and leave gq and dq as they do.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::coverage::{Class, Classes, OPEN, Piece};
use super::global::Alone;
use super::task::{NOBODY, Size, Task, TaskId};
use super::units::JobUnits;
use super::{PENDING, Queues};
use crate::seat::Seat;

const UNDECIDED: Classes = Classes::of(&[Class::Pending, Class::Out]);

impl Queues {
    /// What an earlier scheduler may have cut is cut, up to `mark`: it waits, or is abandoned where its job has `ended`.
    pub(crate) fn cut_as_before(&mut self, job: &mut JobUnits, mark: u128, ended: bool) {
        let fresh = Interval::new(job.coverage.cursor(), mark);
        if fresh.is_empty() {
            return;
        }
        if ended {
            return job.coverage.cut(mark, Class::Abandoned);
        }
        job.coverage.cut(mark, Class::Pending);
        self.gq.put_back(job.job, fresh);
    }

    /// `at` is decided, as far as it was not: that leaves gq, or the tasks that hold it. What changed comes back, and is
    /// there until the next decision.
    pub(crate) fn decide(&mut self, job: &mut JobUnits, at: Interval, to: Class) -> &[Piece] {
        assert!(!at.is_empty() && matches!(to, Class::Done | Class::Failed), "units are decided for good");
        let mut pieces = std::mem::take(&mut self.decided);
        pieces.clear();
        job.coverage.change(at, OPEN, to, &mut pieces);
        debug_assert!(pieces.is_sorted_by(|one, next| one.at.hi <= next.at.lo), "pieces are in order");
        self.leave(job.job, &pieces);
        self.decided = pieces;
        &self.decided
    }

    /// What the last decision changed.
    pub(crate) fn decided(&self) -> &[Piece] {
        &self.decided
    }

    /// These units failed and are tried again: they wait alone, and what had them may still have others out.
    pub(crate) fn retry(&mut self, job: &mut JobUnits, units: &[u128]) {
        for one in units.iter().copied().map(Interval::one) {
            let mut pieces = Vec::new();
            self.gq.remove(job.job, one);
            job.coverage.change(one, OPEN, Class::Pending, &mut pieces);
            debug_assert!(job.coverage.has_in(one, Class::Pending), "what is decided is not tried again");
            self.leave(job.job, &pieces);
            // The units beside it may have been decided just now.
            if let Some((id, task)) = self.touched.pop_back() {
                match self.touched.iter_mut().rev().find(|(known, _)| *known == id) {
                    Some((_, known)) => known.left = task.left,
                    None => self.touched.push_back((id, task)),
                }
            }
        }
        for &unit in units {
            for id in self.dq.overlapping(job.job, Interval::one(unit)) {
                self.cut_out(job, id, Interval::one(unit));
            }
            self.gq.put_alone(job.job, unit, Alone::Failed);
        }
    }

    /// What waits of `at` does so in tasks of `size` units.
    pub(crate) fn narrow(&mut self, job: JobId, at: Interval, size: u128) {
        self.gq.narrow(job, at, size);
    }

    /// A worker died of `unit`: where it waits it does so alone from now on, and takes nothing with it.
    pub(crate) fn isolate(&mut self, job: &JobUnits, unit: u128) {
        if job.coverage.has_in(Interval::one(unit), Class::Pending) {
            let gone = self.gq.remove(job.job, Interval::one(unit));
            assert!(gone == 1, "gq has what is pending");
            self.gq.put_alone(job.job, unit, Alone::Deadly);
        }
    }

    /// Units that were in one of the classes `from` wait again. Those that had failed do so alone, each: one that fails
    /// again takes nothing with it.
    pub(crate) fn reopen(&mut self, job: &mut JobUnits, at: Interval, from: Classes) {
        let mut pieces = Vec::new();
        job.coverage.change(at, from, Class::Pending, &mut pieces);
        for piece in pieces {
            // The task that had them may still have others out.
            for id in self.dq.overlapping(job.job, piece.at) {
                self.cut_out(job, id, piece.at);
            }
            if piece.was == Class::Done {
                self.put_back(job, piece.at);
                continue;
            }
            for unit in piece.at.lo..piece.at.hi {
                self.gq.put_alone(job.job, unit, Alone::Failed);
            }
        }
    }

    /// As [`Queues::take`], for what waits apart and node `id` may have.
    ///
    /// # Errors
    /// There is nothing, and when there will be.
    pub(crate) fn take_apart(
        &mut self,
        job: JobId,
        id: NodeId,
        size: Size,
        from_us: impl Fn(u128, NodeId, u64) -> u64,
        now_us: u64,
    ) -> Result<Interval, Option<u64>> {
        let taken = self.gq.take_apart(job, id, size, from_us, now_us)?;
        self.taken.push(taken);
        Ok(taken)
    }

    /// What of `at` waits is to be computed by another node than `first`, as long as there is one that has time. Units of
    /// which workers died stay alone.
    pub(crate) fn set_apart(&mut self, job: &JobUnits, at: Interval, first: NodeId, now_us: u64) {
        for Interval { mut lo, hi } in job.coverage.within(at, PENDING) {
            let alone = job.alone_in(Interval::new(lo, hi)).map(|(unit, _)| unit);
            for end in alone.chain([hi]) {
                if lo < end {
                    self.gq.set_apart(job.job, Interval::new(lo, end), first, now_us);
                }
                lo = end + 1;
            }
        }
    }

    /// Whatever node `first` computed, anybody may compute it again.
    pub(crate) fn end_apart(&mut self, job: JobId, first: NodeId) {
        self.gq.end_apart(job, first);
    }

    /// The job ends: what is not decided is abandoned. Its tasks leave dq as turns have time.
    pub(crate) fn abandon(&mut self, job: &mut JobUnits) {
        let gone = self.gq.clear(job.job);
        assert!(gone == job.coverage.count(Class::Pending), "gq has what is pending");
        job.coverage.change_all(UNDECIDED, Class::Abandoned);
    }

    /// What waits after all records were applied was leased by an earlier scheduler: it is out, at nobody.
    pub(crate) fn lease_out(&mut self, job: &mut JobUnits, now_us: u64) {
        let mut pieces = Vec::new();
        let all = Interval::new(0, job.coverage.cursor());
        let gone = self.gq.clear(job.job);
        assert!(gone == job.coverage.count(Class::Pending), "gq has what is pending");
        job.coverage.change(all, PENDING, Class::Out, &mut pieces);
        for piece in pieces {
            self.enter(Task::found(Seat::cores(NOBODY), job.job, piece.at, now_us));
        }
    }

    /// Units that are counted leave gq, or the tasks in dq that hold them.
    fn leave(&mut self, job: JobId, pieces: &[Piece]) {
        for piece in pieces {
            match piece.was {
                Class::Pending => {
                    let gone = self.gq.remove(job, piece.at);
                    assert!(gone == piece.at.units(), "gq has what is pending");
                }
                Class::Out => {
                    let (id, task) =
                        self.dq.holding_near(self.near, job, piece.at.lo).expect("what is out is in a task");
                    if piece.at.hi <= task.at.hi {
                        self.count(id, piece.at.units());
                        continue;
                    }
                    let mut counted = 0;
                    for id in self.dq.overlapping(job, piece.at) {
                        let units = self.dq.at(id).at.within(piece.at).units();
                        self.count(id, units);
                        counted += units;
                    }
                    assert!(counted == piece.at.units(), "each unit that is out is in a task");
                }
                // Its tasks leave dq as turns have time.
                Class::Abandoned => {}
                Class::Done | Class::Failed => unreachable!("what is decided stays so"),
            }
        }
    }

    fn count(&mut self, id: TaskId, units: u128) {
        let task = match self.dq.count(id, units) {
            0 => Task { left: 0, ..self.drop(id) },
            _ => self.dq.at(id).clone(),
        };
        // What came for it piece by piece came for all that it was.
        match self.touched.back_mut().filter(|(last, _)| *last == id) {
            Some((_, known)) => known.left = task.left,
            None => self.touched.push_back((id, task)),
        }
    }
}
