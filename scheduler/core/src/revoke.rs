//! Attempts that nobody wants any more are revoked: their nodes are told to let go of them.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::wire::{Cancel, Revoke};

use crate::farm::Farm;

impl Farm {
    /// What was given out of the job so far.
    pub(crate) fn so_far(&self, job: JobId, cancel: Cancel) -> Revoke {
        Revoke { job, cancel, before: self.queues.next_attempt() }
    }

    /// A node is to let go of what it has of a job.
    pub(crate) fn revoke_from(&mut self, id: NodeId, revoke: Revoke) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.to_tell.revoke(revoke);
            // What nobody knows is no word about what is known.
            if revoke.before != Attempt(u64::MAX) {
                node.revoked = node.revoked.max(revoke.before);
            }
            self.nodes.mark(id);
        }
    }

    /// Tells every node that has tasks of the job to let go of them. With more tasks than nodes it asks the nodes: most
    /// have one of the job as the first that is looked at.
    pub(crate) fn revoke(&mut self, job: JobId, cancel: Cancel) {
        let revoke = self.so_far(job, cancel);
        let told: BTreeSet<NodeId> = if self.queues.out_of(job) > self.nodes.len() {
            let has_some = |id: &NodeId| self.queues.tasks_at(*id).any(|task| task.job == job);
            self.nodes.iter().map(|(id, _)| id).filter(has_some).collect()
        } else {
            let tasks = self.queues.of_job(job).chain(self.queues.copies_of(job));
            tasks.map(|(_, task)| task.node).collect()
        };
        told.into_iter().for_each(|id| self.revoke_from(id, revoke));
        self.jobs.at_mut(job).revoked = Some((revoke.before, cancel));
    }
}
