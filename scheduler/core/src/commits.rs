//! Records on their way to the disk: their sequence, the done intervals that are gathered for the next one, and what waits
//! until one is durable. What a record changes is in `apply`.

use std::collections::VecDeque;

use starfarm_protocol::ids::{Boot, JobId, NodeId};
use starfarm_protocol::journal::Record;

use crate::deed::{Deed, Deeds};
use crate::queues::Piece;

/// Results that wait for their record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) node: NodeId,
    /// The incarnation that numbered the results.
    pub(crate) boot: Boot,
    /// The first and the last of their numbers there.
    pub(crate) range: (u64, u64),
}

/// Ranges of numbers, first and last, get one more, which as a rule follows on the last one.
pub(crate) fn add_range(ranges: &mut Vec<(u64, u64)>, (from, to): (u64, u64)) {
    assert!(from <= to, "a range has a number");
    match ranges.last_mut() {
        Some((_, last)) if last.checked_add(1) == Some(from) => *last = to,
        _ => ranges.push((from, to)),
    }
}

/// Done intervals of one message of results: one record.
#[derive(Debug)]
struct Gathered {
    job: JobId,
    node: NodeId,
    pieces: Vec<(u128, u128)>,
    hits: Vec<(u128, u32)>,
}

/// Records that were handed on.
#[derive(Debug)]
pub(crate) struct Commits {
    next_sequence: u64,
    /// Records up to this one are durable.
    durable: u64,
    /// Done intervals that are not in a record yet; none between turns.
    gathered: Option<Gathered>,
    /// Leases whose records are not durable: sequence, job, mark.
    leases: VecDeque<(u64, JobId, u128)>,
    /// Results to acknowledge, each with the record that it waits for.
    results: VecDeque<(u64, Unacknowledged)>,
}

impl Commits {
    /// The record of `sequence` and all before it are durable.
    pub(crate) fn after(sequence: u64) -> Self {
        Self {
            next_sequence: sequence + 1,
            durable: sequence,
            gathered: None,
            leases: VecDeque::new(),
            results: VecDeque::new(),
        }
    }

    /// Sequence of the last record; everything is durable once this is.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    /// Hands a record on, behind what was gathered; its sequence comes back.
    pub(crate) fn push(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        self.flush(deeds);
        self.hand_on(record, deeds)
    }

    fn hand_on(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        let sequence = self.next_sequence;
        assert!(sequence > self.durable, "a record is not durable before it is written");
        self.next_sequence += 1;
        deeds.0.push(Deed::Record(sequence, record));
        sequence
    }

    /// Intervals that a result decided and its new hits are on record with those of the results beside it.
    pub(crate) fn gather(
        &mut self,
        job: JobId,
        node: NodeId,
        pieces: &[Piece],
        hits: &[(u128, u32)],
        deeds: &mut Deeds,
    ) {
        if pieces.is_empty() && hits.is_empty() {
            return;
        }
        if self.gathered.as_ref().is_some_and(|gathered| (gathered.job, gathered.node) != (job, node)) {
            self.flush(deeds);
        }
        let empty = || Gathered { job, node, pieces: Vec::new(), hits: Vec::new() };
        let gathered = self.gathered.get_or_insert_with(empty);
        for piece in pieces {
            match gathered.pieces.last_mut() {
                Some((_, hi)) if *hi == piece.at.lo => *hi = piece.at.hi,
                _ => gathered.pieces.push((piece.at.lo, piece.at.hi)),
            }
        }
        gathered.hits.extend_from_slice(hits);
    }

    /// What was gathered becomes a record.
    pub(crate) fn flush(&mut self, deeds: &mut Deeds) {
        if let Some(Gathered { job, node, pieces, hits }) = self.gathered.take() {
            assert!(!(pieces.is_empty() && hits.is_empty()), "a record says something");
            debug_assert!(pieces.iter().all(|(lo, hi)| lo < hi), "and of units");
            self.hand_on(Record::Done { job, node, pieces, hits }, deeds);
        }
    }

    /// Done intervals wait for a record.
    pub(crate) fn is_gathering(&self) -> bool {
        self.gathered.is_some()
    }

    /// Records up to `sequence` are durable.
    pub(crate) fn on_durable(&mut self, sequence: u64) {
        assert!(sequence <= self.last_sequence(), "only what was handed on becomes durable");
        self.durable = self.durable.max(sequence);
    }

    /// Units of `job` up to `mark` may be given out once the record of `sequence` is durable.
    pub(crate) fn lease(&mut self, sequence: u64, job: JobId, mark: u128) {
        assert!(sequence <= self.last_sequence(), "a lease has its record");
        assert!(self.leases.back().is_none_or(|last| last.0 < sequence), "leases are in order");
        self.leases.push_back((sequence, job, mark));
    }

    /// The next lease whose record is durable.
    pub(crate) fn next_lease(&mut self) -> Option<(JobId, u128)> {
        let &(_, job, mark) = self.leases.front().filter(|(sequence, ..)| *sequence <= self.durable)?;
        self.leases.pop_front();
        Some((job, mark))
    }

    /// Results are to be acknowledged once all that they brought about is durable. One that made no record of its own
    /// (a duplicate, say) may be so at once: no later record may ever come.
    pub(crate) fn wait(&mut self, results: impl Iterator<Item = Unacknowledged>) {
        assert!(self.gathered.is_none(), "what the results decided is in a record");
        let last = self.last_sequence();
        assert!(self.results.back().is_none_or(|result| result.0 <= last), "results are in order");
        self.results.extend(results.map(|result| (last, result)));
    }

    /// The next results whose record is durable.
    pub(crate) fn next_results(&mut self) -> Option<Unacknowledged> {
        let &(_, results) = self.results.front().filter(|(sequence, _)| *sequence <= self.durable)?;
        self.results.pop_front();
        Some(results)
    }
}
