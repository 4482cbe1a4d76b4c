//! How a farm stands at a moment: what a log's segment opens with, and what its samples say. Times are
//! microseconds of the farm's clock: since 1970 by the wall clock at the scheduler's start, monotonic from there.

use starfarm_protocol::ids::{Boot, ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::state::{IdleReason, NodeState};

use crate::field::{Form, Name, form};

form! {
    /// The farm's figures of a moment. Counters grow from the scheduler's start on.
    #[derive(Default)]
    Sample = "sample" {
        gq: u64, dq: u64, jq: u64,
        /// Age of the oldest task in dq.
        dq_oldest_us: u64,
        nodes_up: u64,
        /// Nodes that are known and neither lost nor gone.
        nodes: u64,
        slots: u64,
        /// Mean power of the nodes that are up: standard tasks a period.
        power_mean: f64,
        speed_ups: u64, slow_downs: u64, resent: u64, offers_repeated: u64, decomposed: u64,
        decomposed_units: u128,
        /// Tasks given out, to a node or as a copy.
        dispatched: u64,
        /// Results of which something counted.
        results_counted: u64,
        /// Results that had been counted before.
        results_duplicate: u64,
        /// Datagrams that the receive buffer had no room for.
        datagrams_dropped: u64,
        /// Datagrams that did not open.
        datagrams_refused: u64,
        /// Datagrams of workers that opened; none in logs of older versions.
        datagrams_in: Option<u64>,
        /// Bytes in these, seal included, IP and UDP headers not.
        bytes_in: Option<u64>,
        /// Datagrams sent to workers.
        datagrams_out: Option<u64>,
        /// Bytes in these.
        bytes_out: Option<u64>,
    }
}

form! {
    /// A node.
    #[derive(Default)]
    Node = "node" {
        node: Name, state: NodeState, why: Option<String>,
        /// Why it is idle; none while it has tasks.
        idle: Option<IdleReason>,
        boot: Option<Boot>,
        /// When this incarnation joined.
        joined_us: u64,
        /// When it was last heard; none where this incarnation of the scheduler has not heard it.
        heard_us: Option<u64>,
        slots: u16,
        /// Tasks of dq that it has.
        tasks: u64,
        /// Tasks in its own queue.
        queued: u64,
        /// Standard tasks a period.
        power: f64,
        /// Load of each slot since the last report, in thousandths.
        load: Vec<u64>,
        /// How long no slot has run anything.
        idle_us: u64,
        tasks_done: u64, units_done: u128, speed_ups: u64, slow_downs: u64, offers_repeated: u64,
        /// Host name and operating system, where it told.
        system: Option<String>,
        cpu: Option<String>, cores: Option<u32>, memory_bytes: Option<u64>,
        accelerators: Option<String>,
    }
}

form! {
    /// A job.
    #[derive(Default)]
    Job = "job" {
        job: JobId, name: String, user: String, spec: Option<ContentHash>,
        state: JobState,
        /// Why it is in that state, where the farm put it there.
        why: Option<String>,
        units: u128, done: u128, failed: u128,
        /// Units at nodes.
        out: u128,
        pending: u128,
        /// Units that nobody wants any more.
        abandoned: u128,
        hits: u64, units_per_s: f64, submitted_us: u64,
        /// When its first task was given out.
        started_us: Option<u64>,
        ended_us: Option<u64>, dispatched: u64, resent: u64,
    }
}

form! {
    /// Tasks in dq at one node that lie side by side.
    Held = "held" {
        /// The node; none after a restart, until its worker has told.
        node: Option<Name>,
        job: JobId, lo: u128, hi: u128, tasks: u64,
        /// When the oldest of them was given out.
        since_us: u64,
        /// Of these, not acknowledged by the worker yet.
        offered: u64,
    }
}

/// The whole farm at a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Its figures.
    pub sample: Sample,
    /// All jobs, by number.
    pub jobs: Vec<Job>,
    /// All nodes, by name.
    pub nodes: Vec<Node>,
    /// All of dq, by node, job and first unit.
    pub held: Vec<Held>,
}

impl Snapshot {
    /// Its parts, in the order in which they are written.
    pub fn forms(&self) -> impl Iterator<Item = &dyn Form> {
        let jobs = self.jobs.iter().map(|job| job as &dyn Form);
        let held = self.held.iter().map(|held| held as &dyn Form);
        let nodes = self.nodes.iter().map(|node| node as &dyn Form);
        std::iter::once(&self.sample as &dyn Form).chain(nodes).chain(jobs).chain(held)
    }
}
