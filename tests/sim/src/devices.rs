//! Devices of simulated machines.

use serde::Deserialize;
use starfarm_protocol::devices::DeviceFacts;
use starfarm_worker_core::AlikeDevices;

/// Devices of a machine that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// How many.
    pub count: u16,
    /// How many times as fast as a core of the machine each is.
    pub speed: f64,
    /// Each is one of the machine's cards, which are taken in their order.
    #[serde(default)]
    pub card: bool,
    /// So many of the tasks that begin there fail at once, as a share, and the device with them ...
    #[serde(default)]
    pub fails: f64,
    /// ... which is sick for so long.
    #[serde(default = "sick_time")]
    pub sick_s: f64,
}

fn sick_time() -> f64 {
    5.0
}

/// The model of each device, in the order of their slots, which stand behind those of the cores.
fn each(models: &[DeviceModel]) -> impl Iterator<Item = &DeviceModel> {
    models.iter().flat_map(|model| std::iter::repeat_n(model, model.count.into()))
}

/// The device of a slot of a machine with so many cores; none of a core.
pub(crate) fn of_slot(models: &[DeviceModel], cores: u16, slot: u16) -> Option<&DeviceModel> {
    each(models).nth(slot.checked_sub(cores)?.into())
}

/// The devices of a machine with so many cards, as their worker knows them.
pub(crate) fn alike(models: &[DeviceModel], gpus: u16) -> Vec<AlikeDevices> {
    let mut cards = 0..gpus;
    let kind = |(number, model): (usize, &DeviceModel)| AlikeDevices {
        facts: DeviceFacts { name: format!("device {number}"), ..DeviceFacts::default() },
        cards: (0..model.count).map(|_| if model.card { cards.next() } else { None }).collect(),
    };
    models.iter().enumerate().map(kind).collect()
}
