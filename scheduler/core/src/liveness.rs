//! Liveness: what silence says, and what is due at a node. Three timers, never mixed: offers repeat at their RTO until
//! they are acknowledged; an attempt that a heartbeat lists never expires by age, and one that a live node no longer
//! lists does so T_retry after it was last seen (`heartbeat`); a silent node is suspect, then lost, and gives all of its
//! own back at once: sooner where others hear nothing of it either.

use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::limits::RIDE_US;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::health::Presence;
use crate::node::Node;

/// A node of which others hear nothing is suspect once so many of its heartbeats are missing.
const MISSED_HEARTBEATS: u64 = 2;

impl Farm {
    /// Anything authentic from a node shows that it lives.
    pub(crate) fn heard(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        self.nodes.doubted.remove(&id);
        let node = self.nodes.at_mut(id);
        debug_assert!(node.heard_us <= now_us, "time does not go back");
        node.heard_us = now_us;
        node.restored = false;
        match node.health().presence {
            Presence::Suspect(_) => {
                deeds.event(Event::NodeBack { node: node.name.clone() });
                self.nodes.alter(id, |health| health.returns());
                self.lists_anew(id, now_us);
                self.nodes.mark(id);
            }
            Presence::Lost(boot) => {
                self.commit(Record::Mark { node: id, mark: NodeMark::Back }, deeds);
                // It did not die, so nothing that it was running killed it.
                self.pardon(id, boot, deeds);
                self.lists_anew(id, now_us);
                self.nodes.mark(id);
            }
            Presence::Unknown | Presence::Here(_) | Presence::Left { .. } => {}
        }
        self.set_timer(id, now_us);
    }

    /// Others have not heard these nodes for a while: the monitoring tree, by links of its own. What another witness says
    /// of one that is heard here is no news.
    pub fn doubt<'a>(&mut self, names: impl Iterator<Item = &'a str>, now_us: u64) {
        let names: BTreeSet<_> = names.collect();
        let is_meant = |node: &Node| names.contains(&*node.name) && node.health().is_there();
        let meant: Vec<_> = self.nodes.iter().filter(|(_, node)| is_meant(node)).map(|(id, _)| id).collect();
        self.nodes.doubted.extend(&meant);
        meant.into_iter().for_each(|id| self.set_timer(id, now_us));
    }

    /// The silence after which a node is suspect, and that after which it is lost. Two witnesses need less of it than one:
    /// but where most nodes are silent at once, it is the scheduler that is cut off, with whoever tells it so.
    pub(crate) fn patience(&self, id: NodeId) -> (u64, u64) {
        let settings = &self.config.settings;
        let is_doubted = self.nodes.doubted.contains(&id) && !self.nodes.at(id).restored;
        if is_doubted && self.nodes.doubted.len() <= self.nodes.live_nodes() as usize {
            let missed_us = (MISSED_HEARTBEATS * settings.heartbeat_us).min(settings.suspect_us);
            (missed_us, settings.suspect_us.min(self.lost_us(id)))
        } else {
            (settings.suspect_us, self.lost_us(id))
        }
    }

    /// A node said goodbye.
    pub(crate) fn on_bye(&mut self, id: NodeId, deeds: &mut Deeds) {
        self.leave(id, NodeMark::Left, deeds);
    }

    /// A node's key was revoked: it can be heard and told nothing any more, so what it has goes back at once.
    pub fn on_revoked(&mut self, id: NodeId, deeds: &mut Deeds) {
        if self.nodes.get(id).is_some() {
            self.leave(id, NodeMark::Revoked, deeds);
        } else if self.nodes.forgotten.name(id).is_some() {
            self.commit(Record::Mark { node: id, mark: NodeMark::Revoked }, deeds);
        }
    }

    /// As [`Farm::on_revoked`], for the node of this name, whose key was revoked: no key holds it.
    pub fn on_revoked_name(&mut self, name: &str, deeds: &mut Deeds) {
        let found = self.nodes.iter().find(|(_, node)| *node.name == *name && !node.health().is_revoked());
        if let Some(id) = found.filter(|(_, node)| node.health().last_boot().is_some()).map(|(id, _)| id) {
            self.leave(id, NodeMark::Revoked, deeds);
        }
    }

    fn leave(&mut self, node: NodeId, mark: NodeMark, deeds: &mut Deeds) {
        self.commit(Record::Mark { node, mark }, deeds);
        self.orphan_all(node);
        assert!(self.queues.ids_at(node).is_empty(), "who has left has nothing");
        self.nodes.doubted.remove(&node);
        let known = self.nodes.at_mut(node);
        known.running.clear();
        known.taken.clear();
        self.reconnect.settle(node);
        self.nodes.mark(node);
    }

    /// A node's timer fired.
    pub(crate) fn on_node_timer(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let (suspect_us, lost_us) = self.patience(id);
        let node = self.nodes.at(id);
        let (health, silent_us) = (*node.health(), now_us.saturating_sub(node.heard_us));
        if !health.is_lost() && silent_us >= lost_us {
            self.lose(id, now_us, deeds);
        } else if matches!(health.presence, Presence::Here(_)) && silent_us >= suspect_us {
            deeds.event(Event::NodeSuspect { node: node.name.clone() });
            self.nodes.alter(id, |health| health.is_silent());
        }
        self.judge_late_list(id, now_us, deeds);
        self.repeat_offers(id, now_us, deeds);
        self.nodes.mark(id);
    }

    /// A node was silent for too long.
    fn lose(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(boot) = self.nodes.at(id).health().boot() else {
            // A session alone leaves no trace.
            return self.nodes.alter(id, |health| health.vanishes());
        };
        let (heard_us, running) = (self.nodes.at(id).heard_us, self.may_have_run(id));
        self.commit(Record::Mark { node: id, mark: NodeMark::Gone }, deeds);
        self.nodes.at_mut(id).running.clear();
        self.take_all_back(id, now_us);
        assert!(self.queues.ids_at(id).is_empty(), "who is lost has nothing");
        self.died((id, boot), heard_us, &running, now_us, deeds);
        self.reconnect.settle(id);
        self.nodes.doubted.remove(&id);
    }

    /// The silence after which node `id` is lost, whoever else heard nothing of it. One from before the start keeps to the pace of before until it is
    /// welcomed anew.
    pub(crate) fn lost_us(&self, id: NodeId) -> u64 {
        let unheard = self.nodes.get(id).is_some_and(|node| node.restored);
        if unheard { self.reconnect.lost_us() } else { self.config.settings.lost_us }
    }

    /// Sets the node's timer to the first thing that may be due.
    pub(crate) fn set_timer(&mut self, id: NodeId, now_us: u64) {
        let (suspect_us, lost_us) = self.patience(id);
        let node = self.nodes.at(id);
        let silence = match node.health().presence {
            Presence::Lost(_) | Presence::Left { .. } => None,
            Presence::Suspect(_) | Presence::Unknown => Some(node.heard_us + lost_us),
            Presence::Here(_) => Some(node.heard_us + suspect_us),
        };
        let listens = node.health().listens();
        // The first of the offers stands for all: an entry behind it waits at most one RTO longer.
        let offered_us = self.queues.oldest_offer_us(id).filter(|_| listens);
        let repeat = offered_us.map(|sent_us| sent_us + node.rtt.rto_us());
        let rides = !node.to_tell.acks.is_empty() && listens;
        let ride = rides.then(|| node.to_tell.acks_since_us + RIDE_US);
        let probe = node.health().standing.probe().map(|probe| probe.at_us).filter(|at_us| *at_us > now_us);
        let listed = self.list_due_us(id).filter(|_| matches!(node.health().presence, Presence::Here(_)));
        if let Some(at_us) = [silence, repeat, ride, probe, listed].into_iter().flatten().min() {
            self.nodes.set_timer(id, at_us.max(now_us + 1));
        }
    }
}
