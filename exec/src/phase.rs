//! How a running program is brought to its end by force: a small machine that is told the time and
//! answers with the signal to send. It sends nothing itself.

use std::time::{Duration, Instant};

use rustix::process::Signal;

/// Who wants a program to end before it does so itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    Timeout,
    Cancelled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It may run, until then.
    Runs { until: Option<Instant> },
    /// TERM was sent; KILL follows at `kill_at`.
    Asked { why: Why, kill_at: Instant },
    /// KILL was sent. Nothing else can be done.
    Killed { why: Why },
}

impl Phase {
    /// When [`step`](Self::step) must be called at the latest.
    pub(super) fn alarm(self) -> Option<Instant> {
        match self {
            Self::Runs { until } => until,
            Self::Asked { kill_at, .. } => Some(kill_at),
            Self::Killed { .. } => None,
        }
    }

    /// Whether a cancel still changes anything.
    pub(super) fn heeds_cancel(self) -> bool {
        matches!(self, Self::Runs { .. })
    }

    pub(super) fn why(self) -> Option<Why> {
        match self {
            Self::Runs { .. } => None,
            Self::Asked { why, .. } | Self::Killed { why } => Some(why),
        }
    }

    /// Goes on to the next phase if it is time for it; the signal is for the whole process group.
    /// `term_to_kill` is what a program gets to tidy up.
    pub(super) fn step(&mut self, now: Instant, cancelled: bool, term_to_kill: Duration) -> Option<Signal> {
        let due = self.alarm().is_some_and(|at| now >= at);
        match *self {
            Self::Runs { .. } if cancelled || due => {
                let why = if cancelled { Why::Cancelled } else { Why::Timeout };
                *self = Self::Asked { why, kill_at: now + term_to_kill };
                Some(Signal::TERM)
            }
            Self::Asked { why, .. } if due => {
                *self = Self::Killed { why };
                Some(Signal::KILL)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn a_timeout_asks_and_then_kills() {
        let start = Instant::now();
        let until = start + Duration::from_secs(60);
        let mut phase = Phase::Runs { until: Some(until) };
        assert_eq!(phase.step(until - Duration::from_nanos(1), false, GRACE), None);
        assert_eq!(phase.step(until, false, GRACE), Some(Signal::TERM));
        assert_eq!(phase, Phase::Asked { why: Why::Timeout, kill_at: until + GRACE });
        assert_eq!(phase.step(until + GRACE / 2, false, GRACE), None);
        assert_eq!(phase.step(until + GRACE, false, GRACE), Some(Signal::KILL));
        assert_eq!(phase.step(until + GRACE * 9, true, GRACE), None);
        assert_eq!(phase.why(), Some(Why::Timeout));
    }

    #[test]
    fn a_cancel_asks_once_and_does_not_put_off_the_kill() {
        let now = Instant::now();
        let mut phase = Phase::Runs { until: None };
        assert_eq!(phase.step(now, false, GRACE), None);
        assert!(phase.heeds_cancel());
        assert_eq!(phase.step(now, true, GRACE), Some(Signal::TERM));
        assert!(!phase.heeds_cancel());
        assert_eq!(phase.step(now + GRACE / 2, true, GRACE), None);
        assert_eq!(phase.alarm(), Some(now + GRACE));
        assert_eq!(phase.why(), Some(Why::Cancelled));
    }
}
