//! What a worker remembers and decides: its queue, its slots, the results that nobody has acknowledged,
//! its link to the scheduler. Pure: events and `now_us` go in, [`Deed`]s come out. Sockets, sessions,
//! processes and clocks live in `starfarm-worker`; a simulator drives the same code with a clock of its own.
//!
//! In the order a task lives: [`Worker::on_datagram`] takes an offer into the queue, a slot starts it,
//! [`Worker::on_part`] and [`Worker::on_task_end`] turn it into results, which the outbox keeps until they
//! are acknowledged.
//!
//! The contract of time: after each batch of events, call [`Worker::on_tick`] once if
//! [`Worker::next_deadline`] is not after `now`. Datagrams leave at ticks only, so that one datagram
//! carries whatever a batch brought about.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod asked;
mod asks;
mod attempts;
mod device;
mod drain;
mod free;
mod held;
mod leave;
mod link;
mod load;
mod outbox;
mod queue;
mod riders;
mod scheduler;
mod slots;
mod spool;
mod tasks;
mod types;
mod worker;

pub use spool::SpoolError;
pub use types::{AlikeDevices, Config, Counters, Deed, Known, Limits, Look, Part, Task};
pub use worker::Worker;
