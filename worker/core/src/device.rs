//! The device of a slot: which kind it is, which card, how it does.

use starfarm_protocol::devices::{DeviceState, SlotKind};
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};

use crate::types::AlikeDevices;

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
