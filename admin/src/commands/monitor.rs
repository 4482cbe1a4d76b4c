//! `starfarm monitor`: what jobs and nodes use, for people, for programs and for other monitors.

mod alarms;
mod follow;
mod graph;
mod openmetrics;
mod series;

use std::path::Path;

use starfarm_protocol::admin::{MonitorScope, MonitorWish, Request};

use super::Context;
use crate::cli::{About, Monitor, MonitorSet};
use crate::failure::Failure;
use series::newest;

pub(crate) fn run(context: &mut Context, command: &Monitor) -> Result<(), Failure> {
    match command {
        Monitor::Show(about) => show(context, about),
        Monitor::Set(set) => self::set(context, set),
        Monitor::Follow(asked) => follow::run(context, asked),
        Monitor::Alarms => {
            let alarms = context.connect()?.alarms()?;
            context.printer.document(&alarms)
        }
        Monitor::Load { file, check } => load(context, file, *check),
        Monitor::Control { node, order } => control(context, node, &order.join(" ")),
        Monitor::Graph { node, dot } => graph::show(context, node, *dot),
        Monitor::Metrics => {
            let all = newest(&mut context.connect()?, &About { job: None, node: None })?;
            context.printer.text(&openmetrics::text(&all))
        }
    }
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

/// Checks a file of stages whole, and has the farm have them.
fn load(context: &mut Context, file: &Path, checks_only: bool) -> Result<(), Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
    let checked = starfarm_agent::check_farm_file(&name.to_string(), &text);
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    if checks_only { Ok(()) } else { context.connect()?.command(&Request::LoadStages { text }) }
}

/// Has a node's agent carry out an order.
fn control(context: &mut Context, node: &str, order: &str) -> Result<(), Failure> {
    starfarm_agent::check_order(order).map_err(Failure::usage)?;
    context.connect()?.command(&Request::OrderStages { node: node.to_owned(), order: order.to_owned() })
}
