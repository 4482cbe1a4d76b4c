//! dq: every task that was given out, by index, and per job by first unit. Tasks of one job never overlap, but for
//! copies, which do not overlap each other.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::interval::Interval;

use super::task::{NOBODY, Task, TaskId};

/// dq.
#[derive(Debug, Default)]
pub(super) struct Dispatched {
    slots: Vec<Option<Task>>,
    /// Of each slot the place in the list of the task's node. They lie apart from the tasks, so that moving one in a
    /// list touches no other task.
    places: Vec<u32>,
    free: Vec<u32>,
    jobs: BTreeMap<JobId, OfJob>,
    /// Copies, by first unit.
    copies: BTreeMap<JobId, BTreeMap<u128, TaskId>>,
    /// Tasks that are at no node.
    of_nobody: usize,
    /// Counts what comes, goes and is counted.
    changes: u64,
}

/// The tasks of one job, but for copies.
#[derive(Debug, Default)]
struct OfJob {
    by_lo: BTreeMap<u128, TaskId>,
    /// Units that no result has come for, in all of them.
    left: u128,
}

impl Dispatched {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn put(&mut self, task: Task) -> TaskId {
        let Task { job, at, left, copy, .. } = task;
        assert!(0 < left && left <= at.units(), "a task in dq has something left");
        self.of_nobody += usize::from(task.node == NOBODY);
        self.changes += 1;
        let id = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(task);
                TaskId(at)
            }
            None => {
                self.slots.push(Some(task));
                self.places.push(0);
                TaskId(self.slots.len() as u32 - 1)
            }
        };
        let before = if copy {
            self.copies.entry(job).or_default().insert(at.lo, id)
        } else {
            let of_job = self.jobs.entry(job).or_default();
            of_job.left += left;
            of_job.by_lo.insert(at.lo, id)
        };
        assert!(before.is_none(), "tasks of a job do not overlap");
        id
    }

    /// A task enters the list of its node.
    pub(super) fn join(&mut self, id: TaskId, list: &mut Vec<TaskId>) {
        self.places[id.0 as usize] = list.len() as u32;
        list.push(id);
    }

    /// A task leaves the list of its node.
    pub(super) fn leave(&mut self, id: TaskId, list: &mut Vec<TaskId>) {
        let at = self.places[id.0 as usize];
        let left = list.swap_remove(at as usize);
        assert!(left == id, "the list and the place agree");
        if let Some(moved) = list.get(at as usize) {
            self.places[moved.0 as usize] = at;
        }
    }

    /// The task, if it is still the dispatch `attempt`.
    pub(super) fn get(&mut self, id: TaskId, attempt: Attempt) -> Option<&mut Task> {
        self.slots.get_mut(id.0 as usize)?.as_mut().filter(|task| task.attempt == attempt)
    }

    /// The task of an id, if it is in dq.
    pub(super) fn peek(&self, id: TaskId) -> Option<&Task> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// The task of an id that is known to be in dq.
    pub(super) fn at(&self, id: TaskId) -> &Task {
        self.slots[id.0 as usize].as_ref().expect("the id is held by a task in dq")
    }

    /// See [`Dispatched::at`].
    pub(super) fn at_mut(&mut self, id: TaskId) -> &mut Task {
        self.slots[id.0 as usize].as_mut().expect("the id is held by a task in dq")
    }

    /// The node of a task is gone: nobody has it.
    pub(super) fn orphan(&mut self, id: TaskId) {
        let task = self.at_mut(id);
        assert!(!task.copy && task.node != NOBODY, "a task that a node had as the first");
        (task.node, task.state) = (NOBODY, super::task::State::Back);
        self.of_nobody += 1;
        self.changes += 1;
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Task {
        let task = self.slots[id.0 as usize].take().expect("the id is held by a task in dq");
        self.free.push(id.0);
        self.of_nobody -= usize::from(task.node == NOBODY);
        self.changes += 1;
        if task.copy {
            let copies = self.copies.get_mut(&task.job).expect("the job of a copy has its copies here");
            copies.remove(&task.at.lo);
            if copies.is_empty() {
                self.copies.remove(&task.job);
            }
            return task;
        }
        let of_job = self.tasks_of(task.job);
        of_job.by_lo.remove(&task.at.lo);
        of_job.left -= task.left;
        if of_job.by_lo.is_empty() {
            self.jobs.remove(&task.job);
        }
        task
    }

    /// Results came for `units` of a task; how many it has left.
    pub(super) fn count(&mut self, id: TaskId, units: u128) -> u128 {
        self.changes += 1;
        let task = self.at_mut(id);
        assert!(units <= task.left, "no unit of a task is counted twice");
        task.left -= units;
        let Task { job, left, copy, .. } = *task;
        if !copy {
            self.tasks_of(job).left -= units;
        }
        left
    }

    fn tasks_of(&mut self, job: JobId) -> &mut OfJob {
        self.jobs.get_mut(&job).expect("the job of a task in dq has its tasks here")
    }

    /// Moves the bounds of a task inwards.
    pub(super) fn narrow(&mut self, id: TaskId, to: Interval, left: u128) {
        let task = self.at_mut(id);
        assert!(task.at.lo <= to.lo && to.lo < to.hi && to.hi <= task.at.hi && !task.copy, "{to} is inwards");
        let (job, before, left_before) = (task.job, task.at.lo, task.left);
        (task.at, task.left) = (to, left);
        let of_job = self.tasks_of(job);
        of_job.left = of_job.left - left_before + left;
        if to.lo != before {
            of_job.by_lo.remove(&before);
            of_job.by_lo.insert(to.lo, id);
        }
    }

    /// The task of `job` that holds `unit`.
    pub(super) fn holding(&self, job: JobId, unit: u128) -> Option<(TaskId, &Task)> {
        let (_, &id) = self.jobs.get(&job)?.by_lo.range(..=unit).next_back()?;
        let task = self.at(id);
        (unit < task.at.hi).then_some((id, task))
    }

    /// The tasks of `job` that overlap `at`, in order.
    pub(super) fn overlapping(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.jobs.get(&job).map_or_else(Vec::new, |of_job| self.among(&of_job.by_lo, at))
    }

    /// The copies of tasks of `job` that overlap `at`, in order.
    pub(super) fn copies_in(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.copies.get(&job).map_or_else(Vec::new, |by_lo| self.among(by_lo, at))
    }

    fn among(&self, by_lo: &BTreeMap<u128, TaskId>, at: Interval) -> Vec<TaskId> {
        let begins_before =
            |(lo, id): &(&u128, &TaskId)| **lo < at.lo && self.at(**id).at.hi > at.lo && !at.is_empty();
        let first = by_lo.range(..=at.lo).next_back().filter(begins_before);
        first.into_iter().chain(by_lo.range(at.lo..at.hi.max(at.lo))).map(|(_, &id)| id).collect()
    }

    /// What is out at nobody: leased by an earlier scheduler, or about to go back.
    pub(super) fn of_nobody(&self) -> Vec<TaskId> {
        if self.of_nobody == 0 {
            return Vec::new();
        }
        self.with_ids().filter(|(_, task)| task.node == NOBODY).map(|(id, _)| id).collect()
    }

    /// How many tasks are at no node.
    pub(super) fn count_of_nobody(&self) -> usize {
        self.of_nobody
    }

    /// How often anything came, went or was counted.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// How many tasks of `job` there are, without copies.
    pub(super) fn count_of_job(&self, job: JobId) -> usize {
        self.jobs.get(&job).map_or(0, |of_job| of_job.by_lo.len())
    }

    /// Units of `job` that are out by the account of its tasks. A copy has none of its own.
    pub(super) fn units_out(&self, job: JobId) -> u128 {
        self.jobs.get(&job).map_or(0, |of_job| of_job.left)
    }

    /// Jobs that have tasks here, copies left aside.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// The tasks of `job`, without copies.
    pub(super) fn of_job(&self, job: JobId) -> impl Iterator<Item = TaskId> + '_ {
        self.jobs.get(&job).into_iter().flat_map(|of_job| of_job.by_lo.values().copied())
    }

    /// The copies of tasks of `job`.
    pub(super) fn copies(&self, job: JobId) -> impl Iterator<Item = TaskId> + '_ {
        self.copies.get(&job).into_iter().flat_map(|by_lo| by_lo.values().copied())
    }

    /// All tasks, each with its id.
    pub(super) fn with_ids(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0..).map(TaskId).zip(&self.slots).filter_map(|(id, task)| Some((id, task.as_ref()?)))
    }
}
