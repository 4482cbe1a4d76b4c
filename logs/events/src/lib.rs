//! The event model: what can happen on a farm, and how a farm stands at a moment, as plain values. The command
//! line, the terminal screen, the XML log and its replay all speak of these, with the same words and colours.
//!
//! Each value has a *form*: a word for its kind and a list of named fields. XML, JSON and traces are written
//! and read by that alone, so a name is said once. What lives elsewhere: bytes of any of these (`starfarm-logs`),
//! and who finds out what is true (the core of the scheduler).

mod colour;
mod event;
mod field;
mod status;
mod words;

pub use colour::{Colour, JOB_COLOURS, NODE_COLOURS, UNIT_COLOURS, colour};
pub use event::{Event, JobChange};
pub use field::{Entry, Field, Fields, Form, FormError, Name, TEXT_BYTES_MAX, Value, shown};
pub use starfarm_protocol::admin::{JobInfo, NodeInfo};
pub use starfarm_protocol::state::{IdleReason, NodeState, Outcome};
pub use status::{Held, JobUsage, Sample, Snapshot};
pub use words::counted;
