//! What others ask of a worker: how it does, and what it must not lose.

use starfarm_protocol::wire::{Facts, Pace};

use crate::spool::{self, SpoolError};
use crate::types::{Counters, Look};
use crate::worker::Worker;

impl Worker {
    /// The computed results that nobody acknowledged, as bytes for the spool.
    pub fn unacknowledged(&self) -> Vec<u8> {
        spool::write(self.outbox.iter())
    }

    /// Takes over the results of an earlier incarnation's spool and returns how many there were. They get
    /// new sequence numbers.
    ///
    /// # Errors
    /// Where the bytes are not a whole spool; nothing is taken over then.
    pub fn restore(&mut self, spool: &[u8]) -> Result<usize, SpoolError> {
        let results = spool::read(spool)?;
        let count = results.len();
        results.into_iter().for_each(|result| self.outbox.push(result));
        Ok(count)
    }

    /// Tasks that wait.
    pub fn queued_tasks(&self) -> usize {
        self.tasks.waiting()
    }

    /// Slots without a task.
    pub fn idle_slots(&self) -> usize {
        self.tasks.slots().idle()
    }

    /// Results, of any outcome, that are not acknowledged.
    pub fn unacknowledged_results(&self) -> usize {
        self.outbox.len()
    }

    /// The scheduler knows us in the present session.
    pub fn is_welcomed(&self) -> bool {
        self.link.is_welcomed()
    }

    /// How the worker does since this was asked last.
    pub fn look(&mut self, now_us: u64) -> Look {
        Look {
            queued_tasks: self.tasks.waiting(),
            running_tasks: self.tasks.slots().iter().count(),
            unacknowledged_results: self.outbox.len(),
            load: self.tasks.slots_mut().load_seen(now_us).0,
        }
    }

    /// What the machine is, where that was read.
    pub fn facts(&self) -> Option<&Facts> {
        self.config.facts.as_ref()
    }

    /// The pace of the farm, as its scheduler last said.
    pub fn pace(&self) -> Pace {
        self.link.pace
    }

    /// The number of the newest orders, as the scheduler last said; 0 where it named none.
    pub fn newest_orders(&self) -> u64 {
        self.link.newest_orders
    }

    /// [`Worker::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// What went another way than usual.
    pub fn counters(&self) -> Counters {
        Counters { resent: self.outbox.resent, ..self.counters }
    }
}
