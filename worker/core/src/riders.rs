//! What rides on a worker's datagrams beside its results: which tasks it has, whether it wants more of them or fewer,
//! and what its machine is. When a datagram leaves is decided in `worker`.

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::Attempt;
use starfarm_protocol::limits::RIDE_US;
use starfarm_protocol::wire::{Facts, Feedback, Packer};

use crate::asks::Asks;
use crate::attempts::Attempts;

/// Facts are told again after this: a scheduler that was started anew knows none.
const FACTS_US: u64 = 60_000_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Riders {
    /// Attempts of this epoch that were heard.
    heard: Attempts,
    /// Attempts to acknowledge, and when at the latest.
    acks: Attempts,
    ack_at: Option<u64>,
    /// What was asked for, by kind of slots, the cores first.
    asks: Vec<Asks>,
    feedback_sent: Feedback,
    /// Times that the worker became able to run what it refused.
    able_again: u32,
    /// Facts go with the first heartbeat from then on.
    facts_at: u64,
}

impl Riders {
    /// Of a worker with so many kinds of slots.
    pub(crate) fn new(kinds: usize) -> Self {
        Self { asks: vec![Asks::default(); kinds], ..Self::default() }
    }

    /// What is asked for of slots of one kind.
    pub(crate) fn asks(&mut self, kind: SlotKind) -> &mut Asks {
        &mut self.asks[usize::from(kind.0)]
    }

    /// The totals of that.
    pub(crate) fn feedback(&self, kind: SlotKind) -> Feedback {
        self.asks[usize::from(kind.0)].feedback
    }

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
        let feedback = self.feedback(SlotKind::CORES);
        if beat || feedback != self.feedback_sent {
            packer.feedback(&feedback);
            self.feedback_sent = feedback;
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
}
