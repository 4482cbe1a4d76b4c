//! What a worker says to its scheduler, and when: hello, results, heartbeats and what rides on them.

use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{Heartbeat, Held, Hello, Outcome, Packer};

use super::Worker;
use crate::held;
use crate::types::Deed;

/// The scheduler's sliding windows are seconds long, so it learns nothing from requests that come faster
/// than this.
const FEEDBACK_US: u64 = 100_000;
/// Who asks for more and gets none asks half as often each time, down to once in this: there is none.
const FEEDBACK_MAX_US: u64 = 60_000_000;
/// Facts are told again after this: a scheduler that was started anew knows none.
const FACTS_US: u64 = 60_000_000;
/// A queue that lasts longer than this is too long: twice the prefetch of 60 s (DESIGN, section 6).
const QUEUE_LASTS_MAX_US: u64 = 2 * 60_000_000;

impl Worker {
    pub(super) fn send_due(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        let mut packer = Packer::new();
        if self.link.is_welcomed() {
            self.outbox.send(now_us, &mut packer);
        }
        if self.link.hello_due(now_us) {
            packer.hello(&self.hello());
        }
        let idle = self.slots.all_idle() && self.queue.is_empty();
        let beat = self.link.heartbeat_due(now_us, idle);
        if beat {
            self.weigh_queue(now_us);
        }
        if beat || self.ack_at <= now_us || !packer.is_empty() {
            self.pack_riders(&mut packer, beat);
        }
        if beat && self.link.is_welcomed() {
            self.tell_of_itself(now_us, &mut packer);
        }
        if beat {
            packer.heartbeat(&self.heartbeat());
        }
        deeds.extend(packer.finish().into_iter().map(Deed::Send));
    }

    /// What travels with any datagram that leaves anyway. The totals of the feedback go with each heartbeat,
    /// so that a lost one does no harm.
    pub(super) fn pack_riders(&mut self, packer: &mut Packer, beat: bool) {
        if !self.acks.is_empty() {
            packer.task_ack(&self.acks.take());
        }
        self.ack_at = u64::MAX;
        if beat || self.feedback != self.feedback_sent {
            packer.feedback(&self.feedback);
            self.feedback_sent = self.feedback;
        }
    }

    /// What people want to know.
    fn tell_of_itself(&mut self, now_us: u64, packer: &mut Packer) {
        packer.load(&self.slots.load(now_us));
        if self.able_again > 0 {
            packer.able(self.able_again);
        }
        if let Some(facts) = self.config.facts.as_ref().filter(|_| self.facts_at <= now_us) {
            packer.facts(facts);
            self.facts_at = now_us + FACTS_US;
        }
    }

    fn hello(&self) -> Hello {
        let known = self.scheduler.known();
        Hello {
            version: PROTOCOL_VERSION,
            boot: self.config.boot,
            slots: self.slots.count(),
            queue_tasks_max: self.config.queue_tasks_max,
            receive_datagrams_max: self.config.receive_datagrams_max,
            known_epoch: known.epoch,
            known_proof: known.proof,
            died_running: self.config.died_running.clone(),
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            number: self.link.number,
            queued_tasks: self.queue.len() as u32,
            draining: self.drain.is_some(),
            running: self.slots.running_units().collect(),
            held: self.held(),
            ..Heartbeat::default()
        }
    }

    /// What the worker holds, neighbours joined: waiting, running and not reported, computed and not
    /// acknowledged.
    pub fn held(&self) -> Vec<Held> {
        let waiting = self.queue.iter().map(|task| Held { job: task.job, lo: task.lo, units: task.units });
        let computed = self.outbox.iter().filter(|result| result.outcome != Outcome::Returned);
        let computed = computed.map(|result| Held { job: result.job, lo: result.lo, units: result.units });
        held::join(waiting.chain(self.slots.held()).chain(computed).collect())
    }

    /// A new task came: the next request may follow the last one as soon as any.
    pub(super) fn fed(&mut self) {
        self.speed_up_pause_us = self.speed_up_pause_us.min(FEEDBACK_US);
    }

    /// Asks for more when fewer tasks wait than there are slots, less and less often until a task comes; for
    /// less when the queue is nearly full or lasts too long. Each at most once in `FEEDBACK_US`. An idle worker
    /// asks at its heartbeats only, since nothing else happens there.
    pub(super) fn weigh_queue(&mut self, now_us: u64) {
        if self.drain.is_some() || !self.link.is_welcomed() {
            return;
        }
        let waiting = self.queue.len();
        if waiting < usize::from(self.slots.count()) {
            if now_us >= self.speed_up_us.saturating_add(self.speed_up_pause_us) {
                self.speed_up_us = now_us;
                self.speed_up_pause_us = (2 * self.speed_up_pause_us).clamp(FEEDBACK_US, FEEDBACK_MAX_US);
                self.feedback.speed_ups = self.feedback.speed_ups.wrapping_add(1);
            }
        } else if now_us >= self.slow_down_at {
            self.slow_down_at = now_us + FEEDBACK_US;
            let nearly_full = waiting * 4 > self.config.queue_tasks_max as usize * 3;
            if nearly_full || self.queue.lasts_us(self.slots.count()) > QUEUE_LASTS_MAX_US {
                self.feedback.slow_downs = self.feedback.slow_downs.wrapping_add(1);
            }
        }
    }
}
