//! Counters that a node reports: what each grew by within the log.

/// A counter of a node, as reports tell it now and then: what it grew by within the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grown {
    sum: u128,
    last: Option<u128>,
    /// Grown since the last report, as results tell.
    since: u128,
}

impl Grown {
    /// The counter began at zero, within the log.
    pub(super) fn anew(&mut self) {
        self.last.get_or_insert(0);
    }

    pub(super) fn report(&mut self, value: u128, counts: bool) {
        if counts {
            // A counter that fell began anew. What stood there before the log is not the log's.
            let before = self.last.unwrap_or(value);
            self.sum = self.sum.saturating_add(value.checked_sub(before).unwrap_or(value));
        }
        (self.last, self.since) = (Some(value), 0);
    }

    pub(super) fn add(&mut self, amount: u128) {
        self.since = self.since.saturating_add(amount);
    }

    pub(super) fn total(&self) -> u128 {
        self.sum.saturating_add(self.since)
    }
}
