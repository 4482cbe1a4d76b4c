//! Which OpenCL devices a machine has, and how a kernel runs on one. The loader (`libOpenCL.so.1`) is opened when it is first
//! asked for something: a machine without one has no devices, and that is an answer.
//!
//! The map:
//! - `device`: what there is, and what each device says of itself.
//! - `program`: a program that is compiled for a device, its buffers and its launches. All unsafe code is here.
//! - `cache`: compiled programs on disk.
//! - `kernel`: a kernel of a user's own on a device.
//! - `search`: a search of `starfarm-kernels` on a device, launch by launch.
//! - `error`: what can go wrong, in words.
//!
//! Not here: the text of the searches' programs (`starfarm-kernels`), processes, sockets, time but for that of a launch. A
//! driver may crash or hang whoever calls it: a worker calls this crate in child processes alone.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod device;
mod error;
mod kernel;
#[expect(unsafe_code, reason = "calls of the driver")]
mod program;
mod search;

pub use cache::Cache;
pub use device::{Device, devices};
pub use error::OpenClError;
pub use kernel::{DeviceKernel, Left};
pub use program::{Keep, check};
pub use search::DeviceSearch;
