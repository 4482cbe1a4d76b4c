//! The last event lines, for screens that look on. What is older is in the log.

use std::collections::VecDeque;

use starfarm_events::{Event, Form};
use starfarm_protocol::admin::{EventLine, Response};

/// Lines kept: some screens full, and at most half a megabyte.
const LINES_MAX: usize = 1_000;
/// Characters of a line: what a worker says of a job may be long.
const TEXT_CHARS_MAX: usize = 400;

#[derive(Default)]
pub(crate) struct Ring {
    lines: VecDeque<EventLine>,
    /// Lines that there ever were.
    number: u64,
}

impl Ring {
    /// Keeps an event's line; the oldest gives way.
    pub(crate) fn push(&mut self, at_us: u64, event: &Event, text: &str) {
        self.keep(EventLine {
            number: 0,
            at_us,
            kind: event.kind().to_owned(),
            text: text.chars().take(TEXT_CHARS_MAX).collect(),
            node: event.node().map(|name| name.to_string()),
            job: event.job(),
        });
    }

    /// Keeps a line, which gets the next number.
    pub(crate) fn keep(&mut self, line: EventLine) {
        self.number += 1;
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(EventLine { number: self.number, ..line });
    }

    /// A line that has a number and is not kept: who asks is told that it is missing.
    pub(crate) fn leave_out(&mut self) {
        self.number += 1;
    }

    /// The newest `take` lines behind `after`, and how many behind it are not among them.
    pub(crate) fn page(&self, after: u64, take: u64) -> Response {
        let wanted = self.number.saturating_sub(after);
        let first = self.lines.partition_point(|line| line.number <= after);
        let here = take.min((self.lines.len() - first) as u64);
        let events = self.lines.range(self.lines.len() - here as usize..).cloned().collect();
        Response::Events { events, missed: wanted - here }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::JobId;

    use super::*;

    fn ring(lines: u64) -> Ring {
        let mut ring = Ring::default();
        for at_us in 1..=lines {
            let event = Event::NodeRefused { node: "n1".into(), job: JobId(at_us), why: "no".into() };
            ring.push(at_us, &event, &event.to_string());
        }
        ring
    }

    #[track_caller]
    fn page(ring: &Ring, after: u64, take: u64) -> (Vec<u64>, u64) {
        let Response::Events { events, missed } = ring.page(after, take) else { panic!("events") };
        (events.iter().map(|line| line.number).collect(), missed)
    }

    #[test]
    fn the_newest_lines_behind_a_number() {
        let ring = ring(5);
        assert_eq!(page(&ring, 0, 10), (vec![1, 2, 3, 4, 5], 0));
        assert_eq!(page(&ring, 3, 10), (vec![4, 5], 0));
        assert_eq!(page(&ring, 1, 2), (vec![4, 5], 2));
        assert_eq!(page(&ring, 5, 10), (vec![], 0));
        // A caller who saw an earlier scheduler, or makes it up.
        assert_eq!(page(&ring, 77, 10), (vec![], 0));
        assert_eq!(page(&ring, u64::MAX, u64::MAX), (vec![], 0));
        assert_eq!(page(&Ring::default(), 0, u64::MAX), (vec![], 0));
    }

    #[test]
    fn old_lines_give_way_and_are_told_as_missed() {
        let ring = ring(LINES_MAX as u64 + 7);
        let (numbers, missed) = page(&ring, 2, u64::MAX);
        assert_eq!((numbers.len(), numbers[0], missed), (LINES_MAX, 8, 5));
    }

    #[test]
    fn a_line_says_what_it_is_about() {
        let mut ring = ring(0);
        let event = Event::NodeRefused { node: "n1".into(), job: JobId(3), why: "x".repeat(10_000) };
        ring.push(9, &event, &event.to_string());
        let line = &ring.lines[0];
        assert_eq!((line.at_us, line.kind.as_str(), line.job), (9, "node_refused", Some(JobId(3))));
        assert_eq!(line.node.as_deref(), Some("n1"));
        assert!(line.text.starts_with("node n1 refused job 3: xxx"), "{}", line.text);
        assert_eq!(line.text.chars().count(), TEXT_CHARS_MAX);
    }
}
