//! What nodes held at a moment, by what the log tells later: a result says when its task was given out, and the next
//! snapshot lists what is still at nodes. No event tells of each task that is given out, so this is how it is known.

use starfarm_events::{Event, Held};

use crate::Item;

/// More than this is not listed; a page of it would be read by nobody.
const HELD_MAX: usize = 100_000;

/// Looks behind a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Ahead {
    /// All that can be known is.
    done: bool,
    found: Vec<Held>,
}

impl Ahead {
    /// Takes the next item behind the moment `end_us`.
    pub(super) fn feed(&mut self, item: &Item, end_us: u64) {
        if self.done {
            return;
        }
        match item {
            Item::Event(_, Event::Tasks { node, job, lo, hi, results, given_us: Some(since_us), .. })
                if *since_us <= end_us =>
            {
                self.add(Held {
                    node: Some(node.clone()),
                    job: *job,
                    lo: *lo,
                    hi: *hi,
                    tasks: *results,
                    since_us: *since_us,
                    offered: 0,
                });
            }
            Item::Snapshot(_, snapshot) => {
                snapshot
                    .held
                    .iter()
                    .filter(|held| held.since_us <= end_us)
                    .for_each(|held| self.add(held.clone()));
                self.done = true;
            }
            Item::Opened(opening) => {
                // Another scheduler's snapshot counts from its own start.
                self.done = opening.segment == 1;
            }
            _ => {}
        }
    }

    fn add(&mut self, held: Held) {
        if self.found.len() < HELD_MAX {
            self.found.push(held);
        }
    }

    /// All that was held: what was known at the moment, and what came to light behind it. Neighbours are one.
    pub(super) fn join(&mut self, known: Vec<Held>) -> Vec<Held> {
        let mut all = known;
        all.append(&mut self.found);
        all.sort_by(|a, b| (&a.node, a.job, a.lo, a.hi).cmp(&(&b.node, b.job, b.lo, b.hi)));
        all.dedup_by(|next, last| {
            let same = next.node == last.node && next.job == last.job;
            if same && next.lo < last.hi {
                // Told twice: as it was given out, and as it came back.
                last.hi = last.hi.max(next.hi);
                last.tasks = last.tasks.max(next.tasks);
                return true;
            }
            if same && next.lo == last.hi {
                last.hi = next.hi;
                last.tasks = last.tasks.saturating_add(next.tasks);
                last.offered = last.offered.saturating_add(next.offered);
                last.since_us = last.since_us.min(next.since_us);
                return true;
            }
            false
        });
        all
    }
}
