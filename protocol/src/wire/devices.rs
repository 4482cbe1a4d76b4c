//! Devices of one kind, as their worker tells of them: what they are, how each does, and what waits for them.

use super::Feedback;
use crate::bytes::{Malformed, Reader, fields, items};
use crate::devices::{DeviceFacts, DeviceKind, DeviceState, SlotKind};
use crate::field::Field;
use crate::resources::GPUS_MAX;

/// Devices of one kind, each of them a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Devices {
    /// Which kind; not the cores.
    pub kind: SlotKind,
    /// What each of them is.
    pub facts: DeviceFacts,
    /// A task on one of them takes a card of the worker.
    pub takes_card: bool,
    /// Tasks that wait for one of them.
    pub queued_tasks: u32,
    /// Totals of requests for more and for fewer of these.
    pub feedback: Feedback,
    /// How each does, and the share of the time since the last heartbeat that it ran something, in thousandths.
    pub slots: Vec<(DeviceState, u16)>,
}

impl Devices {
    /// How many of them run a task, or could.
    pub fn usable(&self) -> u16 {
        self.slots.iter().filter(|(state, _)| state.is_usable()).count() as u16
    }
}

fields! { Field:
    SlotKind { 0 }
    Devices { kind, facts, takes_card, queued_tasks, feedback, slots }
    DeviceFacts { platform, name, driver, kind, version, memory_bytes, compute_units, width }
}
items! { Field:
    DeviceKind: |kind, out| out.push(*kind as u8), |rest| Ok(Self::from_number(rest.u8()?).unwrap_or_default());
    // In a state that this version does not know nothing is given to it.
    DeviceState: |state, out| out.push(*state as u8),
        |rest| Ok(Self::from_number(rest.u8()?).unwrap_or(Self::Sick));
    // The last in their message.
    Vec<(DeviceState, u16)>: |slots, out| slots.iter().take(GPUS_MAX as usize).for_each(|slot| slot.put(out)), |rest| {
        let slots: Vec<(DeviceState, u16)> = Field::read_all(rest)?;
        let is_one = (1..=GPUS_MAX as usize).contains(&slots.len());
        let busy = |(state, load): (DeviceState, u16)| (state, load.min(1_000));
        if is_one { Ok(slots.into_iter().map(busy).collect()) } else { Err(Malformed) }
    };
}
