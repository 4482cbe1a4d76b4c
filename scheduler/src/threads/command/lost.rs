//! Outputs that are missing or damaged: which they are, and running their units again. To find out takes as long as to
//! read all outputs of the job, so that is done beside the runtime's only thread.

use std::sync::Arc;

use starfarm_net::say;
use starfarm_protocol::admin::{ErrorCode, LostOutputs, Response, Subject};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::units::Units;

use super::desk::Desk;
use crate::answers::{command_error, error};
use crate::pages::{self, Look};

/// The outputs of job `id` that should be there and are not, or not whole. What the farm counts is in the files by the
/// time that it answers.
pub(super) async fn outputs(desk: &Desk, id: JobId, look: Look) -> Result<Vec<LostOutputs>, Response> {
    let owed = desk.find(move |farm| pages::owed(farm, id)).await?;
    let house = Arc::clone(&desk.house);
    let go_through = move || pages::lost(id, &owed, (&house.outputs, &house.blobs), look);
    let looked = tokio::task::spawn_blocking(go_through).await;
    say_notes(desk);
    looked
        .unwrap_or_else(|e| Err(error(ErrorCode::Conflict, format!("the outputs cannot be looked at: {e}"))))
}

/// Says what was found wrong with files that were opened just now.
pub(super) fn say_notes(desk: &Desk) {
    let mut outputs = desk.house.outputs.lock().expect("a panic under the lock ends the process");
    outputs.take_notes().iter().for_each(|note| say(note));
}

/// Refuses what would never end: a node cannot fetch what the job is made from.
pub(super) async fn can_run(desk: &Desk, id: JobId) -> Result<(), Response> {
    let spec = desk.find(move |farm| Ok(farm.job(id, 0).map(|job| job.spec))).await?;
    let house = Arc::clone(&desk.house);
    // A job that is not there is told of by whoever was to do something to it.
    let Some(spec) = spec else { return Ok(()) };
    let look = tokio::task::spawn_blocking(move || pages::cannot_run(id, &spec, &house.blobs));
    match look.await {
        Ok(Some(why)) => Err(why),
        // One that could not look knows nothing against it.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// The units of these are wanted again; how many they are.
pub(super) async fn rerun(desk: &Desk, id: JobId) -> Result<Response, Response> {
    can_run(desk, id).await?;
    let look = Look { anew: true, all: false };
    let lost: Vec<_> = outputs(desk, id, look).await?.iter().map(|lost| (lost.lo.0, lost.hi.0)).collect();
    let act = desk.ask(move |farm, _, deeds| match farm.rerun(id, &lost, deeds) {
        Ok(units) => Response::Rerun(Units(units)),
        Err(e) => command_error(e, &Subject::Job(id)),
    });
    let response = act.await;
    desk.house.merges.reopened(id);
    Ok(response)
}
