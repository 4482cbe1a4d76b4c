//! Results from the moment a slot reports them until the scheduler acknowledges them: numbering, packing
//! many into a datagram, credit, repetition. What a result means is none of its business.

use std::collections::VecDeque;

use starfarm_protocol::limits::{PLAIN_BYTES_MAX, RESULT_BODY_BYTES_MAX};
use starfarm_protocol::rto::Rto;
use starfarm_protocol::wire::{
    AGE_BYTES, MESSAGE_HEAD_BYTES, Packer, RESULT_ENTRY_BYTES, RESULT_HEAD_BYTES, ResultEntry,
};

use crate::types::Part;

/// A result waits this long for company, counted from the last flush. So a lone result leaves at once, and
/// a stream of them fills its datagrams.
pub(crate) const FLUSH_US: u64 = 2_000;
/// A result that was over no longer ago than this passes as fresh.
const FRESH_US: u64 = 50_000;
/// Behind one that does not, ages are as exact as this: what was computed while the scheduler was away comes all at
/// once, and a slot is seen to compute one thing at a time.
const LATE_US: u64 = 5_000;
/// Wait for the first acknowledgement, before any round trip was measured: RFC 6298, section 2.1. A result
/// is acknowledged only once it is durable.
const INITIAL_WAIT_US: u64 = 1_000_000;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Kept {
    pub(crate) part: Part,
    /// When it was over; none for one of an earlier incarnation, whose clock is gone.
    pub(crate) ended_us: Option<u64>,
}

impl Kept {
    fn bytes(&self) -> usize {
        RESULT_ENTRY_BYTES + self.part.body.len()
    }

    fn pack(&self, sequence: u64, packer: &mut Packer) {
        let Part { job, spec, attempt, lo, units, duration_us, outcome, ref body } = self.part;
        packer.result(&ResultEntry { job, spec, sequence, attempt, lo, units, duration_us, outcome, body });
    }
}

/// The ages that the results of one datagram need, so that none is taken for more than `FRESH_US` younger or
/// older than it is, nor a late one for more than `late_us`. A datagram of fresh results needs none.
struct Ages {
    now_us: u64,
    late_us: u64,
    /// What the next result is taken for.
    said_us: u64,
    /// From which sequence on, and how old.
    entries: Vec<(u64, u64)>,
}

impl Ages {
    fn new(now_us: u64, late_us: u64) -> Self {
        Self { now_us, late_us, said_us: 0, entries: Vec::new() }
    }

    /// The next result; returns the bytes that it takes here.
    fn see(&mut self, sequence: u64, result: &Kept) -> usize {
        let age_us = result.ended_us.map_or(0, |ended_us| self.now_us.saturating_sub(ended_us));
        let most_us = if self.entries.is_empty() { FRESH_US } else { self.late_us };
        if age_us.abs_diff(self.said_us) <= most_us {
            return 0;
        }
        self.said_us = age_us;
        self.entries.push((sequence, age_us));
        AGE_BYTES
    }
}

/// One result datagram that is not wholly acknowledged.
#[derive(Clone, Copy, Debug)]
struct Flight {
    first: u64,
    last: u64,
    unacknowledged: u32,
    sent_us: u64,
    repeats: u32,
    /// Part of it was sent before, in another session: its round trip tells nothing (Karn).
    stale: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// By sequence from `base`; `None` where acknowledged. The first is never `None`.
    kept: VecDeque<Option<Kept>>,
    base: u64,
    /// First sequence that no flight carries.
    unsent: u64,
    /// Bytes of the entries from `unsent` on.
    unsent_bytes: usize,
    /// Sequences below were sent at least once.
    sent_below: u64,
    flights: VecDeque<Flight>,
    credit: usize,
    rto: Rto,
    /// When the latest of those flights left that have landed: one that left before it and has not landed
    /// was overtaken.
    landed_sent_us: u64,
    /// No flight is due before this.
    resend_at: u64,
    /// When what waits may leave.
    flush_at: u64,
    live: usize,
    pub(crate) resent: u64,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            kept: VecDeque::new(),
            base: 1,
            unsent: 1,
            unsent_bytes: 0,
            sent_below: 1,
            flights: VecDeque::new(),
            credit: 0,
            rto: Rto::new(INITIAL_WAIT_US),
            landed_sent_us: 0,
            resend_at: u64::MAX,
            flush_at: 0,
            live: 0,
            resent: 0,
        }
    }

    /// Keeps a result under the next sequence.
    pub(crate) fn push(&mut self, result: Kept) {
        assert!(result.part.body.len() <= RESULT_BODY_BYTES_MAX, "a longer one fits no datagram");
        assert!(result.part.units > 0, "a result is of units");
        self.unsent_bytes += result.bytes();
        self.live += 1;
        self.kept.push_back(Some(result));
        self.check();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().flatten()
    }

    /// Datagrams that may be unacknowledged at one time, as the scheduler says.
    pub(crate) fn set_credit(&mut self, datagrams: u16) {
        self.credit = usize::from(datagrams);
    }

    /// In a new session everything is sent anew, within the new credit.
    pub(crate) fn rewind(&mut self) {
        self.flights.clear();
        self.resend_at = u64::MAX;
        self.flush_at = 0;
        self.unsent = self.base;
        self.unsent_bytes = self.iter().map(Kept::bytes).sum();
        self.check();
    }

    /// Drops the results of the sequences `first..=last`; what is not here is ignored.
    pub(crate) fn acknowledge(&mut self, first: u64, last: u64, now_us: u64) {
        let (first, last) = (first.max(self.base), last.min(self.end() - 1));
        let mut at = self.flights.partition_point(|flight| flight.last < first);
        let mut landed = false;
        for sequence in first..=last {
            let Some(result) = self.kept[(sequence - self.base) as usize].take() else { continue };
            self.live -= 1;
            if sequence >= self.unsent {
                self.unsent_bytes -= result.bytes();
                continue;
            }
            while self.flights[at].last < sequence {
                at += 1;
            }
            let flight = &mut self.flights[at];
            flight.unacknowledged -= 1;
            if flight.unacknowledged == 0 {
                landed = true;
                self.landed_sent_us = self.landed_sent_us.max(flight.sent_us);
                if flight.repeats == 0 && !flight.stale {
                    self.rto.sample(now_us.saturating_sub(flight.sent_us));
                }
            }
        }
        if landed {
            self.flights.retain(|flight| flight.unacknowledged > 0);
        }
        while let Some(None) = self.kept.front() {
            self.kept.pop_front();
            self.base += 1;
        }
        self.unsent = self.unsent.max(self.base);
        self.check();
    }

    /// What is kept is on its way, in one flight each, or waits to be sent; and the sums say so.
    fn check(&self) {
        assert_eq!(self.live == 0, self.kept.is_empty(), "the first that is kept is not acknowledged");
        assert!((self.base..=self.end()).contains(&self.unsent), "only what is kept is sent");
        assert!(self.live > 0 || self.flights.is_empty(), "a flight carries what is not acknowledged");
        assert!(self.live > 0 || self.unsent_bytes == 0, "an empty outbox sends nothing");
        debug_assert!(self.flights.iter().is_sorted_by(|a, b| a.last < b.first), "no result flies twice");
        debug_assert!(self.flights.iter().all(|flight| flight.unacknowledged > 0), "a flight has landed");
        debug_assert!(self.flights.back().is_none_or(|flight| flight.last < self.unsent), "flights are sent");
        let waits = || self.kept.range((self.unsent - self.base) as usize..).flatten();
        debug_assert_eq!(waits().map(Kept::bytes).sum::<usize>(), self.unsent_bytes, "bytes to be sent");
        let flies: usize = self.flights.iter().map(|flight| flight.unacknowledged as usize).sum();
        debug_assert_eq!(flies + waits().count(), self.live, "each result flies or waits");
    }

    /// The sequence behind the last one.
    fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    /// When [`Outbox::send`] has something to do.
    pub(crate) fn deadline(&self) -> u64 {
        let fresh = match self.unsent_bytes {
            0 => u64::MAX,
            _ if self.flights.len() >= self.credit => u64::MAX,
            bytes if bytes >= PLAIN_BYTES_MAX => 0,
            _ => self.flush_at,
        };
        fresh.min(if self.flights.is_empty() { u64::MAX } else { self.resend_at })
    }

    /// Packs what is due: new results within the credit, then flights whose time is up. Each flight is a
    /// datagram of its own.
    pub(crate) fn send(&mut self, now_us: u64, packer: &mut Packer) {
        let all = now_us >= self.flush_at;
        while self.flights.len() < self.credit
            && self.unsent_bytes > 0
            && (all || self.unsent_bytes >= PLAIN_BYTES_MAX)
        {
            self.launch(now_us, packer);
            assert!(packer.datagrams() > 0, "a flight is a datagram");
        }
        if now_us >= self.resend_at {
            self.resend(now_us, packer);
        }
        assert!(self.deadline() > now_us, "all that was due has left");
        self.check();
    }

    /// Fills one datagram with new results. It mirrors the packer's arithmetic: whether the next result
    /// still fits must be known before it is packed, or the credit would be overdrawn.
    fn launch(&mut self, now_us: u64, packer: &mut Packer) {
        let mut flight = Flight {
            first: self.unsent,
            last: self.unsent,
            unacknowledged: 0,
            sent_us: now_us,
            repeats: 0,
            stale: self.unsent < self.sent_below,
        };
        let (mut used, mut group, mut ages) = (0, None, Ages::new(now_us, LATE_US));
        let from = (self.unsent - self.base) as usize;
        for (result, sequence) in self.kept.range(from..).zip(self.unsent..) {
            let Some(result) = result else { continue };
            let of = Some((result.part.job, result.part.spec));
            let head = if group == of { 0 } else { HEAD_BYTES };
            used += ages.see(sequence, result) + head + result.bytes();
            if used > NEW_BYTES_MAX {
                break;
            }
            group = of;
            let rest = self.unsent_bytes.checked_sub(result.bytes());
            self.unsent_bytes = rest.expect("each result's bytes were counted when it came");
            flight.unacknowledged += 1;
            flight.last = sequence;
        }
        assert!(flight.unacknowledged > 0, "a datagram has room for any result");
        self.unsent = flight.last + 1;
        self.sent_below = self.sent_below.max(self.unsent);
        self.flush_at = now_us + FLUSH_US;
        self.resend_at = self.resend_at.min(now_us + self.rto.wait_us(0));
        pack(&self.kept, self.base, &flight, (now_us, LATE_US), packer);
        self.flights.push_back(flight);
    }

    /// Repeats the flights whose time is up and that others have overtaken. Where nothing has overtaken them
    /// they may be waiting at a busy scheduler, so the oldest goes alone to ask.
    fn resend(&mut self, now_us: u64, packer: &mut Packer) {
        self.resend_at = u64::MAX;
        let mut asked = false;
        for flight in &mut self.flights {
            let wait_us = self.rto.wait_us(flight.repeats);
            if flight.sent_us + wait_us <= now_us {
                if flight.sent_us >= self.landed_sent_us && std::mem::replace(&mut asked, true) {
                    self.resend_at = self.resend_at.min(now_us + wait_us);
                    continue;
                }
                // Its results have all grown old together: with exact ages it might need two datagrams.
                pack(&self.kept, self.base, flight, (now_us, FRESH_US), packer);
                flight.sent_us = now_us;
                flight.repeats += 1;
                self.resent += 1;
            }
            self.resend_at = self.resend_at.min(flight.sent_us + self.rto.wait_us(flight.repeats));
        }
    }
}

/// Packs what is left of a flight into a datagram of its own, behind the ages that it needs now.
fn pack(
    kept: &VecDeque<Option<Kept>>,
    base: u64,
    flight: &Flight,
    (now_us, late_us): (u64, u64),
    packer: &mut Packer,
) {
    let sequences = flight.first.max(base)..=flight.last;
    let left = sequences.filter_map(|sequence| Some((sequence, kept[(sequence - base) as usize].as_ref()?)));
    let mut ages = Ages::new(now_us, late_us);
    for (sequence, result) in left.clone() {
        ages.see(sequence, result);
    }
    packer.next_datagram();
    if !ages.entries.is_empty() {
        packer.ages(&ages.entries);
    }
    left.for_each(|(sequence, result)| result.pack(sequence, packer));
}

/// What the first result of a job costs beside itself.
const HEAD_BYTES: usize = MESSAGE_HEAD_BYTES + RESULT_HEAD_BYTES;
/// Bytes of a new datagram. The rest is for its repeats: all of its results that are fresh now, of one age to
/// within `FRESH_US`, will need an age then.
const NEW_BYTES_MAX: usize = PLAIN_BYTES_MAX - MESSAGE_HEAD_BYTES - AGE_BYTES;
const _: () = assert!(
    HEAD_BYTES + RESULT_ENTRY_BYTES + RESULT_BODY_BYTES_MAX + AGE_BYTES <= NEW_BYTES_MAX,
    "the longest result fits, however old it is"
);
const _: () = assert!(2 * LATE_US <= FRESH_US, "a repeat needs no more ages than its first sending, and one");

#[cfg(test)]
mod tests;
