//! A task that was given to a node, and dq, where all of these are. A task is in dq from the moment it is
//! in a node queue until its last unit is counted or it is given to another. This is the only place where
//! a task's state changes.

use std::collections::BTreeMap;

pub use starfarm_protocol::ids::NodeId;
use starfarm_protocol::ids::{Attempt, JobId};
pub(crate) use starfarm_protocol::journal::record::NOBODY;

/// Where a task in dq is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// In its node's queue, not yet sent.
    Assigned,
    /// Offered; the worker has not acknowledged the offer.
    Offered,
    /// The worker has it. At `seen_us` it was acknowledged or last listed in a heartbeat: an attempt that a
    /// live node no longer lists expires T_retry after that.
    Held {
        /// Microseconds of the scheduler's clock.
        seen_us: u64,
    },
    /// Nobody has it any more: it goes back to gq as soon as a turn has time.
    Back,
}

/// A task in dq.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Its job.
    pub(crate) job: JobId,
    /// First unit.
    pub(crate) lo: u128,
    /// End, exclusive.
    pub(crate) hi: u128,
    /// Units that no result has come for.
    pub(crate) left: u128,
    /// The node that it was given to.
    pub(crate) node: NodeId,
    /// Number of this dispatch.
    pub(crate) attempt: Attempt,
    /// Where it is.
    pub(crate) state: State,
    /// When it was put into dq: the paper's T_dq.
    pub(crate) since_us: u64,
    /// Computing time that its partial results told of.
    pub(crate) spent_us: u64,
    /// A second dispatch of what another node still computes. Its units are out by the first one's account.
    pub(crate) copy: bool,
}

impl Task {
    /// Attempt of a task that was not offered but found at its node by a heartbeat.
    pub(crate) const ADOPTED: Attempt = Attempt(0);

    /// A task that `node` was found to hold, wholly out.
    pub(crate) fn held(node: NodeId, job: JobId, (lo, hi): (u128, u128), now_us: u64) -> Self {
        Self {
            job,
            lo,
            hi,
            left: hi - lo,
            node,
            attempt: Self::ADOPTED,
            state: State::Held { seen_us: now_us },
            since_us: now_us,
            spent_us: 0,
            copy: false,
        }
    }

    /// It was found at its node by a heartbeat, and may be many tasks there.
    pub(crate) fn is_found(&self) -> bool {
        self.attempt == Self::ADOPTED
    }
}

const _: () = assert!(size_of::<Task>() <= 144, "a task in dq stays small: there may be a million");

/// Index of a task in dq.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TaskId(u32);

/// dq: by index, and per job by first unit. Tasks of one job never overlap, but for copies.
#[derive(Debug, Default)]
pub(crate) struct Dispatched {
    slots: Vec<Option<Task>>,
    /// Of each slot the place in the list of the task's node. They lie apart from the tasks, so that moving one in a
    /// list touches no other task.
    places: Vec<u32>,
    free: Vec<u32>,
    jobs: BTreeMap<JobId, OfJob>,
    /// Tasks that are at no node.
    of_nobody: usize,
    /// Copies, by first unit: those of one job do not overlap either.
    copies: BTreeMap<JobId, BTreeMap<u128, TaskId>>,
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
    /// Tasks in dq.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts a task in.
    pub(crate) fn put(&mut self, task: Task) -> TaskId {
        let Task { job, lo, left, copy, .. } = task;
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
        if copy {
            self.copies.entry(job).or_default().insert(lo, id);
        } else {
            let of_job = self.jobs.entry(job).or_default();
            of_job.by_lo.insert(lo, id);
            of_job.left += left;
        }
        id
    }

    /// Puts in a task of the node whose list this is.
    pub(crate) fn put_at(&mut self, task: Task, list: &mut Vec<TaskId>) -> TaskId {
        let id = self.put(task);
        self.places[id.0 as usize] = list.len() as u32;
        list.push(id);
        id
    }

    /// A task leaves the list of its node.
    pub(crate) fn leave(&mut self, id: TaskId, list: &mut Vec<TaskId>) {
        let at = self.places[id.0 as usize];
        let left = list.swap_remove(at as usize);
        debug_assert!(left == id, "the list and the place agree");
        if let Some(moved) = list.get(at as usize) {
            self.places[moved.0 as usize] = at;
        }
    }

    /// The task, if it is still the dispatch `attempt`.
    pub(crate) fn get(&mut self, id: TaskId, attempt: Attempt) -> Option<&mut Task> {
        self.slots.get_mut(id.0 as usize)?.as_mut().filter(|task| task.attempt == attempt)
    }

    /// The task of an id, if it is in dq.
    pub(crate) fn peek(&self, id: TaskId) -> Option<&Task> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// The task of an id that is known to be in dq.
    pub(crate) fn at(&mut self, id: TaskId) -> &mut Task {
        self.slots[id.0 as usize].as_mut().expect("the id is held by a task in dq")
    }

    /// The node of a task is gone: nobody has it.
    pub(crate) fn orphan(&mut self, id: TaskId) {
        let task = self.at(id);
        debug_assert!(!task.copy && task.node != NOBODY, "a task that a node had as the first");
        (task.node, task.state) = (NOBODY, State::Back);
        self.of_nobody += 1;
        self.changes += 1;
    }

    /// Takes a task out.
    pub(crate) fn remove(&mut self, id: TaskId) -> Task {
        let task = self.slots[id.0 as usize].take().expect("the id is held by a task in dq");
        self.free.push(id.0);
        self.of_nobody -= usize::from(task.node == NOBODY);
        self.changes += 1;
        if task.copy {
            let copies = self.copies.get_mut(&task.job).expect("the job of a copy has its copies here");
            copies.remove(&task.lo);
            if copies.is_empty() {
                self.copies.remove(&task.job);
            }
            return task;
        }
        let of_job = self.tasks_of(task.job);
        of_job.by_lo.remove(&task.lo);
        of_job.left -= task.left;
        if of_job.by_lo.is_empty() {
            self.jobs.remove(&task.job);
        }
        task
    }

    /// Results came for `units` of a task; how many it has left.
    pub(crate) fn count(&mut self, id: TaskId, units: u128) -> u128 {
        self.changes += 1;
        let task = self.at(id);
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
    pub(crate) fn narrow(&mut self, id: TaskId, (lo, hi): (u128, u128), left: u128) {
        let task = self.at(id);
        debug_assert!(task.lo <= lo && lo < hi && hi <= task.hi && !task.copy);
        let (job, before, left_before) = (task.job, task.lo, task.left);
        (task.lo, task.hi, task.left) = (lo, hi, left);
        let of_job = self.tasks_of(job);
        of_job.left = of_job.left - left_before + left;
        if lo != before {
            of_job.by_lo.remove(&before);
            of_job.by_lo.insert(lo, id);
        }
    }

    /// The task of `job` that holds `unit`.
    pub(crate) fn holding(&self, job: JobId, unit: u128) -> Option<(TaskId, &Task)> {
        let (_, &id) = self.jobs.get(&job)?.by_lo.range(..=unit).next_back()?;
        let task = self.slots[id.0 as usize].as_ref()?;
        (unit < task.hi).then_some((id, task))
    }

    /// The tasks of `job` that overlap [lo, hi), in order.
    pub(crate) fn overlapping(&self, job: JobId, lo: u128, hi: u128) -> Vec<TaskId> {
        let Some(OfJob { by_lo, .. }) = self.jobs.get(&job) else { return Vec::new() };
        self.among(by_lo, lo, hi)
    }

    fn among(&self, by_lo: &BTreeMap<u128, TaskId>, lo: u128, hi: u128) -> Vec<TaskId> {
        let first = by_lo.range(..=lo).next_back().filter(|(_, id)| {
            self.slots[id.0 as usize].as_ref().is_some_and(|task| task.hi > lo && task.lo < lo)
        });
        first.into_iter().chain(by_lo.range(lo..hi)).map(|(_, &id)| id).collect()
    }

    /// What is out at nobody: leased by an earlier scheduler.
    pub(crate) fn of_nobody(&self) -> Vec<TaskId> {
        if self.of_nobody == 0 {
            return Vec::new();
        }
        let ids = (0..).map(TaskId).zip(&self.slots);
        ids.filter(|(_, task)| task.as_ref().is_some_and(|task| task.node == NOBODY))
            .map(|(id, _)| id)
            .collect()
    }

    /// The copies of tasks of `job`.
    pub(crate) fn copies(&self, job: JobId) -> Vec<TaskId> {
        self.copies.get(&job).map_or_else(Vec::new, |by_lo| by_lo.values().copied().collect())
    }

    /// The copies of tasks of `job` that overlap [lo, hi), in order.
    pub(crate) fn copies_in(&self, job: JobId, lo: u128, hi: u128) -> Vec<TaskId> {
        self.copies.get(&job).map_or_else(Vec::new, |by_lo| self.among(by_lo, lo, hi))
    }

    /// How often anything came, went or was counted.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// How many tasks of `job` there are, without copies.
    pub(crate) fn count_of_job(&self, job: JobId) -> usize {
        self.jobs.get(&job).map_or(0, |of_job| of_job.by_lo.len())
    }

    /// Units of `job` that are out by the account of its tasks. A copy has none of its own.
    pub(crate) fn units_out(&self, job: JobId) -> u128 {
        self.jobs.get(&job).map_or(0, |of_job| of_job.left)
    }

    /// Jobs that have tasks here, copies left aside.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// How many tasks are at no node.
    pub(crate) fn count_of_nobody(&self) -> usize {
        self.of_nobody
    }

    /// The tasks of `job`, without copies.
    pub(crate) fn of_job(&self, job: JobId) -> Vec<TaskId> {
        self.jobs.get(&job).map_or_else(Vec::new, |of_job| of_job.by_lo.values().copied().collect())
    }

    /// Some task of `job`, copies among them.
    pub(crate) fn any_of_job(&self, job: JobId) -> Option<TaskId> {
        let copy = self.copies.get(&job).and_then(|copies| copies.values().next());
        copy.or_else(|| self.jobs.get(&job)?.by_lo.values().next()).copied()
    }

    /// All tasks, each with its id.
    pub(crate) fn with_ids(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0..).map(TaskId).zip(&self.slots).filter_map(|(id, task)| Some((id, task.as_ref()?)))
    }

    /// All tasks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.slots.iter().flatten()
    }
}
