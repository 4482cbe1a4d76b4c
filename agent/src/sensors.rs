//! Sensors: stages that read the machine whenever one of their timers fires, and say what they found on their only output,
//! `out`. Each is a file below. What is not known is left out of the message, and no figure is zero for want of a better
//! one; rates need two samples, so they come from the second time on.
//!
//! | file | holds |
//! | --- | --- |
//! | `cpuload`, `memory`, `network`, `disks` | the node |
//! | `accelerators` | the node's cards |
//! | `health` | what is wrong with the node |
//! | `units` | the units of jobs that run on the node |
//! | `measure` | what all sensors have in common |
//! | `source`, `text` | files that are read again and again; numbers and words in their text |
//! | `counters` | counters of things that come and go |

pub mod accelerators;
mod counters;
pub mod cpuload;
pub mod disks;
pub mod health;
mod measure;
pub mod memory;
pub mod network;
mod source;
mod text;
pub mod units;

use starfarm_agent_core::Module;

/// All sensors, as modules of a runtime.
pub const SENSORS: [Module; 7] = [
    cpuload::MODULE,
    memory::MODULE,
    network::MODULE,
    disks::MODULE,
    accelerators::MODULE,
    health::MODULE,
    units::MODULE,
];
