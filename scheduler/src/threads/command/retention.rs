//! Ended jobs that are older than a person wants, or for which there is no room, are deleted as by a command. Which they
//! are is the farm's to say; it is asked again and again.

use std::sync::Arc;
use std::time::Duration;

use starfarm_net::say;
use starfarm_protocol::admin::{Response, Subject};
use starfarm_scheduler_core::{Farm, Retention};

use super::desk::Desk;
use super::jobs;
use crate::answers::command_error;

/// How often it is looked for jobs to delete.
const PERIOD: Duration = Duration::from_secs(1);
/// Jobs that are deleted one after another before it is looked again how much is stored.
const JOBS_MAX: usize = 16;

/// Deletes what is to be deleted for as long as the scheduler runs.
pub(super) async fn keep(desk: Arc<Desk>) {
    let retention = desk.house.options.retention();
    if retention == Retention::default() {
        return;
    }
    while !desk.house.shared.stopping() {
        tokio::time::sleep(PERIOD).await;
        if let Err(why) = delete(&desk, retention).await {
            say(&format!("ended jobs are not deleted: {why}"));
            tokio::time::sleep(PERIOD * 60).await;
        }
    }
}

/// Deletes some of the jobs that are to go.
async fn delete(desk: &Arc<Desk>, retention: Retention) -> Result<(), String> {
    let (stored, now_us) = (desk.house.low_water.stored(), desk.house.shared.now_us());
    let find = desk.find(move |farm: &Farm| Ok(farm.expired(retention, stored, now_us)));
    // A scheduler that stops has none.
    let Ok(expired) = find.await else { return Ok(()) };
    for (id, why) in expired.into_iter().take(JOBS_MAX) {
        let expire = jobs::delete(desk, id, move |farm, now_us, deeds| {
            match farm.delete_expired(id, why, now_us, deeds) {
                Ok(()) => Response::Done,
                Err(e) => command_error(e, &Subject::Job(id)),
            }
        });
        match expire.await {
            Response::Done => say(&format!("job {} is deleted: {why}", id.0)),
            Response::Error(error) => return Err(error.message),
            _ => {}
        }
    }
    Ok(())
}
