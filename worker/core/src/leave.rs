//! When a worker leaves by itself: before a batch system ends it, or when it has had nothing to do for long. How it then
//! drains is in `drain` and `worker`.

use starfarm_protocol::wire::TimeLeft;

use crate::types::Limits;

/// It takes nothing more, and gives back what waits, in the last tenth of its time, but at most so long before its end ...
const DRAIN_US: u64 = 30_000_000;
const DRAIN_SHARE: u64 = 10;
/// ... and in the last third of that it ends what still runs: a program has time to heed that, and results to arrive.
const END_SHARE: u64 = 3;

/// The times of a worker that must be gone by a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deadline {
    /// It takes tasks until then.
    pub(crate) drain_us: u64,
    /// What runs may go on until then.
    pub(crate) end_us: u64,
    /// Then it leaves, whatever is left.
    pub(crate) gone_us: u64,
}

impl Deadline {
    fn new(gone_us: u64, now_us: u64) -> Self {
        let spare_us = (gone_us.saturating_sub(now_us) / DRAIN_SHARE).min(DRAIN_US);
        Self { drain_us: gone_us - spare_us, end_us: gone_us - spare_us / END_SHARE, gone_us }
    }
}

/// Why a worker leaves by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Deadline,
    Idle,
}

#[derive(Clone, Debug)]
pub(crate) struct Leave {
    deadline: Option<Deadline>,
    /// It was told to end what runs.
    has_ended: bool,
    idle_exit_us: Option<u64>,
    /// Since when it has had nothing to run and nothing unacknowledged.
    idle_us: Option<u64>,
}

impl Leave {
    pub(crate) fn new(limits: Limits, now_us: u64) -> Self {
        let Limits { deadline_us, idle_exit_us } = limits;
        let deadline = deadline_us.map(|gone_us| Deadline::new(gone_us.max(now_us), now_us));
        Self { deadline, has_ended: false, idle_exit_us, idle_us: Some(now_us) }
    }

    /// It has nothing to run and nothing unacknowledged, or it has.
    pub(crate) fn look(&mut self, is_idle: bool, now_us: u64) {
        self.idle_us = is_idle.then(|| self.idle_us.unwrap_or(now_us));
    }

    /// What the scheduler is to know.
    pub(crate) fn time_left(&self, is_draining: bool, now_us: u64) -> Option<TimeLeft> {
        let Deadline { drain_us, gone_us, .. } = self.deadline?;
        let work_us = if is_draining { 0 } else { drain_us.saturating_sub(now_us) };
        Some(TimeLeft { left_us: gone_us.saturating_sub(now_us), work_us })
    }

    /// It is time to drain.
    pub(crate) fn drains(&self, now_us: u64) -> Option<Why> {
        let late = self.deadline.is_some_and(|deadline| deadline.drain_us <= now_us);
        let idle = self.idle_end_us().is_some_and(|at_us| at_us <= now_us);
        match (late, idle) {
            (true, _) => Some(Why::Deadline),
            (false, true) => Some(Why::Idle),
            (false, false) => None,
        }
    }

    /// It is time to end what runs; said once.
    pub(crate) fn ends(&mut self, now_us: u64) -> bool {
        let ends = !self.has_ended && self.deadline.is_some_and(|deadline| deadline.end_us <= now_us);
        self.has_ended |= ends;
        ends
    }

    /// It is time to go, whatever still runs or is not acknowledged.
    pub(crate) fn is_over(&self, now_us: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline.gone_us <= now_us)
    }

    /// When something of this is due next; none where nothing is. A worker that drains waits for no more work.
    pub(crate) fn next_us(&self, is_draining: bool) -> Option<u64> {
        let idle = self.idle_end_us().filter(|_| !is_draining);
        let late =
            self.deadline.map(|Deadline { drain_us, end_us, gone_us }| match (is_draining, self.has_ended) {
                (false, _) => drain_us,
                (true, false) => end_us,
                (true, true) => gone_us,
            });
        [idle, late].into_iter().flatten().min()
    }

    fn idle_end_us(&self) -> Option<u64> {
        Some(self.idle_us?.saturating_add(self.idle_exit_us?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000;

    #[test]
    fn a_deadline_leaves_time_to_give_back_and_to_end_and_no_more_than_that() {
        let of = |left_us: u64| {
            let Deadline { drain_us, end_us, gone_us } = Deadline::new(7 + left_us, 7);
            [gone_us - drain_us, gone_us - end_us].map(|us| us / 1_000)
        };
        assert_eq!(of(90 * MINUTE), [30_000, 10_000]);
        assert_eq!(of(MINUTE), [6_000, 2_000]);
        assert_eq!(of(3_000_000), [300, 100]);
        assert_eq!(of(0), [0, 0]);
    }

    #[test]
    fn idle_time_counts_from_the_start_and_anew_after_each_work() {
        let mut leave = Leave::new(Limits { idle_exit_us: Some(MINUTE), ..Limits::default() }, 5);
        assert_eq!((leave.next_us(false), leave.drains(MINUTE)), (Some(MINUTE + 5), None));
        leave.look(true, 50);
        assert_eq!(leave.drains(MINUTE + 5), Some(Why::Idle));
        leave.look(false, 60);
        assert_eq!((leave.next_us(false), leave.drains(u64::MAX)), (None, None));
        leave.look(true, 70);
        leave.look(true, 80);
        assert_eq!((leave.next_us(false), leave.next_us(true)), (Some(MINUTE + 70), None));
    }
}
