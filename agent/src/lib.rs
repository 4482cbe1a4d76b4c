//! The rim of a node's monitoring agent: a child process of the worker. What a graph of stages is, and how it runs, is in
//! `starfarm-agent-core`.
//!
//! | file | holds |
//! | --- | --- |
//! | `process`, `pipes`, `words` | the life of an agent; how it hears its worker, and what the two say to each other |
//! | `place` | where it is in the tree: whom it calls, and when |
//! | `graph`, `up` | the stages that it begins with; those by which values leave, and come in from below |
//! | `wishes` | what is to be measured, and how often |
//! | `control` | what it is asked from afar |
//! | `farm` | the stages of the whole farm, which are told from afar |
//! | `own`, `file` | what a node's own file adds, and how it is read |
//! | `service` | programs beside the agent, whose lines are values |
//! | `cpus` | the processors that agents run on |
//! | `sensors` | what reads the machine |
//!
//! An agent has [`sensors::SENSORS`] among the modules of its runtime and makes stages of them by name, or adds one that reads
//! another folder than `/proc`, as tests do: `runtime.add("memory", sensors::memory::stage(folder), None)`.
#![forbid(unsafe_code)]

mod control;
mod cpus;
mod farm;
mod file;
mod graph;
mod own;
mod pipes;
mod place;
mod process;
pub mod sensors;
mod service;
mod up;
mod wishes;
pub mod words;

pub use cpus::{check as check_cpus, list as list_cpus};
pub use farm::check_farm_file;
pub use file::FileError;
pub use own::OwnFile;
pub use process::serve;
