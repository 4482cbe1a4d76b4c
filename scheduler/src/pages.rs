//! Jobs and their results as admin commands get them: of a farm that runs, whose dispatcher is asked, and of one at
//! rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use starfarm_decomposers::{Decomposer, NoChunks, open};
use starfarm_protocol::admin::pieces::ANSWER_BYTES_MAX;
use starfarm_protocol::admin::{
    ArchiveInfo, ErrorCode, HitInfo, LostOutputs, OutputInfo, Response, ResultsPage,
};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::outputs::Stored;
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Files;
use starfarm_scheduler_core as core;

use crate::answers::{error, no_job, stream, text_or_hex};
use crate::merge::Merges;
use crate::store::blobs::{AGAIN, Blobs};
use crate::store::journal::Listing;
use crate::store::outputs::{Output, OutputStore, Page};

/// Intervals of lost outputs in one page at most: each page goes through all outputs again.
const LOST_MAX: u64 = 100_000;
/// Items of each kind in one page at most.
const PAGE_MAX: u64 = 1_000;

/// Which results: of this job `take` of each kind from the `skip`th on.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) id: JobId,
    skip: u64,
    take: u64,
}

impl Asked {
    /// As somebody asked, but no more than a page has.
    pub(crate) fn new(id: JobId, skip: u64, take: u64) -> Self {
        Self { id, skip, take: take.min(PAGE_MAX) }
    }
}

/// Nodes that are named somewhere, with their names; without those that are forgotten.
pub(crate) type Names = BTreeMap<core::NodeId, String>;

/// What one who reads results page by page need not find again on each: where the last page ended, and what the job is made
/// from. It lives as long as the connection.
#[derive(Default)]
pub(crate) struct Reading {
    mark: Option<(JobId, core::Bookmark)>,
    spec: Option<(ContentHash, Named)>,
    /// Hits of a job of which not all are in memory.
    hits: Option<(JobId, Listing)>,
}

/// What gives hits their names.
struct Named {
    spec: JobSpec,
    space: Box<dyn Decomposer>,
}

impl Reading {
    /// Where the last page of that job ended.
    pub(crate) fn mark(&self, Asked { id, .. }: Asked) -> core::Bookmark {
        self.mark.filter(|(of, _)| *of == id).map(|(_, mark)| mark).unwrap_or_default()
    }

    /// Whether the hits of a job are listed that has so many in all and not all in memory: a list is made for the first
    /// page, and those that follow are of the same one to its end.
    pub(crate) fn lists(&self, Asked { id, skip, .. }: Asked, hits: u64) -> bool {
        let listing = self.hits.as_ref().filter(|(of, _)| *of == id).map(|(_, listing)| listing.hits());
        listing.is_some_and(|listed| listed == hits || (0 < skip && skip < listed))
    }

    pub(crate) fn list(&mut self, id: JobId, hits: Listing) {
        self.hits = Some((id, hits));
    }

    /// The specification with this hash, read once.
    fn named(&mut self, blobs: &Mutex<Blobs>, hash: &ContentHash) -> Result<&Named, String> {
        if self.spec.as_ref().is_none_or(|(of, _)| of != hash) {
            let bytes = {
                let mut blobs = blobs.lock().expect("a panic under the lock ends the process");
                let bytes = blobs
                    .read(hash, 0, usize::MAX)
                    .map_err(|e| format!("content {hash} cannot be read: {e}"))?;
                bytes.ok_or_else(|| blobs.lament(hash))?
            };
            let spec = JobSpec::from_bytes(&bytes)?;
            let space = open(&spec.space, Arc::new(NoChunks))?;
            self.spec = Some((*hash, Named { spec, space }));
        }
        let (_, named) = self.spec.as_ref().expect("it was just put there");
        Ok(named)
    }
}

pub(crate) fn find(
    farm: &core::Farm,
    asked: Asked,
    mark: core::Bookmark,
) -> Result<core::FoundPage, Response> {
    let Asked { id, skip, take } = asked;
    farm.found_page(id, skip as usize, take as usize, mark).ok_or_else(|| no_job(id))
}

/// Outputs of the page. They are read after the farm was asked: what it counts is there by then.
pub(crate) fn outputs(asked: Asked, outputs: &Mutex<OutputStore>) -> Result<Page, Response> {
    let Asked { id, skip, take } = asked;
    let mut outputs = outputs.lock().expect("a panic under the lock ends the process");
    outputs.page(id, skip, take).map_err(|e| unreadable(id, &e))
}

/// How it is looked for outputs that are lost.
#[derive(Clone, Copy, Default)]
pub(crate) struct Look {
    /// Contents are looked at again that were found whole before.
    pub(crate) anew: bool,
    /// Runs that do not count are looked at as well.
    pub(crate) all: bool,
}

/// Outputs of `owed` units of job `id` that are missing or damaged. It takes its time; the stores are held for a moment
/// each.
pub(crate) fn lost(
    id: JobId,
    owed: &UnitSet,
    (outputs, blobs): (&Mutex<OutputStore>, &Mutex<Blobs>),
    Look { anew, all }: Look,
) -> Result<Vec<LostOutputs>, Response> {
    let snapshot = outputs.lock().expect("a panic under the lock ends the process").snapshot(id);
    let content =
        |hash: &ContentHash| blobs.lock().expect("a panic under the lock ends the process").loss(hash, anew);
    snapshot.and_then(|snapshot| snapshot.lost(owed, all, content)).map_err(|e| unreadable(id, &e))
}

fn unreadable(id: JobId, e: &io::Error) -> Response {
    error(ErrorCode::Conflict, format!("the outputs of job {} cannot be read: {e}", id.0))
}

/// Why no unit of job `id` can run again: what it is made from is lost. Its bytes are looked at anew.
pub(crate) fn cannot_run(id: JobId, spec: &ContentHash, blobs: &Mutex<Blobs>) -> Option<Response> {
    let mut blobs = blobs.lock().expect("a panic under the lock ends the process");
    let mut lack = |hash: &ContentHash| match blobs.loss(hash, true) {
        Ok(None) => None,
        Ok(Some(what)) => Some(what.word().to_owned()),
        Err(e) => Some(format!("unreadable ({e})")),
    };
    let mut lost = lack(spec).map(|what| ("specification", what));
    if lost.is_none() {
        let bytes = blobs.read(spec, 0, usize::MAX).ok().flatten().unwrap_or_default();
        if let Ok(spec) = JobSpec::from_bytes(&bytes) {
            // What cannot be looked for is as good as missing.
            let missing = spec.contents().any(|hash| !blobs.knows(&hash).unwrap_or(false));
            lost = missing.then(|| ("list", "missing".to_owned()));
        }
    }
    let (of, what) = lost?;
    let words = format!(
        "the {of} of job {} is {what} on the scheduler's disk, so no worker could run it: {AGAIN}, then retry; what the \
         job counted is not touched",
        id.0
    );
    Some(error(ErrorCode::Conflict, words))
}

/// A page of what is lost.
pub(crate) fn lost_page(lost: &[LostOutputs], skip: u64, take: u64) -> Response {
    let from = lost.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
    let to = lost.len().min(from.saturating_add(take.min(LOST_MAX) as usize));
    Response::LostOutputs { lost: lost[from..to].to_vec(), more: to < lost.len() }
}

pub(crate) fn owed(farm: &core::Farm, id: JobId) -> Result<UnitSet, Response> {
    farm.owed_outputs(id).ok_or_else(|| no_job(id))
}

pub(crate) fn writers(outputs: &Page) -> BTreeSet<core::NodeId> {
    outputs.outputs.iter().map(|output| output.stored.node).collect()
}

pub(crate) fn names(farm: &core::Farm, ids: BTreeSet<core::NodeId>) -> Names {
    ids.into_iter().filter_map(|id| Some((id, farm.node_name(id)?))).collect()
}

pub(crate) fn page(
    asked: Asked,
    (found, outputs): (core::FoundPage, Page),
    nodes: &Names,
    blobs: &Mutex<Blobs>,
    reading: &mut Reading,
) -> Response {
    let core::FoundPage { spec, mut hits, paged, failed, outcomes, mut more, next } = found;
    reading.mark = Some((asked.id, next));
    if paged.is_some()
        && let Some((_, listing)) = &reading.hits
    {
        more |= listing.hits() > asked.skip.saturating_add(asked.take);
        hits = match listing.page(asked.skip, asked.take) {
            Ok(hits) => hits,
            Err(e) => return error(ErrorCode::Conflict, format!("the list of hits cannot be read: {e}")),
        };
    }
    let hits = match named(reading, blobs, &spec, &hits) {
        Ok(hits) => hits,
        Err(message) => return error(ErrorCode::Conflict, message),
    };
    Response::Results(ResultsPage {
        hits,
        failed,
        outputs: outputs.outputs.iter().map(|output| info(output, nodes)).collect(),
        outputs_damaged: outputs.damaged,
        outputs_of_done: u64::try_from(outcomes).unwrap_or(u64::MAX),
        more: outputs.more || more,
    })
}

fn info(output: &Output, nodes: &Names) -> OutputInfo {
    let Stored { unit, attempt, node, outcome } = &output.stored;
    let (exit_code, signal) = match outcome.failed {
        Some(reason) => reason.ended_by(Some(outcome.code)),
        None => (Some(outcome.code), None),
    };
    OutputInfo {
        unit: Units(*unit),
        units: Units(outcome.units.into()),
        attempt: attempt.0,
        run: output.run,
        node: nodes.get(node).cloned(),
        failed: outcome.failed,
        superseded: output.superseded,
        exit_code,
        signal,
        seconds: outcome.duration_us as f64 / 1e6,
        stdout: stream(&outcome.outputs.stdout),
        stderr: stream(&outcome.outputs.stderr),
        files: outcome.outputs.files.iter().map(archive).collect(),
    }
}

fn archive(Files { hash, bytes, count }: &Files) -> ArchiveInfo {
    ArchiveInfo { hash: *hash, bytes: *bytes, count: *count, lost: None }
}

/// Hits with their candidates and digests.
fn named(
    reading: &mut Reading,
    blobs: &Mutex<Blobs>,
    spec: &ContentHash,
    hits: &[(u128, u32)],
) -> Result<Vec<HitInfo>, String> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    let Named { spec, space } = reading.named(blobs, spec)?;
    let name = |&(unit, target): &(u128, u32)| {
        let (value, value_hex) = text_or_hex(&space.value(unit).map_err(|e| e.to_string())?);
        Ok(HitInfo { unit: Units(unit), value, value_hex, target: spec.work.target(target) })
    };
    hits.iter().map(name).collect()
}

/// The jobs with these numbers, each with what befell it.
pub(crate) fn jobs(farm: &core::Farm, ids: &[JobId], now_us: u64) -> Response {
    let asked = ids.iter().map(|&id| farm.job(id, now_us).ok_or(id));
    match asked.collect::<Result<Vec<_>, _>>() {
        Ok(jobs) => Response::Jobs(jobs),
        Err(missing) => no_job(missing),
    }
}

/// Says of each job how many of its outputs were cut.
pub(crate) fn fill_cut(response: &mut Response, outputs: &Mutex<OutputStore>) {
    if let Response::Jobs(jobs) = response {
        let mut outputs = outputs.lock().expect("a panic under the lock ends the process");
        // A file that cannot be read says so where its outputs are asked for.
        jobs.iter_mut().for_each(|job| job.outputs_cut = outputs.cut(job.id).unwrap_or(0));
    }
}

/// A piece of what came of merging a job's results.
pub(crate) fn merged(merges: &Merges, id: JobId, file: Option<&str>, offset: u64) -> Response {
    match merges.read(id, file, offset, ANSWER_BYTES_MAX) {
        Ok(Some(bytes)) => Response::of(bytes),
        Ok(None) => error(ErrorCode::NotFound, format!("job {} has no such merged result", id.0)),
        Err(e) => {
            error(ErrorCode::Conflict, format!("the merged result of job {} cannot be read: {e}", id.0))
        }
    }
}

pub(crate) fn fetch(blobs: &Mutex<Blobs>, hash: &ContentHash, offset: u64) -> Response {
    let mut blobs = blobs.lock().expect("a panic under the lock ends the process");
    match blobs.read(hash, offset, ANSWER_BYTES_MAX) {
        Ok(Some(bytes)) => Response::of(bytes),
        Ok(None) => match blobs.lack(hash) {
            Ok(what) => Response::Lost(what),
            Err(e) => error(ErrorCode::Conflict, format!("content {hash} cannot be looked for: {e}")),
        },
        Err(e) => error(ErrorCode::Conflict, format!("content {hash} cannot be read: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::spec::{Space, Work};

    use super::*;

    /// A retry of it was accepted, and a job that had finished could never end again.
    #[test]
    fn a_job_whose_specification_is_lost_cannot_run_again_until_it_is_put_back() {
        let path = std::env::temp_dir().join(format!("starfarm-cannot-run-{}", std::process::id()));
        let blobs = Mutex::new(Blobs::open(&path).unwrap().0);
        let spec =
            JobSpec { space: Space::Range { from: 0, to: 9, step: 1 }, work: Work::Nothing }.to_bytes();
        let hash = ContentHash::of(&spec);
        let Some(Response::Error(told)) = cannot_run(JobId(3), &hash, &blobs) else { panic!("it can") };
        assert!(told.message.starts_with("the specification of job 3 is missing"), "{}", told.message);
        blobs.lock().unwrap().put(&spec).unwrap();
        assert_eq!(cannot_run(JobId(3), &hash, &blobs), None);
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - spec.len();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", at as u64).unwrap();
        let Some(Response::Error(told)) = cannot_run(JobId(3), &hash, &blobs) else { panic!("it can") };
        assert!(told.message.contains("is damaged"), "{}", told.message);
        std::fs::remove_file(path).unwrap();
    }
}
