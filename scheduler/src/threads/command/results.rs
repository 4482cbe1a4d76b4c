//! Pages of results: the dispatcher is asked what the farm knows of them.

use std::sync::Arc;

use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core as core;

use super::Desk;
use crate::answers::no_job;
use crate::pages::{self, Asked};

/// A page of results.
pub(crate) async fn page(desk: &Arc<Desk>, id: JobId, skip: u64, take: u64) -> Response {
    let asked = Asked::new(id, skip, take);
    let found = match from_farm(desk, id, move |farm| pages::find(farm, asked)).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let outputs = match pages::outputs(asked, &desk.outputs) {
        Ok(outputs) => outputs,
        Err(response) => return response,
    };
    let ids = pages::writers(&outputs);
    let names = if ids.is_empty() {
        Ok(pages::Names::new())
    } else {
        from_farm(desk, id, move |farm| Ok(pages::names(farm, ids))).await
    };
    // A scheduler that stops names none.
    pages::page(found, outputs, &names.unwrap_or_default(), &desk.blobs)
}

/// What the dispatcher finds.
async fn from_farm<T: Send + 'static>(
    desk: &Desk,
    id: JobId,
    find: impl FnOnce(&mut core::Farm) -> Result<T, Response> + Send + 'static,
) -> Result<T, Response> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let act = move |farm: &mut core::Farm, _, _: &mut core::Deeds| match find(farm) {
        Ok(found) => {
            // The caller waits for the answer, which comes after this.
            let _ = send.send(found);
            Response::Done
        }
        Err(response) => response,
    };
    match desk.ask(Box::new(act)).await {
        Response::Done => receive.await.map_err(|_| no_job(id)),
        other => Err(other),
    }
}
