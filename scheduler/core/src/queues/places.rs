//! Which nodes have tasks of a job that only so many nodes may work for at once.

use starfarm_protocol::ids::{JobId, NodeId};

use super::Queues;

impl Queues {
    /// Which nodes have tasks of `job`, copies among them, is known from now on; it has none yet.
    pub(crate) fn count_nodes(&mut self, job: JobId) {
        self.dq.holders.count(job);
    }

    /// A job is not known any more.
    pub(crate) fn forget_job(&mut self, job: JobId) {
        self.dq.holders.forget(job);
    }

    /// The nodes that have tasks of `job`, where they are counted.
    pub(crate) fn nodes_of(&self, job: JobId) -> impl Iterator<Item = NodeId> + '_ {
        self.dq.holders.nodes(job)
    }

    /// `node`, or nobody, has tasks of `job`, where that is counted.
    pub(crate) fn has_of(&self, job: JobId, node: NodeId) -> bool {
        self.dq.holders.has(job, node)
    }

    /// A node let its last task of a job go whose nodes are counted, since that was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        self.dq.holders.take_freed()
    }
}
