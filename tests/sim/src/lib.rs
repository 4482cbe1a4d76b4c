//! The farm under virtual time: the real scheduler core and the real worker core exchange the real codec's
//! datagrams over a network of seeded faults, and are judged by rules of the simulator's own. The rim
//! (sockets, threads, seals, clocks) is never part of it.
//!
//! A run is a [`Scenario`] and a seed: [`Sim::new`], then [`Sim::run`], which ends with a [`Tally`] or with
//! the first [`Violation`]. Inside, `sim` is what is true. In the order of a datagram's life: `at_farm`, `mail`,
//! `network`, `at_worker`, `slot` (and `together`, its runs over whole tasks); `plan`, `trouble` and `narrow` are the faults, `epochs` the scheduler's own; `job`
//! (a ledger), `wiretap` and `checker` are the judges; `run` is the loop over all of it. Beside it [`transfers`] does the
//! same to the bulk channel: its streams carry contents, not datagrams. And [`trees()`] does it to the monitoring tree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agenda;
mod at_farm;
mod at_worker;
mod bulk;
mod checker;
mod deeds;
mod devices;
mod disk;
mod epochs;
mod expect;
mod farm_log;
mod fault;
mod how;
mod intervals;
mod job;
mod machine;
mod mail;
mod naming;
mod narrow;
mod network;
mod orders;
mod plan;
mod random;
mod run;
mod scenario;
mod seat;
mod sessions;
mod sim;
mod slot;
mod tally;
mod together;
mod trees;
mod trouble;
mod turns;
mod violation;
mod wicked;
mod wiretap;

pub use bulk::{Transfers, transfers};
pub use scenario::Scenario;
pub use sim::Sim;
pub use tally::{Sizes, Tally};
pub use trees::{TreeModel, TreeTally, trees};
pub use violation::Violation;
