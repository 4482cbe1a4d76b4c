//! The tasks that the worker has, waiting or on a slot: the only code that changes where a task is. An index of their
//! intervals knows what is offered twice.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::resources::Resources;
use starfarm_protocol::wire::{Cancel, Held, Outcome};

use crate::free::First;
use crate::queue::{Queue, Room};
use crate::slots::{Advance, Running, Slots};
use crate::types::{Part, Task};

#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    queue: Queue,
    slots: Slots,
    /// The intervals, as offered, of what waits and of what runs and was not let go.
    index: BTreeSet<(JobId, u128, u64)>,
}

/// Tasks that a slot begins to run.
pub(crate) struct Started {
    pub(crate) slot: u16,
    pub(crate) tasks: Vec<Task>,
    /// Cards that they have.
    pub(crate) cards: Vec<u16>,
}

/// By what the index knows a task.
fn interval(task: &Task) -> (JobId, u128, u64) {
    (task.job, task.lo, task.units)
}

/// Makes `next` part of `task` where it begins at its end; false where it does not. The latest number stands for
/// both: what is given back is what was offered up to then.
fn join(task: &mut Task, next: &Task) -> bool {
    let touch = (next.job, next.spec, next.lo) == (task.job, task.spec, task.hi());
    let joined = task.units.checked_add(next.units).filter(|_| touch);
    if let Some(units) = joined {
        (task.units, task.attempt) = (units, task.attempt.max(next.attempt));
    }
    joined.is_some()
}

impl Tasks {
    pub(crate) fn new(has: Resources, now_us: u64) -> Self {
        Self { queue: Queue::default(), slots: Slots::new(has, now_us), index: BTreeSet::new() }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// For what changes no task: names of units, meters.
    pub(crate) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Nothing waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.all_idle() && self.queue.is_empty()
    }

    pub(crate) fn has(&self, task: &Task) -> bool {
        self.index.contains(&interval(task))
    }

    /// Puts a task into the queue; false where it is here already, and goes by the new number if it waits.
    pub(crate) fn take(&mut self, task: Task, run: Resources, epoch: Epoch) -> bool {
        assert!(self.slots.has().fits(run), "what never fits is refused");
        let new = self.index.insert(interval(&task));
        if new {
            self.queue.push(task, run, epoch);
        } else {
            self.queue.renumber(&task, epoch);
        }
        self.check();
        new
    }

    /// Takes out what waits and `gone` names, by job, attempt and epoch; neighbours are joined.
    pub(crate) fn take_back(&mut self, gone: impl Fn(JobId, Attempt, Epoch) -> bool) -> Vec<Task> {
        let mut back = self.queue.revoke(|w| gone(w.task.job, w.task.attempt, w.epoch));
        back.iter().for_each(|task| self.forget(task));
        self.check();
        back.sort_unstable_by_key(|task| (task.job, task.lo));
        back.dedup_by(|next, before| join(before, next));
        back
    }

    /// Lets go of what runs and `gone` names; returns the slots that must be told, and of which job.
    pub(crate) fn let_go(
        &mut self,
        cancel: Cancel,
        gone: impl Fn(JobId, Attempt, Epoch) -> bool,
    ) -> Vec<(u16, JobId)> {
        let gone = |on: &Running| gone(on.task.job, on.task.attempt, on.epoch);
        let (freed, told) = self.slots.let_go(cancel, gone);
        freed.iter().for_each(|task| self.forget(task));
        self.check();
        told
    }

    /// The next bundle for an idle slot, if there are both and it fits.
    pub(crate) fn start(&mut self, now_us: u64) -> Option<Started> {
        let (first, run) = self.queue.first().filter(|_| self.slots.idle() > 0)?;
        let fits = self.slots.free().fits(run, First::Is);
        // What passed the first one, what may pass it next, and the first one itself fit together.
        let passing = match fits {
            true => Resources::NONE,
            false => {
                self.slots.keep_for(run, first);
                self.slots.has().minus(self.slots.passed(first).plus(run)).unwrap_or(Resources::NONE)
            }
        };
        let bundle = self.queue.take(Room { free: self.slots.free(), passing });
        if bundle.is_empty() {
            return None;
        }
        let (slot, cards) = self.slots.start(&bundle, (!fits).then_some(first), now_us);
        self.check();
        let tasks = bundle.into_iter().map(|waiting| waiting.task).collect();
        Some(Started { slot, tasks, cards })
    }

    /// Units of a task on that slot are over; false where the part does not continue it.
    pub(crate) fn advance(&mut self, slot: u16, part: &Part) -> bool {
        match self.slots.advance(slot, part) {
            Advance::Stray => return false,
            Advance::On => {}
            // A retry may be offered before the slot says that it has ended.
            Advance::Whole(task) => self.forget(&task),
        }
        if part.outcome == Outcome::Done {
            self.queue.learn(part.job, part.units, part.duration_us);
        }
        self.check();
        true
    }

    /// A task leaves its slot; none where it is not there.
    pub(crate) fn end(&mut self, slot: u16, attempt: Attempt, now_us: u64) -> Option<Running> {
        let ended = self.slots.end(slot, attempt, now_us)?;
        if !ended.let_go {
            self.forget(&ended.task);
        }
        self.check();
        Some(ended)
    }

    /// What is not reported yet.
    pub(crate) fn held(&self) -> impl Iterator<Item = Held> {
        let waiting = self.queue.iter().map(|task| Held { job: task.job, lo: task.lo, units: task.units });
        waiting.chain(self.slots.held())
    }

    fn forget(&mut self, task: &Task) {
        assert!(self.index.remove(&interval(task)), "the index knows what waits and what is not let go");
    }

    /// All that is here is in the index, and nothing else.
    fn check(&self) {
        let here = self.queue.len() + self.slots.wanted();
        assert_eq!(self.index.len(), here, "a task is indexed while it waits or runs and is wanted");
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::ContentHash;

    use super::*;

    fn task(attempt: u64, lo: u128, units: u64) -> Task {
        Task { job: JobId(1), spec: ContentHash([0; 32]), attempt: Attempt(attempt), lo, units }
    }

    #[test]
    fn an_interval_is_known_exactly_from_its_offer_until_it_is_let_go() {
        let mut tasks = Tasks::new(Resources::ONE_SLOT, 0);
        assert!(tasks.take(task(1, 0, 10), Resources::ONE_SLOT, Epoch(1)));
        assert!(!tasks.take(task(2, 0, 10), Resources::ONE_SLOT, Epoch(1)), "the same one");
        assert!(
            tasks.take(task(3, 0, 5), Resources::ONE_SLOT, Epoch(1)),
            "it begins there and is another one"
        );
        assert!(tasks.has(&task(9, 0, 10)) && tasks.has(&task(9, 0, 5)) && !tasks.has(&task(9, 5, 5)));
        let Started { slot, tasks: started, .. } = tasks.start(0).unwrap();
        assert_eq!(started, [task(2, 0, 10)]);
        assert!(tasks.start(0).is_none(), "there is one slot");
        assert_eq!(tasks.take_back(|_, attempt, _| attempt == Attempt(3)), [task(3, 0, 5)]);
        assert_eq!(tasks.let_go(Cancel::Graceful, |_, _, _| true), [(slot, JobId(1))]);
        assert!(!tasks.has(&task(9, 0, 10)));
        assert!(
            tasks.take(task(4, 0, 10), Resources::ONE_SLOT, Epoch(1)),
            "it is wanted anew while the old run goes on"
        );
        assert!(tasks.end(slot, Attempt(2), 0).unwrap().let_go);
        assert!(tasks.has(&task(9, 0, 10)) && tasks.end(slot, Attempt(2), 0).is_none());
    }

    #[test]
    #[should_panic(expected = "a task is indexed while it waits or runs and is wanted")]
    fn a_task_that_is_nowhere_is_noticed() {
        let mut tasks = Tasks::new(Resources::ONE_SLOT, 0);
        tasks.take(task(1, 0, 10), Resources::ONE_SLOT, Epoch(1));
        tasks.queue.revoke(|_| true);
        tasks.take(task(2, 50, 10), Resources::ONE_SLOT, Epoch(1));
    }
}
