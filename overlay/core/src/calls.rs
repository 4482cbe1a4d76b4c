//! When a worker asks the scheduler which posts it should have: in each new session, when the doorbell rings, when there is
//! news of what a post links with, and now and then while one has no parent. Times are by the worker's clock, in microseconds.

use core::net::SocketAddr;

/// A call that failed is made again this much later, and each time twice that, up to the longest pause.
const PAUSE_US: u64 = 1_000_000;
const PAUSE_US_MAX: u64 = 30_000_000;
/// So often it asks while a post of it has no parent.
const ADRIFT_US: u64 = 10_000_000;

/// Whom it calls, and when.
#[derive(Debug)]
pub struct Calls {
    scheduler: Option<SocketAddr>,
    /// The number of the orders that were heard last.
    newest: u64,
    /// When the next call is to be made, if one is.
    wants_us: Option<u64>,
    pause_us: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Self { scheduler: None, newest: 0, wants_us: None, pause_us: PAUSE_US }
    }
}

impl Calls {
    /// Whom to call, once that is known.
    pub fn scheduler(&self) -> Option<SocketAddr> {
        self.scheduler
    }

    /// The number of the orders that were heard last.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// When the next call is due.
    pub fn due_us(&self) -> Option<u64> {
        self.wants_us
    }

    /// A session is up with a scheduler that may know nothing of this node.
    pub fn on_session(&mut self, scheduler: SocketAddr, now_us: u64) {
        (self.scheduler, self.newest) = (Some(scheduler), 0);
        self.on_news(now_us);
    }

    /// The scheduler's newest orders have this number.
    pub fn on_bell(&mut self, newest: u64, now_us: u64) {
        if newest != self.newest {
            self.on_news(now_us);
        }
    }

    /// There is something that the scheduler must know.
    pub fn on_news(&mut self, now_us: u64) {
        (self.wants_us, self.pause_us) = (Some(now_us), PAUSE_US);
    }

    /// Whether to call now. `is_adrift`: a post that runs has no parent.
    pub fn take_due(&mut self, is_adrift: bool, now_us: u64) -> bool {
        if self.wants_us.is_none() && self.scheduler.is_some() && is_adrift {
            self.wants_us = Some(now_us + ADRIFT_US);
        }
        self.wants_us.take_if(|at_us| *at_us <= now_us).is_some()
    }

    /// The scheduler has answered with orders of that number.
    pub fn on_orders(&mut self, newest: u64) {
        (self.newest, self.pause_us) = (newest, PAUSE_US);
    }

    /// It has not answered.
    pub fn on_failure(&mut self, now_us: u64) {
        self.wants_us = Some(now_us + self.pause_us);
        self.pause_us = (self.pause_us * 2).min(PAUSE_US_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler() -> SocketAddr {
        "10.0.0.9:7".parse().unwrap()
    }

    #[test]
    fn a_session_a_bell_and_news_make_it_call_and_a_failure_makes_it_wait() {
        let mut calls = Calls::default();
        assert!(!calls.take_due(true, 0), "it knows nobody");
        calls.on_session(scheduler(), 5);
        assert!(calls.take_due(true, 5) && !calls.take_due(false, 5));
        calls.on_orders(7);
        calls.on_bell(7, 6);
        assert!(!calls.take_due(false, 6), "it has heard these");
        calls.on_bell(8, 6);
        assert!(calls.take_due(false, 6));
        calls.on_failure(6);
        assert!(!calls.take_due(false, 5 + PAUSE_US) && calls.take_due(false, 6 + PAUSE_US));
        calls.on_failure(6);
        assert_eq!(calls.due_us(), Some(6 + 2 * PAUSE_US));
    }

    #[test]
    fn who_has_a_post_without_a_parent_asks_again() {
        let mut calls = Calls::default();
        calls.on_session(scheduler(), 0);
        assert!(calls.take_due(true, 0) && !calls.take_due(true, 1));
        assert!(!calls.take_due(true, ADRIFT_US) && calls.take_due(true, 1 + ADRIFT_US));
        assert!(!calls.take_due(false, 9 * ADRIFT_US), "all have parents");
    }
}
