//! A walk through a file of outputs: batch by batch, as far as they are of its job and in the journal's order. Anything
//! else that lies between is damage, be it a batch of another job.

use std::io;

use starfarm_protocol::outputs::{Batch, Owner};
use starfarm_protocol::packed::{Entry, Found};

/// What a walk comes upon.
pub(super) enum Step {
    /// A batch. Its body is not checked.
    Batch(Entry, Batch),
    /// From here on something else stands, up to the batch that follows.
    Damage(u64),
    /// From here on there is none.
    Tail(u64),
}

pub(super) struct Walk<S> {
    scan: S,
    owner: Owner,
    /// Sequence of the last batch.
    last: u64,
    damage: Option<u64>,
    /// A batch behind damage that was told.
    ready: Option<(Entry, Batch)>,
}

impl<S: Iterator<Item = io::Result<Found>>> Walk<S> {
    /// Through the entries of `scan`, which begins behind the batch of record `last`.
    pub(super) fn new(scan: S, owner: Owner, last: u64) -> Self {
        Self { scan, owner, last, damage: None, ready: None }
    }
}

impl<S: Iterator<Item = io::Result<Found>>> Iterator for Walk<S> {
    type Item = io::Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((entry, batch)) = self.ready.take() {
            return Some(Ok(Step::Batch(entry, batch)));
        }
        loop {
            let found = match self.scan.next() {
                Some(Ok(found)) => found,
                Some(Err(error)) => return Some(Err(error)),
                None => return self.damage.take().map(|from| Ok(Step::Tail(from))),
            };
            let damaged_at = match found {
                Found::Tail(from) => return Some(Ok(Step::Tail(self.damage.take().unwrap_or(from)))),
                Found::Damage(from, _) => from,
                Found::Entry(entry) => match self.owner.batch(&entry.label) {
                    Some(batch) if batch.sequence > self.last => {
                        self.last = batch.sequence;
                        let Some(from) = self.damage.take() else {
                            return Some(Ok(Step::Batch(entry, batch)));
                        };
                        self.ready = Some((entry, batch));
                        return Some(Ok(Step::Damage(from)));
                    }
                    _ => entry.at,
                },
            };
            self.damage.get_or_insert(damaged_at);
        }
    }
}
