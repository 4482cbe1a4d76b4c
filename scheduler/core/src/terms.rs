//! The record of a limit that a person changed while the job goes on: what it tells, and what it does to the job and the
//! queues. The command itself is in `command`.

use starfarm_events::Event;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::terms::Limit;

use crate::farm::Farm;

impl Farm {
    /// What is told of a limit that is about to change.
    pub(crate) fn limited(&self, job: JobId, limit: Limit) -> Event {
        let mut terms = self.jobs.at(job).terms.clone();
        terms.set(limit);
        let (max_nodes, storage_limit) = (terms.max_nodes.map(u64::from), terms.storage_limit);
        Event::JobLimited { job, max_nodes, storage_limit }
    }

    /// A job that has not ended has another limit.
    ///
    /// # Errors
    /// There is no such job, or it has ended; no job can have such a limit.
    pub(crate) fn apply_limit(&mut self, id: JobId, limit: Limit) -> Result<(), String> {
        limit.check()?;
        let job = self.jobs.unfinished_mut(id);
        let job = job.ok_or_else(|| format!("job {} is not there, or has ended", id.0))?;
        let before = job.terms.clone();
        job.terms.set(limit);
        match limit {
            Limit::StorageLimit(bytes) => {
                if before.storage_limit != bytes {
                    job.stored.count_all();
                }
                // Where it goes on, a record of that follows.
                if let (Some(HoldReason::Storage { limit, .. }), Some(bytes)) = (&mut job.paused_for, bytes) {
                    *limit = bytes;
                }
            }
            // Of whoever has a tree of its own they are counted all the same.
            Limit::MaxNodes(_) if before.own_tree() => {}
            Limit::MaxNodes(Some(_)) if before.max_nodes.is_none() => self.queues.count_nodes(id),
            Limit::MaxNodes(None) => self.queues.forget_job(id),
            Limit::MaxNodes(Some(_)) => {}
        }
        Ok(())
    }
}
