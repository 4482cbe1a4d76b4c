//! What starfarm's programs say to each other: ids, job specifications, limits, messages, their codec,
//! the sealed session, and the bytes of the journal. No sockets, no clock, no threads live here.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod archive;
pub mod bulk;
pub mod bytes;
pub mod devices;
mod field;
pub mod foreign;
pub mod gauges;
pub mod ids;
pub mod interval;
pub mod job;
pub mod join;
pub mod journal;
pub mod limits;
pub mod link;
pub mod metric;
pub mod orders;
pub mod outputs;
pub mod packed;
pub mod path;
pub mod random;
pub mod reason;
pub mod report;
pub mod resources;
pub mod rto;
pub mod running;
pub mod seal;
pub mod settings;
pub mod spec;
pub mod state;
pub mod terms;
pub mod trust;
pub mod unit_set;
pub mod units;
pub mod wire;
mod word;
