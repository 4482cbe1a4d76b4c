//! Which nodes have tasks of a job that only so many nodes may work for at once, or that has a tree of its own over them.

use starfarm_protocol::ids::{JobId, NodeId};

use super::Queues;

impl Queues {
    /// Which nodes have tasks of `job`, copies among them, is known from now on.
    pub(crate) fn count_nodes(&mut self, job: JobId) {
        self.dq.count_nodes(job);
    }

    /// A job is not known any more, or its nodes are not counted any more.
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

    /// `node` is among the first `most` of those that have tasks of `job`, where they are counted.
    pub(crate) fn is_among(&self, job: JobId, node: NodeId, most: u32) -> bool {
        self.dq.holders.is_among(job, node, most as usize)
    }

    /// A node let its last task of a job go whose nodes are counted, since that was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        self.dq.holders.take_freed()
    }
}
