//! What a slot tells the main thread, collected so that many short units cost one message.

use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::wire::Outcome;
use starfarm_worker_core::{Part, Task};

use crate::event::{Event, News};

/// News wait at most this long for more.
pub(crate) const FLUSH: Duration = Duration::from_millis(100);

pub(crate) struct Report {
    slot: u16,
    inbox: Sender<Event>,
    news: Vec<News>,
    flushed: Instant,
}

impl Report {
    pub(crate) fn new(slot: u16, inbox: Sender<Event>) -> Self {
        Self { slot, inbox, news: Vec::new(), flushed: Instant::now() }
    }

    /// Units of a task are done: `units` of them from `lo` on.
    pub(crate) fn done(&mut self, task: &Task, lo: u128, units: u64, duration: Duration, body: Vec<u8>) {
        self.part(task, (lo, units), duration, Outcome::Done, body);
    }

    /// The task cannot be run here from `lo` on.
    pub(crate) fn refuse(&mut self, task: &Task, lo: u128, why: &str) {
        let units = (task.hi() - lo) as u64;
        if units > 0 {
            let body = why.as_bytes()[..why.floor_char_boundary(RESULT_BODY_BYTES_MAX)].to_vec();
            self.part(task, (lo, units), Duration::ZERO, Outcome::Refused, body);
        }
    }

    fn part(&mut self, task: &Task, at: (u128, u64), duration: Duration, outcome: Outcome, body: Vec<u8>) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (Task { job, spec, attempt, .. }, (lo, units)) = (*task, at);
        self.news.push(News::Part(Part { job, spec, attempt, lo, units, duration_us, outcome, body }));
    }

    pub(crate) fn end(&mut self, task: &Task) {
        self.news.push(News::End(task.attempt));
    }

    /// Sends the news if the oldest may have waited long enough.
    pub(crate) fn flush_if_due(&mut self) {
        if self.flushed.elapsed() >= FLUSH {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = Instant::now();
        if !self.news.is_empty() {
            let news = std::mem::take(&mut self.news);
            // Nobody listens any more only when the worker has ended.
            let _ = self.inbox.send(Event::Slot { slot: self.slot, news });
        }
    }
}
