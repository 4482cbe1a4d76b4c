//! Packing messages into datagrams. A [`Packer`] fills one datagram after another and never makes one
//! that is too long; it owns no socket.

use super::*;
use crate::limits::PLAIN_BYTES_MAX;

/// Packs messages for one peer into datagrams.
#[derive(Default, Debug)]
pub struct Packer {
    full: Vec<Vec<u8>>,
    open: Vec<u8>,
    /// Where the open message's head begins, and what it groups by, if more entries may join it.
    group: Option<Group>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    at: usize,
    kind: u8,
    job: JobId,
    spec: ContentHash,
    next_attempt: u64,
}

impl Packer {
    /// An empty packer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing has been packed.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    /// Datagrams begun so far. What is packed next lies in this one, or begins the following one.
    pub fn datagrams(&self) -> usize {
        self.full.len() + usize::from(!self.open.is_empty())
    }

    /// What is packed next begins a datagram of its own.
    pub fn next_datagram(&mut self) {
        self.close_datagram();
    }

    /// Takes the datagrams; the packer is empty again.
    pub fn finish(&mut self) -> Vec<Vec<u8>> {
        self.close_datagram();
        std::mem::take(&mut self.full)
    }

    fn close_datagram(&mut self) {
        self.group = None;
        if !self.open.is_empty() {
            self.full.push(std::mem::take(&mut self.open));
        }
    }

    /// Room for `bytes` more in the open datagram, or a new one.
    fn make_room(&mut self, bytes: usize) {
        assert!(bytes <= PLAIN_BYTES_MAX, "one message always fits into one datagram");
        if self.open.len() + bytes > PLAIN_BYTES_MAX {
            self.close_datagram();
        }
        if self.open.capacity() == 0 {
            self.open.reserve_exact(PLAIN_BYTES_MAX);
        }
    }

    /// Writes a whole message of a known length.
    pub(super) fn message(&mut self, kind: u8, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.make_room(MESSAGE_HEAD_BYTES + bytes);
        self.group = None;
        self.open.push(kind);
        self.open.extend_from_slice(&(bytes as u16).to_le_bytes());
        let start = self.open.len();
        write(&mut self.open);
        debug_assert_eq!(self.open.len() - start, bytes, "message {kind} says its length");
    }

    /// Opens a grouped message, or goes on with the one that is open.
    fn group(&mut self, kind: u8, job: JobId, spec: ContentHash, attempt: Option<u64>, entry_bytes: usize) {
        let head = if kind == kind::OFFERS { OFFER_HEAD_BYTES } else { RESULT_HEAD_BYTES };
        if let Some(group) = &mut self.group {
            let joins = group.kind == kind
                && group.job == job
                && group.spec == spec
                && attempt.is_none_or(|a| a == group.next_attempt);
            if joins && self.open.len() + entry_bytes <= PLAIN_BYTES_MAX {
                group.next_attempt += 1;
                let length = self.open.len() + entry_bytes - group.at - MESSAGE_HEAD_BYTES;
                self.open[group.at + 1..group.at + 3].copy_from_slice(&(length as u16).to_le_bytes());
                return;
            }
        }
        self.make_room(MESSAGE_HEAD_BYTES + head + entry_bytes);
        let at = self.open.len();
        self.open.push(kind);
        self.open.extend_from_slice(&((head + entry_bytes) as u16).to_le_bytes());
        self.open.extend_from_slice(&job.0.to_le_bytes());
        self.open.extend_from_slice(&spec.0);
        if let Some(attempt) = attempt {
            self.open.extend_from_slice(&attempt.to_le_bytes());
        }
        self.group = Some(Group { at, kind, job, spec, next_attempt: attempt.unwrap_or(0).wrapping_add(1) });
    }

    /// Packs an offer; offers of one job with consecutive attempts share a head.
    pub fn offer(&mut self, offer: &Offer) {
        self.group(kind::OFFERS, offer.job, offer.spec, Some(offer.attempt.0), OFFER_ENTRY_BYTES);
        self.open.extend_from_slice(&offer.lo.to_le_bytes());
        self.open.extend_from_slice(&offer.units.to_le_bytes());
    }

    /// Packs a result; results of one job share a head.
    ///
    /// # Panics
    /// Where the body is longer than [`crate::limits::RESULT_BODY_BYTES_MAX`].
    pub fn result(&mut self, result: &ResultEntry<'_>) {
        assert!(result.body.len() <= crate::limits::RESULT_BODY_BYTES_MAX, "bodies are cut before packing");
        self.group(kind::RESULTS, result.job, result.spec, None, RESULT_ENTRY_BYTES + result.body.len());
        let out = &mut self.open;
        out.extend_from_slice(&result.sequence.to_le_bytes());
        out.extend_from_slice(&result.attempt.0.to_le_bytes());
        out.extend_from_slice(&result.lo.to_le_bytes());
        out.extend_from_slice(&result.units.to_le_bytes());
        out.extend_from_slice(&result.duration_us.to_le_bytes());
        out.push(result.outcome as u8);
        out.extend_from_slice(&(result.body.len() as u16).to_le_bytes());
        out.extend_from_slice(result.body);
    }

    /// Packs a hello.
    pub fn hello(&mut self, hello: &Hello) {
        let died = &hello.died_running[..hello.died_running.len().min(32)];
        self.message(kind::HELLO, 2 + 8 + 2 + 4 + 2 + 8 + 16 + 1 + died.len() * 24, |out| {
            out.extend_from_slice(&hello.version.to_le_bytes());
            out.extend_from_slice(&hello.boot.0.to_le_bytes());
            out.extend_from_slice(&hello.slots.to_le_bytes());
            out.extend_from_slice(&hello.queue_tasks_max.to_le_bytes());
            out.extend_from_slice(&hello.receive_datagrams_max.to_le_bytes());
            out.extend_from_slice(&hello.known_epoch.0.to_le_bytes());
            out.extend_from_slice(&hello.known_proof);
            put_units(out, died);
        });
    }

    /// Packs the pace that goes with a welcome.
    pub fn pace(&mut self, pace: &Pace) {
        self.message(kind::PACE, 4 + 4 + 4, |out| {
            for ms in [pace.idle_ms, pace.reconnect_ms, pace.period_ms] {
                out.extend_from_slice(&ms.to_le_bytes());
            }
        });
    }

    /// Packs a welcome.
    pub fn welcome(&mut self, welcome: &Welcome) {
        self.message(kind::WELCOME, 16 + 8 + 4 + 2 + 2 + 16, |out| {
            out.extend_from_slice(&welcome.farm.0);
            out.extend_from_slice(&welcome.epoch.0.to_le_bytes());
            out.extend_from_slice(&welcome.heartbeat_ms.to_le_bytes());
            out.extend_from_slice(&welcome.credit.to_le_bytes());
            out.extend_from_slice(&welcome.version.to_le_bytes());
            out.extend_from_slice(&welcome.proof);
        });
    }

    /// Packs a task ack: inclusive ranges of attempts.
    pub fn task_ack(&mut self, ranges: &[(u64, u64)]) {
        for ranges in ranges.chunks(64) {
            self.message(kind::TASK_ACK, ranges.len() * 16, |out| put_ranges(out, ranges));
        }
    }

    /// Packs a result ack: inclusive ranges of result sequences, and the credit.
    pub fn result_ack(&mut self, credit: u16, ranges: &[(u64, u64)]) {
        for ranges in ranges.chunks(64) {
            self.message(kind::RESULT_ACK, 2 + ranges.len() * 16, |out| {
                out.extend_from_slice(&credit.to_le_bytes());
                put_ranges(out, ranges);
            });
        }
    }

    /// Packs a feedback.
    pub fn feedback(&mut self, feedback: &Feedback) {
        self.message(kind::FEEDBACK, 8, |out| {
            out.extend_from_slice(&feedback.speed_ups.to_le_bytes());
            out.extend_from_slice(&feedback.slow_downs.to_le_bytes());
        });
    }

    /// Packs a heartbeat in as many parts as it takes; `part` and `parts` of the argument are ignored.
    pub fn heartbeat(&mut self, beat: &Heartbeat) {
        let running = &beat.running[..beat.running.len().min(32)];
        let head = 4 + 2 + 2 + 4 + 1 + 1 + running.len() * 24;
        let per_part = (PLAIN_BYTES_MAX - MESSAGE_HEAD_BYTES - head) / HELD_BYTES;
        let parts = beat.held.len().div_ceil(per_part).max(1);
        for part in 0..parts {
            let held = beat.held.chunks(per_part).nth(part).unwrap_or(&[]);
            self.message(kind::HEARTBEAT, head + held.len() * HELD_BYTES, |out| {
                out.extend_from_slice(&beat.number.to_le_bytes());
                out.extend_from_slice(&(part as u16).to_le_bytes());
                out.extend_from_slice(&(parts as u16).to_le_bytes());
                out.extend_from_slice(&beat.queued_tasks.to_le_bytes());
                out.push(u8::from(beat.draining));
                put_units(out, running);
                for held in held {
                    out.extend_from_slice(&held.job.0.to_le_bytes());
                    out.extend_from_slice(&held.lo.to_le_bytes());
                    out.extend_from_slice(&held.units.to_le_bytes());
                }
            });
        }
    }

    /// Packs a heartbeat answer.
    pub fn heartbeat_answer(&mut self, answer: &HeartbeatAnswer) {
        self.message(kind::HEARTBEAT_ANSWER, 4 + 2 + 8, |out| {
            out.extend_from_slice(&answer.number.to_le_bytes());
            out.extend_from_slice(&answer.credit.to_le_bytes());
            out.extend_from_slice(&answer.epoch.0.to_le_bytes());
        });
    }

    /// Packs a revocation.
    pub fn revoke(&mut self, revoke: &Revoke) {
        self.message(kind::REVOKE, 8 + 1 + 8, |out| {
            out.extend_from_slice(&revoke.job.0.to_le_bytes());
            out.push(revoke.cancel as u8);
            out.extend_from_slice(&revoke.before.0.to_le_bytes());
        });
    }

    /// Packs a goodbye.
    pub fn bye(&mut self) {
        self.message(kind::BYE, 0, |_| {});
    }
}

fn put_units(out: &mut Vec<u8>, units: &[(JobId, u128)]) {
    out.push(units.len() as u8);
    for (job, unit) in units {
        out.extend_from_slice(&job.0.to_le_bytes());
        out.extend_from_slice(&unit.to_le_bytes());
    }
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[(u64, u64)]) {
    for (first, last) in ranges {
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&last.to_le_bytes());
    }
}
