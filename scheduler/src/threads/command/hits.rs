//! Hits that the farm does not keep in memory: to list them takes as long as to read the journal, so that is done beside
//! the runtime's only thread.

use std::sync::Arc;

use starfarm_protocol::admin::{ErrorCode, Response};
use starfarm_protocol::ids::JobId;

use super::desk::Desk;
use crate::answers::error;
use crate::store::journal::Listing;

/// All hits of job `id` by the records up to `last`, which are durable.
pub(super) async fn list(desk: &Desk, id: JobId, last: u64) -> Result<Listing, Response> {
    let refused = |why: String| error(ErrorCode::Conflict, why);
    if let Some(why) = desk.house.low_water.lacks_disk() {
        return Err(refused(format!(
            "{why}: make room, the hits of job {} are put in order on the disk",
            id.0
        )));
    }
    let house = Arc::clone(&desk.house);
    let listed = tokio::task::spawn_blocking(move || house.hits.list(id, last)).await;
    match listed {
        Ok(listed) => listed.map_err(|why| refused(why.to_string())),
        Err(e) => Err(refused(format!("the hits of job {} cannot be listed: {e}", id.0))),
    }
}
