//! Devices of a worker beside its processor's cores: what each is, as a job may ask for it.

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
