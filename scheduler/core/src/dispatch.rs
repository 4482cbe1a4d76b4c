//! Dispatch: which node gets which task. A node with room takes from the first job in jq that has
//! something for it; its tasks go from gq into its node queue and into dq in one step.

use starfarm_protocol::ids::JobId;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use crate::coverage::{Class, Classes};
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Job, JobState};
use crate::limits::{LAMBDA, PATIENCE_US};
use crate::node::Node;
use crate::refill::Ideal;
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
    /// Other nodes that can run the job.
    others: Vec<NodeId>,
    /// The node has a unit that was running when a worker died. It gets one at a time, or the innocent would die
    /// with the guilty again.
    has_suspect: bool,
    /// The node is doubted: it gets units from elsewhere than where it fails.
    elsewhere: bool,
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
            if !self.gives_out(job) || job.pending() == 0 || job.is_refused(id, now_us) {
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
                return;
            }
            // One that is asked again whether it can run the job shows that with a task a slot.
            let asked = job.refused_by.contains_key(&id);
            let room = if asked { room.min(usize::from(node.slots)) } else { room };
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
        let most = u128::from(ideal.saturating_mul(LAMBDA));
        let (job, wake_us) = (self.jobs.get_mut(&job_id)?, &mut self.wake_us);
        let wanted = |unit: u128| {
            let Some(choice) = &choice else { return true };
            let from_us = job.waits_until(id, unit, choice, now_us);
            if from_us > now_us {
                *wake_us = from_us.min(*wake_us);
            }
            from_us <= now_us
        };
        let (lo, hi) = self.gq.take(job_id, (u128::from(ideal), most), wanted)?;
        if let Some(choice) = choice {
            choice.has_suspect |= job.deaths.contains_key(&lo);
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
        let able = |(other, node): &(&NodeId, &Node)| {
            **other != id && node.live() && node.greeted && !job.refused_by.contains_key(other)
        };
        let suspect = |&task: &TaskId| {
            let task = self.dq.peek(task).expect("a node's task is in dq");
            task.job == job_id && task.hi - task.lo == 1 && job.deaths.contains_key(&task.lo)
        };
        let has_suspect = !job.deaths.is_empty() && self.nodes.get(&id)?.tasks.iter().any(suspect);
        let others = self.nodes.iter().filter(able).map(|(&other, _)| other).collect();
        Some(Choice { others, has_suspect, elsewhere })
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
            at_node: node.tasks.len() as u32,
            copy: false,
        };
        let task_id = self.dq.put(task);
        node.tasks.push(task_id);
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
        let died = self.deaths.get(&unit).is_some_and(|deaths| deaths.iter().any(|death| death.0 == id));
        let failed = self.failures.get(&unit).is_some_and(|runs| runs.iter().any(|run| run.1 == id));
        Aversion { died, failed }
    }

    /// When node `id` may have the task in gq that begins with `unit`: at once, or after a pause in which others may
    /// take it. They may all be busy for long, so the pause has an end; after deaths it is long.
    fn waits_until(&mut self, id: NodeId, unit: u128, choice: &Choice, now_us: u64) -> u64 {
        if let Some((_, back)) = self.returned.range(..=unit).next_back()
            && (back.node, back.hi > unit) == (id, true)
            && back.until_us > now_us
        {
            return back.until_us;
        }
        let deaths = self.deaths.get(&unit).map_or(0, Vec::len);
        let aversion = self.aversion(id, unit);
        let others_first = aversion > Aversion::default()
            && choice.others.iter().any(|&other| self.aversion(other, unit) < aversion);
        let same_place = choice.elsewhere && !self.is_elsewhere(id, unit, (0, 0));
        if others_first || same_place || (choice.has_suspect && deaths > 0) {
            let since_us = *self.denied.entry(unit).or_insert(now_us);
            return since_us + (PATIENCE_US << deaths.min(6));
        }
        now_us
    }
}
