//! The door: where the datagrams of nodes enter. What a peer sends is answered or counted, never asserted. Small messages
//! are dealt with here; hellos, heartbeats and results have files of their own.

use starfarm_events::Event;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::resources::Resource;
use starfarm_protocol::wire::{Facts, Feedback, Malformed, Message, messages};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::{ABLE_AGAIN_US, AGES_MAX};

impl Farm {
    /// A node has a session: the rim knows its key and its name.
    pub fn on_session(&mut self, id: NodeId, name: &str, now_us: u64) {
        if self.nodes.len() < self.config.nodes_max || self.nodes.get(id).is_some() {
            // A welcome that waits is the answer to a hello of the session before.
            self.nodes.meet(id, name, now_us).to_tell.welcome = false;
            self.nodes.alter(id, |health| health.greeted = false);
        }
    }

    /// An opened datagram of a node.
    pub fn on_datagram(&mut self, id: NodeId, datagram: &[u8], now_us: u64, deeds: &mut Deeds) {
        if self.nodes.get(id).is_none() || self.hears_later(id, datagram) {
            return;
        }
        self.telemetry.traffic[0].add(datagram.len());
        let mut ages = Vec::new();
        for message in messages(datagram) {
            let has_joined = self.nodes.at(id).health().boot().is_some();
            match message {
                Ok(Message::Hello(hello)) => self.on_hello(id, &hello, now_us, deeds),
                // Before its hello a node has no incarnation, so nothing else makes sense.
                Ok(_) if !has_joined => {}
                Ok(Message::TaskAck(ranges)) => self.on_task_ack(id, ranges, now_us),
                Ok(Message::Results(results)) => self.on_results(id, results, &ages, now_us, deeds),
                Ok(Message::Feedback(feedback)) => self.on_feedback(id, feedback, now_us),
                Ok(Message::Heartbeat(beat)) => self.on_heartbeat(id, beat, now_us, deeds),
                Ok(Message::Bye) => self.on_bye(id, deeds),
                Ok(Message::Facts(facts)) => self.on_facts(id, facts, now_us, deeds),
                Ok(Message::Load(load)) => {
                    let node = self.nodes.at_mut(id);
                    let idle_us = load.idle_us.min(now_us.saturating_sub(node.joined_us));
                    (node.load, node.idle_us) = (load.slots, idle_us);
                }
                Ok(Message::Able(times)) => self.on_able(id, times, now_us),
                Ok(Message::TimeLeft(left)) => self.on_time_left(id, left, now_us, deeds),
                Ok(Message::Has(has)) => {
                    self.nodes.at_mut(id).beside_slots = has.with(Resource::Slots, 0);
                    self.nodes.mark(id);
                }
                Ok(Message::Ages(told)) => ages = told.take(AGES_MAX).collect(),
                Ok(_) | Err(Malformed) => self.nodes.at_mut(id).totals.malformed += 1,
            }
        }
        self.heard(id, now_us, deeds);
    }

    /// The datagram has the hello of another incarnation of a node that has tasks, and this turn has taken enough back:
    /// it is heard in a later one. Until then nothing else of that node makes sense.
    fn hears_later(&mut self, id: NodeId, datagram: &[u8]) -> bool {
        let waits = self.agenda.hellos.contains_key(&id);
        if !waits && !self.agenda.is_full(self.config.tasks_a_turn) {
            return false;
        }
        let boot = messages(datagram).find_map(|message| match message {
            Ok(Message::Hello(hello)) => Some(hello.boot),
            _ => None,
        });
        let before = self.nodes.at(id).health().boot();
        let restarted =
            boot.is_some() && before.is_some() && before != boot && !self.queues.ids_at(id).is_empty();
        if restarted {
            self.agenda.hellos.insert(id, datagram.to_vec());
        }
        waits || restarted
    }

    /// Hellos that an earlier turn had no time for.
    pub(crate) fn hear_waiting(&mut self, now_us: u64, deeds: &mut Deeds) {
        while !self.agenda.is_full(self.config.tasks_a_turn)
            && let Some((id, datagram)) = self.agenda.hellos.pop_first()
        {
            self.on_datagram(id, &datagram, now_us, deeds);
        }
    }

    /// It can run now what it refused: no specification reached it then. Each heartbeat says so: what is not heeded now is
    /// later.
    fn on_able(&mut self, id: NodeId, times: u32, now_us: u64) {
        let node = self.nodes.at_mut(id);
        if node.able != times && now_us >= node.able_us {
            (node.able, node.able_us) = (times, now_us + ABLE_AGAIN_US);
            self.agenda.renew(id, false);
            self.nodes.mark(id);
        }
    }

    fn on_facts(&mut self, id: NodeId, facts: Facts, now_us: u64, deeds: &mut Deeds) {
        let node = self.nodes.at_mut(id);
        if node.facts.as_ref() == Some(&facts) {
            return;
        }
        if node.allowances.facts.take(1, now_us) == 0 {
            node.totals.malformed += 1;
            return;
        }
        deeds.event(Event::NodeFacts {
            node: node.name.clone(),
            system: facts.system.clone(),
            cpu: facts.cpu.clone(),
            cores: facts.cores,
            memory_bytes: facts.memory_bytes,
            accelerators: facts.accelerators.clone(),
        });
        node.facts = Some(facts);
    }

    /// Totals of speed-ups and slow-downs. They grow by as many as a worker counts, whatever it says.
    fn on_feedback(&mut self, id: NodeId, feedback: Feedback, now_us: u64) {
        let node = self.nodes.at_mut(id);
        let Some(before) = node.feedback.replace(feedback) else { return };
        let ups = feedback.speed_ups.wrapping_sub(before.speed_ups);
        let downs = feedback.slow_downs.wrapping_sub(before.slow_downs);
        // Totals only grow; a smaller one is an old datagram.
        if ups >= 1 << 31 || downs >= 1 << 31 {
            node.feedback = Some(before);
            return;
        }
        let [of_ups, of_downs] = &mut node.allowances.feedback;
        let told = ups | downs;
        let (ups, downs) = (of_ups.take(u64::from(ups), now_us), of_downs.take(u64::from(downs), now_us));
        if told > 0 && ups + downs == 0 {
            // Nobody counts so fast for so long.
            node.totals.malformed += 1;
            return;
        }
        let step = i64::from(self.config.settings.speed_step) * i64::from(node.slots());
        node.step(step * (ups.min(64) as i64 - downs.min(64) as i64));
        node.totals.speed_ups += ups;
        node.totals.slow_downs += downs;
        for sum in [&mut self.telemetry.totals.feedback[0], &mut self.telemetry.feedback] {
            *sum = (sum.0 + ups, sum.1 + downs);
        }
        self.nodes.mark(id);
    }
}
