//! Dispatch: which node gets which task. A node with room takes from the first job in jq that has
//! something for it; its tasks go from gq into its node queue and into dq in one step.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use crate::coverage::{Class, Classes};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Deaths, Job, JobState};
use crate::limits::LAMBDA;
use crate::node::Node;
use crate::refill::Ideal;
use crate::task::{NodeId, State, Task};

/// Room below this share of the window is left to grow, so that tasks travel together.
const ROOM_SHARE: usize = 8;

/// Units that were running when a worker died. Each lies in gq alone. A node that one of them killed does not
/// get it again while there is another node to try: so it becomes clear whether the unit is poison. And a
/// node has one of them at a time, or the innocent would die with the guilty again.
struct Shunned {
    /// The unit, and whether this node has died of it already.
    suspects: BTreeMap<u128, bool>,
    /// The node has one.
    has_one: bool,
}

impl Shunned {
    fn contains(&self, unit: u128) -> bool {
        self.suspects.get(&unit).is_some_and(|died_here| *died_here || self.has_one)
    }

    fn given(&mut self, unit: u128) {
        self.has_one |= self.suspects.contains_key(&unit);
    }
}

/// How far a node is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// A task a slot.
    Slots,
    /// All that its window allows.
    Window,
}

impl Farm {
    /// Gives node `id` what it has room for.
    pub(crate) fn dispatch(&mut self, id: NodeId, reach: Reach, now_us: u64, deeds: &mut Deeds) {
        if self.unsettled.contains(&id) {
            // It says with its hello what it holds of before: until then its room is not known.
            return;
        }
        let mut at = 0;
        while let Some(&job_id) = self.jq.get(at) {
            at += 1;
            let (Some(job), Some(node)) = (self.jobs.get(&job_id), self.nodes.get(&id)) else { continue };
            if !job.active() || job.pending() == 0 || job.refused_by.contains_key(&id) {
                continue;
            }
            let ideal = self.ideal(job, id);
            let most = if reach == Reach::Slots { usize::from(node.slots) } else { NODE_TASKS_MAX as usize };
            let room = self.room(job, node, &ideal, most, now_us);
            if room == 0 {
                return;
            }
            self.assign((job_id, id), room, ideal.units, now_us, deeds);
            if self.jobs.get(&job_id).is_some_and(Job::waits_for_lease) {
                // It will be there in milliseconds; the next job's turn has not come.
                return;
            }
        }
    }

    /// Tasks of `job`, the next of them `ideal`, that `node` has room for where it may have `most` of all jobs; 0 too
    /// where there is so little room that it is left to grow.
    pub(crate) fn room(&self, job: &Job, node: &Node, ideal: &Ideal, most: usize, now_us: u64) -> usize {
        let window = node.window(now_us, ideal.us, self.ahead(job, ideal)).tasks.min(most);
        let room = window.saturating_sub(node.tasks_held());
        let little = room < window / ROOM_SHARE && node.tasks_held() > usize::from(node.slots);
        if little { 0 } else { room }
    }

    /// Up to `room` tasks of `job_id`, of `ideal` units each, go from gq, refilled if need be, to node `id`.
    fn assign(
        &mut self,
        (job_id, id): (JobId, NodeId),
        room: usize,
        ideal: u64,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let most = u128::from(ideal.saturating_mul(LAMBDA));
        let waiting = self.gq.tasks(job_id);
        // What is cut now never ran, so it killed nobody.
        let mut shunned = if waiting > 0 { self.shunned(job_id, id) } else { None };
        if waiting < room {
            self.refill(job_id, ideal, room - waiting, deeds);
        }
        let untried = self.others(job_id, id);
        let mut run: Option<(u128, u128)> = None;
        for _ in 0..room {
            let failures = self.jobs.get(&job_id).map(|job| &job.failures);
            let failed_here = |unit: u128| {
                let Some(runs) = failures.and_then(|failures| failures.get(&unit)) else { return false };
                let failed_at = |id: NodeId| runs.iter().any(|run| run.1 == id);
                failed_at(id) && untried.iter().any(|&other| !failed_at(other))
            };
            let wanted = |unit: u128| {
                shunned.as_ref().is_none_or(|shunned| !shunned.contains(unit)) && !failed_here(unit)
            };
            let Some((lo, hi)) = self.gq.take(job_id, (u128::from(ideal), most), wanted) else { break };
            if let Some(shunned) = &mut shunned {
                shunned.given(lo);
            }
            self.put_out(job_id, id, lo, hi, now_us);
            run = match run {
                Some((first, end)) if end == lo => Some((first, hi)),
                Some((first, end)) => {
                    self.mark_out(job_id, first, end);
                    Some((lo, hi))
                }
                None => Some((lo, hi)),
            };
        }
        let Some((first, end)) = run else { return };
        self.mark_out(job_id, first, end);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.probed(now_us);
        }
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        job.totals.started_us.get_or_insert(now_us);
        if job.state != JobState::Running {
            self.set_state(job_id, JobState::Running, "", deeds);
            self.record_totals(deeds);
        }
    }

    /// Other nodes that could run what fails at node `id`, as far as that matters: what failed here is tried
    /// elsewhere first.
    fn others(&self, job_id: JobId, id: NodeId) -> Vec<NodeId> {
        let Some(job) = self.jobs.get(&job_id).filter(|job| !job.failures.is_empty()) else {
            return Vec::new();
        };
        let others = self.nodes.iter().filter(|(other, node)| **other != id && node.live() && node.greeted);
        others.map(|(&other, _)| other).filter(|other| !job.refused_by.contains_key(other)).collect()
    }

    /// Units that node `id` should not get now, if there are any.
    fn shunned(&mut self, job_id: JobId, id: NodeId) -> Option<Shunned> {
        let job = self.jobs.get(&job_id).filter(|job| !job.deaths.is_empty())?;
        let node = self.nodes.get(&id)?;
        let live: Vec<NodeId> = self.nodes.iter().filter(|(_, n)| n.live()).map(|(&id, _)| id).collect();
        let killed_here = |deaths: &Deaths| deaths.iter().any(|&(by, _)| by == id);
        let others = |deaths: &Deaths| live.iter().any(|id| !deaths.iter().any(|(by, _)| by == id));
        let suspects = job.deaths.iter().map(|(&unit, d)| (unit, killed_here(d) && others(d))).collect();
        let has_one = node.tasks.iter().any(|&task| {
            let task = self.dq.at(task);
            task.job == job_id && task.hi - task.lo == 1 && job.deaths.contains_key(&task.lo)
        });
        Some(Shunned { suspects, has_one })
    }

    /// [lo, hi) enters dq and the node queue at once.
    fn put_out(&mut self, job_id: JobId, id: NodeId, lo: u128, hi: u128, now_us: u64) {
        let attempt = self.new_attempt();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let task = Task {
            job: job_id,
            lo,
            hi,
            left: hi - lo,
            node: id,
            attempt,
            state: State::Assigned,
            since_us: now_us,
            spent_us: 0,
            at_node: node.tasks.len() as u32,
            copy: false,
        };
        let task_id = self.dq.put(task);
        node.tasks.push(task_id);
        node.queue.push_back((task_id, attempt));
        if let Some(job) = self.jobs.get_mut(&job_id) {
            job.totals.dispatched += 1;
            self.watched.dispatched += 1;
        }
    }

    fn mark_out(&mut self, job_id: JobId, lo: u128, hi: u128) {
        const PENDING: Classes = Classes::of(&[Class::Pending]);
        self.pieces.clear();
        if let Some(job) = self.jobs.get_mut(&job_id) {
            job.coverage.change(lo, hi, PENDING, Class::Out, &mut self.pieces);
        }
    }
}
