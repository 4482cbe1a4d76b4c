//! A node, as admin commands see it.

use serde::{Deserialize, Serialize};

use super::usage::NodeUsage;
use crate::devices::{DeviceKind, DeviceState, SlotKind};
use crate::ids::{Boot, JobId, NodeId, PublicKey};
use crate::link::AlarmLevel;
use crate::state::{IdleReason, NodeState};
use crate::units::Units;
use crate::wire::CardFigures;

/// A node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its number in its farm, never given twice.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its key; null where it was revoked.
    #[serde(default)]
    pub key: Option<PublicKey>,
    /// Its state.
    pub state: NodeState,
    /// It is lost because its worker left by itself, and said so.
    #[serde(default)]
    pub left: bool,
    /// Why it is quarantined; else empty.
    pub why: String,
    /// A person drains it, whatever its state: lost, it gets nothing either once it is back.
    #[serde(default)]
    pub drained: bool,
    /// Why it is idle; none while it has tasks, where it is not there, and of a scheduler with `--no-log`.
    #[serde(default)]
    pub idle: Option<IdleReason>,
    /// Its incarnation, for the log; none once it has left.
    #[serde(skip)]
    pub boot: Option<Boot>,
    /// Compute units.
    pub slots: u16,
    /// Standard tasks a period of 10 s, mean of the last 64 periods.
    pub power: f64,
    /// Tasks in dq that it has.
    pub tasks: u64,
    /// Tasks in its own queue, by its last heartbeat.
    pub tasks_queued: u64,
    /// Tasks that it finished.
    pub tasks_done: u64,
    /// Units counted from it.
    pub units_done: Units,
    /// Speed-ups heard.
    pub speed_ups: u64,
    /// Slow-downs heard.
    pub slow_downs: u64,
    /// Offers repeated.
    pub offers_repeated: u64,
    /// Messages of it that broke the rules of the protocol, and were dropped.
    #[serde(default)]
    pub malformed: u64,
    /// Results that cannot count, since the scheduler's start.
    pub results_worthless: u64,
    /// Seconds since it was heard; null where it was not since the scheduler's start.
    pub silent_seconds: Option<f64>,
    /// When that was, by the scheduler's clock, for the log.
    #[serde(skip)]
    pub heard_us: Option<u64>,
    /// Seconds since this incarnation of it joined.
    #[serde(default)]
    pub joined_seconds: f64,
    /// When that was, by the scheduler's clock, for the log.
    #[serde(skip)]
    pub joined_us: u64,
    /// Load of each slot in thousandths, of many slots the mean, by its last heartbeat; empty where it did not
    /// tell.
    #[serde(default)]
    pub load: Vec<u64>,
    /// How long no slot had run anything, by its last heartbeat; in JSON seconds.
    #[serde(rename = "idle_seconds", with = "crate::units::seconds", default)]
    pub idle_us: u64,
    /// Seconds until it leaves by itself, where it has a deadline; null where it has none.
    #[serde(default)]
    pub time_left_seconds: Option<f64>,
    /// Bytes of the largest datagram that it is sent; less than 1400 where its path swallows those.
    #[serde(default)]
    pub datagram_bytes: Option<u32>,
    /// Host name, operating system and kernel; null where it did not tell, and so on.
    #[serde(default)]
    pub system: Option<String>,
    /// Model of its processor.
    #[serde(default)]
    pub cpu: Option<String>,
    /// Cores that it may use.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Bytes of memory that it may use.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Bytes of memory that units may claim there together; 0 where it did not tell.
    #[serde(default)]
    pub memory_claimable_bytes: u64,
    /// Slots that the units take which its last heartbeat named; it names [`RUNNING_MAX`](crate::limits::RUNNING_MAX) at
    /// most.
    #[serde(default)]
    pub slots_taken: u64,
    /// Bytes of memory that these claim.
    #[serde(default)]
    pub memory_claimed_bytes: u64,
    /// Cards that units may have there; 0 where it did not tell.
    #[serde(default)]
    pub gpus: f64,
    /// Those that the units have which its last heartbeat named, shares of one among them.
    #[serde(default)]
    pub gpus_taken: f64,
    /// Model and number of its accelerators; empty for none.
    #[serde(default)]
    pub accelerators: Option<String>,
    /// What a core of it computes; null where it has no task, or nothing was measured.
    #[serde(default)]
    pub rate: Option<RateInfo>,
    /// Devices that run tasks beside its cores, by kind.
    #[serde(default)]
    pub devices: Vec<DevicesInfo>,
    /// How its cards do, as their drivers say, by its last heartbeat; empty where nothing is known.
    #[serde(default)]
    pub cards: Vec<CardFigures>,
    /// What its machine uses; null where the monitor knows nothing of it.
    #[serde(default)]
    pub usage: Option<NodeUsage>,
    /// How bad the worst alarm is that stands of its machine; null where none does.
    #[serde(default)]
    pub alarm: Option<AlarmLevel>,
}

/// How fast a slot computes a job.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateInfo {
    /// Some job of which such slots have tasks.
    pub job: JobId,
    /// Its units per second of a slot.
    pub units_per_s: f64,
}

/// Devices of a node that are alike, each of them a slot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DevicesInfo {
    /// Their kind's number in their node, from 1 on.
    pub kind: SlotKind,
    /// Their model.
    pub name: String,
    /// What they are.
    pub device: DeviceKind,
    /// The OpenCL platform that has them.
    pub platform: String,
    /// Their driver's version.
    pub driver: String,
    /// The version of OpenCL that they speak, such as `3.0`.
    pub opencl: String,
    /// Bytes of memory of each.
    pub memory_bytes: u64,
    /// Compute units of each.
    pub compute_units: u32,
    /// How each does.
    pub slots: Vec<DeviceInfo>,
    /// Tasks in dq that they have.
    pub tasks: u64,
    /// Tasks that wait for one of them, by the last heartbeat.
    pub tasks_queued: u64,
    /// What each computes; null where they have no task, or nothing was measured.
    pub rate: Option<RateInfo>,
}

/// How a device does, by its node's last heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Its state.
    pub state: DeviceState,
    /// Share of the time that it ran something, in thousandths.
    pub load: u64,
}

impl NodeInfo {
    /// Mean load of its slots, from 0 to 1; none where it did not tell.
    pub fn load_mean(&self) -> Option<f64> {
        let all = || self.load.iter().copied().chain(self.device_loads());
        (!self.load.is_empty()).then(|| all().sum::<u64>() as f64 / all().count() as f64 / 1e3)
    }

    /// Load of each of its devices in thousandths, kind by kind.
    pub fn device_loads(&self) -> impl Iterator<Item = u64> {
        self.devices.iter().flat_map(|devices| &devices.slots).map(|device| device.load)
    }
}

/// Datagrams between the scheduler and its workers since its start, with their bytes: seal included, IP and UDP headers
/// not. What goes by TCP is not among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// Datagrams of workers that opened.
    pub datagrams_in: u64,
    /// Bytes in these.
    pub bytes_in: u64,
    /// Datagrams sent to workers.
    pub datagrams_out: u64,
    /// Bytes in these.
    pub bytes_out: u64,
}
