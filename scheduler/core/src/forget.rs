//! Nodes that have gone are forgotten: by command, or since there would be no room for those that come. Workers that
//! live for minutes under ever new names would else lock out the next one some day.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::NODES_SPARE_SHARE;
use crate::node::Node;

impl Farm {
    /// There is hardly room for another node: those that were heard longest ago make room. A node that a person
    /// drained, or whose results are not trusted, stays: it would come back as a good one, unless its key is revoked. To be
    /// called in each turn.
    pub(crate) fn make_room(&mut self, now_us: u64, deeds: &mut Deeds) {
        let (most, spare) = (self.config.nodes_max, (self.config.nodes_max / NODES_SPARE_SHARE).max(1));
        if self.nodes.len() + spare <= most || now_us < self.agenda.crowded_us {
            return;
        }
        let has_gone = |(id, node): &(NodeId, &Node)| {
            let health = node.health();
            let is_kept = health.drain.by_person || (health.is_distrusted() && !health.is_revoked());
            health.is_lost() && !is_kept && !self.reconnect.waits_for(*id)
        };
        let mut gone: Vec<(u64, NodeId)> =
            self.nodes.iter().filter(has_gone).map(|(id, node)| (node.heard_us, id)).collect();
        if gone.is_empty() {
            // All of them are there: to look again in each turn would cost more than a node is worth.
            self.agenda.crowded_us = now_us + self.config.settings.period_us;
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

    /// Forgets nodes that have gone, and what jobs remember of them. One that comes back is a new one with its old number.
    pub(crate) fn forget(&mut self, gone: &[NodeId], deeds: &mut Deeds) {
        for job in self.jobs.iter_mut() {
            gone.iter().for_each(|node| job.forget_node(*node));
        }
        for &node in gone {
            assert!(self.nodes.at(node).health().is_lost(), "who is forgotten has gone");
            self.reconnect.settle(node);
            // What never said hello is in no record, and nobody was told of it.
            if self.nodes.at(node).health().last_boot().is_some() {
                self.commit(Record::Mark { node, mark: NodeMark::Forgotten }, deeds);
            } else {
                self.nodes.forget(node);
            }
        }
    }
}
