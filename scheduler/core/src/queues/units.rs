//! What is known of a job's units, one by one: what became of each, and what happened to some of them. The room of the
//! queues changes the classes; who failed what is noted by whoever decides that.

use starfarm_protocol::ids::{Attempt, Boot, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::FailedUnit;

use super::coverage::Coverage;
use super::global::Alone;
use super::no_room::NoRoom;
use crate::per_unit::PerUnit;
use crate::runs::Runs;

/// The units of a job.
#[derive(Debug)]
pub(crate) struct JobUnits {
    pub(super) job: JobId,
    pub(super) coverage: Coverage,
    /// Units that failed for good, and how.
    pub(crate) failed: Runs<FailedUnit>,
    /// Units that failed and are tried again, and the attempts that they failed in: a result that comes
    /// twice tells of one run.
    pub(crate) failures: PerUnit<(Attempt, NodeId)>,
    /// Units that these nodes have no room for, and the attempts in which they said so: they did not run. Not on record: after
    /// a start they are asked again.
    pub(crate) roomless: NoRoom,
    /// Units that had failed and were wanted again, and the first attempt after that: what fails in an
    /// earlier one was counted before.
    pub(crate) reopened: Runs<Attempt>,
    /// Deaths of workers that ran a unit, by incarnation.
    pub(crate) deaths: PerUnit<(NodeId, Boot)>,
}

impl JobUnits {
    /// `units` units, none of them cut.
    pub(crate) fn new(job: JobId, units: u128) -> Self {
        Self {
            job,
            coverage: Coverage::new(units),
            failed: Runs::default(),
            failures: PerUnit::default(),
            roomless: NoRoom::default(),
            reopened: Runs::default(),
            deaths: PerUnit::default(),
        }
    }

    /// What became of each.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// There are `units` of them from now on, not fewer than before.
    pub(crate) fn grow(&mut self, units: u128) {
        self.coverage.grow(units);
    }

    /// Units ran to their end: nothing is held against them any more.
    pub(crate) fn acquit(&mut self, at: Interval) {
        let untried = self.deaths.is_empty() && self.failures.is_empty() && self.roomless.is_empty();
        if untried && self.reopened.is_empty() {
            return;
        }
        self.deaths.remove(at);
        self.failures.remove(at);
        self.roomless.remove(at);
        self.reopened.remove(at);
    }

    /// The job has ended: what is kept of single units is what they came to.
    pub(crate) fn forget_trials(&mut self) {
        (self.failures, self.roomless) = Default::default();
        (self.reopened, self.deaths) = Default::default();
    }

    /// Node `id` has no room for `unit`, as it says in `attempt`.
    pub(crate) fn lacks_room(&mut self, unit: u128, attempt: Attempt, id: NodeId) {
        self.roomless.say(unit, attempt, id);
    }

    /// Units of `at` that are to take nothing with them, in order.
    pub(super) fn alone_in(&self, at: Interval) -> impl Iterator<Item = (u128, Alone)> + use<> {
        let failed = self.failures.units(at).chain(self.roomless.units(at)).map(|unit| (unit, Alone::Failed));
        let deadly = self.deaths.units(at).map(|unit| (unit, Alone::Deadly));
        let all: std::collections::BTreeMap<u128, Alone> = failed.chain(deadly).collect();
        all.into_iter()
    }
}
