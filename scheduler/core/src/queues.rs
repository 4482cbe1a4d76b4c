//! The queues: gq, dq and what each node has. This is the only code that changes where a task is, and with it the class
//! of its units: pending units are in gq, those that are out are in dq, and a task in dq is at one node or at nobody.
//! Whose turn it is, how large a task is and when one goes back is decided elsewhere.

mod apart;
mod at_node;
mod by_unit;
mod check;
mod coverage;
mod decided;
mod dispatched;
mod global;
mod holders;
mod no_room;
mod node_list;
mod offers;
mod places;
mod task;
mod units;

use std::collections::VecDeque;

pub use starfarm_protocol::ids::NodeId;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::interval::Interval;

pub(crate) use coverage::{Class, Classes, Coverage, DECIDED, FAILED, Piece};
use dispatched::Dispatched;
use global::GlobalQueue;
use node_list::{NodeLists, Tallies};
pub(crate) use task::{NOBODY, Position, Size, State, Task, TaskId};
pub(crate) use units::JobUnits;

use crate::limits::SPLITS_MAX;
use crate::seat::Seat;

const PENDING: Classes = Classes::of(&[Class::Pending]);
const OUT: Classes = Classes::of(&[Class::Out]);

/// The queues of tasks.
#[derive(Debug)]
pub(crate) struct Queues {
    gq: GlobalQueue,
    dq: Dispatched,
    nodes: NodeLists,
    /// Tasks that nobody has any more, and that go back to gq as turns have time.
    back: VecDeque<TaskId>,
    /// Taken out of gq for a node, and not given yet.
    taken: Vec<Interval>,
    /// Tasks that results came for, as they are then, since that was asked.
    touched: VecDeque<(TaskId, Task)>,
    /// What the last decision changed.
    decided: Vec<Piece>,
    /// The task that was asked about last, if it is still there.
    near: TaskId,
    next_attempt: Attempt,
    /// Tasks given out since the start.
    dispatched: u64,
}

impl Queues {
    /// Empty queues. The first task that is given out gets the attempt `next`.
    pub(crate) fn new(next: Attempt) -> Self {
        Self {
            gq: GlobalQueue::default(),
            dq: Dispatched::default(),
            nodes: NodeLists::default(),
            back: VecDeque::new(),
            taken: Vec::new(),
            touched: VecDeque::new(),
            decided: Vec::new(),
            near: TaskId(0),
            next_attempt: next,
            dispatched: 0,
        }
    }

    // What is where.

    /// Tasks in gq.
    pub(crate) fn waiting(&self) -> usize {
        self.gq.len()
    }

    /// Tasks of `job` in gq.
    pub(crate) fn waiting_of(&self, job: JobId) -> usize {
        self.gq.tasks(job)
    }

    /// Tasks in gq that nodes looked at since the start.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.gq.looks
    }

    /// Tasks of dq that were gone through since the start, to find those of an interval.
    pub(crate) fn walked(&self) -> u64 {
        self.dq.walked()
    }

    /// Tasks in dq.
    pub(crate) fn out(&self) -> usize {
        self.dq.len()
    }

    /// Tasks of `job` in dq, copies left aside.
    pub(crate) fn out_of(&self, job: JobId) -> usize {
        self.dq.count_of_job(job)
    }

    /// How often anything came to dq, left it or was counted.
    pub(crate) fn changes(&self) -> u64 {
        self.dq.changes()
    }

    /// All tasks in dq.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.dq.with_ids().map(|(_, task)| task)
    }

    /// The task of an id that is known to be in dq.
    pub(crate) fn task(&self, id: TaskId) -> &Task {
        self.dq.at(id)
    }

    /// A task, if it is still the dispatch `attempt`.
    pub(crate) fn dispatch(&self, id: TaskId, attempt: Attempt) -> Option<&Task> {
        self.dq.peek(id).filter(|task| task.attempt == attempt)
    }

    /// The task of `job` that holds `unit`, copies left aside.
    pub(crate) fn holding(&self, job: JobId, unit: u128) -> Option<&Task> {
        self.dq.holding(job, unit).map(|(_, task)| task)
    }

    /// Where `at` lies, as seen by `node`, copies left aside.
    pub(crate) fn position(&mut self, node: NodeId, job: JobId, at: Interval) -> Position {
        let Some((id, task)) = self.dq.holding(job, at.lo) else { return Position::Elsewhere };
        self.near = id;
        match task.node == node && at.hi <= task.at.hi {
            true if task.at == at && task.left == at.units() => Position::Whole,
            true if task.at.lo < at.lo && at.hi < task.at.hi => Position::Amidst,
            true => Position::AtAnEnd,
            false => Position::Elsewhere,
        }
    }

    /// The tasks of `job` that overlap `at`, in order, copies left aside.
    pub(crate) fn overlapping(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.dq.overlapping(job, at)
    }

    /// The copies of tasks of `job` that overlap `at`, in order.
    pub(crate) fn copies_in(&self, job: JobId, at: Interval) -> Vec<TaskId> {
        self.dq.copies_in(job, at)
    }

    /// The tasks of `job`, copies left aside.
    pub(crate) fn of_job(&self, job: JobId) -> impl Iterator<Item = (TaskId, &Task)> {
        self.dq.of_job(job).map(|id| (id, self.dq.at(id)))
    }

    /// The copies of tasks of `job`.
    pub(crate) fn copies_of(&self, job: JobId) -> impl Iterator<Item = (TaskId, &Task)> {
        self.dq.copies(job).map(|id| (id, self.dq.at(id)))
    }

    /// Some task of `job`, copies among them.
    pub(crate) fn any_of(&self, job: JobId) -> Option<TaskId> {
        self.dq.copies(job).next().or_else(|| self.dq.of_job(job).next())
    }

    /// What is out at nobody: leased by an earlier scheduler, or about to go back.
    pub(crate) fn of_nobody(&self) -> Vec<TaskId> {
        self.dq.of_nobody()
    }

    /// What will be given out from now on has this attempt or a later one.
    pub(crate) fn next_attempt(&self) -> Attempt {
        self.next_attempt
    }

    /// Tasks given out since the start.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched
    }

    // From the fresh space to gq, and from there to nodes.

    /// Tasks that end at `ends` are cut from the fresh space into gq; how many.
    pub(crate) fn cut(&mut self, job: &mut JobUnits, ends: impl Iterator<Item = u128>) -> u64 {
        let (first, mut size, mut tasks) = (job.coverage.cursor(), 0, 0);
        let mut row = Interval::new(first, first);
        for end in ends {
            assert!(row.hi < end, "tasks are cut in order");
            if end - row.hi != size && !row.is_empty() {
                self.gq.put(job.job, row, size);
                row.lo = row.hi;
            }
            (size, row.hi, tasks) = (end - row.hi, end, tasks + 1);
        }
        if !row.is_empty() {
            self.gq.put(job.job, row, size);
            job.coverage.cut(row.hi, Class::Pending);
        }
        tasks
    }

    /// Takes the first task of `job` that is wanted out of gq, for [`Queues::give`]: see [`GlobalQueue::take`].
    pub(crate) fn take(
        &mut self,
        job: JobId,
        size: Size,
        deadly: bool,
        wanted: impl FnMut(u128) -> u128,
    ) -> Option<Interval> {
        let taken = self.gq.take(job, size, deadly, wanted)?;
        self.taken.push(taken);
        Some(taken)
    }

    /// Gives `seat` what was taken for it, where one of `whole` units is a whole task; how many tasks.
    pub(crate) fn give(&mut self, job: &mut JobUnits, seat: Seat, whole: u64, now_us: u64) -> usize {
        let taken = std::mem::take(&mut self.taken);
        let mut run: Option<Interval> = None;
        for &at in &taken {
            let weight = Task::weight_of(at.units(), whole) as u16;
            self.assign(Task { weight, ..Task::assigned(seat, job.job, at, self.next_attempt, now_us) });
            // Neighbours change their class together.
            match &mut run {
                Some(run) if run.hi == at.lo => run.hi = at.hi,
                _ => self.pending_goes_out(job, run.replace(at)),
            }
        }
        self.pending_goes_out(job, run);
        let given = taken.len();
        self.taken = taken;
        self.taken.clear();
        given
    }

    fn pending_goes_out(&mut self, job: &mut JobUnits, at: Option<Interval>) {
        if let Some(at) = at {
            let before = job.coverage.count(Class::Pending);
            job.coverage.change(at, PENDING, Class::Out, &mut Vec::new());
            let left = before - job.coverage.count(Class::Pending);
            assert!(left == at.units(), "what is given was pending, each unit of it");
        }
    }

    /// Gives `seat` a copy of what is out at another node.
    pub(crate) fn give_copy(&mut self, job: &mut JobUnits, seat: Seat, at: Interval, now_us: u64) {
        assert!(job.coverage.has_in(at, Class::Out), "a copy is of what is out");
        self.assign(Task { copy: true, ..Task::assigned(seat, job.job, at, self.next_attempt, now_us) });
    }

    fn assign(&mut self, task: Task) {
        let attempt = self.new_attempt();
        assert!(attempt == task.attempt, "it has the next number");
        self.dispatched += 1;
        self.enter(task);
    }

    fn new_attempt(&mut self) -> Attempt {
        let attempt = self.next_attempt;
        self.next_attempt.0 += 1;
        attempt
    }

    /// A task enters dq, and with it the list of its node, its node queue, or what goes back.
    fn enter(&mut self, task: Task) {
        let Task { node, kind, attempt, state, since_us, weight, .. } = task;
        assert!(attempt < self.next_attempt, "its number was given");
        let id = self.dq.put(task);
        if node == NOBODY {
            assert!(state != State::Assigned, "nobody is given anything");
            if state == State::Back {
                self.back.push_back(id);
            }
            return;
        }
        assert!(state != State::Back, "what goes back is at nobody");
        let list = self.nodes.of_mut(node);
        self.dq.join(id, &mut list.tasks);
        list.tallies.of_mut(kind).came(weight);
        if state == State::Assigned {
            assert!(list.unsent.back().is_none_or(|last| last.1 < attempt), "a node queue is in order");
            list.unsent.push_back((id, attempt));
            list.given_us = list.given_us.max(since_us);
        }
    }

    // Back to gq.

    /// The units of `at` that a task still has out go back to gq; it leaves dq with its last one. How many pieces that
    /// were. A copy leaves dq at once: the first dispatch goes on.
    pub(crate) fn give_back(&mut self, job: &mut JobUnits, id: TaskId, at: Interval) -> usize {
        if self.dq.at(id).copy {
            self.drop(id);
            return 0;
        }
        assert!(at.within(self.dq.at(id).at) == at, "a task gives back what it has");
        let mut pieces = Vec::new();
        job.coverage.change(at, OUT, Class::Pending, &mut pieces);
        if !pieces.is_empty() {
            self.cut_out(job, id, at);
            pieces.iter().for_each(|piece| self.put_back(job, piece.at));
        }
        pieces.len()
    }

    /// A node has nothing any more that could be sent to it or heard of it; which tasks it has.
    pub(crate) fn silence(&mut self, node: NodeId) -> Vec<TaskId> {
        let list = self.nodes.of_mut(node);
        list.silence();
        list.tasks.clone()
    }

    /// An incarnation of a node is gone for good: nobody has its tasks any more. How many these were.
    pub(crate) fn orphan(&mut self, node: NodeId) -> usize {
        let list = self.nodes.of_mut(node);
        list.silence();
        assert!(list.unsent.is_empty() && list.offered.is_empty(), "nothing is on its way to who is gone");
        let tasks = std::mem::take(&mut list.tasks);
        list.tallies = Tallies::default();
        for &id in &tasks {
            if self.dq.at(id).copy {
                // The first dispatch goes on alone.
                self.dq.remove(id);
            } else {
                self.dq.orphan(id);
                self.back.push_back(id);
            }
        }
        tasks.len()
    }

    /// The next task that nobody has and that goes back.
    pub(crate) fn next_back(&mut self) -> Option<TaskId> {
        while let Some(id) = self.back.pop_front() {
            // Its units may all be counted by now, or its job over.
            if self.dq.peek(id).is_some_and(|task| task.state == State::Back) {
                return Some(id);
            }
        }
        None
    }

    /// Tasks wait to go back.
    pub(crate) fn has_back(&self) -> bool {
        !self.back.is_empty()
    }

    /// A node is not known any more.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.nodes.forget(node);
    }

    /// A task leaves dq and its node's list.
    pub(crate) fn drop(&mut self, id: TaskId) -> Task {
        let task = self.dq.remove(id);
        if task.node == NOBODY {
            return task;
        }
        let list = self.nodes.of_mut(task.node);
        self.dq.leave(id, &mut list.tasks);
        let tally = list.tallies.of_mut(task.kind);
        tally.went(task.weight);
        let found = |id: &TaskId| self.dq.at(*id).is_found() && self.dq.at(*id).kind == task.kind;
        if tally.hidden > 0 && task.is_found() && !list.tasks.iter().any(found) {
            // The next heartbeat would say so: until then it gets work at once.
            tally.hidden = 0;
        }
        task
    }

    /// `at` waits in gq; units that workers died of, or that failed, lie there alone.
    fn put_back(&mut self, job: &JobUnits, at: Interval) {
        debug_assert!(job.coverage.count_in(at, Class::Pending) == at.units(), "what waits is pending");
        let mut from = at.lo;
        for (unit, why) in job.alone_in(at) {
            if from < unit {
                self.gq.put_back(job.job, Interval::new(from, unit));
            }
            self.gq.put_alone(job.job, unit, why);
            from = unit + 1;
        }
        if from < at.hi {
            self.gq.put_back(job.job, Interval::new(from, at.hi));
        }
    }

    /// What has `at`, which is decided, lets go of it before it is sent or run again; copies do so wholly.
    pub(crate) fn expel(&mut self, job: &JobUnits, at: Interval) {
        for id in self.dq.overlapping(job.job, at) {
            self.cut_out(job, id, at);
        }
        for id in self.dq.copies_in(job.job, at) {
            self.drop(id);
        }
        self.touched.clear();
    }

    /// `at` is not out any more by this task: it keeps what lies before, and a second one what lies behind, so that the
    /// tasks of a job never overlap. With nothing left it leaves dq.
    fn cut_out(&mut self, job: &JobUnits, id: TaskId, at: Interval) {
        let task = self.dq.at(id).clone();
        assert!(task.at.overlaps(at) && !task.copy, "{at} is cut out of what has some of it");
        let head = Interval::new(task.at.lo, at.lo.max(task.at.lo));
        let tail = Interval::new(at.hi.min(task.at.hi), task.at.hi);
        let left = |part| job.coverage.count_in(part, Class::Out);
        match (left(head), left(tail)) {
            (0, 0) => drop(self.drop(id)),
            (0, left) => self.dq.narrow(id, tail, left),
            (left, 0) => self.dq.narrow(id, head, left),
            (before, left) => {
                self.dq.narrow(id, head, before);
                let splits = task.splits.saturating_add(1);
                self.dq.at_mut(id).splits = splits;
                let (attempt, state) = match task.state {
                    State::Assigned => (self.new_attempt(), State::Assigned),
                    State::Back => (task.attempt, State::Back),
                    // Its offer is under way or was heard, and named both halves. Where it is lost, no heartbeat lists
                    // this half, and it expires.
                    State::Offered | State::Held { .. } => {
                        (task.attempt, State::Held { seen_us: task.since_us })
                    }
                };
                self.enter(Task { at: tail, left, attempt, state, splits, ..task });
            }
        }
    }

    /// What comes back of a task where `at` does. One that came back in many pieces comes back whole from there on: its
    /// node gives it back bit by bit.
    pub(crate) fn comes_back(&self, id: TaskId, at: Interval) -> Interval {
        let task = self.dq.at(id);
        let at = at.within(task.at);
        if task.splits < SPLITS_MAX { at } else { Interval::new(at.lo, task.at.hi) }
    }

    /// Node `node` was asked to give back what it has not begun of a job.
    pub(crate) fn trimmed(&mut self, node: NodeId, job: JobId) {
        for &id in &self.nodes.of(node).tasks {
            let task = self.dq.at_mut(id);
            task.trims = task.trims.saturating_add(u8::from(task.job == job));
        }
    }

    /// A task that a result came for since all were asked for, as it was then; it has nothing left where it left dq.
    pub(crate) fn next_touched(&mut self) -> Option<(TaskId, Task)> {
        self.touched.pop_front()
    }

    /// A partial result told of so much computing time for a task.
    pub(crate) fn spend(&mut self, id: TaskId, duration_us: u64) {
        let task = self.dq.at_mut(id);
        // What a worker says is no sum of ours that may overflow.
        task.spent_us = task.spent_us.saturating_add(duration_us);
    }
}
