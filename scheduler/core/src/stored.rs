//! What the outputs of one job take on the scheduler's disk, and from where on what they may take counts. Pausing the job and
//! letting it go on are not here.

use starfarm_protocol::reason::HoldReason;

/// What they take.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    bytes: u64,
    /// Those when a person let the job go on after a pause for them; 0 where that was with another limit, or never.
    before: u64,
}

impl Stored {
    /// Bytes, as the rim last said.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the job may store counts from so many bytes on.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// The rim says how many bytes they take.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Why the job should wait for a person, with this limit; none where it may store more. `held`: why it waits already.
    pub(crate) fn full(&self, limit: Option<u64>, held: Option<&HoldReason>) -> Option<HoldReason> {
        // After a restart it takes a while until it is known again what is there.
        let stored = self.bytes.max(bytes_of(held).unwrap_or(0));
        let limit = limit.filter(|limit| stored.saturating_sub(self.before) >= *limit)?;
        Some(HoldReason::Storage { stored, limit })
    }

    /// A pause for `held` ends. Where the limit is as it was, the job may store as much again.
    pub(crate) fn go_on(&mut self, limit: Option<u64>, held: Option<&HoldReason>) {
        if let Some(bytes) = bytes_of(held)
            && limit.is_some_and(|limit| bytes.saturating_sub(self.before) >= limit)
        {
            self.before = bytes;
        }
    }

    /// The job has another limit, or has ended: what it stores counts from the first byte on.
    pub(crate) fn count_all(&mut self) {
        self.before = 0;
    }
}

/// The bytes for which a job waits, if that is why.
fn bytes_of(held: Option<&HoldReason>) -> Option<u64> {
    match held {
        Some(HoldReason::Storage { stored, .. }) => Some(*stored),
        _ => None,
    }
}
