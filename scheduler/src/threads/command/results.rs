//! Pages of results: hits with their candidates, units that failed, what units wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use starfarm_decomposers::{NoChunks, open};
use starfarm_protocol::admin::{ErrorCode, FailedInfo, HitInfo, OutputInfo, Response, ResultsPage};
use starfarm_protocol::ids::{ContentHash, JobId, to_hex};
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_scheduler_core as core;

use super::Desk;
use crate::answers::{code, error, failed_unit, no_job, stream, text_or_hex};
use crate::outputs::Output;

/// Items of each kind in one page at most.
const PAGE_MAX: u64 = 1_000;

/// What the farm knows of a job's results.
struct Found {
    spec: ContentHash,
    hits: Vec<(u128, u32)>,
    failed: Vec<FailedInfo>,
    more: bool,
    /// Units of a command that are done.
    ran: u64,
}

/// A page of results.
pub(crate) async fn page(desk: &Arc<Desk>, id: JobId, skip: u64, take: u64) -> Response {
    let take = take.min(PAGE_MAX);
    let Found { spec, hits, failed, more, ran } =
        match from_farm(desk, id, skip as usize, take as usize).await {
            Ok(found) => found,
            Err(response) => return response,
        };
    let outputs = {
        let mut outputs = desk.outputs.lock().expect("a panic under the lock ends the process");
        outputs.page(id, skip, take)
    };
    let (outputs, damaged, more) = match outputs {
        Ok(page) => (page.outputs, page.damaged, page.more || more),
        Err(e) => {
            return error(ErrorCode::Conflict, format!("the outputs of job {} cannot be read: {e}", id.0));
        }
    };
    let hits = match named(desk, &spec, &hits) {
        Ok(hits) => hits,
        Err(message) => return error(ErrorCode::Conflict, message),
    };
    let nodes = node_names(desk, outputs.iter().map(|output| output.node).collect()).await;
    Response::Results(ResultsPage {
        hits,
        failed,
        outputs: outputs.iter().map(|output| info(output, &nodes)).collect(),
        outputs_damaged: damaged,
        outputs_of_done: ran,
        more,
    })
}

fn info(output: &Output, nodes: &BTreeMap<core::NodeId, String>) -> OutputInfo {
    let outcome = &output.outcome;
    let (exit_code, signal) = code(outcome.failed, Some(outcome.code));
    OutputInfo {
        unit: output.unit.to_string(),
        attempt: output.attempt.0,
        node: nodes.get(&output.node).cloned().unwrap_or_default(),
        failed: outcome.failed.map(|reason| reason.word().to_owned()),
        superseded: output.superseded,
        exit_code,
        signal,
        seconds: outcome.duration_us as f64 / 1e6,
        stdout: stream(&outcome.outputs.stdout),
        stderr: stream(&outcome.outputs.stderr),
        files: Vec::new(),
    }
}

async fn from_farm(desk: &Desk, id: JobId, skip: usize, take: usize) -> Result<Found, Response> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let act = move |farm: &mut core::Farm, _, _: &mut core::Deeds| {
        let Some(job) = farm.job(id) else { return no_job(id) };
        let core::FoundPage { hits, failed, more } = farm.found_page(id, skip, take);
        let failed = failed.iter().map(|(unit, why)| failed_unit(*unit, why, farm)).collect();
        // The caller waits for the answer, which comes after this.
        let ran = if job.is_command { u64::try_from(job.done).unwrap_or(u64::MAX) } else { 0 };
        let _ = send.send(Found { spec: job.spec, hits, failed, more, ran });
        Response::Done
    };
    match desk.ask(Box::new(act)).await {
        Response::Done => receive.await.map_err(|_| no_job(id)),
        other => Err(other),
    }
}

/// The names of these nodes. Whose outputs a page has is known once it was read, and what ran must be counted before.
async fn node_names(desk: &Desk, ids: BTreeSet<core::NodeId>) -> BTreeMap<core::NodeId, String> {
    if ids.is_empty() {
        return BTreeMap::new();
    }
    let (send, receive) = tokio::sync::oneshot::channel();
    let act = move |farm: &mut core::Farm, _, _: &mut core::Deeds| {
        let _ = send.send(ids.into_iter().map(|id| (id, farm.node_name(id))).collect());
        Response::Done
    };
    desk.ask(Box::new(act)).await;
    // A scheduler that stops names none.
    receive.await.unwrap_or_default()
}

/// Hits with their candidates and digests.
fn named(desk: &Desk, spec: &ContentHash, hits: &[(u128, u32)]) -> Result<Vec<HitInfo>, String> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = {
        let blobs = desk.blobs.lock().expect("a panic under the lock ends the process");
        let bytes =
            blobs.read(spec, 0, usize::MAX).map_err(|e| format!("content {spec} cannot be read: {e}"))?;
        bytes.ok_or_else(|| blobs.lament(spec))?
    };
    let spec = JobSpec::from_bytes(&bytes)?;
    let Work::Search(search) = &spec.work else { return Ok(Vec::new()) };
    let space = open(&spec.space, Arc::new(NoChunks)).map_err(|e| e.to_string())?;
    let name = |&(unit, target): &(u128, u32)| {
        let (value, value_hex) = text_or_hex(&space.value(unit).map_err(|e| e.to_string())?);
        let target = search.targets.get(target as usize).map_or_else(String::new, |digest| to_hex(&digest.0));
        Ok(HitInfo { unit: unit.to_string(), value, value_hex, target })
    };
    hits.iter().map(name).collect()
}
