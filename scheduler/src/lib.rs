//! The scheduling node: its threads around the core, its sockets, its state directory. What it decides
//! lies in `scheduler/core`; what it says on the wire in `protocol`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answers;
mod args;
mod decomposer;
mod descriptors;
mod error;
mod evidence;
mod guard;
mod host_program;
mod merge;
mod pages;
mod plant;
mod rate;
mod rest;
mod restart;
mod ring;
mod settings;
mod start;
mod store;
mod threads;
mod tree;

pub use args::Options;
pub use decomposer::preview;
pub use error::SchedulerError;
pub use rest::AtRest;
pub use restart::Decisions;
pub use settings::Flags;
pub use start::{Handle, run, start};
pub use store::keep_if_asked;
