//! Why a node has nothing to do. Told to whoever watches or asks; nothing is decided by it.

use starfarm_events::IdleReason;
use starfarm_protocol::ids::NodeId;

use crate::farm::Farm;
use crate::job::JobState;
use crate::told::Doing;

impl Farm {
    /// What node `id` does, as far as pictures show it.
    pub(crate) fn doing(&self, id: NodeId, now_us: u64) -> Doing {
        match (self.idle_reason(id, now_us), self.nodes.get(id)) {
            (Some(reason), _) => Doing::Idle(reason),
            (None, Some(node)) if node.health().is_there() => Doing::Busy,
            (None, _) => Doing::Away,
        }
    }

    /// Why node `id` has no task; none where it has, or is not there to compute.
    pub(crate) fn idle_reason(&self, id: NodeId, now_us: u64) -> Option<IdleReason> {
        let node = self.nodes.get(id).filter(|node| node.health().is_there())?;
        if !self.queues.ids_at(id).is_empty() {
            return None;
        }
        if !node.health().live() {
            return Some(IdleReason::State);
        }
        let mut reason = if self.jobs.queue_len() == 0 { IdleReason::NoJob } else { IdleReason::NothingLeft };
        for job in self.jobs.with_work() {
            let found = match job {
                job if job.pending() == 0 => IdleReason::NothingLeft,
                job if !job.fits(id, &self.nodes) => IdleReason::TooSmall,
                job if !job.could_run(id, &self.nodes) => IdleReason::Refused,
                job if job.state == JobState::Paused => IdleReason::Paused,
                job if job.state == JobState::Waiting => IdleReason::After,
                job if !self.may_hold(job, id) => IdleReason::MaxNodes,
                job if !self.has_time_for_one(job, id, now_us) => IdleReason::NoTime,
                _ => return Some(IdleReason::Waiting),
            };
            // What is nearest to work tells most: what a person's word would give it, then what it could do once
            // it is repaired.
            let rank = |reason| match reason {
                IdleReason::Paused => 7,
                IdleReason::Refused => 6,
                IdleReason::MaxNodes => 5,
                IdleReason::NoTime => 4,
                IdleReason::TooSmall => 3,
                IdleReason::After => 2,
                IdleReason::NothingLeft => 1,
                _ => 0,
            };
            if rank(found) > rank(reason) {
                reason = found;
            }
        }
        Some(reason)
    }
}
