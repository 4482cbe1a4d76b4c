//! Leases: how far a job's units may be given out. The mark is durable before it is used, so that a scheduler which
//! starts again knows what may be at nodes (R5). It runs ahead of the cutting, so that tasks seldom wait for the disk.

use crate::limits::{LEASE_TASKS_MAX, LEASE_TASKS_MIN};
use crate::queues::{Class, Coverage};

/// How far a job's units may be given out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    /// The mark of the last record.
    mark: u128,
    /// The mark that is durable.
    durable: u128,
    /// Units that the next mark lies ahead.
    ahead: u128,
    /// Tasks had to wait for the lease that is on its way.
    waited: bool,
}

impl Lease {
    /// The mark of the last record.
    pub(crate) fn mark(&self) -> u128 {
        self.mark
    }

    /// Units below this may be given out.
    pub(crate) fn durable(&self) -> u128 {
        self.durable
    }

    /// A record says that units below `mark` may be at nodes from now on.
    pub(crate) fn raise(&mut self, mark: u128) {
        self.mark = self.mark.max(mark);
        assert!(self.durable <= self.mark, "the mark is never behind what is durable");
    }

    /// The record of `mark` is durable.
    pub(crate) fn settle(&mut self, mark: u128) {
        assert!(mark <= self.mark, "only what is on record becomes durable");
        self.durable = self.durable.max(mark);
    }

    /// All that the job has to give lies beyond a lease that is on its way to the disk.
    pub(crate) fn holds_up(&self, coverage: &Coverage) -> bool {
        coverage.count(Class::Pending) == 0 && coverage.fresh() > 0 && self.mark > self.durable
    }

    /// Somebody asks for what there is to give; true where that is nothing before the lease on its way is durable.
    pub(crate) fn note_wait(&mut self, coverage: &Coverage) -> bool {
        let holds_up = self.holds_up(coverage);
        self.waited |= holds_up;
        holds_up && self.durable <= coverage.cursor()
    }

    /// The next mark, where tasks of `size` units are cut up to `wanted` and the last one is near.
    pub(crate) fn next(&mut self, wanted: u128, size: u64, units: u128) -> Option<u128> {
        assert!(wanted <= units.max(size.into()) && self.mark <= units, "leases end with the job");
        assert!(self.durable <= self.mark, "the mark is never behind what is durable");
        let tasks = |tasks: u128| u128::from(size).saturating_mul(tasks);
        self.ahead = self.ahead.max(tasks(LEASE_TASKS_MIN));
        self.waited |= wanted > self.durable;
        let near = wanted.saturating_add(self.ahead / 2);
        if self.mark >= units || near <= self.mark {
            return None;
        }
        // Tasks waited for the disk: this lease is longer. Once for each lease, however often nodes asked.
        if std::mem::take(&mut self.waited) {
            self.ahead = self.ahead.saturating_mul(2).min(tasks(LEASE_TASKS_MAX).max(self.ahead));
        }
        let mark = near.saturating_add(self.ahead).min(units);
        assert!(self.mark < mark, "a mark never goes back");
        Some(mark)
    }
}
