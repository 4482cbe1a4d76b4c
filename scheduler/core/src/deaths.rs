//! Units that kill their workers. A worker's death is charged to what it was running; after enough deaths on enough
//! nodes a unit is poison, and fails alone. Where many die together no unit is to blame.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{Boot, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::Per;
use starfarm_protocol::journal::Record;
use starfarm_protocol::wire::{Cancel, FailReason, NOTHING_RAN};

use crate::agenda::Dying;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{FailedUnit, Job};
use crate::limits::{DEATH_UNITS_MAX, POISON_DEATHS};
use crate::queues::{Class, Task};

impl Farm {
    /// Units that node `id` was running when it fell silent, or may have begun: what its last heartbeat named, and for
    /// slots of which it named nothing, what it was given last. A unit that kills its machine at once is in no heartbeat.
    pub(crate) fn may_have_run(&self, id: NodeId) -> Vec<(JobId, u128)> {
        let node = self.nodes.at(id);
        let mut units = node.running.clone();
        let width = |job: JobId| self.jobs.get(job).map_or(1, Job::width);
        let taken: usize = units.iter().map(|(job, _)| width(*job)).sum();
        let mut free = usize::from(node.slots()).saturating_sub(taken);
        if free == 0 {
            return units;
        }
        // A node that lived would have been heard by then, so what came later it never got.
        let until_us = node.heard_us + 2 * self.config.settings.heartbeat_us;
        let is_program = |job: &Job| job.facts.work.programs;
        let may_be = |task: &&Task| {
            task.since_us <= until_us
                && self.jobs.get(task.job).is_some_and(is_program)
                && !node.running.iter().any(|&(job, unit)| task.has(job, unit))
        };
        let mut tasks: Vec<&Task> = self.queues.tasks_at(id).filter(may_be).collect();
        tasks.sort_unstable_by_key(|task| task.attempt);
        let may_be_unit = |task: &&Task| match self.jobs.at(task.job).facts.work.per {
            Per::Unit => task.at.lo..task.at.hi,
            Per::Task => task.at.lo..task.at.lo + 1,
        };
        let begun = tasks.iter().take_while(|task| {
            let fits = free > 0;
            free = free.saturating_sub(width(task.job));
            fits
        });
        let begun = begun.flat_map(|task| may_be_unit(task).map(|unit| (task.job, unit)));
        units.extend(begun.take(DEATH_UNITS_MAX));
        units
    }

    /// What of these units, of which the worker of node `id` says that it died, may have run there. What an earlier
    /// scheduler gave it is not known.
    pub(crate) fn had(&self, id: NodeId, units: &[(JobId, u128)]) -> Vec<(JobId, u128)> {
        let node = self.nodes.at(id);
        let in_tasks =
            |&(job, unit): &(JobId, u128)| self.queues.tasks_at(id).any(|task| task.has(job, unit));
        let taken = |of: &(JobId, u128)| node.taken.iter().any(|(job, at)| *job == of.0 && at.contains(of.1));
        let charged = |of: &(JobId, u128)| node.charged.iter().any(|&(job, unit, _)| (job, unit) == *of);
        let has = |of: &&(JobId, u128)| {
            **of != NOTHING_RAN && (node.restored || in_tasks(of) || taken(of) || charged(of))
        };
        units.iter().filter(has).copied().collect()
    }

    /// An incarnation of node `id`, heard last at `heard_us`, died, while it ran these units. Where a large share of the
    /// nodes dies at the same time that is no unit's fault.
    pub(crate) fn died(
        &mut self,
        (id, boot): (NodeId, Boot),
        heard_us: u64,
        units: &[(JobId, u128)],
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let most = self.nodes.at_mut(id).allowances.charges.take(units.len() as u64, now_us);
        let units = &units[..most as usize];
        self.agenda.taken += most;
        match self.agenda.deaths.add((id, boot), heard_us, self.nodes.live_nodes() as usize) {
            Dying::Alone => {
                units.iter().for_each(|&(job, unit)| self.charge(job, unit, (id, boot), now_us, deeds));
            }
            Dying::Together(incarnations) => {
                let was_charged = |&(id, boot): &(NodeId, Boot)| {
                    self.nodes.get(id).is_some_and(|node| node.charged.iter().any(|charge| charge.2 == boot))
                };
                let pardoned: Vec<_> = incarnations.into_iter().filter(was_charged).collect();
                pardoned.into_iter().for_each(|(id, boot)| self.pardon(id, boot, deeds));
            }
        }
    }

    /// A worker tells what the incarnation before it was running when it died: what else was charged was a guess.
    pub(crate) fn pardon_guesses(
        &mut self,
        id: NodeId,
        boot: Boot,
        died_of: &[(JobId, u128)],
        deeds: &mut Deeds,
    ) {
        let charged = &self.nodes.at(id).charged;
        if charged.iter().any(|&(job, unit, of)| of == boot && !died_of.contains(&(job, unit))) {
            self.pardon(id, boot, deeds);
        }
    }

    /// Nothing that this incarnation was running killed it: these units may go out together again.
    pub(crate) fn pardon(&mut self, node: NodeId, boot: Boot, deeds: &mut Deeds) {
        self.commit(Record::Pardoned { node, boot }, deeds);
        self.work_came();
    }

    /// A worker died while it ran `unit`, wherever that is by now. After enough deaths on enough nodes the unit is
    /// poison.
    fn charge(&mut self, job_id: JobId, unit: u128, of: (NodeId, Boot), now_us: u64, deeds: &mut Deeds) {
        let Some(job) = self.jobs.unfinished(job_id).filter(|job| unit < job.facts.units) else { return };
        if let Some(at) = self.ran_together(job, of.0, unit) {
            return self.narrow_dead(job_id, at, now_us);
        }
        let is = |class| job.units.coverage().has_in(Interval::one(unit), class);
        if !is(Class::Pending) && !is(Class::Out) || job.units.deaths.contains(unit, of) {
            return;
        }
        let mut died: BTreeSet<NodeId> = job.units.deaths.of(unit).map(|death| death.0).collect();
        died.insert(of.0);
        let deaths = job.units.deaths.of(unit).count() + 1;
        // Nodes that are gone for good will never die of it, so they do not count as seen.
        let counted =
            died.iter().filter(|id| self.nodes.get(**id).is_some_and(|node| node.is_counted())).count();
        let nodes = died.len() + self.nodes.live_nodes() as usize - counted;
        self.commit(Record::Died { job: job_id, unit, node: of.0, boot: of.1 }, deeds);
        debug_assert!(self.jobs.at(job_id).units.deaths.contains(unit, of), "its death is charged");
        if deaths < POISON_DEATHS || died.len() < POISON_DEATHS.min(nodes) {
            return;
        }
        // The tasks that have it let go of it before their nodes die of it too.
        let one = Interval::one(unit);
        let tasks =
            self.queues.overlapping(job_id, one).into_iter().chain(self.queues.copies_in(job_id, one));
        let had: Vec<(NodeId, Interval)> =
            tasks.map(|id| self.queues.task(id)).map(|task| (task.node, task.at)).collect();
        // What they did of the other units is on its way.
        had.iter().for_each(|&(node, at)| self.may_report_later(node, job_id, at));
        let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
        self.commit(Record::Failed { job: job_id, unit, failed }, deeds);
        self.queues.expel(&self.jobs.at(job_id).units, one);
        let revoke = self.so_far(job_id, Cancel::Graceful);
        had.into_iter().for_each(|(id, _)| self.revoke_from(id, revoke));
        self.judge(job_id, now_us, deeds);
        self.end_if_over(job_id, now_us, deeds);
    }
}
