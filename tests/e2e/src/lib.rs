//! A farm of real processes for the tests in `tests/`: a scheduler, workers and the command line, as a user
//! starts them, in a directory that is gone afterwards.
//!
//! | file | holds |
//! | --- | --- |
//! | `address` | addresses that no other process is given |
//! | `binaries` | where the programs are |
//! | `bulk` | a node's end of the bulk channel |
//! | `temp` | a directory for one test |
//! | `process` | a daemon that is ended with its test, and its standard error |
//! | `pty` | a program on a terminal |
//! | `reply` | what a command of the command line said |
//! | `farm` | a scheduler, its workers, and commands to them |
//! | `machines` | network namespaces as machines |
//! | `hostile` | datagrams that a scheduler must refuse |
//! | `patience` | waiting for a condition instead of for a time |
//! | `power` | power cuts and full disks under a scheduler |
//! | `skip` | what a test does that cannot run here |
//! | `wiretap` | what the scheduler acknowledged, read on the way |
//! | `torture` | a farm that is killed, stopped and cut by a seed |
//!
//! A step that fails panics with all that is known: this crate is for tests only. Nothing here knows the
//! programs from inside; what they say on their command line and in their files is all there is.

mod address;
mod binaries;
mod bulk;
mod farm;
pub mod hostile;
pub mod machines;
mod patience;
pub mod power;
mod process;
mod pty;
mod reply;
mod skip;
mod temp;
pub mod torture;
mod wiretap;

pub use address::connect_from;
pub use binaries::binary;
pub use bulk::BulkClient;
pub use farm::{Farm, program, worker_args};
pub use patience::{GUARD, until, until_some};
pub use process::{Daemon, alive, end, resident_kib, run, run_within, running_with, send};
pub use pty::Pty;
pub use reply::{Reply, each_done_once, stdouts, units};
pub use rustix::process::{Pid, Signal};
pub use skip::{a_device, has, skip};
pub use temp::TempDir;
