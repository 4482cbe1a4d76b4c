//! Packing messages into datagrams. A [`Packer`] fills one datagram after another and never makes one
//! that is too long; it owns no socket.

use super::read::kind;
use super::*;
use crate::limits::{PLAIN_BYTES_MAX, RUNNING_MAX};

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
    slots: SlotKind,
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

    /// Writes a whole message.
    pub(super) fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        write(&mut body);
        self.make_room(MESSAGE_HEAD_BYTES + body.len());
        self.group = None;
        self.open.push(kind);
        (body.len() as u16).put(&mut self.open);
        self.open.extend_from_slice(&body);
    }

    /// Opens a grouped message, or goes on with the one that is open.
    fn group(
        &mut self,
        kind: u8,
        job: JobId,
        spec: ContentHash,
        attempt: Option<u64>,
        entry_bytes: usize,
        (needs, slots): (Option<Needs>, SlotKind),
    ) {
        let head = if kind == kind::OFFERS { OFFER_HEAD_BYTES } else { RESULT_HEAD_BYTES };
        if let Some(group) = &mut self.group {
            let joins = group.kind == kind
                && group.job == job
                && group.spec == spec
                && group.slots == slots
                && attempt.is_none_or(|a| a == group.next_attempt);
            if joins && self.open.len() + entry_bytes <= PLAIN_BYTES_MAX {
                group.next_attempt += 1;
                let length = self.open.len() + entry_bytes - group.at - MESSAGE_HEAD_BYTES;
                self.open[group.at + 1..group.at + 3].copy_from_slice(&(length as u16).to_le_bytes());
                return;
            }
        }
        let needs_bytes = if needs.is_some() { MESSAGE_HEAD_BYTES + NEEDS_BYTES_MAX } else { 0 };
        self.make_room(needs_bytes + SLOT_KIND_BYTES + MESSAGE_HEAD_BYTES + head + entry_bytes);
        if let Some(needs) = needs {
            self.message(kind::NEEDS, |out| needs.put(out));
        }
        self.slot_kind(slots);
        let at = self.open.len();
        self.open.push(kind);
        ((head + entry_bytes) as u16).put(&mut self.open);
        (job, spec).put(&mut self.open);
        if let Some(attempt) = attempt {
            attempt.put(&mut self.open);
        }
        let next_attempt = attempt.unwrap_or(0).wrapping_add(1);
        self.group = Some(Group { at, kind, job, spec, next_attempt, slots });
    }

    /// Packs an offer; offers of one job with consecutive attempts share a head.
    pub fn offer(&mut self, offer: &Offer) {
        self.offer_of(offer, Resources::ONE_SLOT, SlotKind::CORES);
    }

    /// As [`Packer::offer`], of a job whose runs take `run`, for slots of kind `slots`: that stands before each head.
    pub fn offer_of(&mut self, offer: &Offer, run: Resources, slots: SlotKind) {
        let needs = (run != Resources::ONE_SLOT).then_some(Needs { job: offer.job, run });
        let attempt = Some(offer.attempt.0);
        self.group(kind::OFFERS, offer.job, offer.spec, attempt, OFFER_ENTRY_BYTES, (needs, slots));
        (offer.lo, offer.units).put(&mut self.open);
    }

    /// Packs a result; results of one job share a head.
    ///
    /// # Panics
    /// Where the body is longer than [`crate::limits::RESULT_BODY_BYTES_MAX`].
    pub fn result(&mut self, result: &ResultEntry<'_>) {
        assert!(result.body.len() <= crate::limits::RESULT_BODY_BYTES_MAX, "bodies are cut before packing");
        let entry_bytes = RESULT_ENTRY_BYTES + result.body.len();
        self.group(kind::RESULTS, result.job, result.spec, None, entry_bytes, (None, SlotKind::CORES));
        let out = &mut self.open;
        (result.sequence, result.attempt).put(out);
        (result.lo, result.units).put(out);
        (result.duration_us, result.outcome).put(out);
        (result.body.len() as u16).put(out);
        out.extend_from_slice(result.body);
    }

    /// Packs a task ack: inclusive ranges of attempts.
    pub fn task_ack(&mut self, ranges: &[(u64, u64)]) {
        for ranges in ranges.chunks(64) {
            self.message(kind::TASK_ACK, |out| ranges.iter().for_each(|range| range.put(out)));
        }
    }

    /// Packs a result ack: inclusive ranges of result sequences, and the credit.
    pub fn result_ack(&mut self, credit: u16, ranges: &[(u64, u64)]) {
        for ranges in ranges.chunks(64) {
            self.message(kind::RESULT_ACK, |out| {
                credit.put(out);
                ranges.iter().for_each(|range| range.put(out));
            });
        }
    }

    /// What is packed next is of slots of that kind.
    fn slot_kind(&mut self, slots: SlotKind) {
        if slots.is_device() {
            self.message(kind::SLOT_KIND, |out| slots.put(out));
        }
    }

    /// Packs a heartbeat in as many parts as it takes; `part` and `parts` of the argument are ignored.
    pub fn heartbeat(&mut self, beat: &Heartbeat) {
        self.heartbeat_of(beat, &[]);
    }

    /// As [`Packer::heartbeat`], of a worker whose devices hold these, each kind in parts of its own.
    pub fn heartbeat_of(&mut self, beat: &Heartbeat, by_devices: &[(SlotKind, Vec<Held>)]) {
        let head = 4 + 2 + 2 + 4 + 1 + 1 + beat.running.len().min(RUNNING_MAX) * RUNNING_BYTES;
        let per_part = (PLAIN_BYTES_MAX - SLOT_KIND_BYTES - MESSAGE_HEAD_BYTES - head) / HELD_BYTES;
        let chunks = |(slots, held)| -> Vec<(SlotKind, &[Held])> {
            <[Held]>::chunks(held, per_part).map(|held| (slots, held)).collect()
        };
        let all = by_devices.iter().map(|(slots, held)| (*slots, held.as_slice()));
        let mut lists: Vec<_> =
            [(SlotKind::CORES, beat.held.as_slice())].into_iter().chain(all).flat_map(chunks).collect();
        if lists.is_empty() {
            lists.push((SlotKind::CORES, &[]));
        }
        let parts = lists.len() as u16;
        for (part, (slots, held)) in (0..).zip(lists) {
            let part = Heartbeat { part, parts, running: beat.running.clone(), held: held.to_vec(), ..*beat };
            self.make_room(SLOT_KIND_BYTES + MESSAGE_HEAD_BYTES + head + held.len() * HELD_BYTES);
            self.slot_kind(slots);
            self.message(kind::HEARTBEAT, |out| part.put(out));
        }
    }

    /// Packs how often the worker became able to run what it had refused.
    pub fn able(&mut self, times: u32) {
        self.message(kind::ABLE, |out| times.put(out));
    }

    /// Packs the ages of results, which must follow in the same datagram: from which sequence on, ascending,
    /// and how old in microseconds.
    pub fn ages(&mut self, ages: &[(u64, u64)]) {
        self.message(kind::AGES, |out| ages.iter().for_each(|age| age.put(out)));
    }

    /// Packs a goodbye.
    pub fn bye(&mut self) {
        self.message(kind::BYE, |_| {});
    }
}

/// Messages that are nothing but their fields.
macro_rules! plain {
    ($($name:ident($message:ty): $kind:ident;)*) => {
        impl Packer {$(
            #[doc = concat!("Packs a [`", stringify!($message), "`].")]
            pub fn $name(&mut self, message: &$message) {
                self.message(kind::$kind, |out| message.put(out));
            }
        )*}
    };
}

plain! {
    hello(Hello): HELLO;
    feedback(Feedback): FEEDBACK;
    facts(Facts): FACTS;
    load(Load): LOAD;
    time_left(TimeLeft): TIME_LEFT;
    welcome(Welcome): WELCOME;
    heartbeat_answer(HeartbeatAnswer): HEARTBEAT_ANSWER;
    has(Resources): HAS;
    devices(Devices): DEVICES;
    card(Card): CARD;
    revoke(Revoke): REVOKE;
    pace(Pace): PACE;
    doorbell(Doorbell): DOORBELL;
}
