//! Dispatch: which node gets which task. A node with room takes from the first job in jq that has
//! something for it; its tasks go from gq into its node queue and into dq in one step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use crate::coverage::{Class, Classes};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Job, JobState};
use crate::limits::PATIENCE_US;
use crate::node::Node;
use crate::refill::{Ideal, whole_units};
use crate::task::{NodeId, State, Task, TaskId};

/// Room below this share of the window is left to grow, so that tasks travel together.
const ROOM_SHARE: usize = 8;

/// How little a unit should go to a node: the worst first. There is always a node that no other beats, so this
/// is a preference and never keeps a unit from all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Aversion {
    /// The node died of it.
    died: bool,
    /// It failed there.
    failed: bool,
}

/// Who else could take what comes back to a node that it should not go to.
struct Choice {
    /// Live nodes that have not refused the job.
    able: usize,
    /// The node has a unit that was running when a worker died. It gets one at a time, or the innocent would die
    /// with the guilty again.
    has_suspect: bool,
    /// The node is doubted: it gets units from elsewhere than where it fails.
    elsewhere: bool,
}

/// Jobs in jq that have units to give out, in its order.
#[derive(Debug, Default)]
pub(crate) struct OpenJobs {
    /// These may be given out now.
    pub(crate) active: VecDeque<JobId>,
    /// These are paused.
    pub(crate) paused: Vec<JobId>,
    /// jq or a state has changed, or something came back: both are to be made anew.
    pub(crate) is_stale: bool,
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
    /// Makes the list of open jobs anew, where it is stale. Once a turn: it goes through all of jq.
    pub(crate) fn renew_open(&mut self) {
        if !std::mem::take(&mut self.open.is_stale) {
            return;
        }
        self.open.active.clear();
        self.open.paused.clear();
        for &id in &self.jq {
            match &self.jobs[&id] {
                job if job.pending() == 0 => {}
                job if job.active() => self.open.active.push_back(id),
                _ => self.open.paused.push(id),
            }
        }
    }

    /// Jobs in jq that have units to give out or are paused; all of jq where that is not known.
    pub(crate) fn open_jobs(&self) -> Box<dyn Iterator<Item = &Job> + '_> {
        let OpenJobs { active, paused, is_stale } = &self.open;
        let job = |id: &JobId| &self.jobs[id];
        match is_stale {
            true => Box::new(self.jq.iter().map(job)),
            false => Box::new(active.iter().chain(paused).filter_map(|id| self.jobs.get(id))),
        }
    }

    /// A job has something to give out, and not only beyond a lease that is on its way to the disk.
    pub(crate) fn has_work(&mut self) -> bool {
        let Some(job) = self.open.active.front().and_then(|id| self.jobs.get_mut(id)) else { return false };
        job.lease.waited |= job.waits_for_lease();
        !job.waits_for_lease()
    }

    /// Gives node `id` what it has room for; true where it got something.
    pub(crate) fn dispatch(&mut self, id: NodeId, reach: Reach, now_us: u64, deeds: &mut Deeds) -> bool {
        let before = self.next_attempt;
        self.looks += 1;
        let had_room = self.fill(id, reach, now_us, deeds);
        match had_room {
            true => self.hungry[reach as usize].insert(id),
            false => self.hungry[reach as usize].remove(&id),
        };
        self.next_attempt > before
    }

    /// Gives node `id` tasks until it has no room or there is nothing for it; true where it has room left.
    fn fill(&mut self, id: NodeId, reach: Reach, now_us: u64, deeds: &mut Deeds) -> bool {
        if self.unsettled.contains(&id) {
            // It says with its hello what it holds of before: until then its room is not known.
            return false;
        }
        if !self.copying.hung.is_empty() {
            self.copy_hung(id, now_us, deeds);
        }
        let mut at = 0;
        while let Some(&job_id) = self.open.active.get(at) {
            let job = self.jobs.get(&job_id).expect("the list of open jobs is of this turn");
            let node = self.nodes.get(&id).expect("the marks of a node are forgotten with it");
            if !job.active() || job.pending() == 0 {
                // What comes back makes the list anew.
                if at == 0 {
                    self.open.active.pop_front();
                } else {
                    at += 1;
                }
                continue;
            }
            at += 1;
            if !self.gives_out(job) || job.is_refused(id, now_us) {
                continue;
            }
            let (mut ideal, doubted) = (self.ideal(job, id), self.doubts(job, id));
            if doubted {
                ideal.units = 1;
            }
            let slots_only = reach == Reach::Slots || doubted;
            let most = if slots_only { usize::from(node.slots) } else { NODE_TASKS_MAX as usize };
            let room = self.room(job, node, &ideal, most, now_us);
            if room == 0 {
                return false;
            }
            // One that is asked again whether it can run the job shows that with a task a slot.
            let asked = job.refused_by.contains_key(&id);
            let room = if asked { room.min(usize::from(node.slots)) } else { room };
            self.assign((job_id, id), room, ideal.units, now_us, deeds);
            if self.jobs.get(&job_id).is_some_and(Job::waits_for_lease) {
                // It will be there in milliseconds; the next job's turn has not come.
                return true;
            }
        }
        self.nodes.get(&id).is_some_and(|node| node.boot.is_some() && !node.lost)
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
        let mut choice = self.choice(job_id, id);
        let waiting = match &choice {
            Some(Choice { elsewhere: true, .. }) if !self.fresh_elsewhere(job_id, id) => usize::MAX,
            _ => self.gq.tasks(job_id),
        };
        if waiting < room {
            self.refill(job_id, ideal, room - waiting, deeds);
        }
        let mut run: Option<(u128, u128)> = None;
        let mut cut = waiting < room || waiting == usize::MAX;
        for given in 0..room {
            let mut taken = self.take(job_id, id, ideal, &mut choice, now_us);
            if taken.is_none() && !std::mem::replace(&mut cut, true) {
                // What waits should go to others. There may be more.
                self.refill(job_id, ideal, room - given, deeds);
                taken = self.take(job_id, id, ideal, &mut choice, now_us);
            }
            let Some((lo, hi)) = taken else { break };
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
        if let Some(refusal) = job.refused_by.get_mut(&id) {
            refusal.probe = refusal.probe.given(now_us);
        }
        job.totals.started_us.get_or_insert(now_us);
        if job.state != JobState::Running {
            self.set_state(job_id, JobState::Running, "", deeds);
            self.record_totals(deeds);
        }
    }

    /// Takes the first task of `job_id` out of gq that node `id` may have, of one that is too large the first `ideal`
    /// units.
    fn take(
        &mut self,
        job_id: JobId,
        id: NodeId,
        ideal: u64,
        choice: &mut Option<Choice>,
        now_us: u64,
    ) -> Option<(u128, u128)> {
        let job = self.jobs.get_mut(&job_id)?;
        let (most, wake_us) = (u128::from(whole_units(job, ideal)), &mut self.wake_us);
        let wanted = |unit: u128| {
            let Some(choice) = &choice else { return true };
            let from_us = job.waits_until(id, unit, (choice, &self.nodes), now_us);
            if from_us > now_us {
                *wake_us = from_us.min(*wake_us);
            }
            from_us <= now_us
        };
        let deadly = choice.as_ref().is_none_or(|choice| !choice.has_suspect);
        let (lo, hi) = self.gq.take(job_id, (u128::from(ideal), most), deadly, wanted)?;
        if let Some(choice) = choice {
            choice.has_suspect |= job.deaths.has(lo);
            job.denied.remove(&lo);
        }
        Some((lo, hi))
    }

    /// Who else could run what node `id` should not get; none where nothing of the job came back from a node.
    fn choice(&self, job_id: JobId, id: NodeId) -> Option<Choice> {
        let job = self.jobs.get(&job_id)?;
        let elsewhere = self.doubts(job, id);
        if job.deaths.is_empty() && job.failures.is_empty() && job.returned.is_empty() && !elsewhere {
            return None;
        }
        let suspect = |&task: &TaskId| {
            let task = self.dq.peek(task).expect("a node's task is in dq");
            task.job == job_id && task.hi - task.lo == 1 && job.deaths.has(task.lo)
        };
        let has_suspect = !job.deaths.is_empty() && self.nodes.get(&id)?.tasks.iter().any(suspect);
        let refused = job.refused_by.keys().filter(|id| self.nodes.get(id).is_some_and(Node::live)).count();
        Some(Choice { able: self.live_nodes as usize - refused, has_suspect, elsewhere })
    }

    /// What is cut next of `job_id` lies elsewhere than what node `id` failed.
    fn fresh_elsewhere(&self, job_id: JobId, id: NodeId) -> bool {
        self.jobs.get(&job_id).is_some_and(|job| job.is_elsewhere(id, job.coverage.cursor(), (0, 0)))
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
            copy: false,
        };
        let task_id = self.dq.put_at(task, &mut node.tasks);
        node.queue.push_back((task_id, attempt));
        node.given_us = now_us;
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

impl Job {
    fn aversion(&self, id: NodeId, unit: u128) -> Aversion {
        let died = self.deaths.of(unit).any(|death| death.0 == id);
        let failed = self.failures.of(unit).any(|run| run.1 == id);
        Aversion { died, failed }
    }

    /// A live node that has not refused the job is less averse to `unit` than node `id` is.
    fn others_first(&self, id: NodeId, unit: u128, choice: &Choice, nodes: &BTreeMap<NodeId, Node>) -> bool {
        let aversion = self.aversion(id, unit);
        if aversion == Aversion::default() {
            return false;
        }
        let died = self.deaths.of(unit).map(|death| death.0);
        let failed = self.failures.of(unit).map(|run| run.1);
        let able = |id: &NodeId| nodes.get(id).is_some_and(Node::live) && !self.refused_by.contains_key(id);
        // Whoever is not among these is not averse at all.
        let blamed: BTreeSet<NodeId> = died.chain(failed).filter(able).collect();
        choice.able > blamed.len() || blamed.into_iter().any(|other| self.aversion(other, unit) < aversion)
    }

    /// When node `id` may have the task in gq that begins with `unit`: at once, or after a pause in which others may
    /// take it. They may all be busy for long, so the pause has an end; after deaths it is long.
    fn waits_until(
        &mut self,
        id: NodeId,
        unit: u128,
        (choice, nodes): (&Choice, &BTreeMap<NodeId, Node>),
        now_us: u64,
    ) -> u64 {
        if let Some((_, back)) = self.returned.range(..=unit).next_back()
            && (back.node, back.hi > unit) == (id, true)
            && back.until_us > now_us
        {
            return back.until_us;
        }
        let same_place = choice.elsewhere && !self.is_elsewhere(id, unit, (0, 0));
        if same_place || self.others_first(id, unit, choice, nodes) {
            let deaths = self.deaths.of(unit).count();
            let since_us = *self.denied.entry(unit).or_insert(now_us);
            return since_us + (PATIENCE_US << deaths.min(6));
        }
        now_us
    }
}

#[cfg(test)]
mod tests;
