//! What rides on a worker's datagrams beside its results: which tasks it has, whether it wants more of them or fewer,
//! and what its machine is. When a datagram leaves is decided in `worker`.

use starfarm_protocol::ids::Attempt;
use starfarm_protocol::limits::RIDE_US;
use starfarm_protocol::wire::{Facts, Feedback, Packer};

use crate::attempts::Attempts;
use crate::queue::Queue;

/// The scheduler's sliding windows are seconds long, so it learns nothing from requests that come faster
/// than this.
const FEEDBACK_US: u64 = 100_000;
/// Who asks for more and gets none asks half as often each time, down to once in this: there is none.
const FEEDBACK_MAX_US: u64 = 60_000_000;
/// Facts are told again after this: a scheduler that was started anew knows none.
const FACTS_US: u64 = 60_000_000;
/// A queue that lasts longer than this is too long: twice the prefetch of 60 s (DESIGN, section 6).
const QUEUE_LASTS_MAX_US: u64 = 2 * 60_000_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Riders {
    /// Attempts of this epoch that were heard.
    heard: Attempts,
    /// Attempts to acknowledge, and when at the latest.
    acks: Attempts,
    ack_at: Option<u64>,
    feedback: Feedback,
    feedback_sent: Feedback,
    /// Times that the worker became able to run what it refused.
    able_again: u32,
    /// Facts go with the first heartbeat from then on.
    facts_at: u64,
    /// When it asked for more last, and how long it waits before it asks again.
    speed_up_us: u64,
    speed_up_pause_us: u64,
    slow_down_at: u64,
}

impl Riders {
    /// When a datagram must leave, whatever else is due.
    pub(crate) fn deadline(&self) -> u64 {
        self.ack_at.unwrap_or(u64::MAX)
    }

    pub(crate) fn has_heard(&self, attempt: Attempt) -> bool {
        self.heard.contains(attempt.0)
    }

    /// An offer came, which is to be acknowledged; false where it came before.
    pub(crate) fn hear(&mut self, attempt: Attempt, now_us: u64) -> bool {
        self.acks.insert(attempt.0);
        self.ack_at.get_or_insert(now_us + RIDE_US);
        self.check();
        self.heard.insert(attempt.0)
    }

    /// Another incarnation of the scheduler numbers its attempts anew.
    pub(crate) fn forget_attempts(&mut self) {
        self.heard.clear();
        self.acks.clear();
        self.ack_at = None;
        self.check();
    }

    pub(crate) fn able_again(&mut self, times: u32) {
        self.able_again = times;
    }

    /// Who listens now may know nothing of this machine.
    pub(crate) fn tell_facts_soon(&mut self, now_us: u64) {
        self.facts_at = now_us;
    }

    /// What travels with any datagram that leaves anyway. The totals of the feedback go with each heartbeat,
    /// so that a lost one does no harm.
    pub(crate) fn pack(&mut self, packer: &mut Packer, beat: bool) {
        if !self.acks.is_empty() {
            packer.task_ack(&self.acks.take());
        }
        self.ack_at = None;
        self.check();
        if beat || self.feedback != self.feedback_sent {
            packer.feedback(&self.feedback);
            self.feedback_sent = self.feedback;
        }
    }

    /// An acknowledgement leaves in time, and no datagram for none.
    fn check(&self) {
        assert_eq!(self.acks.is_empty(), self.ack_at.is_none(), "acknowledgements have a time");
    }

    /// What the machine can do again, and what it is if it is time to tell that again.
    pub(crate) fn pack_machine(&mut self, facts: Option<&Facts>, packer: &mut Packer, now_us: u64) {
        if self.able_again > 0 {
            packer.able(self.able_again);
        }
        if let Some(facts) = facts.filter(|_| self.facts_at <= now_us) {
            packer.facts(facts);
            self.facts_at = now_us + FACTS_US;
        }
    }

    /// A new task came: the next request may follow the last one as soon as any.
    pub(crate) fn fed(&mut self) {
        self.speed_up_pause_us = self.speed_up_pause_us.min(FEEDBACK_US);
    }

    /// Asks for more when what waits takes fewer slots than there are, less and less often until a task comes; for
    /// less when the queue is nearly full or lasts too long. Each at most once in `FEEDBACK_US`. An idle worker
    /// asks at its heartbeats only, since nothing else happens there.
    pub(crate) fn weigh(&mut self, queue: &Queue, queue_tasks_max: u32, slots: u16, now_us: u64) {
        let waiting = queue.len();
        if queue.slots() < u64::from(slots) {
            if now_us >= self.speed_up_us.saturating_add(self.speed_up_pause_us) {
                self.speed_up_us = now_us;
                self.speed_up_pause_us = (2 * self.speed_up_pause_us).clamp(FEEDBACK_US, FEEDBACK_MAX_US);
                self.feedback.speed_ups = self.feedback.speed_ups.wrapping_add(1);
            }
        } else if now_us >= self.slow_down_at {
            self.slow_down_at = now_us + FEEDBACK_US;
            let nearly_full = waiting * 4 > queue_tasks_max as usize * 3;
            if nearly_full || queue.lasts_us(slots) > QUEUE_LASTS_MAX_US {
                self.feedback.slow_downs = self.feedback.slow_downs.wrapping_add(1);
            }
        }
    }
}
