//! Hellos: an incarnation of a node joins, or shakes hands anew.

use std::cmp::Ordering;

use starfarm_events::Event;
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::limits::{NODE_TASKS_MAX, PROTOCOL_VERSION, SLOTS_MAX};
use starfarm_protocol::wire::Hello;

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::node::RoundTrip;
use crate::seat::Seat;

impl Farm {
    /// A node says hello.
    pub(crate) fn on_hello(&mut self, id: NodeId, hello: &Hello, now_us: u64, deeds: &mut Deeds) {
        let is_superseded = self.is_superseded_by(hello);
        let node = self.nodes.at_mut(id);
        if is_superseded {
            deeds.event(Event::Superseded { node: node.name.clone(), epoch: hello.known_epoch.0 });
            deeds.0.push(Deed::Superseded(hello.known_epoch));
            return;
        }
        let slots = hello.slots.min(SLOTS_MAX);
        let is_new = node.health().boot() != Some(hello.boot);
        if (is_new || node.slots() != slots) && node.allowances.incarnations.take(1, now_us) == 0 {
            // It says hello again. Whoever looks at the node finds it counted.
            node.totals.malformed += 1;
            return;
        }
        node.to_tell.welcome = true;
        if hello.version != PROTOCOL_VERSION {
            let name = node.name.clone();
            deeds.event(Event::VersionSkew { node: name, version: hello.version });
            return self.nodes.mark(id);
        }
        if is_new {
            self.on_another_incarnation(id, hello, slots, now_us, deeds);
        } else if node.slots() != slots {
            let at_us = node.joined_us;
            self.commit(Record::Joined { node: id, slots, at_us }, deeds);
        }
        let node = self.nodes.at_mut(id);
        node.running.clear();
        node.whole_us.get_or_insert(now_us);
        node.queue_tasks_max = hello.queue_tasks_max.clamp(1, NODE_TASKS_MAX);
        node.receive_datagrams_max = hello.receive_datagrams_max.max(1);
        node.rtt = RoundTrip::default();
        self.nodes.alter(id, |health| health.greeted = true);
        self.nodes.mark(id);
    }

    fn on_another_incarnation(
        &mut self,
        id: NodeId,
        hello: &Hello,
        slots: u16,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let node = self.nodes.at_mut(id);
        let (before, running) = (*node.health(), std::mem::take(&mut node.running));
        if let Some(boot) = before.boot() {
            let (tells, heard_us) = (!hello.died_running.is_empty(), node.heard_us);
            let died = if tells { &self.had(id, &hello.died_running) } else { &running };
            self.orphan_all(id);
            if tells {
                self.pardon_guesses(id, boot, died, deeds);
            }
            if !before.is_lost() || !died.is_empty() && tells {
                self.died((id, boot), heard_us, died, now_us, deeds);
            }
        }
        let is_of_before = self.nodes.is_of_before(id);
        let node = self.nodes.at_mut(id);
        node.begin(self.config.settings.period_us, now_us);
        self.forget_devices(id);
        let node = self.nodes.at_mut(id);
        node.may_claim = is_of_before;
        let name = node.name.to_string();
        self.nodes.alter(id, |health| {
            health.rises();
            health.drain.by_worker = false;
        });
        // Told with the record of its incarnation, and on record with the next one.
        self.nodes.set_slots(id, slots);
        // Another incarnation may have what that one lacked.
        self.agenda.renew(id, true);
        self.commit(Record::Node { node: id, name, boot: hello.boot }, deeds);
        self.commit(Record::Joined { node: id, slots, at_us: now_us }, deeds);
    }

    /// What the incarnation before had of devices says nothing of this one's.
    fn forget_devices(&mut self, id: NodeId) {
        let kinds: Vec<SlotKind> = self.nodes.at(id).kinds().filter(|kind| kind.is_device()).collect();
        if kinds.is_empty() {
            return;
        }
        self.nodes.forget_devices(id);
        for job in self.jobs.iter_mut() {
            kinds.iter().for_each(|kind| job.rates.forget(Seat::new(id, *kind)));
        }
    }

    /// A worker knows a later incarnation of this farm. It cannot make one up: the proof is our farm's own.
    fn is_superseded_by(&self, hello: &Hello) -> bool {
        let Some(proofs) = &self.config.proofs else { return false };
        let other = match hello.known_epoch.cmp(&self.config.epoch) {
            Ordering::Less => false,
            // Somebody else has this number: the directory was copied, and both were started.
            Ordering::Equal => hello.known_proof != proofs.of(self.config.epoch),
            Ordering::Greater => true,
        };
        other && proofs.is_genuine(hello.known_epoch, &hello.known_proof)
    }
}
