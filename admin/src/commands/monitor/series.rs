//! The newest figures, one by one.

use std::borrow::Cow;

use serde::Serialize;
use starfarm_protocol::admin::{JobInfo, JobUsage, NodeInfo, NodeUsage, Spread};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;

use crate::cli::About;
use crate::client::Client;
use crate::commands::{nodes, usage};
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::Record;
use crate::output::table::{Cell, Column, left, right};

/// A figure: of the units of a job, or of a node's machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Series {
    pub(super) job: Option<JobId>,
    pub(super) node: Option<String>,
    /// A metric's name, or that of a figure which a service or a program gives.
    pub(super) metric: Cow<'static, str>,
    #[serde(flatten)]
    pub(super) spread: Spread,
    /// Units that it is of; 1 for a machine.
    pub(super) count: u64,
    /// Nodes that it is from, and those that run the job.
    pub(super) from: u64,
    pub(super) of: u64,
    pub(super) age_seconds: f64,
}

impl Series {
    pub(super) fn amount(&self, amount: f64) -> String {
        match Metric::from_word(&self.metric) {
            None => usage::plain(amount),
            Some(Metric::Cpu | Metric::Gpu) => usage::cores(amount),
            Some(Metric::Memory) => usage::memory(amount),
            _ => format!("{}/s", human::bytes(amount as u64)),
        }
    }

    pub(super) fn whose(&self) -> String {
        match (&self.job, &self.node) {
            (Some(job), _) => format!("job {}", job.0),
            (None, Some(node)) => format!("node {node}"),
            (None, None) => String::new(),
        }
    }

    /// For each one the least, mean and greatest; a machine is one.
    pub(super) fn spread(&self) -> String {
        let Spread { min, avg, max, .. } = self.spread;
        if self.job.is_none() {
            return "-".to_owned();
        }
        [min, avg, max].map(|amount| self.amount(amount)).join(" / ")
    }
}

impl Record for Series {
    const ONE: &'static str = "sample";
    const MANY: &'static str = "series";
    const COLUMNS: &'static [Column<Self>] = &[
        left("of", |series| Cell::new(series.whose())),
        left("metric", |series| Cell::new(&*series.metric)),
        right("all", |series| Cell::new(series.amount(series.spread.sum))),
        left("unit: min / avg / max", |series| Cell::new(series.spread())),
        right("units", |series| Cell::new(series.count.to_string())),
        right("nodes", |series| Cell::new(format!("{} of {}", series.from, series.of))),
        right("age", |series| Cell::new(human::seconds(series.age_seconds))),
    ];

    fn quiet(&self) -> String {
        format!("{} {} {}", self.whose(), self.metric, self.spread.sum)
    }
}

/// The newest figures: jobs first.
pub(super) fn newest(client: &mut Client, about: &About) -> Result<Vec<Series>, Failure> {
    let jobs: Vec<JobInfo> = match (&about.job, &about.node) {
        (Some(job), _) => client.jobs(vec![*job])?,
        (None, Some(_)) => Vec::new(),
        (None, None) => client.jobs(Vec::new())?,
    };
    let mut nodes: Vec<NodeInfo> = if about.job.is_some() { Vec::new() } else { client.nodes()? };
    if let Some(name) = &about.node {
        nodes.retain(|node| node.name == *name);
        if nodes.is_empty() {
            return Err(Failure::new(
                Exit::NotFound,
                format!("no node `{name}`: `starfarm nodes` lists them"),
            ));
        }
    }
    nodes::sort(&mut nodes);
    let of_jobs = jobs.iter().filter_map(|job| Some(of_job(job.id, job.usage.as_ref()?)));
    let of_nodes = nodes.iter().filter_map(|node| Some(of_node(&node.name, node.usage.as_ref()?)));
    Ok(of_jobs.chain(of_nodes).flatten().collect())
}

fn of_job(id: JobId, usage: &JobUsage) -> Vec<Series> {
    let JobUsage { units, from, of, age_seconds, .. } = *usage;
    let known = [
        (Metric::Cpu, usage.cpu_cores),
        (Metric::Memory, usage.memory_bytes),
        (Metric::Gpu, usage.gpu),
        (Metric::GpuMemory, usage.gpu_memory_bytes),
        (Metric::Io, usage.io_bytes_per_s),
    ];
    let known = known.into_iter().filter_map(|(metric, spread)| Some((metric.word().into(), spread?)));
    let named = usage.named.iter().map(|(name, spread)| (name.clone().into(), *spread));
    let series = |(metric, spread)| {
        let (job, node) = (Some(id), None);
        Series { job, node, metric, spread, count: units, from, of, age_seconds }
    };
    known.chain(named).map(series).collect()
}

fn of_node(name: &str, usage: &NodeUsage) -> Vec<Series> {
    let known = [
        (Metric::Cpu, usage.cpu_cores),
        (Metric::Memory, usage.memory_bytes),
        (Metric::Gpu, usage.gpu),
        (Metric::GpuMemory, usage.gpu_memory_bytes),
        (Metric::Io, usage.io_bytes_per_s),
        (Metric::NetworkReceived, usage.received_bytes_per_s),
        (Metric::NetworkSent, usage.sent_bytes_per_s),
    ];
    let known = known.into_iter().filter_map(|(metric, amount)| Some((metric.word().into(), amount?)));
    let named = usage.named.iter().map(|(name, amount)| (name.clone().into(), *amount));
    let series = |(metric, amount)| {
        let spread = Spread { min: amount, avg: amount, max: amount, sum: amount };
        let (node, age_seconds) = (Some(name.to_owned()), usage.age_seconds);
        Series { job: None, node, metric, spread, count: 1, from: 1, of: 1, age_seconds }
    };
    known.chain(named).map(series).collect()
}
