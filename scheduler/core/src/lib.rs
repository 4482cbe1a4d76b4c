//! What the scheduler decides: a pure state machine. Events and `now` go in, deeds come out; no sockets,
//! clocks, threads, chance or hash order live here. `farm` holds the state and the beats of a turn; every
//! other file is one stage in the life of a task, or one thing that is true.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agenda;
mod allowance;
mod apply;
mod apply_node;
mod back;
mod beat;
mod blame;
mod by_node;
mod check;
mod checks;
mod command;
mod commits;
mod conflict;
mod copies;
mod deaths;
mod deed;
mod dispatch;
mod door;
mod end;
mod evidence;
mod explain;
mod farm;
mod fit;
mod followers;
mod forget;
mod forgotten;
mod found;
mod growing;
mod growth;
mod hang;
mod health;
mod heartbeat;
mod hello;
mod hits;
mod idle;
mod job;
mod jobs;
mod late;
mod lease;
pub mod limits;
mod links;
mod liveness;
mod max_nodes;
mod node;
mod nodes;
mod outcomes;
mod pace;
mod per_unit;
mod pieces;
mod queues;
mod rating;
mod reconnect;
mod refill;
mod restore;
mod result;
mod retention;
mod returned;
mod revoke;
mod rights;
mod runs;
mod second;
mod send;
mod start;
mod stay;
mod storage;
mod stored;
mod targets;
mod terms;
mod together;
mod told;
mod trace;
mod trim;
mod trust;
mod trust_checks;
mod turn;
mod vet;
mod view;
mod watch;

pub use beat::{Beat, INPUTS_PER_TURN};
pub use checks::Trust;
pub use command::CommandError;
pub use conflict::Conflict;
pub use deed::{Deed, Deeds};
pub use evidence::Evidence;
pub use farm::{Config, Farm};
pub use growing::Wish;
pub use hits::HitsKept;
pub use job::{
    Body, FailedUnit, JobFacts, JobState, JobTotals, MaxFailures, NewJob, Sizing, TARGET_US, WorkFacts,
};
pub use queues::NodeId;
pub use restore::Restoring;
pub use retention::{Expiry, Retention};
pub use send::OFFERS_PER_DATAGRAM;
pub use starfarm_protocol::admin::{JobCommand, NodeCommand, Place};
pub use starfarm_protocol::journal::Record;
pub use starfarm_protocol::state::NodeState;
pub use starfarm_protocol::terms::Terms;
pub use told::{Verdict, Verdicts};
pub use trace::{Trace, Traced, Tracing};
pub use view::{Bookmark, FoundPage};
