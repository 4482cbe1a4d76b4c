//! dq: every task that was given out, by index, and per job by first unit. Tasks of one job never overlap, but for
//! copies, which do not overlap each other.

use std::cell::Cell;
use std::collections::BTreeMap;

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::interval::Interval;

use super::by_unit::ByUnit;
use super::holders::Holders;
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
    pub(super) holders: Holders,
    /// Tasks that are at no node.
    of_nobody: usize,
    /// Counts what comes, goes and is counted.
    changes: u64,
    /// Tasks that were gone through to find those of an interval.
    walked: Cell<u64>,
}

/// The tasks of one job, by first unit.
#[derive(Debug, Default)]
struct OfJob {
    tasks: ByUnit<TaskId>,
    copies: ByUnit<TaskId>,
    /// Units that no result has come for, in all of them but for copies.
    left: u128,
}

impl OfJob {
    fn like(&mut self, task: &Task) -> &mut ByUnit<TaskId> {
        if task.copy { &mut self.copies } else { &mut self.tasks }
    }

    fn take(&mut self, units: u128) {
        self.left = self.left.checked_sub(units).expect("the sum has what each task added to it");
    }
}

impl Dispatched {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn put(&mut self, task: Task) -> TaskId {
        assert!(0 < task.left && task.left <= task.at.units(), "a task in dq has something left");
        self.of_nobody += usize::from(task.node == NOBODY);
        self.holders.came(task.job, task.node);
        self.changes += 1;
        let id = TaskId(self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.places.push(0);
            self.places.len() as u32 - 1
        }));
        let of_job = self.jobs.entry(task.job).or_default();
        of_job.like(&task).insert(task.at.lo, id);
        if !task.copy {
            of_job.left += task.left;
        }
        let (job, at, copy) = (task.job, task.at, task.copy);
        let slot = self.slots[id.0 as usize].replace(task);
        assert!(slot.is_none(), "a free slot has no task");
        debug_assert!(
            (if copy { self.copies_in(job, at) } else { self.overlapping(job, at) }) == [id],
            "{at} of job {} is out once",
            job.0
        );
        id
    }

    /// The nodes that have tasks of `job` are counted from now on.
    pub(super) fn count_nodes(&mut self, job: JobId) {
        self.holders.count(job);
        for task in self.slots.iter().flatten().filter(|task| task.job == job) {
            self.holders.came(job, task.node);
        }
    }

    /// A task enters the list of its node.
    pub(super) fn join(&mut self, id: TaskId, list: &mut Vec<TaskId>) {
        debug_assert!(self.at(id).node != NOBODY, "nobody has a list");
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
        self.slots[id.0 as usize].as_mut().filter(|task| task.attempt == attempt)
    }

    /// The task of an id, if it is in dq.
    pub(super) fn peek(&self, id: TaskId) -> Option<&Task> {
        self.slots[id.0 as usize].as_ref()
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
        let (job, before) = (task.job, task.node);
        (task.node, task.state) = (NOBODY, super::task::State::Back);
        self.holders.went(job, before);
        self.holders.came(job, NOBODY);
        self.of_nobody += 1;
        self.changes += 1;
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Task {
        let task = self.slots[id.0 as usize].take().expect("the id is held by a task in dq");
        self.free.push(id.0);
        let of_nobody = self.of_nobody.checked_sub(usize::from(task.node == NOBODY));
        self.of_nobody = of_nobody.expect("the sum has each task that nobody has");
        self.holders.went(task.job, task.node);
        self.changes += 1;
        let of_job = self.tasks_of(task.job);
        of_job.like(&task).remove(task.at.lo);
        if !task.copy {
            of_job.take(task.left);
        }
        if of_job.tasks.is_empty() && of_job.copies.is_empty() {
            assert!(of_job.left == 0, "without tasks a job has nothing out");
            self.jobs.remove(&task.job);
        }
        task
    }

    /// Results came for `units` of a task; how many it has left.
    pub(super) fn count(&mut self, id: TaskId, units: u128) -> u128 {
        self.changes += 1;
        let task = self.at_mut(id);
        assert!(0 < units && units <= task.left, "no unit of a task is counted twice");
        assert!(!task.copy, "the units of a copy are out by the account of the first dispatch");
        task.left -= units;
        let Task { job, left, .. } = *task;
        self.tasks_of(job).take(units);
        left
    }

    fn tasks_of(&mut self, job: JobId) -> &mut OfJob {
        self.jobs.get_mut(&job).expect("the job of a task in dq has its tasks here")
    }

    /// Moves the bounds of a task inwards.
    pub(super) fn narrow(&mut self, id: TaskId, to: Interval, left: u128) {
        let task = self.at_mut(id);
        assert!(task.at.lo <= to.lo && to.lo < to.hi && to.hi <= task.at.hi && !task.copy, "{to} is inwards");
        assert!(0 < left && left <= task.left && left <= to.units(), "it has something left, and not more");
        let (job, before, left_before) = (task.job, task.at.lo, task.left);
        (task.at, task.left) = (to, left);
        let of_job = self.tasks_of(job);
        of_job.take(left_before - left);
        if to.lo != before {
            of_job.tasks.remove(before);
            of_job.tasks.insert(to.lo, id);
        }
    }

    /// The task of `job` that holds `unit`.
    pub(super) fn holding(&self, job: JobId, unit: u128) -> Option<(TaskId, &Task)> {
        let id = self.jobs.get(&job)?.tasks.up_to(unit)?;
        let task = self.at(id);
        (unit < task.at.hi).then_some((id, task))
    }

    /// The same, where it may well be the task `near`: most that is asked about is asked again at once.
    pub(super) fn holding_near(&self, near: TaskId, job: JobId, unit: u128) -> Option<(TaskId, &Task)> {
        let holds = |task: &&Task| task.has(job, unit) && !task.copy;
        let task = self.slots.get(near.0 as usize).and_then(Option::as_ref).filter(holds);
        task.map(|task| (near, task)).or_else(|| self.holding(job, unit))
    }

    /// The tasks of `job` that overlap `at`, in order.
    pub(super) fn overlapping(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.overlapping_some(job, at, usize::MAX)
    }

    /// The first `most` of them.
    pub(super) fn overlapping_some(&self, job: JobId, at: Interval, most: usize) -> Vec<TaskId> {
        self.jobs.get(&job).map_or_else(Vec::new, |of_job| self.among(&of_job.tasks, at, most))
    }

    /// The copies of tasks of `job` that overlap `at`, in order.
    pub(super) fn copies_in(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.jobs.get(&job).map_or_else(Vec::new, |of_job| self.among(&of_job.copies, at, usize::MAX))
    }

    fn among(&self, tasks: &ByUnit<TaskId>, at: Interval, most: usize) -> Vec<TaskId> {
        if tasks.is_empty() {
            return Vec::new();
        }
        let begins_before = |id: &TaskId| {
            let known = self.at(*id).at;
            known.lo < at.lo && at.lo < known.hi && !at.is_empty()
        };
        let first = tasks.up_to(at.lo).filter(begins_before);
        let found: Vec<TaskId> = first.into_iter().chain(tasks.within(at.lo, at.hi)).take(most).collect();
        self.walks(found.len());
        found
    }

    /// So many tasks are gone through.
    pub(super) fn walks(&self, tasks: usize) {
        self.walked.set(self.walked.get() + tasks as u64);
    }

    /// Tasks that were gone through since the start.
    pub(super) fn walked(&self) -> u64 {
        self.walked.get()
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
        self.jobs.get(&job).map_or(0, |of_job| of_job.tasks.len())
    }

    /// Units of `job` that are out by the account of its tasks. A copy has none of its own.
    pub(super) fn units_out(&self, job: JobId) -> u128 {
        self.jobs.get(&job).map_or(0, |of_job| of_job.left)
    }

    /// Jobs that have tasks here.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// The tasks of `job`, without copies.
    pub(super) fn of_job(&self, job: JobId) -> impl Iterator<Item = TaskId> + '_ {
        self.jobs.get(&job).into_iter().flat_map(|of_job| of_job.tasks.values())
    }

    /// The copies of tasks of `job`.
    pub(super) fn copies(&self, job: JobId) -> impl Iterator<Item = TaskId> + '_ {
        self.jobs.get(&job).into_iter().flat_map(|of_job| of_job.copies.values())
    }

    /// All tasks, each with its id.
    pub(super) fn with_ids(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0..).map(TaskId).zip(&self.slots).filter_map(|(id, task)| Some((id, task.as_ref()?)))
    }
}
