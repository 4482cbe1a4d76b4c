//! At most so many nodes have tasks of a job at once, where its user says so.

use starfarm_protocol::ids::NodeId;

use crate::farm::Farm;
use crate::job::Job;
use crate::queues::NOBODY;

impl Farm {
    /// Node `id` may be given tasks of `job` as far as its `max_nodes` goes: it has some, or there is a place. While it is
    /// not known who has what was given out before a restart, there is none. Where more have some than may, since a person
    /// changed the limit, the first of them go on, and the others finish what they have.
    pub(crate) fn may_hold(&self, job: &Job, id: NodeId) -> bool {
        let Some(most) = job.terms.max_nodes else { return true };
        let job = job.facts.job;
        let has_place =
            || !self.queues.has_of(job, NOBODY) && self.queues.nodes_of(job).count() < most as usize;
        match self.queues.has_of(job, id) {
            true => self.queues.is_among(job, id, most),
            false => has_place(),
        }
    }

    /// Slots that may work for `job` at once, where nodes are alike.
    pub(crate) fn slots_for(&self, job: &Job) -> u64 {
        let (slots, nodes) = (self.nodes.live_slots(), u64::from(self.nodes.live_nodes()));
        match job.terms.max_nodes {
            Some(most) if u64::from(most) < nodes => (slots * u64::from(most)).div_ceil(nodes),
            _ => slots,
        }
    }
}
