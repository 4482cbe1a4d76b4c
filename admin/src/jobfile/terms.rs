//! `after`, `after_any` and `labels`: what holds of a job beside its units and its work. How many nodes it may have stands
//! in `[task]`.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::terms::{Terms, check_label};

use super::error::JobFileError;
use super::table::{Item, Section};

/// Reads the keys of the file itself.
pub(super) fn read(root: &Section<'_>) -> Result<Terms, JobFileError> {
    let terms = Terms {
        after: root.read("after", jobs)?.unwrap_or_default(),
        after_any: root.read("after_any", jobs)?.unwrap_or_default(),
        labels: root.read("labels", labels)?.unwrap_or_default(),
        max_nodes: None,
        storage_limit: None,
        monitor: None,
    };
    terms.check().map_err(|why| root.error(why))?;
    Ok(terms)
}

/// `3`, or `[3, 4]`.
fn jobs(item: &Item<'_>) -> Result<Vec<JobId>, JobFileError> {
    let job = |item: &Item<'_>| item.integer_within(1, i64::MAX as u64).map(JobId);
    match item.array("a job's number, or a list of them") {
        Ok(items) => items.iter().map(job).collect(),
        Err(_) => Ok(vec![job(item)?]),
    }
}

fn labels(item: &Item<'_>) -> Result<BTreeMap<String, String>, JobFileError> {
    let mut labels = BTreeMap::new();
    for item in item.table()?.items() {
        let value = item.string()?;
        check_label(&item.name, value).map_err(|why| item.error(why))?;
        labels.insert(item.name.clone(), value.to_owned());
    }
    Ok(labels)
}
