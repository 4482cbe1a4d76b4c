//! What nodes held at a moment, by what the log tells later: a result says when its task was given out, and the next
//! snapshot lists what is still at nodes. No event tells of each task that is given out, so this is how it is known.
//! Of a task that an earlier scheduler gave out nobody says when; its node had it when it began at the latest.

use starfarm_events::{Event, Held};

use crate::Item;

/// More than this is not listed; a page of it would be read by nobody.
const HELD_MAX: usize = 100_000;

/// Something that a node held.
#[derive(Clone, PartialEq, Debug)]
struct Found {
    held: Held,
    /// It is known from a result: parts of a task come back one by one, and tasks that were given out together may
    /// come back as one. So it stands for one task at least.
    by_result: bool,
}

/// Looks behind a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Ahead {
    /// All that can be known is: nothing more can come to light.
    pub(super) done: bool,
    found: Vec<Found>,
}

impl Ahead {
    /// Takes the next item behind the moment `end_us`.
    pub(super) fn feed(&mut self, item: &Item, end_us: u64) {
        if self.done {
            return;
        }
        match item {
            Item::Event(_, Event::Tasks { node, job, lo, hi, given_us, begun_us, .. })
                if given_us.unwrap_or(*begun_us) <= end_us =>
            {
                let (node, since_us) = (Some(node.clone()), given_us.unwrap_or(*begun_us));
                let held = Held { node, job: *job, lo: *lo, hi: *hi, tasks: 1, since_us, offered: 0 };
                self.add(Found { held, by_result: true });
            }
            Item::Snapshot(_, snapshot) => {
                snapshot
                    .held
                    .iter()
                    .filter(|held| held.since_us <= end_us)
                    .for_each(|held| self.add(Found { held: held.clone(), by_result: false }));
                self.done = true;
            }
            Item::Opened(opening) => {
                // Another scheduler's snapshot counts from its own start.
                self.done = opening.segment == 1;
            }
            _ => {}
        }
    }

    fn add(&mut self, found: Found) {
        if self.found.len() < HELD_MAX {
            self.found.push(found);
        }
    }

    /// All that was held: what was known at the moment, and what came to light behind it. Neighbours are one; those
    /// known from results that were given out at one moment are taken for parts of one task.
    pub(super) fn join(&mut self, known: Vec<Held>) -> Vec<Held> {
        let known = known.into_iter().map(|held| Found { held, by_result: false });
        let mut all: Vec<Found> = known.chain(std::mem::take(&mut self.found)).collect();
        let order = |found: &Found| (found.held.node.clone(), found.held.job, found.held.lo, found.held.hi);
        all.sort_by_cached_key(order);
        let mut joined: Vec<Held> = Vec::new();
        let (mut last_since_us, mut last_by_result) = (0, false);
        for Found { held, by_result } in all {
            let since_us = held.since_us;
            match joined.last_mut() {
                Some(last) if (&last.node, last.job) == (&held.node, held.job) && held.lo <= last.hi => {
                    // Told twice: as it was given out, and as it came back.
                    let again = held.lo < last.hi;
                    let part = by_result && last_by_result && since_us == last_since_us;
                    last.tasks = match again || part {
                        true => last.tasks.max(held.tasks),
                        false => last.tasks.saturating_add(held.tasks),
                    };
                    last.offered = last.offered.saturating_add(if again { 0 } else { held.offered });
                    last.hi = last.hi.max(held.hi);
                    last.since_us = last.since_us.min(since_us);
                }
                _ => joined.push(held),
            }
            (last_since_us, last_by_result) = (since_us, by_result);
        }
        joined
    }
}
