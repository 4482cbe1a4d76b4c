//! Sensors at work: on recorded folders like /proc, and on this machine.
#![allow(clippy::unwrap_used)]

mod cards;
mod common;
mod health;
mod machine;
mod node;
mod programs;
mod units;
