//! The scheduling node: its threads around the core, its sockets, its state directory. What it decides
//! lies in `scheduler/core`; what it says on the wire in `protocol`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answers;
mod args;
mod blobs;
mod checkpoint;
mod descriptors;
mod disk;
mod error;
mod journal;
mod keeper;
mod outputs;
mod packed;
mod pages;
mod rest;
mod restart;
mod ring;
mod settings;
#[cfg(test)]
mod small_disk;
mod start;
mod state;
mod threads;

pub use args::{Args, run};
pub use error::SchedulerError;
pub use keeper::keep_if_asked;
pub use rest::AtRest;
pub use settings::Flags;
pub use start::{Decisions, Handle, LogOptions, Options, start};
