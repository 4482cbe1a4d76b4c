//! What a node may report: units that it was given, in this epoch or, as far as the lease mark allows and the first whole
//! heartbeat of its incarnation says, in an earlier one. Whatever else it reports does not count, and decides nothing for
//! others.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::Held;

use crate::farm::Farm;
use crate::queues::{NOBODY, TaskId};
use crate::runs::Runs;

/// What of a result's interval its node may report.
#[derive(Debug)]
pub(crate) enum Rights {
    /// All that is not decided yet.
    All,
    /// These units, and so many that are not decided it may not.
    Some(Vec<Interval>, u128),
}

impl Rights {
    /// The node may report `unit` of the interval.
    pub(crate) fn has(&self, unit: u128) -> bool {
        match self {
            Self::All => true,
            Self::Some(parts, _) => parts.iter().any(|at| at.contains(unit)),
        }
    }

    /// So many units that are not decided it may not.
    pub(crate) fn lacks(&self) -> u128 {
        match self {
            Self::Some(_, units) => *units,
            Self::All => 0,
        }
    }
}

impl Farm {
    /// What of `at` node `id` may report.
    pub(crate) fn rights(&self, id: NodeId, job_id: JobId, at: Interval) -> Rights {
        // As a rule it is one task, or a part of one, that the node has.
        if self.queues.is_at(id, job_id, at) {
            return Rights::All;
        }
        let (job, node) = (self.jobs.at(job_id), self.nodes.at(id));
        let its = |task_id: &TaskId| self.queues.task(*task_id).node == id;
        let tasks = self.queues.overlapping(job_id, at).into_iter().chain(self.queues.copies_in(job_id, at));
        let had = tasks.filter(its).map(|task_id| self.queues.task(task_id).at.within(at));
        let mut may = Runs::default();
        had.chain(job.late.within(id, at)).for_each(|at| may.insert(at, ()));
        if node.may_claim {
            may.insert(at.within(Interval::new(0, job.leased_before)), ());
        }
        let mut lacks = Runs::default();
        job.units.coverage().open_in(at).into_iter().for_each(|open| lacks.insert(open, ()));
        may.intervals().into_iter().for_each(|at| lacks.remove(at));
        match lacks.units() {
            0 => Rights::All,
            units => Rights::Some(may.intervals(), units),
        }
    }

    /// A node loses what it has of `at`: it may still report it.
    pub(crate) fn may_report_later(&mut self, id: NodeId, job: JobId, at: Interval) {
        if let Some(job) = self.jobs.get_mut(job).filter(|_| id != NOBODY) {
            job.late.add(id, at, job.units.coverage());
        }
    }

    /// The first heartbeat of an incarnation lists what it holds: of what an earlier scheduler gave out it may report that.
    pub(crate) fn claim_report(&mut self, id: NodeId, held: &Held) {
        let Some(job) = self.jobs.get_mut(held.job).filter(|_| self.nodes.at(id).may_claim) else { return };
        let at = held.at().within(Interval::new(0, job.leased_before));
        if !at.is_empty() {
            job.late.add(id, at, job.units.coverage());
        }
    }
}
