//! Nodes that have gone are forgotten: by command, or since there would be no room for those that come. Workers that
//! live for minutes under ever new names would else lock out the next one some day.

use starfarm_events::Event;
use starfarm_protocol::journal::record::NodeMark;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::NODES_SPARE_SHARE;
use crate::node::Node;
use crate::record::Record;
use crate::task::NodeId;

impl Farm {
    /// There is hardly room for another node: those that were heard longest ago make room. A node that a person
    /// drained, or whose results differ, stays: it would come back as a good one. To be called in each turn.
    pub(crate) fn make_room(&mut self, now_us: u64, deeds: &mut Deeds) {
        let (most, spare) = (self.config.nodes_max, (self.config.nodes_max / NODES_SPARE_SHARE).max(1));
        if self.nodes.len() + spare <= most || now_us < self.crowded_us {
            return;
        }
        let has_gone = |(id, node): &(&NodeId, &Node)| {
            node.lost && !node.drained && node.distrusted.is_none() && !self.unsettled.contains(id)
        };
        let mut gone: Vec<(u64, NodeId)> =
            self.nodes.iter().filter(has_gone).map(|(&id, node)| (node.heard_us, id)).collect();
        if gone.is_empty() {
            // All of them are there: to look again in each turn would cost more than a node is worth.
            self.crowded_us = now_us + self.config.settings.period_us;
            return;
        }
        if gone.len() > spare {
            gone.select_nth_unstable(spare);
            gone.truncate(spare);
        }
        gone.sort_unstable();
        let gone: Vec<NodeId> = gone.into_iter().map(|(_, id)| id).collect();
        self.forget(&gone, deeds);
    }

    /// Forgets nodes that have gone, and what unfinished jobs remember of them. One that comes back is a new one.
    pub(crate) fn forget(&mut self, gone: &[NodeId], deeds: &mut Deeds) {
        for id in &self.jq {
            let job = self.jobs.get_mut(id).expect("a job in jq is known");
            gone.iter().for_each(|&id| job.forget_node(id));
        }
        gone.iter().for_each(|&id| self.forget_one(id, deeds));
        self.marked.retain(|id| self.nodes.contains_key(id));
    }

    fn forget_one(&mut self, id: NodeId, deeds: &mut Deeds) {
        let node = self.nodes.remove(&id).expect("whoever forgets a node has looked it up");
        debug_assert!(node.lost && node.tasks.is_empty(), "what a node has goes back before it has gone");
        for hungry in &mut self.hungry {
            hungry.remove(&id);
        }
        self.settle(id);
        // What never said hello is in no record, and nobody was told of it.
        if node.boot.or(node.left).is_some() {
            deeds.event(Event::NodeForgotten { node: node.name });
            self.record(Record::Mark { node: id, mark: NodeMark::Forgotten }, deeds);
        }
    }
}
