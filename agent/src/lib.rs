//! The rim of a node's monitoring agent: a child process of the worker. What a graph of stages is, and how it runs, is in
//! `starfarm-agent-core`, how a post lives among others in `starfarm-overlay-core`.
//!
//! | file | holds |
//! | --- | --- |
//! | `serve`, `process`, `pipe`, `words` | the start and the life of an agent; what it and its worker say to each other, and by what |
//! | `graph`, `raise` | the stages that it begins with; that by which alarms leave |
//! | `alarms`, `reaction` | what somebody must know, on its way; the program that is run for it |
//! | `sinks` | the stages that print, tell a database, and run programs |
//! | `runner` | programs that run for something, so many and so long |
//! | `wishes` | what is to be measured, and how often |
//! | `udp`, `watched` | the stages that send and take plain datagrams; files that stages wait for |
//! | `measure` | a stage of these measured |
//! | `control`, `farm` | what it is asked from afar; the stages of the whole farm |
//! | `door` | where it takes links |
//! | `farm` | the stages of the whole farm, which are told from afar |
//! | `own`, `file` | what a node's own file adds, and how it is read |
//! | `library` | modules of that file that are shared objects: the only unsafe code |
//! | `service`, `program`, `lines`, `sender` | programs beside the agent, and those of units, whose lines are values or told as they are; which unit says them |
//! | `settings` | what stages are told, and the words in which they refuse it |
//! | `counts` | how many messages a stage has sent away, and how many are lost |
//! | `pace` | so much a second and no more |
//! | `cpus` | the processors that agents run on |
//! | `sensors` | what reads the machine |
//!
//! An agent has [`sensors::SENSORS`] among the modules of its runtime and makes stages of them by name, or adds one that reads
//! another folder than `/proc`, as tests do: `runtime.add("memory", sensors::memory::stage(folder), None)`.
mod alarms;
mod control;
mod counts;
mod cpus;
mod door;
mod farm;
mod file;
mod graph;
// The functions of modules in C are called there.
#[allow(unsafe_code)]
mod library;
pub mod lines;
pub mod measure;
mod own;
mod pace;
mod pipe;
mod process;
mod program;
mod raise;
mod reaction;
mod runner;
mod sender;
pub mod sensors;
mod serve;
mod service;
mod settings;
mod sinks;
mod udp;
mod watched;
mod wishes;
pub mod words;

pub use control::check_order;
pub use cpus::{check as check_cpus, list as list_cpus};
pub use farm::check_farm_file;
pub use file::FileError;
pub use serve::{check, serve};
pub use starfarm_overlay::this_host;
pub use words::OwnFile;
