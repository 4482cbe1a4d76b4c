//! Send: packs what a node must be told into datagrams. Acknowledgements, answers and withdrawals ride on
//! offers; alone they wait at most `RIDE_US`. Offers under way are bounded by what the worker's receive
//! buffer holds.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_events::{Event, Name};
use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::limits::{PLAIN_BYTES_MAX, PROTOCOL_VERSION, RIDE_US};
use starfarm_protocol::terms::Monitored;
use starfarm_protocol::wire::{
    Doorbell, HeartbeatAnswer, MESSAGE_HEAD_BYTES, OFFER_ENTRY_BYTES, OFFER_HEAD_BYTES, Offer, Packer,
    Welcome,
};

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::job::Job;
use crate::limits::ACKS_PROMPT;
use crate::node::{Node, ToTell};
use crate::queues::Task;

/// Offers that one datagram holds.
pub const OFFERS_PER_DATAGRAM: usize =
    (PLAIN_BYTES_MAX - MESSAGE_HEAD_BYTES - OFFER_HEAD_BYTES) / OFFER_ENTRY_BYTES;

/// A node, in a few words.
#[derive(Clone, Debug)]
pub struct OnRoll {
    /// Its name.
    pub name: Name,
    /// It said hello, and did not leave since nor is it lost.
    pub is_there: bool,
    /// It has slots on cores.
    pub computes: bool,
    /// Cores that it may use; 0 where it did not tell.
    pub cores: u32,
    /// Bytes of memory that it may use; 0 where it did not tell.
    pub memory_bytes: u64,
}

impl Farm {
    /// The kernel dropped datagrams because our buffer was full: credits shrink.
    pub fn on_receive_overflow(&mut self, now_us: u64) {
        self.nodes.shrink_credit(now_us);
    }

    /// Packs what waits for node `id`, if it is worth a datagram.
    pub(crate) fn flush(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let credit = self.nodes.credit(self.config.receive_datagrams);
        let node = self.nodes.at_mut(id);
        let room = (usize::from(node.receive_datagrams_max) / 2).max(1) * OFFERS_PER_DATAGRAM;
        let listens = node.health().listens();
        let offers = if listens { self.queues.sendable(id, room) } else { 0 };
        let tell = &node.to_tell;
        let acks_due = !tell.acks.is_empty()
            && (tell.acks_count >= ACKS_PROMPT || now_us >= tell.acks_since_us + RIDE_US);
        let has_news =
            offers > 0 || acks_due || tell.answer.is_some() || tell.ring || tell.revokes().len() > 0;
        if tell.welcome || listens && has_news {
            let mut packer = Packer::new();
            // Before its hello, and in another version, it hears who we are and nothing else.
            let tell = match listens {
                true => std::mem::take(&mut node.to_tell),
                false => ToTell { welcome: std::mem::take(&mut node.to_tell.welcome), ..ToTell::default() },
            };
            if tell.welcome {
                packer.welcome(&Welcome {
                    farm: self.config.farm,
                    epoch: self.config.epoch,
                    heartbeat_ms: (self.config.settings.heartbeat_us / 1000) as u32,
                    credit,
                    version: PROTOCOL_VERSION,
                    proof: self.config.proofs.as_ref().map_or([0; 16], |p| p.of(self.config.epoch)),
                });
                packer.pace(&self.config.settings.pace());
            }
            if let Some(number) = tell.answer {
                packer.heartbeat_answer(&HeartbeatAnswer { number, credit, epoch: self.config.epoch });
            }
            if (tell.ring || tell.answer.is_some()) && node.orders > 0 {
                packer.doorbell(&Doorbell { newest: node.orders });
            }
            packer.result_ack(credit, &tell.acks);
            tell.revokes().for_each(|revoke| packer.revoke(&revoke));
            let jobs = &self.jobs;
            self.queues.offer(id, offers, now_us, |task| {
                // A deleted job may have left it behind; nobody needs to run that.
                if let Some(job) = jobs.get(task.job) {
                    packer.offer_of(&offer(task, job), job.needs_on(task.kind), task.kind);
                }
            });
            self.send(id, packer, deeds);
        }
    }

    /// The newest orders of the nodes with these names, which they hear elsewhere, have these numbers: they are told so at
    /// once, and with each answer to a heartbeat. 0: a node has none.
    pub fn ring(&mut self, bells: &BTreeMap<String, u64>) {
        // One that was forgotten meanwhile calls when it comes back.
        let newest = |node: &Node| bells.get(&*node.name).copied();
        let rung: Vec<_> = self.nodes.iter().filter_map(|(id, node)| Some((id, newest(node)?))).collect();
        for (id, newest) in rung {
            let node = self.nodes.at_mut(id);
            (node.orders, node.to_tell.ring) = (newest, newest > 0);
            self.nodes.mark(id);
        }
    }

    /// There is such a job, and it has not ended.
    pub fn has_live(&self, job: JobId) -> bool {
        self.jobs.get(job).is_some_and(|job| !job.state.ended())
    }

    /// There is such a job, or there was until it ended.
    pub fn has_job(&self, job: JobId) -> bool {
        self.jobs.get(job).is_some()
    }

    /// What is to be measured of jobs that have not ended and say so.
    pub fn monitored(&self) -> BTreeMap<JobId, Monitored> {
        let live = self.jobs.iter().filter(|job| !job.state.ended());
        live.filter_map(|job| Some((job.facts.job, job.terms.monitor.clone()?))).collect()
    }

    /// Jobs that have not ended and are to have trees of their own, and the nodes that have tasks of each.
    pub fn own_trees(&self) -> BTreeMap<JobId, BTreeSet<String>> {
        let name = |id| self.nodes.get(id).map(|node| node.name.to_string());
        let jobs = self.jobs.iter().filter(|job| !job.state.ended() && job.terms.own_tree());
        let jobs = jobs.map(|job| job.facts.job);
        jobs.map(|job| (job, self.queues.nodes_of(job).filter_map(name).collect())).collect()
    }

    /// What whoever places processes on nodes goes by.
    pub fn roll(&self) -> Vec<OnRoll> {
        let of = |node: &Node| OnRoll {
            name: node.name.clone(),
            is_there: node.health().is_there(),
            computes: node.slots() > 0,
            cores: node.facts.as_ref().map_or(0, |facts| facts.cores),
            memory_bytes: node.facts.as_ref().map_or(0, |facts| facts.memory_bytes),
        };
        self.nodes.iter().map(|(_, node)| of(node)).collect()
    }

    fn send(&mut self, id: NodeId, mut packer: Packer, deeds: &mut Deeds) {
        let datagrams = packer.finish();
        let sent = &mut self.telemetry.traffic[1];
        datagrams.iter().for_each(|datagram| sent.add(datagram.len()));
        deeds.0.push(Deed::Send(id, datagrams));
    }

    /// The worker acknowledged offers: ranges of attempts.
    pub(crate) fn on_task_ack(&mut self, id: NodeId, ranges: impl Iterator<Item = (u64, u64)>, now_us: u64) {
        let node = self.nodes.at_mut(id);
        for (first, last) in ranges {
            self.queues.acknowledge(id, (Attempt(first), Attempt(last)), now_us, |offered| {
                if !offered.repeated {
                    node.rtt.sample(now_us - offered.sent_us);
                }
                node.rtt.heard();
            });
        }
        if self.queues.has_unsent(id) {
            self.nodes.mark(id);
        }
    }

    /// Offers whose acknowledgement is overdue go out again, if later ones have overtaken them. Where none
    /// has, they may be waiting at a busy worker, so one datagram of them goes alone to ask.
    pub(crate) fn repeat_offers(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let node = self.nodes.at_mut(id);
        if !node.health().listens() {
            return;
        }
        let (mut packer, jobs) = (Packer::new(), &self.jobs);
        let repeated = self.queues.repeat(id, node.rtt.rto_us(), OFFERS_PER_DATAGRAM, now_us, |task| {
            if let Some(job) = jobs.get(task.job) {
                packer.offer_of(&offer(task, job), job.needs_on(task.kind), task.kind);
            }
        }) as u64;
        if repeated > 0 {
            node.rtt.timed_out();
            node.totals.offers_repeated += repeated;
            self.telemetry.totals.offers_repeated += repeated;
            deeds.event(Event::OffersRepeated { node: node.name.clone(), tasks: repeated });
            self.send(id, packer, deeds);
        }
    }
}

fn offer(task: &Task, job: &Job) -> Offer {
    Offer {
        job: task.job,
        spec: job.facts.spec,
        attempt: task.attempt,
        lo: task.at.lo,
        units: u64::try_from(task.at.units()).expect("refill cuts tasks of less than 2^63 units"),
    }
}
