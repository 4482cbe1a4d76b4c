//! The tasks that the worker has, waiting or on a slot: the only code that changes where a task is. An index of their
//! intervals knows what is offered twice.

use std::collections::BTreeSet;

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::resources::Resources;
use starfarm_protocol::wire::{Cancel, Devices, Feedback, Held, Outcome};

use crate::free::{First, Free};
use crate::queue::{Queue, Room};
use crate::slots::{Advance, Running, Slots};
use crate::types::{AlikeDevices, Part, Task};

#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    /// What waits, by kind of slots, the cores first.
    queues: Vec<Queue>,
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
    pub(crate) fn new(has: Resources, devices: &[AlikeDevices], now_us: u64) -> Self {
        let queues = vec![Queue::default(); 1 + devices.len()];
        Self { queues, slots: Slots::new(has, devices, now_us), index: BTreeSet::new() }
    }

    /// What waits for slots of a kind.
    pub(crate) fn queue(&self, kind: SlotKind) -> &Queue {
        &self.queues[usize::from(kind.0)]
    }

    /// How many tasks wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }

    /// The kinds of devices.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = SlotKind> + use<> {
        (1..self.queues.len() as u8).map(SlotKind)
    }

    /// How many devices of each kind can be used.
    pub(crate) fn usable(&self) -> Vec<u16> {
        self.kinds().map(|kind| self.slots.usable(kind)).collect()
    }

    /// What is to be said of devices, kind by kind: what they are, how busy the slots were, what was asked for.
    pub(crate) fn devices(
        &self,
        kinds: &[AlikeDevices],
        loads: &[u16],
        feedback: impl Fn(SlotKind) -> Feedback,
    ) -> Vec<Devices> {
        let loads = loads.iter().copied().chain(std::iter::repeat(0));
        let mut all =
            self.slots.devices().zip(loads).map(|((kind, state), load)| (kind, (state, load))).peekable();
        let row = |(kind, alike): (SlotKind, &AlikeDevices)| Devices {
            kind,
            facts: alike.facts.clone(),
            takes_card: alike.cards.iter().any(Option::is_some),
            queued_tasks: self.queue(kind).len() as u32,
            feedback: feedback(kind),
            slots: std::iter::from_fn(|| all.next_if(|(of, _)| *of == kind).map(|(_, slot)| slot)).collect(),
        };
        self.kinds().zip(kinds).map(row).collect()
    }

    /// There are slots of that kind.
    pub(crate) fn has_kind(&self, kind: SlotKind) -> bool {
        usize::from(kind.0) < self.queues.len()
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
        self.slots.all_idle() && self.waiting() == 0
    }

    pub(crate) fn has(&self, task: &Task) -> bool {
        self.index.contains(&interval(task))
    }

    /// Puts a task into the queue of such slots; false where it is here already, and goes by the new number if it waits.
    pub(crate) fn take(&mut self, task: Task, (run, kind): (Resources, SlotKind), epoch: Epoch) -> bool {
        assert!(kind.is_device() || self.slots.has().fits(run), "what never fits is refused");
        let new = self.index.insert(interval(&task));
        if new {
            self.queues[usize::from(kind.0)].push(task, run, epoch);
        } else {
            self.queues.iter_mut().for_each(|queue| queue.renumber(&task, epoch));
        }
        self.check();
        new
    }

    /// Takes out what waits and `gone` names, by job, attempt and epoch; neighbours are joined.
    pub(crate) fn take_back(&mut self, gone: impl Fn(JobId, Attempt, Epoch) -> bool) -> Vec<Task> {
        let of = |queue: &mut Queue| queue.revoke(|w| gone(w.task.job, w.task.attempt, w.epoch));
        let back = self.queues.iter_mut().flat_map(of).collect();
        self.joined(back)
    }

    /// Takes out what waits for devices of a kind of which none can be used; likewise.
    pub(crate) fn take_stranded(&mut self) -> Vec<Task> {
        let stranded: Vec<SlotKind> = self
            .kinds()
            .filter(|kind| !self.queue(*kind).is_empty() && self.slots.usable(*kind) == 0)
            .collect();
        let of = |kind: SlotKind| self.queues[usize::from(kind.0)].revoke(|_| true);
        let back: Vec<Task> = stranded.into_iter().flat_map(of).collect();
        if back.is_empty() { back } else { self.joined(back) }
    }

    fn joined(&mut self, mut back: Vec<Task>) -> Vec<Task> {
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
        let kinds = (1..self.queues.len() as u8).map(SlotKind);
        let started = self
            .start_core(now_us)
            .or_else(|| kinds.into_iter().find_map(|kind| self.start_device(kind, now_us)));
        self.check();
        started
    }

    fn start_core(&mut self, now_us: u64) -> Option<Started> {
        let [queue, ..] = self.queues.as_mut_slice() else { unreachable!("there are cores") };
        let (first, run) = queue.first().filter(|_| self.slots.idle_cores() > 0)?;
        let fits = self.slots.free().fits(run, First::Is);
        // What passed the first one, what may pass it next, and the first one itself fit together.
        let passing = match fits {
            true => Resources::NONE,
            false => {
                self.slots.keep_for(run, first);
                self.slots.has().minus(self.slots.passed(first).plus(run)).unwrap_or(Resources::NONE)
            }
        };
        let bundle = queue.take(Room { free: self.slots.free(), passing });
        if bundle.is_empty() {
            return None;
        }
        let (slot, cards) = self.slots.start(&bundle, (!fits).then_some(first), now_us);
        let tasks = bundle.into_iter().map(|waiting| waiting.task).collect();
        Some(Started { slot, tasks, cards })
    }

    /// A device is given something, unless the task that waits for cores first is about to have its card.
    fn start_device(&mut self, kind: SlotKind, now_us: u64) -> Option<Started> {
        let first =
            self.queues.first().and_then(Queue::first).map_or(First::Is, |(first, _)| First::Passed(first));
        let queue = &mut self.queues[usize::from(kind.0)];
        if queue.is_empty() {
            return None;
        }
        let free: Vec<u16> = self.slots.free_devices(kind, first).collect();
        let slot = *free.first()?;
        let room = Free::new(Resources::new(free.len() as u16, 0));
        let bundle = queue.take(Room { free: &room, passing: Resources::NONE });
        self.slots.start_device(slot, &bundle, now_us);
        let tasks = bundle.into_iter().map(|waiting| waiting.task).collect();
        Some(Started { slot, tasks, cards: Vec::new() })
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
            let kind = self.slots.kind(slot);
            self.queues[usize::from(kind.0)].learn(part.job, part.units, part.duration_us);
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

    /// What slots of a kind have and did not report yet.
    pub(crate) fn held(&self, kind: SlotKind) -> impl Iterator<Item = Held> {
        let waiting =
            self.queue(kind).iter().map(|task| Held { job: task.job, lo: task.lo, units: task.units });
        waiting.chain(self.slots.held(kind))
    }

    fn forget(&mut self, task: &Task) {
        assert!(self.index.remove(&interval(task)), "the index knows what waits and what is not let go");
    }

    /// All that is here is in the index, and nothing else.
    fn check(&self) {
        let here = self.waiting() + self.slots.wanted();
        assert_eq!(self.index.len(), here, "a task is indexed while it waits or runs and is wanted");
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::ContentHash;

    use super::*;

    const CORE: (Resources, SlotKind) = (Resources::ONE_SLOT, SlotKind::CORES);

    fn task(attempt: u64, lo: u128, units: u64) -> Task {
        Task { job: JobId(1), spec: ContentHash([0; 32]), attempt: Attempt(attempt), lo, units }
    }

    #[test]
    fn an_interval_is_known_exactly_from_its_offer_until_it_is_let_go() {
        let mut tasks = Tasks::new(Resources::ONE_SLOT, &[], 0);
        assert!(tasks.take(task(1, 0, 10), CORE, Epoch(1)));
        assert!(!tasks.take(task(2, 0, 10), CORE, Epoch(1)), "the same one");
        assert!(tasks.take(task(3, 0, 5), CORE, Epoch(1)), "it begins there and is another one");
        assert!(tasks.has(&task(9, 0, 10)) && tasks.has(&task(9, 0, 5)) && !tasks.has(&task(9, 5, 5)));
        let Started { slot, tasks: started, .. } = tasks.start(0).unwrap();
        assert_eq!(started, [task(2, 0, 10)]);
        assert!(tasks.start(0).is_none(), "there is one slot");
        assert_eq!(tasks.take_back(|_, attempt, _| attempt == Attempt(3)), [task(3, 0, 5)]);
        assert_eq!(tasks.let_go(Cancel::Graceful, |_, _, _| true), [(slot, JobId(1))]);
        assert!(!tasks.has(&task(9, 0, 10)));
        assert!(tasks.take(task(4, 0, 10), CORE, Epoch(1)), "it is wanted anew while the old run goes on");
        assert!(tasks.end(slot, Attempt(2), 0).unwrap().let_go);
        assert!(tasks.has(&task(9, 0, 10)) && tasks.end(slot, Attempt(2), 0).is_none());
    }

    #[test]
    #[should_panic(expected = "a task is indexed while it waits or runs and is wanted")]
    fn a_task_that_is_nowhere_is_noticed() {
        let mut tasks = Tasks::new(Resources::ONE_SLOT, &[], 0);
        tasks.take(task(1, 0, 10), CORE, Epoch(1));
        tasks.queues[0].revoke(|_| true);
        tasks.take(task(2, 50, 10), CORE, Epoch(1));
    }
}
