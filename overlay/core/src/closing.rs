//! The end of a post that nobody wants any more: what it knows leaves, and then it ends. Those below it have other parents by
//! then, and are on their way to them.

use crate::member::Member;

/// So long it takes at most, in microseconds: the worker ends a process that takes longer.
pub const CLOSE_US: u64 = 2_000_000;
/// So long it waits for those below it to leave.
const BELOW_US: u64 = 1_000_000;

/// A post that ends, since then by the clock of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closing {
    since_us: u64,
}

impl Closing {
    /// It begins to end.
    pub fn begin(now_us: u64) -> Self {
        Self { since_us: now_us }
    }

    /// When it waits for something no longer. What it waits for comes by links.
    pub fn due_us(self, now_us: u64) -> u64 {
        let below_us = self.since_us + BELOW_US;
        if now_us < below_us { below_us } else { self.since_us + CLOSE_US }
    }

    /// Nobody below it says anything any more, or it does not wait for that any longer: its waves are over.
    pub fn is_alone(self, member: &Member, now_us: u64) -> bool {
        member.children().count() == 0 || now_us >= self.since_us + BELOW_US
    }

    /// The parent has said that all has come, or it takes too long. To be asked once the last waves have been put.
    pub fn is_over(self, member: &Member, now_us: u64) -> bool {
        now_us >= self.since_us + CLOSE_US || self.is_alone(member, now_us) && member.sending().is_empty()
    }
}
