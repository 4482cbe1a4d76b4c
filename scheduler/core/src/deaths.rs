//! Units that kill their workers. A worker's death is charged to what it was running; after enough deaths on enough
//! nodes a unit is poison, and fails alone. Where many die together no unit is to blame.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::wire::{Cancel, FailReason, Revoke};

use crate::coverage::{Class, Classes};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::global_queue::Alone;
use crate::job::{FailedUnit, Job, WorkFacts};
use crate::limits::{DEATH_UNITS_MAX, MASS_DEATH_US, MASS_DEATHS, MASS_DEATHS_KEPT, POISON_DEATHS};
use crate::record::Record;
use crate::task::{NodeId, Task};

impl Farm {
    /// Units that node `id` was running when it fell silent, or may have begun: what its last heartbeat named, and for
    /// slots of which it named nothing, what it was given last. A unit that kills its machine at once is in no heartbeat.
    pub(crate) fn may_have_run(&self, id: NodeId) -> Vec<(JobId, u128)> {
        let node = self.nodes.get(&id).expect("its timer has fired");
        let mut units = node.running.clone();
        let free = usize::from(node.slots).saturating_sub(units.len());
        if free == 0 {
            return units;
        }
        // A node that lived would have been heard by then, so what came later it never got.
        let until_us = node.heard_us + 2 * self.config.settings.heartbeat_us;
        let is_program = |job: &Job| matches!(job.facts.work, WorkFacts::Command { .. });
        let may_be = |task: &&Task| {
            task.since_us <= until_us
                && self.jobs.get(&task.job).is_some_and(is_program)
                && !node
                    .running
                    .iter()
                    .any(|&(job, unit)| job == task.job && (task.lo..task.hi).contains(&unit))
        };
        let mut tasks: Vec<&Task> =
            node.tasks.iter().filter_map(|&id| self.dq.peek(id)).filter(may_be).collect();
        tasks.sort_unstable_by_key(|task| task.attempt);
        let begun = tasks.iter().take(free).flat_map(|task| (task.lo..task.hi).map(|unit| (task.job, unit)));
        units.extend(begun.take(DEATH_UNITS_MAX));
        units
    }

    /// A worker was last heard at `heard_us` and has died, while it ran these units. Where a large share of the nodes
    /// dies at the same time that is no unit's fault: a power cut, a switch, a full disk.
    pub(crate) fn died(
        &mut self,
        (id, boot, heard_us): (NodeId, Boot, u64),
        units: &[(JobId, u128)],
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        self.unwinding.taken += units.len() as u64;
        let second = heard_us / MASS_DEATH_US;
        if !self.died_at.contains_key(&second) {
            self.died_at.retain(|&at, _| at + MASS_DEATHS_KEPT >= second);
        }
        self.died_at.entry(second).or_default().1.insert((id, boot));
        let near = second.saturating_sub(1)..=second + 1;
        let together: usize = self.died_at.range(near.clone()).map(|(_, (_, dead))| dead.len()).sum();
        let known = self.died_at.range(near.clone()).any(|(_, (mass, _))| *mass);
        if !known && (together < MASS_DEATHS || together <= self.live_nodes as usize) {
            return units.iter().for_each(|&unit| self.charge(unit, (id, boot), now_us, deeds));
        }
        let mut pardoned = BTreeSet::from([(id, boot)]);
        for (_, (mass, dead)) in self.died_at.range_mut(near) {
            // Where it was known before, those that died before are pardoned.
            if !std::mem::replace(mass, true) {
                pardoned.extend(&*dead);
            }
        }
        let charged = |(id, boot): &(NodeId, Boot)| {
            self.nodes.get(id).is_some_and(|node| node.charged.iter().any(|charge| charge.2 == *boot))
        };
        pardoned.retain(charged);
        pardoned.into_iter().for_each(|incarnation| self.pardon_for_good(incarnation, deeds));
    }

    /// A worker tells what the incarnation before it was running when it died: what else was charged was a guess.
    pub(crate) fn pardon_guesses(
        &mut self,
        (id, boot): (NodeId, Boot),
        died_of: &[(JobId, u128)],
        deeds: &mut Deeds,
    ) {
        let charged = &self.nodes.get(&id).expect("it says hello").charged;
        if charged.iter().any(|&(job, unit, of)| of == boot && !died_of.contains(&(job, unit))) {
            self.pardon_for_good((id, boot), deeds);
        }
    }

    /// Nothing that this incarnation was running killed it; so it is on record.
    pub(crate) fn pardon_for_good(&mut self, (node, boot): (NodeId, Boot), deeds: &mut Deeds) {
        self.pardon(node, boot);
        self.record(Record::Pardoned { node, boot }, deeds);
    }

    /// A worker died while it ran `unit`, wherever that is by now. After enough deaths on enough nodes the unit is
    /// poison.
    fn charge(
        &mut self,
        (job_id, unit): (JobId, u128),
        (id, boot): (NodeId, Boot),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        const WANTED: Classes = Classes::of(&[Class::Pending, Class::Out]);
        let Some(job) = self.jobs.get_mut(&job_id).filter(|job| !job.state.ended()) else { return };
        let wanted = [Class::Pending, Class::Out].map(|class| job.coverage.has_in(unit, unit + 1, class));
        if !wanted.contains(&true) {
            return;
        }
        if !job.deaths.insert(unit, (id, boot)) {
            return;
        }
        let deaths = job.deaths.of(unit).count();
        let died: BTreeSet<NodeId> = job.deaths.of(unit).map(|death| death.0).collect();
        // Nodes that are gone for good will never die of it, so they do not count as seen.
        let counted =
            died.iter().filter(|id| self.nodes.get(id).is_some_and(|node| node.counted > 0)).count();
        let nodes = died.len() + self.live_nodes as usize - counted;
        let poison = deaths >= POISON_DEATHS && died.len() >= POISON_DEATHS.min(nodes);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.charged.push((job_id, unit, boot));
        }
        self.record(Record::Died { job: job_id, unit, node: id, boot }, deeds);
        if wanted[0] {
            // Alone in its task it takes nothing with it.
            self.gq.remove(job_id, unit, unit + 1);
            if !poison {
                self.gq.put_alone(job_id, unit, Alone::Deadly);
            }
        }
        if !poison {
            return;
        }
        let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
        if let Some(job) = self.jobs.get_mut(&job_id) {
            job.coverage.change(unit, unit + 1, WANTED, Class::Failed, &mut Vec::new());
            job.failed.insert(unit, unit + 1, failed);
            job.acquit(unit, unit + 1);
        }
        self.take_out(job_id, unit);
        self.tell_failed(job_id, unit, failed, deeds);
        self.record(Record::Failed { job: job_id, unit, failed }, deeds);
        self.judge(job_id, now_us, deeds);
        self.end_if_over(job_id, now_us, deeds);
    }

    /// A unit that is poison leaves the tasks that have it, and their nodes let go of it before they die of it too.
    fn take_out(&mut self, job_id: JobId, unit: u128) {
        let before = Attempt(self.next_attempt);
        let tasks = self.dq.overlapping(job_id, unit, unit + 1);
        for task_id in tasks.into_iter().chain(self.dq.copies(job_id)) {
            let &mut Task { node: id, lo, hi, copy, .. } = self.dq.at(task_id);
            match copy {
                true if !(lo..hi).contains(&unit) => continue,
                true => self.take_from_node(task_id),
                false => self.cut_out(task_id, unit, unit + 1),
            }
            if let Some(node) = self.nodes.get_mut(&id) {
                node.to_tell.withdraws.push(Revoke { job: job_id, cancel: Cancel::Graceful, before });
                self.mark(id);
            }
        }
    }

    /// An incarnation that was thought dead is not: nothing that it was running killed it.
    pub(crate) fn pardon(&mut self, id: NodeId, boot: Boot) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (job, unit, _) in node.charged.extract_if(.., |charge| charge.2 == boot) {
            if let Some(job) = self.jobs.get_mut(&job) {
                job.deaths.retract(unit, (id, boot));
            }
        }
    }

    /// Of what incarnations of node `id` died of only that is kept which still counts: units that are decided
    /// since would heap up.
    pub(crate) fn forget_acquitted(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("it says hello, or its record is at hand");
        let jobs = &self.jobs;
        node.charged.retain(|(job, unit, boot)| {
            jobs.get(job).is_some_and(|job| job.deaths.contains(*unit, (id, *boot)))
        });
    }
}
