//! Which nodes have tasks of the jobs that only so many nodes may work for at once, or that have trees of their own. Of other
//! jobs nobody counts them.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{JobId, NodeId};

use super::task::NOBODY;

/// Tasks by node, of each such job. What no node has any more, and is not in gq yet, stands at nobody.
#[derive(Debug, Default)]
pub(super) struct Holders {
    jobs: BTreeMap<JobId, BTreeMap<NodeId, u32>>,
    /// A node has let its last task of one of them go.
    freed: bool,
}

impl Holders {
    /// Nodes with tasks of `job` are counted from now on; so far it has none.
    pub(super) fn count(&mut self, job: JobId) {
        self.jobs.insert(job, BTreeMap::new());
    }

    /// The job is not known any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// `node` has one more task of `job`.
    pub(super) fn came(&mut self, job: JobId, node: NodeId) {
        if let Some(nodes) = self.jobs.get_mut(&job) {
            *nodes.entry(node).or_default() += 1;
        }
    }

    /// `node` has one task of `job` less.
    pub(super) fn went(&mut self, job: JobId, node: NodeId) {
        if let Some(nodes) = self.jobs.get_mut(&job) {
            let tasks = nodes.get_mut(&node).expect("a task that goes came before");
            *tasks -= 1;
            if *tasks == 0 {
                nodes.remove(&node);
                self.freed = true;
            }
        }
    }

    /// Nodes that have tasks of `job`.
    pub(super) fn nodes(&self, job: JobId) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.jobs.get(&job).into_iter().flat_map(|nodes| nodes.keys().copied());
        nodes.filter(|node| *node != NOBODY)
    }

    /// `node` has tasks of `job`.
    pub(super) fn has(&self, job: JobId, node: NodeId) -> bool {
        self.jobs.get(&job).is_some_and(|nodes| nodes.contains_key(&node))
    }

    /// `node` is among the first `most` nodes that have tasks of `job`.
    pub(super) fn is_among(&self, job: JobId, node: NodeId, most: usize) -> bool {
        self.jobs.get(&job).is_some_and(|nodes| match nodes.len() <= most {
            true => nodes.contains_key(&node),
            false => self.nodes(job).take(most).any(|other| other == node),
        })
    }

    /// A place came free since that was asked last.
    pub(super) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// The jobs whose nodes are counted, each with its tasks by node.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (JobId, &BTreeMap<NodeId, u32>)> {
        self.jobs.iter().map(|(job, nodes)| (*job, nodes))
    }
}
