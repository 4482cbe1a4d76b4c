//! Graphs at work: small sensors and sinks of the tests' own around the real runtime.
#![allow(clippy::unwrap_used)]

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod config;
mod flows;
mod limits;
