//! What people are shown of the slots of a node, kind by kind.

use std::collections::BTreeMap;

use starfarm_protocol::admin::{DeviceInfo, DevicesInfo, RateInfo};
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::NodeId;

use crate::filling::DevicesAt;
use crate::jobs::Jobs;
use crate::queues::{Queues, Task};
use crate::seat::Seat;

/// Tasks of a node that are looked at for what its slots compute.
const RATED_TASKS: usize = 256;

/// What slots of each kind of a node compute, by a job of which they have tasks.
pub(crate) fn rates_at(id: NodeId, queues: &Queues, jobs: &Jobs) -> BTreeMap<SlotKind, RateInfo> {
    let rate = |task: &Task| {
        let rate = jobs.get(task.job)?.rates.get(task.seat())?;
        Some((task.kind, RateInfo { job: task.job, units_per_s: rate.units_per_s }))
    };
    // A node may have thousands, and most of them of one job.
    queues.tasks_at(id).take(RATED_TASKS).filter_map(rate).collect()
}

/// Devices of one kind, as admin commands see them.
pub(crate) fn devices_info(
    id: NodeId,
    at: &DevicesAt,
    queues: &Queues,
    rates: &BTreeMap<SlotKind, RateInfo>,
) -> DevicesInfo {
    let (told, facts) = (&at.told, &at.told.facts);
    DevicesInfo {
        kind: told.kind,
        name: facts.name.clone(),
        device: facts.kind,
        platform: facts.platform.clone(),
        driver: facts.driver.clone(),
        opencl: format!("{}.{}", facts.version.0, facts.version.1),
        memory_bytes: facts.memory_bytes,
        compute_units: facts.compute_units,
        slots: told.slots.iter().map(|&(state, load)| DeviceInfo { state, load: load.into() }).collect(),
        tasks: queues.held(Seat::new(id, told.kind)) as u64,
        tasks_queued: told.queued_tasks.into(),
        rate: rates.get(&told.kind).copied(),
    }
}
