//! Send: packs what a node must be told into datagrams. Acknowledgements, answers and withdrawals ride on
//! offers; alone they wait at most `RIDE_US`. Offers under way are bounded by what the worker's receive
//! buffer holds.

use starfarm_protocol::ids::Attempt;
use starfarm_protocol::limits::{PLAIN_BYTES_MAX, PROTOCOL_VERSION, RIDE_US};
use starfarm_protocol::wire::{
    HeartbeatAnswer, MESSAGE_HEAD_BYTES, OFFER_ENTRY_BYTES, OFFER_HEAD_BYTES, Offer, Packer, Welcome,
};

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::limits::{ACKS_PROMPT, CREDIT_MAX, CREDIT_MIN};
use crate::node::Offered;
use crate::task::{NodeId, State};

/// Offers that one datagram holds.
pub const OFFERS_PER_DATAGRAM: usize =
    (PLAIN_BYTES_MAX - MESSAGE_HEAD_BYTES - OFFER_HEAD_BYTES) / OFFER_ENTRY_BYTES;

impl Farm {
    /// Result datagrams that each node may have under way: all nodes' together fill half of our buffer.
    pub(crate) fn credit(&self) -> u16 {
        let share = (self.config.receive_datagrams / 2 / self.live_nodes.max(1)) >> self.credit_shift;
        (share.min(u32::from(CREDIT_MAX)) as u16).max(CREDIT_MIN)
    }

    /// The kernel dropped datagrams because our buffer was full: credits shrink, at most once a round trip.
    pub fn on_receive_overflow(&mut self, now_us: u64) {
        const ROUND_TRIP_US: u64 = 100_000;
        if now_us >= self.credit_moved_us + ROUND_TRIP_US {
            self.credit_moved_us = now_us;
            self.credit_shift = (self.credit_shift + 1).min(8);
        }
    }

    /// Packs what waits for node `id`, if it is worth a datagram, and sets its timer.
    pub(crate) fn flush(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let credit = self.credit();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.marked = false;
        let room = (usize::from(node.receive_datagrams_max) / 2).max(1) * OFFERS_PER_DATAGRAM;
        let offers = node.queue.len().min(room.saturating_sub(node.offered.len()));
        let tell = &node.to_tell;
        let acks_due = !tell.acks.is_empty()
            && (tell.acks_count >= ACKS_PROMPT || now_us >= tell.acks_since_us + RIDE_US);
        let speak =
            offers > 0 || acks_due || tell.welcome || tell.answer.is_some() || !tell.withdraws.is_empty();
        if speak && (node.listens() || node.to_tell.welcome) {
            let mut packer = Packer::new();
            let tell = std::mem::take(&mut node.to_tell);
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
            packer.result_ack(credit, &tell.acks);
            tell.withdraws.iter().for_each(|withdraw| packer.revoke(withdraw));
            self.pack_offers(id, offers, now_us, &mut packer);
            self.send(id, packer, deeds);
        }
        self.set_timer(id, now_us);
    }

    fn send(&mut self, id: NodeId, mut packer: Packer, deeds: &mut Deeds) {
        let datagrams = packer.finish();
        datagrams.iter().for_each(|datagram| self.watched.traffic[1].add(datagram.len()));
        deeds.0.push(Deed::Send(id, datagrams));
    }

    fn pack_offers(&mut self, id: NodeId, offers: usize, now_us: u64, packer: &mut Packer) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (task_id, attempt) in node.queue.drain(..offers) {
            let Some(task) = self.dq.get(task_id, attempt) else { continue };
            let Some(job) = self.jobs.get(&task.job) else { continue };
            task.state = State::Offered;
            packer.offer(&offer(task, job));
            node.offered.push_back(Offered { attempt, task: task_id, sent_us: now_us, repeated: false });
        }
    }

    /// The worker acknowledged offers: ranges of attempts.
    pub(crate) fn on_task_ack(&mut self, id: NodeId, ranges: impl Iterator<Item = (u64, u64)>, now_us: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (first, last) in ranges {
            let start = node.offered.partition_point(|o| o.attempt < Attempt(first));
            let end = node.offered.partition_point(|o| o.attempt <= Attempt(last));
            for offered in node.offered.drain(start..end) {
                node.landed_sent_us = node.landed_sent_us.max(offered.sent_us);
                if !offered.repeated {
                    node.rtt.sample(now_us.saturating_sub(offered.sent_us));
                }
                node.rtt.heard();
                if let Some(task) = self.dq.get(offered.task, offered.attempt) {
                    task.state = State::Held { seen_us: now_us };
                }
            }
        }
        if !node.queue.is_empty() {
            self.mark(id);
        }
    }

    /// Offers whose acknowledgement is overdue go out again, if later ones have overtaken them. Where none
    /// has, they may be waiting at a busy worker, so one datagram of them goes alone to ask.
    pub(crate) fn repeat_offers(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.listens()) else { return };
        let rto_us = node.rtt.rto_us();
        let (mut packer, mut repeated) = (Packer::new(), 0);
        node.offered.retain_mut(|offered| {
            let Some(task) = self.dq.get(offered.task, offered.attempt) else { return false };
            let Some(job) = self.jobs.get(&task.job) else { return false };
            let overtaken = offered.sent_us < node.landed_sent_us;
            if now_us >= offered.sent_us + rto_us && (overtaken || repeated < OFFERS_PER_DATAGRAM) {
                (offered.sent_us, offered.repeated) = (now_us, true);
                packer.offer(&offer(task, job));
                repeated += 1;
            }
            true
        });
        if repeated > 0 {
            node.rtt.timed_out();
            node.totals.offers_repeated += repeated as u64;
            self.totals.offers_repeated += repeated as u64;
            deeds.event(starfarm_events::Event::OffersRepeated {
                node: node.name.clone(),
                tasks: repeated as u64,
            });
            self.send(id, packer, deeds);
        }
    }
}

fn offer(task: &crate::task::Task, job: &crate::job::Job) -> Offer {
    Offer {
        job: task.job,
        spec: job.facts.spec,
        attempt: task.attempt,
        lo: task.lo,
        units: u64::try_from(task.hi - task.lo).expect("refill cuts tasks of less than 2^63 units"),
    }
}
