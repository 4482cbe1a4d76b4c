//! The merge thread: merges the results of jobs that have ended, one job after another. Nothing waits for it but who waits
//! for such a job.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use starfarm_net::say;
use starfarm_protocol::admin::{JobInfo, MergeOutcome};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::unit_set::UnitSet;

use super::command::bells::Bells;
use super::{House, Input, ask};
use crate::host_program::with_scheduler;
use crate::merge::{Results, merge};

/// How often it looks whether such a job has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Runs until the scheduler stops.
pub(crate) fn run(house: &House, dispatcher: &Sender<Input>, bells: &Arc<Bells>) {
    while !house.shared.stopping() {
        match next(house, dispatcher) {
            Some(job) => bells.ring([job]),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Merges the results of the next job that has ended; which.
fn next(house: &House, dispatcher: &Sender<Input>) -> Option<JobId> {
    let (ids, since) = house.merges.unsettled();
    if ids.is_empty() {
        return None;
    }
    // Some may have been deleted.
    let infos: Vec<JobInfo> =
        ask(dispatcher, move |farm, now_us, _| ids.iter().filter_map(|&id| farm.job(id, now_us)).collect())?;
    let (job, ended_us, how) = house.merges.begin(&infos, since)?;
    let outcome = match done(dispatcher, job) {
        Some(done) => {
            let results = Results { job, done, outputs: &house.outputs, blobs: &house.blobs };
            let full = || house.low_water.lacks_disk().map(|why| format!("was ended: {why}: make room"));
            let deleted = || (!house.merges.has(job)).then(|| "was ended: its job is deleted".to_owned());
            let stopped = || with_scheduler(house.shared.stopping()).or_else(full).or_else(deleted);
            merge(&house.merges, &results, (&how, ended_us), &stopped)
        }
        None => return None,
    };
    if house.shared.stopping() && !outcome.why.is_empty() {
        // The next start does it.
        return None;
    }
    let told = match &outcome {
        MergeOutcome { why, .. } if !why.is_empty() => {
            format!("the results of job {} cannot be merged: {why}", job.0)
        }
        MergeOutcome { seconds, .. } => format!("the results of job {} are merged, in {seconds:.1} s", job.0),
    };
    let (state, kept) = house.merges.end(job, outcome);
    say(&match kept {
        Ok(()) => told,
        Err(e) if house.merges.has(job) => format!(
            "the results of job {0} cannot be merged: what came of it cannot be written: {e}: make room, then `starfarm job \
             merge {0}`",
            job.0
        ),
        Err(e) => format!("what was merged of job {}, which is deleted, cannot be removed: {e}", job.0),
    });
    house.tell_stored([job]);
    house.count_stored();
    ask(dispatcher, move |farm, now_us, _| {
        // It may be running again by now.
        if farm.job(job, now_us).is_some_and(|info| info.totals.ended_us == Some(ended_us)) {
            farm.note_merge(job, state);
        }
    });
    Some(job)
}

/// The units of a job that are done: their results must be there.
fn done(dispatcher: &Sender<Input>, job: JobId) -> Option<UnitSet> {
    ask(dispatcher, move |farm, _, _| farm.done_intervals(job).into_iter().collect())
}
