//! Doubt: what must hold at all times (R6 and state <=> place). The quick check is cheap enough for every
//! turn; the full one walks everything. A violation is a bug of ours, so the caller stops the farm loudly.

use std::collections::BTreeMap;

use starfarm_events::{Event, Name};

use crate::coverage::Class;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::{PROBE_MAX_US, STANDSTILL_US};
use crate::node::Node;
use crate::task::{NOBODY, NodeId, State};

impl Farm {
    /// done + failed + out + pending + abandoned = N for every unfinished job, and gq agrees; O(jobs in jq).
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
        }
        Ok(())
    }

    /// Nothing stands still: units that wait, and a node that could run them and has an idle slot, for a minute.
    /// That proves no wrong count, so it is told and the farm goes on. To be asked once a second; O(nodes + jobs).
    pub fn check_standstill(&mut self, now_us: u64, deeds: &mut Deeds) {
        let idles = |(id, node): &(&NodeId, &Node)| {
            node.live()
                && node.greeted
                && !self.unsettled.contains(id)
                && node.tasks_held() < usize::from(node.slots)
                && now_us >= node.given_us.max(node.joined_us) + STANDSTILL_US
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
            let suspects_only = job.pending() <= job.deaths.len() as u128;
            let most_us = if suspects_only { 2 * PROBE_MAX_US } else { STANDSTILL_US };
            let for_us = now_us - *since_us;
            if for_us >= most_us && !std::mem::replace(told, true) {
                deeds.event(Event::Standstill { job: *id, node: node.clone(), for_us });
            }
        }
        self.still = still;
    }

    /// Everything: coverage, gq, dq and nodes say the same of every unit.
    pub fn check_all(&self) -> Result<(), String> {
        self.check_counters()?;
        for (id, job) in &self.jobs {
            job.coverage.check().map_err(|e| format!("job {}: {e}", id.0))?;
            let pending = join(self.gq.intervals(*id));
            if pending != join(job.coverage.intervals(Class::Pending)) {
                return Err(format!("job {}: gq holds {pending:?}", id.0));
            }
            if job.state.ended() && !(pending.is_empty() && job.coverage.count(Class::Out) == 0) {
                return Err(format!("job {} has ended but waits", id.0));
            }
            if job.coverage.count(Class::Failed) != job.failed.len() as u128 {
                return Err(format!("job {}: {} failed units are named", id.0, job.failed.len()));
            }
        }
        if self.gathered.is_some() {
            return Err("done intervals wait for a record between turns".into());
        }
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), String> {
        let (mut left, mut at_node) = (BTreeMap::new(), BTreeMap::new());
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
            let queued = node.queue.iter().filter(|(_, attempt)| *attempt == task.attempt).count();
            if (task.state == State::Assigned) != (queued == 1) {
                return Err(format!("{task:?} is {queued} times in its node queue"));
            }
            if node.lost {
                return Err(format!("{task:?} is at a lost node"));
            }
        }
        for (id, job) in &self.jobs {
            let out = job.coverage.count(Class::Out);
            if out != left.get(id).copied().unwrap_or(0) {
                return Err(format!("job {}: {out} units out, dq says {:?}", id.0, left.get(id)));
            }
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
