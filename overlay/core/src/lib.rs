//! What the monitoring tree decides, pure: no socket, no clock, no chance. Today that is where the processes of a tree
//! stand ([`plan`]); links, agents and what they report live elsewhere.
#![forbid(unsafe_code)]

pub mod plan;
