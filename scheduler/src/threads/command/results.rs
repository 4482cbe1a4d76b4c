//! Pages of results: the dispatcher is asked what the farm knows of them.

use std::sync::Arc;

use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::JobId;

use super::desk::Desk;
use crate::pages::{self, Asked};

pub(crate) async fn page(desk: &Arc<Desk>, id: JobId, skip: u64, take: u64) -> Response {
    let asked = Asked::new(id, skip, take);
    let found = match desk.find(move |farm| pages::find(farm, asked)).await {
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
        desk.find(move |farm| Ok(pages::names(farm, ids))).await
    };
    // A scheduler that stops names none.
    pages::page(found, outputs, &names.unwrap_or_default(), &desk.blobs)
}
