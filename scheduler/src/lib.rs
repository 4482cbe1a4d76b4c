//! The scheduling node: its threads around the core, its sockets, its state directory. What it decides
//! lies in `scheduler/core`; what it says on the wire in `protocol`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answers;
mod args;
#[cfg_attr(not(test), expect(dead_code, reason = "the threads begin to use it next"))]
mod blobs;
#[expect(dead_code, reason = "the threads begin to use it next")]
mod checkpoint;
#[expect(dead_code, reason = "the threads begin to use it next")]
mod disk;
mod error;
#[cfg_attr(not(test), expect(dead_code, reason = "the threads begin to use it next"))]
mod outputs;
mod packed;
#[cfg(test)]
mod small_disk;
mod start;
mod state;
mod threads;

pub use args::{Args, run};
pub use error::SchedulerError;
pub use start::{Decisions, Handle, Options, start};
