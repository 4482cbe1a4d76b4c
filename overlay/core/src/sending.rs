//! What a post says to its parent: values are kept until the parent has said that they came, so that a parent that is lost
//! takes none with it. What waits for longer than ten seconds, or has no room, is dropped and counted: of figures the oldest, for a
//! newer one says more; of what programs tell one by one the newest, so that what is told is told in order.

use std::collections::VecDeque;

use starfarm_protocol::link::{Attach, Data, Message, Stream};
use starfarm_protocol::orders::PostId;
use starfarm_protocol::seal::stream::RECORD_PLAIN_MAX;

/// Values that wait for longer are of no use to anybody.
const KEEP_US: u64 = 10_000_000;
/// Bytes that are kept at most, and beside them of [`Stream::Trace`]: four seconds of a node that tells as much as it may.
const ROOM: usize = 1 << 20;
const TRACE_ROOM: usize = 4 << 20;
/// Messages that are on their way on a link at most, before the parent has said that any came.
const AHEAD_MAX: usize = 4_096;

/// Messages of data, in the order in which they were made.
#[derive(Default, Debug)]
pub struct Sending {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// Those of [`Stream::Trace`], which are not among `bytes`.
    trace_bytes: usize,
    /// So many of those that are kept, from the front, the link has been given.
    on_link: usize,
    /// Messages that the parent has said to have come by this link.
    heard: u64,
    /// What time it is, as far as it was told.
    now_us: u64,
    made: [u32; Stream::ALL.len()],
    sent: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Kept {
    stream: Stream,
    sequence: u32,
    /// Since when it is kept. What it says may be older: a wave that nobody completed.
    since_us: u64,
    record: Vec<u8>,
}

impl Sending {
    /// Values for the parent, whoever that is by the time they leave.
    pub fn put(&mut self, origin: PostId, stream: Stream, at_us: u64, triples: &[u8]) {
        let sequence = self.made[stream as usize - 1];
        self.make(stream, 1);
        let mut record = Vec::new();
        Message::Data(Data { stream, origin, sequence, at_us, triples }).write(&mut record);
        let has_no_room = stream == Stream::Trace && self.trace_bytes + record.len() > TRACE_ROOM;
        // One that no link takes would end each.
        if record.len() > RECORD_PLAIN_MAX || has_no_room {
            self.dropped += 1;
            return;
        }
        *self.bytes_of(stream) += record.len();
        let since_us = at_us.max(self.now_us);
        self.kept.push_back(Kept { stream, sequence, since_us, record });
        while self.bytes > ROOM && self.kept.len() > 1 {
            self.drop_first();
        }
    }

    /// So many messages for the parent were dropped before they came here.
    pub fn lose(&mut self, stream: Stream, messages: u32) {
        self.make(stream, messages);
        self.dropped += u64::from(messages);
    }

    fn make(&mut self, stream: Stream, messages: u32) {
        let made = &mut self.made[stream as usize - 1];
        *made = made.wrapping_add(messages);
        self.sent += u64::from(messages);
    }

    fn bytes_of(&mut self, stream: Stream) -> &mut usize {
        if stream == Stream::Trace { &mut self.trace_bytes } else { &mut self.bytes }
    }

    /// Drops what was kept for too long.
    pub fn tidy(&mut self, now_us: u64) {
        self.now_us = now_us;
        while self.kept.front().is_some_and(|kept| kept.since_us.saturating_add(KEEP_US) < now_us) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let kept = self.kept.pop_front().expect("whoever drops one has looked that there is one");
        *self.bytes_of(kept.stream) -= kept.record.len();
        self.dropped += 1;
        if self.on_link > 0 {
            // It has left, and nobody says that it came.
            (self.on_link, self.heard) = (self.on_link - 1, self.heard + 1);
        }
    }

    /// What a link to a parent begins with. Until that has answered nothing may leave, nor be heard to have come.
    pub fn attach(&self, post: PostId, level: u8) -> Attach {
        let mut sequences = self.made;
        // The first of each stream is the last that is put there.
        for kept in self.kept.iter().rev() {
            sequences[kept.stream as usize - 1] = kept.sequence;
        }
        Attach { post, level, dropped: self.dropped, sequences }
    }

    /// What waits says nothing any more: the clock it was measured by went another way.
    pub fn clear(&mut self) {
        self.now_us = 0;
        while !self.kept.is_empty() {
            self.drop_first();
        }
    }

    /// The parent has said that all has come.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The parent has taken it in: all that is kept goes by this link.
    pub fn begin(&mut self) {
        (self.on_link, self.heard) = (0, 0);
    }

    /// The record that goes by the link next, if it has room for so many bytes.
    pub fn next_record(&mut self, room: usize) -> Option<Vec<u8>> {
        let kept = self.kept.get(self.on_link).filter(|kept| kept.record.len() <= room)?;
        if self.on_link >= AHEAD_MAX {
            return None;
        }
        self.on_link += 1;
        Some(kept.record.clone())
    }

    /// The parent says that so many messages have come by this link.
    pub fn on_heard(&mut self, heard: u64) {
        while self.heard < heard && self.on_link > 0 {
            let kept = self.kept.pop_front().expect("what is on the link is kept");
            *self.bytes_of(kept.stream) -= kept.record.len();
            (self.on_link, self.heard) = (self.on_link - 1, self.heard + 1);
        }
    }

    /// Messages made so far, and those of them that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: PostId = PostId(7);

    /// Stream and sequence of what leaves now.
    fn leaving(sending: &mut Sending) -> Vec<(Stream, u32)> {
        std::iter::from_fn(|| sending.next_record(usize::MAX))
            .map(|record| match Message::read(&record) {
                Ok(Some(Message::Data(data))) => (data.stream, data.sequence),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_the_parent_has_not_said_to_have_goes_to_the_next_one() {
        let mut sending = Sending::default();
        for (stream, at_us) in [(Stream::System, 1), (Stream::Job, 1), (Stream::System, 2)] {
            sending.put(POST, stream, at_us, &[]);
        }
        assert_eq!(sending.attach(POST, 0).sequences, [0; 4]);
        let all = [(Stream::System, 0), (Stream::Job, 0), (Stream::System, 1)];
        assert_eq!(leaving(&mut sending), all);
        assert_eq!(leaving(&mut sending), []);
        sending.on_heard(1);
        sending.put(POST, Stream::System, 3, &[]);
        assert_eq!(leaving(&mut sending), [(Stream::System, 2)]);
        // The parent is lost.
        assert_eq!(sending.attach(POST, 0).sequences, [1, 0, 0, 0]);
        sending.begin();
        assert_eq!(leaving(&mut sending), [all[1], all[2], (Stream::System, 2)]);
        assert!(!sending.is_empty());
        sending.on_heard(99);
        assert!(sending.is_empty());
        assert_eq!(sending.attach(POST, 0).sequences, [3, 1, 0, 0]);
        assert_eq!((sending.counts(), sending.bytes), ((4, 0), 0));
    }

    #[test]
    fn what_is_old_or_has_no_room_is_dropped_and_counted() {
        let mut sending = Sending::default();
        sending.put(POST, Stream::System, 1, &[]);
        sending.put(POST, Stream::System, KEEP_US, &[]);
        sending.tidy(KEEP_US + 2);
        assert_eq!((sending.counts(), leaving(&mut sending)), ((2, 1), vec![(Stream::System, 1)]));
        (0..40).for_each(|n| sending.put(POST, Stream::Job, KEEP_US + n, &[0; ROOM / 30]));
        let (made, dropped) = sending.counts();
        assert!(made == 42 && (11..14).contains(&dropped), "{dropped}");
        assert_eq!(leaving(&mut sending).len() as u64 + dropped, made);
        let attach = sending.attach(POST, 0);
        assert_eq!((attach.dropped, u64::from(attach.sequences[1])), (dropped, dropped - 2));
    }

    #[test]
    fn what_was_measured_long_ago_waits_as_long_as_anything_else() {
        let mut sending = Sending::default();
        sending.tidy(60 * KEEP_US);
        // A wave of a minute that not all have told of.
        sending.put(POST, Stream::System, 57 * KEEP_US, &[]);
        sending.tidy(61 * KEEP_US);
        assert_eq!((sending.counts(), leaving(&mut sending).len()), ((1, 0), 1));
        sending.tidy(61 * KEEP_US + 1);
        assert_eq!(sending.counts(), (1, 1));
    }

    #[test]
    fn of_what_programs_tell_the_newest_has_no_room_and_figures_have_theirs() {
        let mut sending = Sending::default();
        // A record has 22 bytes before the values.
        let told = TRACE_ROOM / 1_022 + 10;
        (0..told).for_each(|_| sending.put(POST, Stream::Trace, 1, &[0; 1_000]));
        let (made, dropped) = sending.counts();
        assert_eq!((made, dropped), (told as u64, 10));
        sending.put(POST, Stream::System, 1, &[]);
        sending.lose(Stream::Trace, 5);
        assert_eq!(sending.counts(), (made + 6, dropped + 5));
        // The link is given so many before any was heard to have come.
        let mut sequences = Vec::new();
        loop {
            let left = leaving(&mut sending);
            if left.is_empty() {
                break;
            }
            sending.on_heard(sending.heard + left.len() as u64);
            sequences.extend(left);
        }
        assert_eq!(sequences.pop(), Some((Stream::System, 0)));
        let in_order = (0..told as u32 - dropped as u32).map(|sequence| (Stream::Trace, sequence));
        assert_eq!(sequences, in_order.collect::<Vec<_>>());
        assert_eq!((sending.bytes, sending.trace_bytes), (0, 0));
        sending.put(POST, Stream::Trace, 1, &[]);
        assert_eq!(leaving(&mut sending), [(Stream::Trace, told as u32 + 5)], "what is missing shows");
    }

    #[test]
    fn one_that_no_link_takes_is_dropped_and_counted() {
        let mut sending = Sending::default();
        sending.put(POST, Stream::System, 1, &[0; RECORD_PLAIN_MAX]);
        sending.put(POST, Stream::System, 1, &[0; RECORD_PLAIN_MAX - 30]);
        assert_eq!((leaving(&mut sending).len(), sending.counts()), (1, (2, 1)));
    }
}
