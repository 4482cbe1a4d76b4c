//! How a farm stands at a moment: what a log's segment opens with, and what its samples say. Times are
//! microseconds of the farm's clock: since 1970 by the wall clock at the scheduler's start, monotonic from there.

use starfarm_protocol::admin::{JobInfo, NodeInfo, UsageSpan};
use starfarm_protocol::ids::JobId;

use crate::field::{Form, Name, form, impl_form};

form! {
    /// The farm's figures of a moment. Counters grow from the scheduler's start on.
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
        /// Messages of workers that broke the rules of the protocol.
        messages_malformed: Option<u64>,
    }
}

form! {
    /// What the units of a job used over a time, as far as the monitor heard of it; figures that nobody knows are absent.
    /// `min`, `avg` and `max` are those of a unit, `sum` is the mean of all units together.
    JobUsage = "job_usage" {
        job: JobId,
        /// What it is over: the last minute, or all of an ended job.
        over: UsageSpan,
        /// How much of that time something was heard of it: the means are over this.
        for_us: u64,
        cpu_cores_min: Option<f64>, cpu_cores_avg: Option<f64>, cpu_cores_max: Option<f64>, cpu_cores_sum: Option<f64>,
        memory_bytes_min: Option<f64>, memory_bytes_avg: Option<f64>, memory_bytes_max: Option<f64>,
        memory_bytes_sum: Option<f64>,
        gpu_min: Option<f64>, gpu_avg: Option<f64>, gpu_max: Option<f64>, gpu_sum: Option<f64>,
        io_bytes_per_s_min: Option<f64>, io_bytes_per_s_avg: Option<f64>, io_bytes_per_s_max: Option<f64>,
        io_bytes_per_s_sum: Option<f64>,
        /// Units that were seen at once, at most.
        units: u64,
        /// Nodes that the figures are from, and nodes that ran it, at most at once.
        from: u64, of: u64,
    }
}

impl_form! {
    NodeInfo = "node" {
        node = name, state = state, why = why or none, idle = idle, boot = boot, joined_us = joined_us,
        heard_us = heard_us, slots = slots, tasks = tasks, queued = tasks_queued, power = power, load = load,
        idle_us = idle_us, tasks_done = tasks_done, units_done = units_done, speed_ups = speed_ups,
        slow_downs = slow_downs, offers_repeated = offers_repeated, system = system, cpu = cpu, cores = cores,
        memory_bytes = memory_bytes, accelerators = accelerators,
    }
}

impl_form! {
    JobInfo = "job" {
        job = id, name = name, user = user, spec = spec or none, state = state, why = note or none,
        units = units_total, done = units_done, failed = units_failed, out = units_out,
        pending = units_pending, abandoned = units_abandoned, hits = hits, units_per_s = units_per_s,
        submitted_us = totals.submitted_us, started_us = totals.started_us, ended_us = totals.ended_us,
        dispatched = totals.dispatched, resent = totals.resent,
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
    pub jobs: Vec<JobInfo>,
    /// All nodes, by name.
    pub nodes: Vec<NodeInfo>,
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
