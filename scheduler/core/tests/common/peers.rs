//! The nodes of a script: what they say, and what they have heard.

use starfarm_protocol::devices::{DeviceFacts, DeviceState, SlotKind};
use starfarm_protocol::ids::{Attempt, Epoch, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::resources::Resources;
use starfarm_protocol::wire::{
    Devices, Feedback, Heartbeat, Hello, Offer, Outcome, Packer, ResultEntry, TimeLeft,
};
use starfarm_scheduler_core::NodeId;

use super::line::{self, Line};
use super::{Bench, hello, packed, spec};

/// What a node of the script has said and heard.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) boot: u64,
    pub(super) slots: u16,
    pub(super) queue: u32,
    pub(super) receives: u16,
    pub(super) results: u64,
    pub(super) beats: u32,
    pub(super) heard: Vec<Offer>,
    pub(super) to_ack: Vec<u64>,
    pub(super) last_result: Vec<u8>,
    pub(super) credit: u16,
}

impl Bench {
    /// A new session, and its hello: of a new node, of another incarnation, or of the same.
    pub(super) fn greet(&mut self, line: &Line<'_>) {
        let (id, now_us) = (line.node(), self.now_us);
        let peer = self.peers.entry(id).or_default();
        let boot = line.named("boot", peer.boot.max(1));
        let slots = line.named("slots", if peer.boot == 0 { 1 } else { peer.slots.into() }) as u16;
        if boot != peer.boot {
            *peer = Peer {
                boot,
                slots: peer.slots,
                queue: peer.queue,
                receives: peer.receives,
                ..Peer::default()
            };
        }
        peer.slots = slots;
        peer.queue = line.named("queue", u64::from(peer.queue.max(8))) as u32;
        peer.receives = line.named("receives", u64::from(peer.receives.max(92))) as u16;
        let known_epoch = Epoch(line.named("knows", 0));
        let proofs = self.config.proofs.as_ref().expect("the bench's farm is sealed");
        let hello = Hello {
            version: line.named("version", u64::from(PROTOCOL_VERSION)) as u16,
            slots: peer.slots,
            queue_tasks_max: peer.queue,
            receive_datagrams_max: peer.receives,
            known_epoch,
            known_proof: if line.has("genuine") { proofs.of(known_epoch) } else { [0; 16] },
            died_running: line.units("died"),
            ..hello(boot)
        };
        self.farm.on_session(id, line.word(1), now_us);
        let memory = line.after("memory").map(line::parse);
        let left_us = line.after("left").map(|ms| line::parse::<u64>(ms) * 1_000);
        self.say(id, |p| {
            p.hello(&hello);
            memory.into_iter().for_each(|bytes| p.has(&Resources::new(0, bytes)));
            left_us.into_iter().for_each(|us| p.time_left(&TimeLeft { left_us: us, work_us: us }));
        });
    }

    pub(super) fn time_left(&mut self, line: &Line<'_>) {
        let left_us = line.number(2) * 1_000;
        let work_us = line.named("work", line.number(2)) * 1_000;
        self.say(line.node(), |packer| packer.time_left(&TimeLeft { left_us, work_us }));
    }

    pub(super) fn acknowledge(&mut self, id: NodeId) {
        let ranges: Vec<_> = self.peer(id).to_ack.drain(..).map(|attempt| (attempt, attempt)).collect();
        self.say(id, |p| p.task_ack(&ranges));
    }

    pub(super) fn result(&mut self, line: &Line<'_>) {
        let (id, (lo, units), job) = (line.node(), line.interval(2), JobId(line.named("job", 1)));
        let (body, peer) = (line.body(), self.peer(id));
        peer.results += 1;
        let overlaps = |offer: &&Offer| {
            offer.job == job && offer.lo < lo + u128::from(units) && lo < offer.lo + u128::from(offer.units)
        };
        let heard = peer.heard.iter().rfind(overlaps).map_or(0, |offer| offer.attempt.0);
        let entry = ResultEntry {
            job,
            spec: spec(line.named("spec", job.0)),
            sequence: peer.results,
            attempt: Attempt(line.named("attempt", heard)),
            lo,
            units,
            duration_us: line.named("ms", 1_000) * 1_000,
            outcome: match line.verb() {
                "return" => Outcome::Returned,
                "refuse" => Outcome::Refused,
                _ => Outcome::Done,
            },
            body: &body,
        };
        peer.last_result = packed(|p| p.result(&entry));
        self.unsent.get_or_insert_with(|| (id, Packer::new())).1.result(&entry);
        if !self.goes_on {
            self.send();
        }
    }

    /// Results that travel together leave.
    fn send(&mut self) {
        let unsent = self.unsent.take().into_iter();
        unsent
            .for_each(|(id, mut packer)| packer.finish().iter().for_each(|datagram| self.hear(id, datagram)));
    }

    /// Another node has its turn, or says something else.
    pub(super) fn send_before(&mut self, line: &Line<'_>) {
        let results = ["done", "ran", "return", "refuse"];
        if self.unsent.as_ref().is_some_and(|(id, _)| !results.contains(&line.verb()) || *id != line.node()) {
            self.send();
        }
    }

    pub(super) fn beat(&mut self, id: NodeId, line: &Line<'_>) {
        let peer = self.peer(id);
        peer.beats += u32::from(!line.has("same"));
        let beat = Heartbeat {
            number: peer.beats,
            draining: line.has("draining"),
            queued_tasks: line.named("queued", 0) as u32,
            running: line.units("running"),
            held: line.held(line.word(2)),
            ..Heartbeat::default()
        };
        let mut packer = Packer::new();
        packer.heartbeat(&beat);
        let datagrams = packer.finish();
        match line.after("only") {
            Some(part) => {
                datagrams.get(line::parse::<usize>(part)).into_iter().for_each(|d| self.hear(id, d))
            }
            None => datagrams.iter().for_each(|datagram| self.hear(id, datagram)),
        }
    }

    /// `devices NODE COUNT sick COUNT`.
    pub(super) fn devices(&mut self, line: &Line<'_>) {
        let sick = line.named("sick", 0);
        let state = |slot| if slot < sick { DeviceState::Sick } else { DeviceState::Ready };
        let devices = Devices {
            kind: SlotKind(1),
            facts: DeviceFacts::default(),
            takes_card: false,
            queued_tasks: 0,
            feedback: Feedback::default(),
            slots: (0..line.number(2)).map(|slot| (state(slot), 0)).collect(),
        };
        self.say(line.node(), |packer| packer.devices(&devices));
    }

    /// `live MS NODE HELD ...`: nothing is lost meanwhile, and nothing new is done.
    pub(super) fn live(&mut self, line: &Line<'_>) {
        let until_us = line.until_us(self.now_us);
        self.answers_printed = false;
        while self.now_us < until_us {
            for pair in line.words[2..].chunks(2) {
                let beat = format!("beat {} {}", pair[0], pair[1].replace('/', " running "));
                self.beat(line::node(pair[0]), &Line::new(&beat));
                self.turn();
            }
            self.advance((self.now_us + 2_000_000).min(until_us));
        }
        self.answers_printed = true;
    }

    /// The incarnation of a node, and how many results that has told.
    pub fn told(&self, id: NodeId) -> Option<(u64, u64)> {
        self.peers.get(&id).map(|peer| (peer.boot, peer.results))
    }

    pub(super) fn peer(&mut self, id: NodeId) -> &mut Peer {
        self.peers.get_mut(&id).expect("a script lets a node join first")
    }
}
