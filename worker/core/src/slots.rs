//! What each slot runs, and how far it has come. What a run takes beside its slot, other slots and memory, is taken while
//! it lasts.

use std::collections::VecDeque;

use starfarm_protocol::devices::{DeviceState, SlotKind};
use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::resources::{Resource, Resources, cards};
use starfarm_protocol::wire::{Cancel, Held, Load};

use crate::device::Device;
use crate::free::{First, Free};
use crate::load::Meter;
use crate::queue::Waiting;
use crate::types::{AlikeDevices, Part, Task};

/// A task on a slot: running, or next in its bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// As offered; the index knows the task by its interval.
    pub(crate) task: Task,
    pub(crate) epoch: Epoch,
    /// First unit that is not reported yet.
    pub(crate) next: u128,
    /// All of it is reported, or its rest will come back: the same interval offered anew is wanted.
    pub(crate) let_go: bool,
}

impl Running {
    fn new(&Waiting { task, epoch, .. }: &Waiting) -> Self {
        Self { task, epoch, next: task.lo, let_go: false }
    }

    /// Units not reported yet; never more than the task has.
    pub(crate) fn rest(&self) -> u64 {
        let rest = self.task.hi().checked_sub(self.next).expect("no part reaches beyond its task");
        u64::try_from(rest).expect("a task has fewer than 2^64 units")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advance {
    /// It does not continue the attempt on that slot.
    Stray,
    /// It continues it.
    On,
    /// Now all of the task is reported, though its end was not heard yet.
    Whole(Task),
}

#[derive(Clone, Debug)]
struct Slot {
    running: VecDeque<Running>,
    /// The unit that the rim named as running.
    unit: Option<(JobId, u128)>,
    /// Jobs that the slot was told to let go of in this bundle.
    cancel: Vec<(JobId, Cancel)>,
    /// What its bundle takes of the worker; nothing while it has none.
    takes: Resources,
    /// Slots that its bundle takes beside this one: they stand still.
    with: Vec<u16>,
    /// Cards that its bundle has.
    cards: Vec<u16>,
    /// The device that it is; none of a core.
    device: Option<Device>,
    /// Its bundle was started before tasks that had waited for longer, and that number of them is still the first.
    passed: Option<u64>,
}

impl Slot {
    const IDLE: Self = Self {
        running: VecDeque::new(),
        unit: None,
        cancel: Vec::new(),
        takes: Resources::NONE,
        with: Vec::new(),
        cards: Vec::new(),
        device: None,
        passed: None,
    };
}

#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Those of the cores, and behind them the devices, kind by kind.
    slots: Vec<Slot>,
    cores: u16,
    /// What the worker has, and what of that is free.
    has: Resources,
    free: Free,
    /// Idle cores; the next one to use is last.
    idle: Vec<u16>,
    /// Tasks on slots that are not let go.
    wanted: usize,
    /// For the scheduler.
    meter: Meter,
    /// For who reads the worker's own lines.
    seen: Meter,
}

impl Slots {
    pub(crate) fn new(has: Resources, devices: &[AlikeDevices], now_us: u64) -> Self {
        let cores =
            u16::try_from(has.of(Resource::Slots)).expect("a worker has as many slots as its hello says");
        let mut slots = vec![Slot::IDLE; usize::from(cores)];
        slots.extend(Device::all(devices).map(|device| Slot { device: Some(device), ..Slot::IDLE }));
        let meter = Meter::new(slots.len() as u16, now_us);
        let idle = (0..cores).rev().collect();
        Self { slots, cores, has, free: Free::new(has), idle, wanted: 0, seen: meter.clone(), meter }
    }

    /// What the worker has.
    pub(crate) fn has(&self) -> Resources {
        self.has
    }

    /// Why a unit that takes `run` never fits here; none where it does.
    pub(crate) fn why_never(&self, run: Resources) -> Option<String> {
        let lack = self.has().lacks(run)?;
        let [takes, has] = [run, self.has()].map(|all| match lack {
            Resource::Gpus => cards(all.of(lack)).to_string(),
            _ => all.of(lack).to_string(),
        });
        Some(format!("a unit takes {takes} of {lack}, and this worker has {has}"))
    }

    /// What of that no bundle takes.
    pub(crate) fn free(&self) -> &Free {
        &self.free
    }

    /// The task numbered `first` waits for what a run of it takes.
    pub(crate) fn keep_for(&mut self, run: Resources, first: u64) {
        self.free.keep(run, first);
    }

    /// What is taken by bundles that were started before the tasks which have waited longest, those being the ones
    /// numbered `first`.
    pub(crate) fn passed(&self, first: u64) -> Resources {
        let by = self.slots.iter().filter(|slot| slot.passed == Some(first));
        by.fold(Resources::NONE, |sum, slot| sum.plus(slot.takes))
    }

    /// The slots of its cores.
    pub(crate) fn cores(&self) -> u16 {
        self.cores
    }

    /// How many of these are idle.
    pub(crate) fn idle_cores(&self) -> usize {
        self.idle.len()
    }

    /// Slots of all kinds that are idle.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
            + self.slots[self.cores.into()..].iter().filter(|slot| slot.running.is_empty()).count()
    }

    pub(crate) fn all_idle(&self) -> bool {
        self.idle() == self.slots.len()
    }

    /// What kind of slot it is; the cores' where there is none of that number.
    pub(crate) fn kind(&self, number: u16) -> SlotKind {
        let device = self.slots.get(usize::from(number)).and_then(|slot| slot.device);
        device.map_or(SlotKind::CORES, |device| device.kind)
    }

    /// The kind and the state of each device.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (SlotKind, DeviceState)> {
        let of = |slot: &Slot| {
            let device = slot.device?;
            let is_taken = slot.running.is_empty()
                && device.card.is_some_and(|card| !self.free.is_whole(card, First::Is));
            let state = if is_taken && device.state.is_usable() { DeviceState::Taken } else { device.state };
            Some((device.kind, state))
        };
        self.slots[self.cores.into()..].iter().filter_map(of)
    }

    /// Slots of a kind that can be used.
    pub(crate) fn usable(&self, kind: SlotKind) -> u16 {
        match kind.is_device() {
            true => self.devices().filter(|(of, state)| *of == kind && state.is_usable()).count() as u16,
            false => self.cores,
        }
    }

    /// The device of a slot does so now.
    pub(crate) fn set_device(&mut self, number: u16, state: DeviceState) {
        let slot = self.slots.get_mut(usize::from(number));
        if let Some(device) = slot.and_then(|slot| slot.device.as_mut()) {
            device.state = state;
        }
    }

    /// Devices of a kind that would run something at once, beside what waits for cards as `first`.
    pub(crate) fn free_devices(&self, kind: SlotKind, first: First) -> impl Iterator<Item = u16> {
        let is_free = move |slot: &Slot| {
            slot.running.is_empty()
                && slot.device.is_some_and(|device| {
                    let has_card = device.card.is_none_or(|card| self.free.is_whole(card, first));
                    device.kind == kind && device.state.is_usable() && has_card
                })
        };
        (0..)
            .zip(&self.slots)
            .skip(self.cores.into())
            .filter(move |(_, slot)| is_free(slot))
            .map(|(at, _)| at)
    }

    /// Gives a bundle to a device, which is free.
    pub(crate) fn start_device(&mut self, number: u16, bundle: &[Waiting], now_us: u64) {
        let slot = &mut self.slots[usize::from(number)];
        let device = slot.device.expect("a device is found among devices");
        assert!(slot.running.is_empty() && !bundle.is_empty(), "an idle device is given something");
        (slot.takes, slot.cards) = (device.takes(), device.card.into_iter().collect());
        self.free.take(slot.takes, &slot.cards);
        slot.running.extend(bundle.iter().map(Running::new));
        self.wanted += bundle.len();
        self.meter.begin(number, now_us);
        self.seen.begin(number, now_us);
        self.check();
    }

    /// Tasks on slots whose rest will be reported.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Gives a bundle to an idle slot, and to others what it needs of them: what it takes must be free. `passed`: the
    /// number of the first that waits, where that is not in the bundle.
    pub(crate) fn start(&mut self, bundle: &[Waiting], passed: Option<u64>, now_us: u64) -> (u16, Vec<u16>) {
        let takes = bundle.first().expect("a slot that is given nothing never becomes idle again").run;
        let cards = self.free.place(takes, passed.map_or(First::Is, First::Passed));
        let cards = cards.expect("a bundle is started where it fits");
        self.free.take(takes, &cards);
        let taken = self.idle.len() - takes.of(Resource::Slots) as usize;
        let mut with = self.idle.split_off(taken);
        for &number in &with {
            self.meter.begin(number, now_us);
            self.seen.begin(number, now_us);
        }
        let number = with.pop().expect("a run takes a slot at least");
        let slot = &mut self.slots[usize::from(number)];
        assert!(slot.running.is_empty() && slot.cancel.is_empty(), "an idle slot has no task");
        (slot.takes, slot.with, slot.passed) = (takes, with, passed);
        slot.cards.clone_from(&cards);
        slot.running.extend(bundle.iter().map(Running::new));
        self.wanted += bundle.len();
        self.check();
        (number, cards)
    }

    pub(crate) fn advance(&mut self, number: u16, part: &Part) -> Advance {
        let slot = self.slots.get_mut(usize::from(number));
        let running =
            slot.and_then(|slot| slot.running.iter_mut().find(|on| on.task.attempt == part.attempt));
        let Some(running) = running else { return Advance::Stray };
        let fits = (part.job, part.spec, part.lo) == (running.task.job, running.task.spec, running.next)
            && (1..=running.rest()).contains(&part.units);
        if !fits {
            return Advance::Stray;
        }
        running.next += u128::from(part.units);
        if running.rest() > 0 || std::mem::replace(&mut running.let_go, true) {
            return Advance::On;
        }
        self.wanted -= 1;
        Advance::Whole(running.task)
    }

    /// Ends a task. The slot becomes idle with the last one of its bundle.
    pub(crate) fn end(&mut self, number: u16, attempt: Attempt, now_us: u64) -> Option<Running> {
        let slot = self.slots.get_mut(usize::from(number))?;
        let at = slot.running.iter().position(|running| running.task.attempt == attempt)?;
        let ended = slot.running.remove(at).expect("it was found there");
        self.wanted -= usize::from(!ended.let_go);
        slot.unit = None;
        if slot.running.is_empty() {
            slot.cancel.clear();
            let takes = std::mem::replace(&mut slot.takes, Resources::NONE);
            self.free.give_back(takes, &std::mem::take(&mut slot.cards));
            slot.passed = None;
            let is_core = slot.device.is_none();
            for number in std::mem::take(&mut slot.with).into_iter().chain([number]) {
                self.idle.extend(is_core.then_some(number));
                self.meter.end(number, now_us);
                self.seen.end(number, now_us);
            }
        }
        self.check();
        Some(ended)
    }

    /// A slot is idle, has tasks, or is taken by those of another; no more are wanted than there are.
    fn check(&self) {
        let is_idle = |&number: &u16| self.slots[usize::from(number)].running.is_empty();
        assert!(self.idle.last().is_none_or(is_idle), "the slot to be used next has no task");
        assert_eq!(
            self.idle.len() as u64,
            self.free.amounts().of(Resource::Slots),
            "a slot is idle or taken"
        );
        let sum = self.slots.iter().fold(self.free.amounts(), |sum, slot| sum.plus(slot.takes));
        debug_assert_eq!(sum, self.has, "what is not free is taken by a bundle");
        let wanted = self.iter().filter(|running| !running.let_go).count();
        debug_assert_eq!(wanted, self.wanted, "wanted tasks are counted as they come and go");
    }

    /// No slot runs a unit, as far as is known: those that do are named next.
    pub(crate) fn unname_units(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.unit = None);
    }

    /// Notes which unit a slot runs. A name that comes after its task's end is too late to matter.
    pub(crate) fn name_unit(&mut self, number: u16, job: JobId, unit: u128) {
        if let Some(slot) = self.slots.get_mut(usize::from(number))
            && slot.running.iter().any(|running| running.task.job == job)
        {
            slot.unit = Some((job, unit));
        }
    }

    /// The running units, as the rim named them. A slot that waits for a specification, or is between two units, runs
    /// none.
    pub(crate) fn running_units(&self) -> impl Iterator<Item = (JobId, u128)> {
        self.slots.iter().filter_map(|slot| slot.unit)
    }

    /// How busy the cores, and each device, were since this was asked last.
    pub(crate) fn load(&mut self, now_us: u64) -> (Load, Vec<u16>) {
        self.meter.report(self.cores.into(), now_us)
    }

    /// The same for somebody else, who asks at other times.
    pub(crate) fn load_seen(&mut self, now_us: u64) -> (Load, Vec<u16>) {
        self.seen.report(self.cores.into(), now_us)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().flat_map(|slot| &slot.running)
    }

    /// What of the tasks on slots of a kind is not reported yet.
    pub(crate) fn held(&self, kind: SlotKind) -> impl Iterator<Item = Held> {
        let rest = |on: &Running| Held { job: on.task.job, lo: on.next, units: on.rest() };
        let is_of = move |slot: &&Slot| slot.device.map_or(SlotKind::CORES, |device| device.kind) == kind;
        let running = self.slots.iter().filter(is_of).flat_map(|slot| &slot.running);
        running.map(rest).filter(|held| held.units > 0)
    }

    /// Lets go of the tasks that `gone` names: which were wanted, and the slots that must be told, with their job. A
    /// slot is told once, and once more where a forced end follows a graceful one.
    pub(crate) fn let_go(
        &mut self,
        cancel: Cancel,
        gone: impl Fn(&Running) -> bool,
    ) -> (Vec<Task>, Vec<(u16, JobId)>) {
        let (mut freed, mut told) = (Vec::new(), Vec::new());
        for (number, slot) in (0_u16..).zip(&mut self.slots) {
            for running in slot.running.iter_mut().filter(|running| gone(running)) {
                if !std::mem::replace(&mut running.let_go, true) {
                    freed.push(running.task);
                }
                let job = running.task.job;
                let knows = |&(of, how)| of == job && (how == cancel || how == Cancel::Forced);
                if !slot.cancel.iter().any(knows) {
                    slot.cancel.push((job, cancel));
                    told.push((number, job));
                }
            }
        }
        self.wanted -= freed.len();
        self.check();
        (freed, told)
    }
}
