//! The section `[monitor]`: what is measured of a job, and how often.

use starfarm_protocol::metric::{Metric, PERIODS_US};
use starfarm_protocol::terms::Monitored;

use super::error::JobFileError;
use super::table::Item;

/// Once a second, if nothing is said.
const USUAL_US: u64 = 1_000_000;

/// Reads the section.
pub(super) fn read(monitor: &Item<'_>) -> Result<Monitored, JobFileError> {
    let section = monitor.table()?;
    section.only(&["period", "metrics", "tree"])?;
    let period_us = section.read("period", period)?.unwrap_or(USUAL_US);
    let metrics = section.read("metrics", metrics)?.unwrap_or_default();
    let own_tree = section.read("tree", tree)?.unwrap_or_default();
    Ok(Monitored { period_us, metrics, own_tree })
}

fn period(item: &Item<'_>) -> Result<u64, JobFileError> {
    let seconds = item.number("a number of seconds")?;
    let period_us = (seconds * 1e6).round() as u64;
    if seconds == 0.0 || seconds > 0.0 && PERIODS_US.contains(&period_us) {
        return Ok(period_us);
    }
    Err(item.error(format!("`period` is {seconds}: use 0.1 to 3600 seconds, or 0 for never")))
}

fn metrics(item: &Item<'_>) -> Result<Vec<Metric>, JobFileError> {
    let metric = |item: &Item<'_>| {
        let word = item.string()?;
        let known = || Metric::ALL.iter().map(|metric| metric.word()).collect::<Vec<_>>().join(", ");
        Metric::from_word(word)
            .ok_or_else(|| item.error(format!("there is no metric `{word}`: use some of {}", known())))
    };
    item.array("a list of metrics")?.iter().map(metric).collect()
}

/// Whether it has a tree of its own.
fn tree(item: &Item<'_>) -> Result<bool, JobFileError> {
    match item.string()? {
        "farm" => Ok(false),
        "own" => Ok(true),
        other => Err(item.error(format!("`tree` is `{other}`: use \"farm\" or \"own\""))),
    }
}
