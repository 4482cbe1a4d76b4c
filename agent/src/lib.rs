//! The rim of a node's monitoring agent: a child process of the worker. What a graph of stages is, and how it runs, is in
//! `starfarm-agent-core`, how a post lives among others in `starfarm-overlay-core`.
//!
//! | file | holds |
//! | --- | --- |
//! | `process`, `words` | the life of an agent; what it and its worker say to each other |
//! | `graph` | the stages that it begins with |
//! | `wishes` | what is to be measured, and how often |
//! | `sensors` | what reads the machine |
//!
//! An agent has [`sensors::SENSORS`] among the modules of its runtime and makes stages of them by name, or adds one that reads
//! another folder than `/proc`, as tests do: `runtime.add("memory", sensors::memory::stage(folder), None)`.
#![forbid(unsafe_code)]

mod graph;
mod process;
pub mod sensors;
mod wishes;
pub mod words;

pub use process::serve;
