//! Programs that a node runs: one unit's program, from its start to the last of its descendants.
//!
//! [`run`] blocks its thread; each slot calls it from its own. What is run comes in as a
//! [`CommandLine`], what came of it goes out as a [`UnitRun`]. Retries, placeholders in arguments and
//! the sending of output live elsewhere: nothing here knows of jobs, tasks or the network.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cancel;
mod capture;
mod collect;
mod command;
mod ending;
mod family;
mod phase;
mod pipes;
mod process;
mod progress;
mod sigmask;
mod strays;
#[cfg(test)]
mod tests;
mod warden;

pub use cancel::CancelFlag;
pub use capture::Captured;
pub use command::{CommandLine, Lack};
pub use family::{Relative, UNIT_VARIABLE, spawn};
pub use pipes::{wait, wait_for};
pub use process::{End, Patience, UnitRun, run, run_noting};
pub use progress::{Progress, Told};
pub use strays::{become_subreaper, reap_strays};
pub use warden::{Warden, keep_watch};
