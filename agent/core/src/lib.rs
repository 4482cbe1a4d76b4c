//! The runtime of a monitoring agent, pure: a graph of stages that pass measured values on, and that may change while it
//! runs. After K. S. Stefanov, "A performance monitoring system for supercomputers" (PNRPU Aerospace Engineering Bulletin 39,
//! 2014); what is called a node there is a stage here, for nodes are the farm's machines.
//!
//! | file | holds |
//! | --- | --- |
//! | `words`, `refusal` | what stages, the runtime and others say to each other, and why something cannot be done |
//! | `orders` | the same as people write it |
//! | `values`, `ids`, `summary`, `named` | messages of values: triples of id, length and value; what the ids mean; many numbers in four; figures that have names only |
//! | `stage` | what a type of stages is made of, and what a stage can do |
//! | `graph` | stages, their names and the edges between them: the only code that changes these |
//! | `timers`, `flow` | when something happens; messages on their way |
//! | `runtime` | the turn: who is told what, and in which order |
//! | `running` | what each job's units use, out of the worker's file `running` |
//! | `group`, `gather` | what a message says, by whose values they are; what all children of a post have told, wave by wave |
//! | `dimmon`, `peers` | datagrams of another system's agents, read and written; from whom they are taken |
//! | `config` | what a file adds to a graph: all of it, or nothing |
//! | `picture` | what the front knows: the newest figures of each post, and what they come to by job |
//! | `up`, `whole` | where values leave the agent for the post above it, and those of posts below come in; a machine's messages as a whole |
//! | `trace` | what programs tell one by one: read, passed on, and kept at the front for who follows |
//! | `alarms` | what somebody must know, said until that one knows it |
//! | `lives` | what jobs have used from the first moment on, and of late |
//! | `modules` | types of stages that need nothing from outside |
//!
//! Sensors, sockets and files live elsewhere; the clock comes in as an argument.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod alarms;
pub mod config;
pub mod dimmon;
mod flow;
mod gather;
mod graph;
mod group;
pub mod ids;
mod lives;
mod modules;
pub mod named;
mod orders;
mod peers;
mod picture;
mod refusal;
pub mod running;
mod runtime;
mod stage;
mod summary;
mod timers;
pub mod trace;
pub mod up;
mod values;
mod whole;
mod words;

pub use gather::Gather;
pub use group::{Figures, JobFigures, without_others};
pub use lives::{LINE_STEP_US, Lives, Points, Span, Told, Total};
pub use modules::PURE;
pub use peers::Peers;
pub use picture::Picture;
pub use refusal::Refusal;
pub use runtime::{Guests, Losses, Runtime};
pub use stage::{Context, Module, Stage, Type};
pub use summary::Summary;
pub use timers::TimerInfo;
pub use values::{Message, Triple, Triples, ValueId};
pub use words::{Hook, Order, Side, StageNumber, TimerName, When, Who, Word};
