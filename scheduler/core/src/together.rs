//! Units that one run computes together: its outcome counts for all of them, or for none. Where a run fails, or its worker
//! dies, they go out again in smaller tasks, until the unit that is to blame is alone: then all is as with any unit.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::Per;
use starfarm_protocol::journal::Record;
use starfarm_protocol::wire::{CommandUnit, ResultEntry};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Job;
use crate::limits::NARROWED_TO;
use crate::outcomes::Ran;
use crate::queues::NOBODY;
use crate::rights::Rights;

/// What became of units that one run computed.
pub(crate) struct Counted {
    /// So many count.
    pub(crate) units: u128,
    /// So many are wanted again.
    pub(crate) again: u128,
}

impl Farm {
    /// One run computed all units of a result. They count where each of them can still be decided, and else none does.
    pub(crate) fn on_together(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        outcome: &CommandUnit,
        rights: &Rights,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Counted {
        let (job_id, at, attempt) = (entry.job, entry.at(), entry.attempt);
        let coverage = self.jobs.at(job_id).units.coverage();
        let open: u128 = coverage.open_in(at).iter().map(|piece| piece.units()).sum();
        let run = Ran { unit: at.lo, node: id, attempt, result: at };
        if outcome.failed.is_some() {
            let back = self.take_back(id, entry, now_us);
            if !back.is_empty() {
                let job = self.jobs.at_mut(job_id);
                job.blame.tally(&job.units, run, true);
                for at in back {
                    // Smaller tasks are another try: its node may have them as well as others.
                    self.jobs.at_mut(job_id).forget_returned(at);
                    self.narrow(job_id, at);
                }
            }
            return Counted { units: 0, again: open };
        }
        if open < at.units() || !matches!(rights, Rights::All) {
            // Some of them were counted in another cut. The others are computed in one of their own.
            self.take_back(id, entry, now_us);
            return Counted { units: 0, again: open };
        }
        let job = self.jobs.at_mut(job_id);
        job.blame.tally(&job.units, run, false);
        self.nodes.at_mut(id).totals.units_done += open;
        let units = vec![(at.lo, outcome.clone())];
        self.commit(Record::Ran { job: job_id, attempt, node: id, units }, deeds);
        Counted { units: open, again: 0 }
    }

    /// The units that node `id` ran together, of which `unit` is one; none where it ran it alone.
    pub(crate) fn ran_together(&self, job: &Job, id: NodeId, unit: u128) -> Option<Interval> {
        if job.facts.work.per == Per::Unit {
            return None;
        }
        let id_of = job.facts.job;
        let held = self.queues.holding(id_of, unit).map(|task| task.at);
        let taken = self.nodes.at(id).taken.iter().filter(|(of, at)| *of == id_of && at.contains(unit));
        held.or_else(|| taken.map(|(_, at)| *at).next()).filter(|at| at.units() > 1)
    }

    /// A worker died while it ran `at`: one of these units may be what it died of.
    pub(crate) fn narrow_dead(&mut self, job_id: JobId, at: Interval, now_us: u64) {
        for task_id in self.queues.overlapping(job_id, at) {
            let task = self.queues.task(task_id);
            if task.node == NOBODY {
                self.give_back(task_id, task.at, now_us);
            }
        }
        self.narrow(job_id, at);
    }

    /// What waits of `at` goes out in smaller tasks than it did.
    fn narrow(&mut self, job_id: JobId, at: Interval) {
        self.queues.narrow(job_id, at, at.units().div_ceil(NARROWED_TO));
        self.work_came();
    }
}
