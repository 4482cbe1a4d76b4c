//! Doubt: what must hold at all times (R6 and state <=> place). The quick check is cheap enough for every
//! turn; the full one walks everything. A violation is a bug of ours, so the caller stops the farm loudly.

use std::collections::BTreeMap;

use crate::coverage::Class;
use crate::farm::Farm;
use crate::task::{NOBODY, State};

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
