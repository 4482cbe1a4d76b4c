//! Counters that reports tell now and then: what each grew by within the log, and within the part of it that is wanted.

/// A counter of a node or of the farm, with what single events tell of its growth between two reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grown {
    sum: u128,
    last: Option<u128>,
    /// Grown since the last report, as events tell.
    since: u128,
    /// The same, before what is wanted begins.
    early: u128,
}

impl Grown {
    /// The counter began at zero, within the log.
    pub(super) fn anew(&mut self) {
        self.last.get_or_insert(0);
    }

    /// Another scheduler counts from zero; where the log lacks its begin, the first report says where it stands.
    pub(super) fn restart(&mut self, from_zero: bool) {
        self.settle();
        self.last = from_zero.then_some(0);
    }

    /// No report will tell any more of what events told.
    fn settle(&mut self) {
        self.sum = self.total();
        (self.since, self.early) = (0, 0);
    }

    /// The counter's value; whether that is told in the part of the log that is wanted.
    pub(super) fn report(&mut self, value: u128, counts: bool) {
        // What stood there before the log is not the log's.
        let before = self.last.replace(value).unwrap_or(value);
        if value < before {
            // A counter that fell began anew.
            self.settle();
        }
        let grown = value.checked_sub(before).unwrap_or(value);
        if counts {
            self.sum = self.sum.saturating_add(grown.saturating_sub(self.early));
        }
        (self.since, self.early) = (0, 0);
    }

    /// An event tells that it grew.
    pub(super) fn add(&mut self, amount: u128, counts: bool) {
        let since = if counts { &mut self.since } else { &mut self.early };
        *since = since.saturating_add(amount);
    }

    pub(super) fn total(&self) -> u128 {
        self.sum.saturating_add(self.since)
    }

    /// The total, as far as 64 bits hold it.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.total()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_forgets_nothing_that_events_told() {
        let mut grown = Grown::default();
        grown.report(0, true);
        grown.add(50, true);
        grown.restart(true);
        grown.report(0, true);
        assert_eq!(grown.total(), 50);
        grown.add(2, true);
        grown.report(3, true);
        assert_eq!(grown.total(), 53, "the report knows of one more");
        grown.restart(false);
        grown.report(70, true);
        grown.report(71, true);
        assert_eq!(
            grown.total(),
            54,
            "what another scheduler counted before the log goes on is not the log's"
        );
        grown.add(5, true);
        grown.report(1, true);
        assert_eq!(grown.total(), 54 + 5 + 1, "a counter that fell began anew");
    }

    #[test]
    fn what_came_before_the_window_does_not_count() {
        let mut grown = Grown::default();
        grown.report(100, false);
        grown.add(7, false);
        assert_eq!(grown.total(), 0);
        grown.add(3, true);
        assert_eq!(grown.total(), 3);
        grown.report(110, true);
        assert_eq!(grown.total(), 3);
    }
}
