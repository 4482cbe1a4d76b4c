//! Pages of results: hits with their candidates, units that failed, what units wrote.

use std::sync::Arc;

use starfarm_decomposers::{NoChunks, open};
use starfarm_protocol::admin::{ErrorCode, HitInfo, OutputInfo, Response, ResultsPage};
use starfarm_protocol::ids::{ContentHash, JobId, to_hex};
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_scheduler_core as core;

use super::Desk;
use crate::answers::{code, error, failed_unit, no_job, node_names, stream, text_or_hex};
use crate::outputs::Output;

/// Items of each kind in one page at most.
const PAGE_MAX: u64 = 1_000;

/// What the farm knows of a job's results.
struct Found {
    spec: ContentHash,
    page: core::FoundPage,
    nodes: Vec<String>,
    /// Units of a command that are done.
    ran: u64,
}

/// A page of results.
pub(crate) async fn page(desk: &Arc<Desk>, id: JobId, skip: u64, take: u64) -> Response {
    let take = take.min(PAGE_MAX);
    let Found { spec, page: found, nodes, ran } =
        match from_farm(desk, id, skip as usize, take as usize).await {
            Ok(found) => found,
            Err(response) => return response,
        };
    let outputs = {
        let mut outputs = desk.outputs.lock().expect("a panic under the lock ends the process");
        outputs.page(id, skip, take)
    };
    let (outputs, damaged, more) = match outputs {
        Ok(page) => (page.outputs, page.damaged, page.more),
        Err(e) => {
            return error(ErrorCode::Conflict, format!("the outputs of job {} cannot be read: {e}", id.0));
        }
    };
    let more = more || found.more;
    let hits = match named(desk, &spec, &found.hits) {
        Ok(hits) => hits,
        Err(message) => return error(ErrorCode::Conflict, message),
    };
    Response::Results(ResultsPage {
        hits,
        failed: found.failed.iter().map(|(unit, why)| failed_unit(*unit, why, &nodes)).collect(),
        outputs: outputs.iter().map(|output| info(output, &nodes)).collect(),
        outputs_damaged: damaged,
        outputs_of_done: ran,
        more,
    })
}

fn info(output: &Output, nodes: &[String]) -> OutputInfo {
    let outcome = &output.outcome;
    let (exit_code, signal) = code(outcome.failed, Some(outcome.code));
    OutputInfo {
        unit: output.unit.to_string(),
        attempt: output.attempt.0,
        node: nodes.get(output.node.0 as usize).cloned().unwrap_or_default(),
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
    let act = move |farm: &mut core::Farm, now_us, _: &mut core::Deeds| {
        let Some(job) = farm.job(id) else { return no_job(id) };
        let names = node_names(farm, now_us);
        // The caller waits for the answer, which comes after this.
        let ran = if job.is_command { u64::try_from(job.done).unwrap_or(u64::MAX) } else { 0 };
        let _ = send.send(Found { spec: job.spec, page: farm.found_page(id, skip, take), nodes: names, ran });
        Response::Done
    };
    match desk.ask(Box::new(act)).await {
        Response::Done => receive.await.map_err(|_| no_job(id)),
        other => Err(other),
    }
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
