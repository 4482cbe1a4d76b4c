//! How a farm stands at a moment: what a log's segment opens with, and what its samples say. Times are
//! microseconds of the farm's clock: since 1970 by the wall clock at the scheduler's start, monotonic from there.

use starfarm_protocol::ids::{Boot, JobId};

use crate::field::{Name, Word, form};
use crate::state::{IdleReason, NodeState};

form! {
    /// The farm's figures of a moment. Counters grow from the scheduler's start on.
    #[derive(Default)]
    Sample = "sample" {
        /// Tasks in gq.
        gq: u64,
        /// Tasks in dq.
        dq: u64,
        /// Unfinished jobs in jq.
        jq: u64,
        /// Age of the oldest task in dq.
        dq_oldest_us: u64,
        /// Nodes that are up.
        nodes_up: u64,
        /// Nodes that are known and neither lost nor gone.
        nodes: u64,
        /// Slots of the nodes that are up.
        slots: u64,
        /// Mean power of the nodes that are up: standard tasks a period.
        power_mean: f64,
        /// Speed-ups heard.
        speed_ups: u64,
        /// Slow-downs heard.
        slow_downs: u64,
        /// Tasks that went back to gq.
        resent: u64,
        /// Offers repeated.
        offers_repeated: u64,
        /// Tasks cut.
        decomposed: u64,
        /// Units in these.
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
    Node = "node" {
        /// Its name.
        node: Name,
        /// Its state.
        state: NodeState,
        /// Why it is quarantined.
        why: Option<String>,
        /// Why it is idle; none while it has tasks.
        idle: Option<IdleReason>,
        /// Its incarnation.
        boot: Option<Boot>,
        /// When this incarnation joined.
        joined_us: u64,
        /// When it was last heard; none where this incarnation of the scheduler has not heard it.
        heard_us: Option<u64>,
        /// Its slots.
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
        /// Tasks that it finished.
        tasks_done: u64,
        /// Units counted from it.
        units_done: u128,
        /// Speed-ups heard.
        speed_ups: u64,
        /// Slow-downs heard.
        slow_downs: u64,
        /// Offers repeated.
        offers_repeated: u64,
        /// Host name and operating system, where it told.
        system: Option<String>,
        /// Model of its processor.
        cpu: Option<String>,
        /// Cores.
        cores: Option<u32>,
        /// Bytes of memory.
        memory_bytes: Option<u64>,
        /// Accelerators.
        accelerators: Option<String>,
    }
}

form! {
    /// A job.
    Job = "job" {
        /// Its number.
        job: JobId,
        /// The user's name for it.
        name: String,
        /// Who submitted it.
        user: String,
        /// Hash of its specification.
        spec: Option<starfarm_protocol::ids::ContentHash>,
        /// Its state.
        state: Word,
        /// Why it is in that state, where the farm put it there.
        why: Option<String>,
        /// N.
        units: u128,
        /// Units done.
        done: u128,
        /// Units failed for good.
        failed: u128,
        /// Units at nodes.
        out: u128,
        /// Units that wait.
        pending: u128,
        /// Units that nobody wants any more.
        abandoned: u128,
        /// Hits.
        hits: u64,
        /// Units per second of all live slots.
        units_per_s: f64,
        /// When it was submitted.
        submitted_us: u64,
        /// When its first task was given out.
        started_us: Option<u64>,
        /// When it ended.
        ended_us: Option<u64>,
        /// Tasks given out.
        dispatched: u64,
        /// Tasks that went back to gq.
        resent: u64,
    }
}

form! {
    /// Tasks in dq at one node that lie side by side.
    Held = "held" {
        /// The node; none after a restart, until its worker has told.
        node: Option<Name>,
        /// The job.
        job: JobId,
        /// First unit.
        lo: u128,
        /// End, exclusive.
        hi: u128,
        /// Tasks.
        tasks: u64,
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
