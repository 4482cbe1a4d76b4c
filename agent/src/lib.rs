//! The rim of a node's monitoring agent: a child process of the worker. What a graph of stages is, and how it runs, is in
//! `starfarm-agent-core`.
//!
//! | file | holds |
//! | --- | --- |
//! | `process`, `pipes`, `words` | the life of an agent; the pipes to its worker; what they say to each other |
//! | `place` | where it is in the tree: whom it calls, and when |
//! | `graph`, `up`, `raise` | the stages that it begins with; those by which values and alarms leave, and come in from below |
//! | `alarms`, `reaction` | what somebody must know, on its way; the program that is run for it |
//! | `wishes` | what is to be measured, and how often |
//! | `sensors` | what reads the machine |
//!
//! An agent has [`sensors::SENSORS`] among the modules of its runtime and makes stages of them by name, or adds one that reads
//! another folder than `/proc`, as tests do: `runtime.add("memory", sensors::memory::stage(folder), None)`.
#![forbid(unsafe_code)]

mod alarms;
mod graph;
mod pipes;
mod place;
mod process;
mod raise;
mod reaction;
pub mod sensors;
mod up;
mod wishes;
pub mod words;

pub use process::serve;
pub use starfarm_overlay::this_host;
