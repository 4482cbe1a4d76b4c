//! What the scheduler decides: a pure state machine. Events and `now` go in, deeds come out; no sockets,
//! clocks, threads, chance or hash order live here. `farm` holds the state and the beats of a turn; every
//! other file is one stage in the life of a task, or one thing that is true.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod blame;
mod check;
mod command;
mod copies;
mod coverage;
mod deaths;
mod deed;
mod dispatch;
mod explain;
mod farm;
mod forget;
mod global_queue;
mod hang;
mod job;
pub mod limits;
mod node;
mod per_unit;
mod rating;
mod record;
mod recover;
mod refill;
mod restore;
mod result;
mod runs;
mod send;
mod speed;
mod task;
mod unwind;
mod view;
mod watch;

pub use command::{CommandError, JobCommand, NodeCommand};
pub use coverage::{Class, Classes, Coverage, Piece};
pub use deed::{Deed, Deeds};
pub use farm::{Config, Farm, Totals};
pub use job::{FailedUnit, JobFacts, JobState, JobTotals, MaxFailures, NewJob, Place, Sizing, WorkFacts};
pub use node::{NodeState, NodeTotals};
pub use record::Record;
pub use restore::Restoring;
pub use result::{Verdict, Verdicts};
pub use send::OFFERS_PER_DATAGRAM;
pub use task::NodeId;
pub use view::{FarmView, FoundPage, JobView, NodeView};
pub use watch::Traffic;
