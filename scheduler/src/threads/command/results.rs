//! Pages of results: hits with their candidates, units that failed, what units wrote.

use std::sync::Arc;

use starfarm_decomposers::{NoChunks, open};
use starfarm_protocol::admin::{ErrorCode, HitInfo, OutputInfo, Response, ResultsPage};
use starfarm_protocol::ids::{ContentHash, JobId, to_hex};
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_scheduler_core as core;

use super::Desk;
use crate::answers::{error, failed_unit, no_job, node_names, stream, text_or_hex};

/// Items of each kind in one page at most.
const PAGE_MAX: u64 = 1_000;

/// What the farm knows of a job's results.
type Found = (ContentHash, core::FoundPage, Vec<String>);

/// A page of results.
pub(crate) async fn page(desk: &Arc<Desk>, id: JobId, skip: u64, take: u64) -> Response {
    let take = take.min(PAGE_MAX);
    let (spec, found, nodes) = match from_farm(desk, id, skip as usize, take as usize).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let outputs = {
        let mut outputs = desk.outputs.lock().expect("a panic under the lock ends the process");
        outputs.page(id, skip, take)
    };
    let (outputs, more) = match outputs {
        Ok(page) => page,
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
        outputs: outputs
            .iter()
            .map(|output| OutputInfo {
                unit: output.unit.to_string(),
                attempt: output.attempt.0,
                node: nodes.get(output.node.0 as usize).cloned().unwrap_or_default(),
                exit_code: output.outcome.code,
                seconds: output.outcome.duration_us as f64 / 1e6,
                stdout: stream(&output.outcome.outputs.stdout),
                stderr: stream(&output.outcome.outputs.stderr),
                files: Vec::new(),
            })
            .collect(),
        more,
    })
}

async fn from_farm(desk: &Desk, id: JobId, skip: usize, take: usize) -> Result<Found, Response> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let act = move |farm: &mut core::Farm, now_us, _: &mut core::Deeds| {
        let Some(job) = farm.job(id) else { return no_job(id) };
        let names = node_names(farm, now_us);
        // The caller waits for the answer, which comes after this.
        let _ = send.send((job.spec, farm.found_page(id, skip, take), names));
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
