//! What starfarm's programs say to each other: ids, job specifications, limits, messages, their codec
//! and the sealed session. No sockets, no clock, no threads live here.

pub mod ids;
pub mod limits;
pub mod spec;
pub mod wire;
