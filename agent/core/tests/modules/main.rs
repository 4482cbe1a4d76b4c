//! Each type of stages that needs nothing from outside, in a real runtime: messages in, messages out.
#![allow(clippy::unwrap_used)]

mod aggregate;
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod demux;
mod derivative;
mod limits;
mod passing;
mod rate;
mod refused;
mod threshold;
mod waves;
mod window;
