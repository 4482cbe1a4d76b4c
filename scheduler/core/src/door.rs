//! The door: where the datagrams of nodes enter. What a peer sends is answered or counted, never asserted. Small messages
//! are dealt with here; hellos, heartbeats and results have files of their own.

use starfarm_events::Event;
use starfarm_protocol::devices::{DEVICE_KINDS_MAX, DeviceState, SlotKind};
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::resources::Resource;
use starfarm_protocol::wire::{Devices, Facts, Feedback, Malformed, Message, messages};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::{ABLE_AGAIN_US, AGES_MAX};
use crate::seat::Seat;

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
        let (mut ages, mut kind) = (Vec::new(), SlotKind::CORES);
        for message in messages(datagram) {
            let has_joined = self.nodes.at(id).health().boot().is_some();
            match message {
                Ok(Message::Hello(hello)) => self.on_hello(id, &hello, now_us, deeds),
                // Before its hello a node has no incarnation, so nothing else makes sense.
                Ok(_) if !has_joined => {}
                Ok(Message::TaskAck(ranges)) => self.on_task_ack(id, ranges, now_us),
                Ok(Message::Results(results)) => self.on_results(id, results, &ages, now_us, deeds),
                Ok(Message::Feedback(feedback)) => self.on_feedback(Seat::cores(id), feedback, now_us),
                Ok(Message::Heartbeat(beat)) => {
                    let seat = Seat::new(id, std::mem::take(&mut kind));
                    self.on_heartbeat(seat, beat, now_us, deeds);
                }
                Ok(Message::SlotKind(said)) => kind = said,
                Ok(Message::Devices(devices)) => self.on_devices(id, devices, now_us, deeds),
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
                Ok(Message::Card(card)) => self.nodes.at_mut(id).on_card(card),
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

    /// Totals of speed-ups and slow-downs for slots of one kind. They grow by as many as a worker counts, whatever it says.
    fn on_feedback(&mut self, seat: Seat, feedback: Feedback, now_us: u64) {
        let step = i64::from(self.config.settings.speed_step);
        let node = self.nodes.at_mut(seat.node);
        let slots = i64::from(node.slots_of(seat.kind));
        let heard = node.filling_mut(seat.kind).and_then(|filling| filling.hear(feedback));
        let Some((ups, downs)) = heard else { return };
        let [of_ups, of_downs] = &mut node.allowances.feedback;
        let told = ups | downs;
        let (ups, downs) = (of_ups.take(u64::from(ups), now_us), of_downs.take(u64::from(downs), now_us));
        if told > 0 && ups + downs == 0 {
            // Nobody counts so fast for so long.
            node.totals.malformed += 1;
            return;
        }
        let by = step * slots * (ups.min(64) as i64 - downs.min(64) as i64);
        let most = node.queue_tasks_max;
        node.filling_mut(seat.kind).into_iter().for_each(|filling| filling.step(by, most));
        node.totals.speed_ups += ups;
        node.totals.slow_downs += downs;
        for sum in [&mut self.telemetry.totals.feedback[0], &mut self.telemetry.feedback] {
            *sum = (sum.0 + ups, sum.1 + downs);
        }
        self.nodes.mark(seat.node);
    }

    /// A node tells of devices of one kind, with its hello and with each heartbeat.
    fn on_devices(&mut self, id: NodeId, devices: Devices, now_us: u64, deeds: &mut Deeds) {
        let seat = Seat::new(id, devices.kind);
        let node = self.nodes.at_mut(id);
        if node.devices(devices.kind).is_none() && node.all_devices().len() == DEVICE_KINDS_MAX {
            node.totals.malformed += 1;
            return;
        }
        let (feedback, before) = (devices.feedback, node.slots_of(devices.kind));
        let sick = devices.slots.iter().filter(|(state, _)| *state == DeviceState::Sick).count();
        let now = Some((devices.slots.len(), sick));
        let mut logged = node.devices(devices.kind).and_then(|at| at.logged);
        if logged != now && node.allowances.idle_lines.take(1, now_us) > 0 {
            logged = now;
            deeds.event(Event::NodeDevices {
                node: node.name.clone(),
                kind: devices.kind.0.into(),
                model: devices.facts.name.clone(),
                device: devices.facts.kind,
                driver: devices.facts.driver.clone(),
                memory_bytes: devices.facts.memory_bytes,
                compute_units: devices.facts.compute_units,
                devices: devices.slots.len() as u64,
                sick: sick as u64,
            });
        }
        self.nodes.set_devices(id, devices, logged);
        self.on_feedback(seat, feedback, now_us);
        if self.nodes.at(id).slots_of(seat.kind) != before {
            self.nodes.mark(id);
        }
    }
}
