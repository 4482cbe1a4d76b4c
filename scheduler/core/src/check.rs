//! Doubt: what must hold at all times (R6 and state <=> place). The quick check is cheap enough for every
//! second; the full one walks everything. A violation is a bug of ours, so the caller stops the farm loudly.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_events::{Event, Name};
use starfarm_protocol::ids::JobId;

use crate::coverage::Class;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::{PROBE_MAX_US, STANDSTILL_PERIODS, STANDSTILL_US};
use crate::node::Node;
use crate::task::{NOBODY, NodeId, State, TaskId};

impl Farm {
    /// done + failed + out + pending + abandoned = N for every unfinished job; gq holds what is pending, dq what is
    /// out, and each task in dq is at a node that is there. O(jobs in jq + nodes).
    pub fn check_counters(&self) -> Result<(), String> {
        for id in &self.jq {
            let job = self.jobs.get(id).ok_or_else(|| format!("job {} is in jq only", id.0))?;
            let coverage = &job.coverage;
            let classes = [Class::Pending, Class::Out, Class::Done, Class::Failed, Class::Abandoned];
            let counted: u128 = classes.map(|class| coverage.count(class)).iter().sum();
            if counted + coverage.fresh() != coverage.units() {
                return Err(format!("job {}: {counted} counted, {} fresh", id.0, coverage.fresh()));
            }
            if coverage.count(Class::Pending) != self.gq.units(*id) {
                return Err(format!(
                    "job {}: {} units pending, {} in gq",
                    id.0,
                    coverage.count(Class::Pending),
                    self.gq.units(*id)
                ));
            }
            let (out, left) = (coverage.count(Class::Out), self.dq.units_out(*id));
            if out != left {
                return Err(format!("job {}: {out} units out, {left} in dq", id.0));
            }
        }
        let over = |id: &JobId| self.jobs.get(id).is_none_or(|job| job.state.ended());
        if let Some(job) = self.dq.jobs().find(|id| over(id) && !self.unwinding.has(*id)) {
            return Err(format!("job {} has ended but has tasks in dq", job.0));
        }
        self.check_places()
    }

    /// Tasks in dq are as many as nodes have and nobody has; a node that is gone has none.
    fn check_places(&self) -> Result<(), String> {
        let mut at_nodes = 0;
        for node in self.nodes.values() {
            at_nodes += node.tasks.len();
            if node.lost && !node.tasks.is_empty() {
                return Err(format!("node {} is lost but has {} tasks", node.name, node.tasks.len()));
            }
        }
        let (all, of_nobody) = (self.dq.len(), self.dq.count_of_nobody());
        if all != at_nodes + of_nobody {
            return Err(format!("{all} tasks in dq, {at_nodes} at nodes, {of_nobody} at nobody"));
        }
        Ok(())
    }

    /// Nothing stands still: units that wait, and a node that could run them and has an idle slot, for a minute.
    /// That proves no wrong count, so it is told and the farm goes on. To be asked once a second; O(nodes + jobs).
    pub fn check_standstill(&mut self, now_us: u64, deeds: &mut Deeds) {
        let still_us = STANDSTILL_US.max(STANDSTILL_PERIODS * self.config.settings.period_us);
        let idles = |(id, node): &(&NodeId, &Node)| {
            node.live()
                && node.greeted
                && !self.unsettled.contains(id)
                && node.tasks_held() < usize::from(node.slots)
                && now_us >= node.given_us.max(node.joined_us) + still_us
        };
        let idle: Vec<(NodeId, Name)> =
            self.nodes.iter().filter(idles).map(|(&id, node)| (id, node.name.clone())).collect();
        let mut still = std::mem::take(&mut self.still);
        still.retain(|id, _| self.jobs.contains_key(id));
        for id in &self.jq {
            let Some(job) = self.jobs.get(id) else { continue };
            let able = idle.iter().find(|(node, _)| !job.refused_by.contains_key(node));
            let Some((_, node)) =
                able.filter(|_| job.active() && job.pending() > 0 && !job.waits_for_lease())
            else {
                still.remove(id);
                continue;
            };
            let (since_us, told) = still.entry(*id).or_insert((now_us, false));
            // What workers died of waits for another node far longer.
            let suspects_only = job.pending() <= job.deaths.units(0, u128::MAX).count() as u128;
            let most_us = if suspects_only { 2 * PROBE_MAX_US } else { still_us };
            let for_us = now_us - *since_us;
            if for_us >= most_us && !std::mem::replace(told, true) {
                deeds.event(Event::Standstill { job: *id, node: node.clone(), for_us });
            }
        }
        self.still = still;
    }

    /// How much [`Farm::check_all`] walks: tasks, intervals, jobs and nodes.
    pub fn entries(&self) -> usize {
        let intervals: usize = self.jobs.values().map(|job| 1 + job.coverage.segments()).sum();
        intervals + self.gq.len() + self.dq.len() + self.nodes.len()
    }

    /// Everything: coverage, gq, dq and nodes say the same of every unit.
    pub fn check_all(&self) -> Result<(), String> {
        self.check_counters()?;
        for (id, job) in &self.jobs {
            job.coverage.check().map_err(|e| format!("job {}: {e}", id.0))?;
            let pending = join(self.gq.intervals(*id).into_iter());
            if pending != join(job.coverage.intervals(Class::Pending)) {
                return Err(format!("job {}: gq holds {pending:?}", id.0));
            }
            if job.state.ended() && !(pending.is_empty() && job.coverage.count(Class::Out) == 0) {
                return Err(format!("job {} has ended but waits", id.0));
            }
            if job.coverage.count(Class::Failed) != job.failed.units() {
                return Err(format!("job {}: {} failed units are named", id.0, job.failed.units()));
            }
        }
        if self.gathered.is_some() {
            return Err("done intervals wait for a record between turns".into());
        }
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), String> {
        let (mut left, mut at_node) = (BTreeMap::new(), BTreeMap::new());
        let back: BTreeSet<TaskId> = self.unwinding.back().collect();
        for (id, task) in self.dq.with_ids() {
            if task.state == State::Back && !(task.node == NOBODY && back.contains(&id)) {
                return Err(format!("{task:?} goes back, and waits for no turn"));
            }
        }
        let queued = self.nodes.iter().flat_map(|(&id, node)| node.queue.iter().map(move |of| (id, of.1)));
        let queued: BTreeSet<_> = queued.collect();
        for task in self.dq.iter() {
            if task.left == 0 || task.left > task.hi - task.lo {
                return Err(format!("task {task:?} has nothing left"));
            }
            if !task.copy {
                *left.entry(task.job).or_insert(0) += task.left;
            }
            if task.node == NOBODY {
                continue;
            }
            *at_node.entry(task.node).or_insert(0) += 1;
            let node = self.nodes.get(&task.node).ok_or_else(|| format!("{task:?} is at no node"))?;
            let is_queued = queued.contains(&(task.node, task.attempt));
            if (task.state == State::Assigned) != is_queued {
                return Err(format!("{task:?} is in the queue of node {}: {is_queued}", node.name));
            }
        }
        if let Some(id) = self.jobs.keys().find(|id| self.dq.units_out(**id) != *left.get(id).unwrap_or(&0)) {
            return Err(format!("job {}: {:?} units in dq, not as counted", id.0, left.get(id)));
        }
        for (id, node) in &self.nodes {
            if node.tasks.len() != at_node.get(id).copied().unwrap_or(0) {
                return Err(format!("node {} lists {} tasks", node.name, node.tasks.len()));
            }
        }
        Ok(())
    }
}

fn join(intervals: impl Iterator<Item = (u128, u128)>) -> Vec<(u128, u128)> {
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for (lo, hi) in intervals {
        match joined.last_mut() {
            Some(last) if last.1 == lo => last.1 = hi,
            _ => joined.push((lo, hi)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId};

    use super::*;
    use crate::farm::Config;
    use crate::job::{MaxFailures, NewJob, Place, Refusal, Sizing, WorkFacts};
    use crate::node::Probe;

    /// No turn is made, so that nobody gives out what waits.
    #[test]
    fn units_that_wait_while_a_node_idles_for_a_minute_are_told_once() {
        let (mut farm, mut deeds) = (Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 0), Deeds::default());
        let new = NewJob {
            name: String::new(),
            user: String::new(),
            spec: ContentHash([1; 32]),
            units: 10,
            work: WorkFacts::Nothing,
            sizing: Sizing::Units(1),
            max_failures: MaxFailures::Usual,
            speculative: false,
            place: Place::Tail,
        };
        farm.submit(new, 0, &mut deeds).unwrap();
        let (id, mut node) = (NodeId(0), Node::new("a".into(), 0));
        (node.boot, node.greeted, node.slots) = (Some(Boot(1)), true, 1);
        farm.nodes.insert(id, node);
        let mut told = |farm: &mut Farm, second: u64| {
            deeds.0.clear();
            farm.check_standstill(second * 1_000_000, &mut deeds);
            deeds.0.len()
        };
        assert_eq!((0..150).map(|second| told(&mut farm, second)).sum::<usize>(), 1);
        // Another job may go on there while this one cannot.
        let job = farm.jobs.values_mut().next().unwrap();
        let (probe, after) = (Probe::first(0), Attempt(1));
        job.refused_by.insert(id, Refusal { why: "no python".into(), probe, after });
        assert_eq!((150..300).map(|second| told(&mut farm, second)).sum::<usize>(), 0);
    }
}

#[cfg(test)]
mod sums {
    use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId};
    use starfarm_protocol::limits::PROTOCOL_VERSION;
    use starfarm_protocol::wire::{Hello, Packer};

    use super::*;
    use crate::coverage::Classes;
    use crate::{Config, Deeds, MaxFailures, NewJob, NodeId, Place, Sizing, WorkFacts};

    /// A farm whose only node has two tasks of ten units; job 1 has more.
    fn farm() -> Farm {
        let (mut farm, mut deeds) = (Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 1), Deeds::default());
        let new = NewJob {
            name: String::new(),
            user: String::new(),
            spec: ContentHash([1; 32]),
            units: 40,
            work: WorkFacts::Nothing,
            sizing: Sizing::Units(10),
            max_failures: MaxFailures::Usual,
            speculative: false,
            place: Place::Tail,
        };
        farm.submit(new, 1, &mut deeds).unwrap();
        let mut packer = Packer::new();
        packer.hello(&Hello {
            version: PROTOCOL_VERSION,
            boot: Boot(1),
            slots: 1,
            queue_tasks_max: 8,
            receive_datagrams_max: 8,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        });
        farm.on_session(NodeId(0), "a", 1);
        farm.on_datagram(NodeId(0), &packer.finish()[0], 1, &mut deeds);
        for _ in 0..2 {
            farm.on_durable(farm.last_sequence(), 1);
            farm.turn(1, &mut deeds);
        }
        assert_eq!((farm.dq.len(), farm.check_counters()), (2, Ok(())));
        farm
    }

    fn found(farm: &Farm) -> String {
        farm.check_counters().expect_err("the quick check sees it")
    }

    #[test]
    fn tasks_that_vanish_with_their_node_do_not_pass_the_quick_check() {
        let mut farm = farm();
        farm.nodes.remove(&NodeId(0));
        assert_eq!(found(&farm), "2 tasks in dq, 0 at nodes, 0 at nobody");
    }

    #[test]
    fn a_task_that_vanishes_from_dq_does_not_pass_the_quick_check() {
        let mut farm = farm();
        let task = farm.dq.of_job(JobId(1))[0];
        farm.take_from_node(task);
        assert_eq!(found(&farm), "job 1: 20 units out, 10 in dq");
    }

    #[test]
    fn units_that_are_counted_out_but_lie_in_no_task_do_not_pass_the_quick_check() {
        let mut farm = farm();
        let coverage = &mut farm.jobs.get_mut(&JobId(1)).unwrap().coverage;
        coverage.change(0, 5, Classes::of(&[Class::Out]), Class::Done, &mut Vec::new());
        assert_eq!(found(&farm), "job 1: 15 units out, 20 in dq");
    }

    #[test]
    fn a_lost_node_that_kept_its_tasks_does_not_pass_the_quick_check() {
        let mut farm = farm();
        farm.nodes.get_mut(&NodeId(0)).unwrap().lost = true;
        assert_eq!(found(&farm), "node a is lost but has 2 tasks");
    }
}
