//! Devices of a worker beside its processor's cores: what each is, how it does, and which of them run a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// What a device is.
    #[derive(Default)]
    DeviceKind {
        /// A graphics card.
        Gpu = 0 => "gpu",
        /// The machine's own processor, as PoCL makes a device of it.
        Cpu = 1 => "cpu",
        /// Another accelerator.
        #[default]
        Accelerator = 2 => "accelerator",
    }
}

/// Which slots of a node: 0 are its cores, each other number is one kind of device there. Devices of one kind are alike, and
/// each is a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotKind(pub u8);

impl SlotKind {
    /// The cores.
    pub const CORES: Self = Self(0);

    /// Devices, not cores.
    pub fn is_device(self) -> bool {
        self != Self::CORES
    }
}

/// Most kinds of devices of a worker.
pub const DEVICE_KINDS_MAX: usize = 16;

words! {
    /// How a device does.
    #[derive(Default)]
    DeviceState {
        /// It runs a task, or could.
        #[default]
        Ready = 0 => "ready",
        /// It is made ready for a job: its driver compiles.
        Compiling = 1 => "compiling",
        /// It failed, and is tried again after a pause.
        Sick = 2 => "sick",
        /// A program has its card.
        Taken = 3 => "taken",
    }
}

impl DeviceState {
    /// A task that is given to it now runs soon.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::Compiling)
    }
}

/// What a job asks of a device. By default any will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceNeeds {
    /// What it is; none: whatever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceKind>,
    /// The version of OpenCL that it speaks at least: major and minor.
    #[serde(default, skip_serializing_if = "is_any")]
    pub opencl: (u8, u8),
    /// Bytes of memory that it has at least.
    #[serde(default, skip_serializing_if = "is_none")]
    pub memory_bytes: u64,
}

fn is_any(version: &(u8, u8)) -> bool {
    *version == (0, 0)
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl fmt::Display for DeviceNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.device.map_or("any kind", DeviceKind::word);
        write!(f, "{kind}")?;
        if let (major @ 1.., minor) = self.opencl {
            write!(f, ", OpenCL {major}.{minor} or later")?;
        }
        match self.memory_bytes {
            0 => Ok(()),
            bytes => write!(f, ", {:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        }
    }
}

impl DeviceNeeds {
    /// Any device.
    pub const ANY: Self = Self { device: None, opencl: (0, 0), memory_bytes: 0 };

    /// Such a device will do.
    pub fn suits(&self, facts: &DeviceFacts) -> bool {
        self.device.is_none_or(|kind| kind == facts.kind)
            && facts.version >= self.opencl
            && facts.memory_bytes >= self.memory_bytes
    }
}

/// Which slots of a node run a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunsOn {
    /// Cores do.
    pub cores: bool,
    /// Devices do of which that is true.
    pub devices: Option<DeviceNeeds>,
}

impl RunsOn {
    /// Cores alone.
    pub const CORES: Self = Self { cores: true, devices: None };
    /// Cores and all devices.
    pub const ANY: Self = Self { cores: true, devices: Some(DeviceNeeds::ANY) };
}

/// What a device says of itself. What it does not say is empty or 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// The platform's name.
    pub platform: String,
    /// The device's.
    pub name: String,
    /// Its driver's version.
    pub driver: String,
    /// What it is.
    pub kind: DeviceKind,
    /// The version of OpenCL that it speaks: major and minor.
    pub version: (u8, u8),
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// How many work groups it runs at a time, or so.
    pub compute_units: u32,
    /// How many 32-bit integers its vectors should have, 1 to 16.
    pub width: u32,
}
