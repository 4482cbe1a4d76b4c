//! Devices as slots: which kind each is, which card, how it does; and what the worker says of that.

use starfarm_protocol::devices::{DeviceState, SlotKind};
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::wire::Devices;

use crate::types::{AlikeDevices, Deed};
use crate::worker::Worker;

/// The device of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) kind: SlotKind,
    /// The card that a task on it takes.
    pub(crate) card: Option<u16>,
    /// As the rim said last; nothing is known there of programs that have its card.
    pub(crate) state: DeviceState,
}

impl Device {
    /// All devices, in the order of their slots.
    pub(crate) fn all(kinds: &[AlikeDevices]) -> impl Iterator<Item = Self> {
        let numbered = (1..).map(SlotKind).zip(kinds);
        numbered.flat_map(|(kind, alike)| {
            alike.cards.iter().map(move |&card| Self { kind, card, state: DeviceState::Ready })
        })
    }

    /// What a task on it takes of the worker.
    pub(crate) fn takes(&self) -> Resources {
        let parts = self.card.map_or(0, |_| GPU_PARTS);
        Resources::NONE.with(Resource::Gpus, parts)
    }
}

impl Worker {
    /// The device of a slot does otherwise than before: the driver compiles for it, it failed, it can be used again.
    pub fn on_device(&mut self, slot: u16, state: DeviceState, now_us: u64, deeds: &mut Vec<Deed>) {
        self.tasks.slots_mut().set_device(slot, state);
        self.settle(now_us, deeds);
    }

    /// What waits for devices of which none can be used goes back: others have it sooner.
    pub(crate) fn return_stranded(&mut self, now_us: u64) {
        for kind in self.kinds() {
            if self.tasks.slots().usable(kind) == 0 {
                self.tasks.take_waiting(kind).into_iter().for_each(|task| self.return_unrun(task, now_us));
            }
        }
    }

    /// The kinds of devices.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = SlotKind> + use<> {
        (1..=self.config.devices.len() as u8).map(SlotKind)
    }

    /// How many devices of each kind can be used.
    pub(crate) fn usable(&self) -> Vec<u16> {
        self.kinds().map(|kind| self.tasks.slots().usable(kind)).collect()
    }

    /// What is to be said of devices, `loads` being those of their slots.
    pub(crate) fn devices(&self, loads: &[u16]) -> Vec<Devices> {
        let slots = self.tasks.slots();
        let mut all = slots.devices().zip(loads.iter().copied().chain(std::iter::repeat(0))).peekable();
        let row = |(kind, alike): (SlotKind, &AlikeDevices)| Devices {
            kind,
            facts: alike.facts.clone(),
            takes_card: alike.cards.iter().any(Option::is_some),
            queued_tasks: self.tasks.queue(kind).len() as u32,
            feedback: self.riders.feedback(kind),
            slots: std::iter::from_fn(|| {
                let ((_, state), load) = all.next_if(|((of, _), _)| *of == kind)?;
                Some((state, load))
            })
            .collect(),
        };
        (1..).map(SlotKind).zip(&self.config.devices).map(row).collect()
    }
}
