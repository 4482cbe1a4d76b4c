//! `starfarm monitor`: what jobs and nodes use, for people, for programs and for other monitors.

mod openmetrics;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use starfarm_protocol::admin::{
    JobInfo, JobUsage, MonitorScope, MonitorWish, NodeInfo, NodeUsage, Request, Spread,
};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;

use super::{Context, usage};
use crate::cli::{About, Follow, Monitor, MonitorSet, MonitorStream};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::table::{Cell, Column, left, right};
use crate::output::{Format, Record};

/// How often `follow` looks for a new wave.
const LOOK: Duration = Duration::from_millis(100);
/// Waves are at least so far apart.
const APART_S: f64 = 0.05;

pub(crate) fn run(context: &mut Context, command: &Monitor) -> Result<(), Failure> {
    match command {
        Monitor::Show(about) => show(context, about),
        Monitor::Set(set) => self::set(context, set),
        Monitor::Follow(asked) => follow(context, asked),
        Monitor::Metrics => {
            let all = newest(&mut context.connect()?, &About { job: None, node: None })?;
            context.printer.text(&openmetrics::text(&all))
        }
    }
}

/// A figure: of the units of a job, or of a node's machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Series {
    pub(super) job: Option<JobId>,
    pub(super) node: Option<String>,
    pub(super) metric: &'static str,
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
    fn amount(&self, amount: f64) -> String {
        match Metric::from_word(self.metric) {
            Some(Metric::Cpu | Metric::Gpu) => usage::cores(amount),
            Some(Metric::Memory) => usage::memory(amount),
            _ => format!("{}/s", human::bytes(amount as u64)),
        }
    }

    fn whose(&self) -> String {
        match (&self.job, &self.node) {
            (Some(job), _) => format!("job {}", job.0),
            (None, Some(node)) => format!("node {node}"),
            (None, None) => String::new(),
        }
    }

    /// For each one the least, mean and greatest; a machine is one.
    fn spread(&self) -> String {
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
        left("metric", |series| Cell::new(series.metric)),
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

fn of_job(id: JobId, usage: &JobUsage) -> Vec<Series> {
    let JobUsage { cpu_cores, memory_bytes, gpu, io_bytes_per_s, units, from, of, age_seconds } = *usage;
    let known = [
        (Metric::Cpu, cpu_cores),
        (Metric::Memory, memory_bytes),
        (Metric::Gpu, gpu),
        (Metric::Io, io_bytes_per_s),
    ];
    let series = |(metric, spread): (Metric, Option<Spread>)| {
        let (job, metric) = (Some(id), metric.word());
        Some(Series { job, node: None, metric, spread: spread?, count: units, from, of, age_seconds })
    };
    known.into_iter().filter_map(series).collect()
}

fn of_node(name: &str, usage: &NodeUsage) -> Vec<Series> {
    let known = [
        (Metric::Cpu, usage.cpu_cores),
        (Metric::Memory, usage.memory_bytes),
        (Metric::Gpu, usage.gpu),
        (Metric::Io, usage.io_bytes_per_s),
        (Metric::NetworkReceived, usage.received_bytes_per_s),
        (Metric::NetworkSent, usage.sent_bytes_per_s),
    ];
    let series = |(metric, amount): (Metric, Option<f64>)| {
        let (amount, metric, age_seconds) = (amount?, metric.word(), usage.age_seconds);
        let spread = Spread { min: amount, avg: amount, max: amount, sum: amount };
        let node = Some(name.to_owned());
        Some(Series { job: None, node, metric, spread, count: 1, from: 1, of: 1, age_seconds })
    };
    known.into_iter().filter_map(series).collect()
}

/// The newest figures: jobs first.
fn newest(client: &mut Client, about: &About) -> Result<Vec<Series>, Failure> {
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
    super::nodes::sort(&mut nodes);
    let of_jobs = jobs.iter().filter_map(|job| Some(of_job(job.id, job.usage.as_ref()?)));
    let of_nodes = nodes.iter().filter_map(|node| Some(of_node(&node.name, node.usage.as_ref()?)));
    Ok(of_jobs.chain(of_nodes).flatten().collect())
}

fn show(context: &mut Context, about: &About) -> Result<(), Failure> {
    let all = newest(&mut context.connect()?, about)?;
    context.printer.list(&all)
}

fn set(context: &mut Context, asked: &MonitorSet) -> Result<(), Failure> {
    let scope = match (asked.job, &asked.node) {
        (Some(job), _) => MonitorScope::Job(job),
        (None, Some(node)) => MonitorScope::Node(node.clone()),
        (None, None) => MonitorScope::All,
    };
    let period_us = match (asked.off, asked.default) {
        (true, _) => Some(0),
        (_, true) => None,
        _ => Some((asked.period.unwrap_or(1.0) * 1e6) as u64),
    };
    let wish = MonitorWish { scope, period_us, metrics: asked.metrics.clone() };
    context.connect()?.command(&Request::Monitor(wish))
}

/// Prints what is new until somebody stops it.
fn follow(context: &mut Context, asked: &Follow) -> Result<(), Failure> {
    let mut client = context.connect()?;
    let (start, mut told) = (Instant::now(), BTreeMap::<(String, &str), f64>::new());
    loop {
        let mut all = newest(&mut client, &asked.about)?;
        let now_s = start.elapsed().as_secs_f64();
        all.retain(|series| {
            let is_asked = match asked.stream {
                None => true,
                Some(MonitorStream::Job) => series.job.is_some(),
                Some(MonitorStream::System) => series.job.is_none(),
            };
            let (whose, at_s) = ((series.whose(), series.metric), now_s - series.age_seconds);
            let is_new = told.get(&whose).is_none_or(|before| at_s > before + APART_S);
            is_asked && is_new && {
                told.insert(whose, at_s);
                true
            }
        });
        for series in &all {
            match context.printer.format {
                Format::Json | Format::Jsonl => context.printer.line_of(Series::ONE, series)?,
                Format::Quiet => context.printer.line(&series.quiet())?,
                Format::Table => {
                    let (whose, all) = (series.whose(), series.amount(series.spread.sum));
                    let line = format!("{whose:<12} {:<17} {all:>12}  {}", series.metric, series.spread());
                    context.printer.line(&line)?;
                }
            }
        }
        context.printer.flush()?;
        std::thread::sleep(LOOK);
    }
}
