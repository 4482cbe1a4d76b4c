//! What records of nodes do to the farm.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;

use crate::farm::Farm;
use crate::health::Presence;
use crate::rating::Rating;

impl Farm {
    /// Applies a record of a node.
    pub(crate) fn apply_node(&mut self, record: &Record) {
        let (Record::Node { node: id, .. }
        | Record::Joined { node: id, .. }
        | Record::Mark { node: id, .. }
        | Record::Rating { node: id, .. }) = record
        else {
            unreachable!("the caller has looked at its kind");
        };
        if let Record::Node { name, boot, .. } = record {
            self.nodes.given(*id);
            self.nodes.meet(*id, name, 0);
            self.nodes.forgotten.remove(*id);
            self.nodes.alter(*id, |health| health.presence = Presence::Here(*boot));
            return self.forget_acquitted(*id);
        }
        if let Record::Mark { mark, .. } = record {
            self.nodes.forgotten.takes(*id, *mark);
        }
        // A node that was forgotten may be heard once more before it notices.
        let Some(node) = self.nodes.get_mut(*id) else { return };
        match record {
            Record::Joined { slots, at_us, .. } => {
                node.joined_us = *at_us;
                self.nodes.set_slots(*id, *slots);
            }
            Record::Rating { started_us, period, periods, .. } => {
                let period_us = self.reconnect.noted.period_us;
                node.rating = Rating::restore(*started_us, (*period, period_us), periods);
            }
            Record::Mark { mark, .. } => {
                self.nodes.alter(*id, |health| health.takes(*mark));
                if *mark == NodeMark::Forgotten {
                    self.nodes.forget(*id);
                    self.queues.forget_node(*id);
                }
            }
            _ => {}
        }
    }

    /// Of what incarnations of node `id` died of only that is kept which still counts: units that are decided
    /// since would heap up.
    fn forget_acquitted(&mut self, id: NodeId) {
        let jobs = &self.jobs;
        self.nodes.at_mut(id).charged.retain(|(job, unit, boot)| {
            jobs.get(*job).is_some_and(|job| job.units.deaths.contains(*unit, (id, *boot)))
        });
    }
}
