//! Links between posts of a tree: the records of a sealed stream ([`crate::seal::stream`]) that a post opens to its
//! parent. The first record is [`LINK`] and an attach; each later one is one message: its kind, u8, and its fields, all
//! numbers little endian. Kinds are append-only. A reader skips a kind that it does not know.
//!
//! | kind | name | from | fields |
//! | --- | --- | --- | --- |
//! | 1 | attach | child | post u64, level u8, dropped u64: messages of data so far; sequences 4 u32: of each stream, that of the first message that is to come |
//! | 2 | welcome | parent | the farm's clock u64, microseconds: when it takes the child in, and every few seconds from then on |
//! | 3 | refuse | parent | UTF-8, why, in words; the parent hangs up |
//! | 5 | beat | both | heard u64: messages of data that have come by this link |
//! | 6 | data | child | stream u8, origin u64: the post that measured or summed up; sequence u32; at u64: when that was, by the farm's clock, microseconds; triples |
//! | 7 | alarm | child, or a parent to the post that reacts | alarms up to the end, at most 32: post u64, sensor (u16 bytes and UTF-8), episode u64, version u32, flags u8 (1 it stands, 2 its node is to get no tasks, 4 a program was run, 8 there is a value, 16 its process knew of none before, 32 its node was drained), level u8, value f64, node and text (each u16 bytes and UTF-8) |
//! | 8 | alarm ack | who has heard it | the same of each: post u64, sensor, episode u64, version u32, flags u8 (1 a program was run, 2 its node was drained) |
//! | 9 | control | parent | post u64: whose agent is asked, 2^64 - 1 for all back ends; asked u8: 1 its graph, 2 to have stages of the farm; number u64; nth u16, of u16: which piece, of how many; up to 8 KiB of it |
//! | 10 | answer | child | post u64, number u64, nth u16, of u16; up to 8 KiB |
//! | 11 | standing | child | post u64, parent u64, level u8, children u32, sent u64, received u64, dropped u64, late u64, gaps u64: how a post stands, which may be below the child |
//! | 12 | table | parent | version u64, then 25 B each: scope u8 (0 all, 1 a job, 2 a post), its number u64, period u64 in microseconds (0: nothing is measured), metrics u64 (bit n: the metric with number n; 0: all) |
//! | 15 | part | both | op u8 (1 down: each back end says the value; 2 up: the sum), round u32, from u32: back ends whose values are in it, value u64 |
//! | 18 | suspect | child, and both along the ring | post u64: a post of which nothing was heard for 5 s |
//! | 19 | watch | who watches | post u64: its own; the first message of a link of the ring, by which nothing but beats and suspicions goes |
//!
//! Triples are ids, lengths and values: see the page on monitoring.

mod alarm;
mod control;

use crate::bytes::{Malformed, Reader};
use crate::field::Field;
use crate::ids::JobId;
use crate::orders::PostId;
use crate::word::words;

pub use alarm::{ALARMS_A_MESSAGE, Alarm, AlarmAck, AlarmKey, AlarmLevel, SENSOR_BYTES_MAX};
pub use control::{Answer, Asked, Control, PIECE_BYTES, Piece, Pieces, WHOLE_BYTES_MAX};

/// First byte of the first record of a link.
pub const LINK: u8 = 5;
/// A post says something at least so often, in microseconds.
pub const BEAT_US: u64 = 1_000_000;
/// A neighbour that was not heard for this long is dead.
pub const DEAD_US: u64 = 5_000_000;
/// Bytes of a sentence of a refusal, at most.
const WORDS_BYTES_MAX: usize = 1_000;

words! {
    /// What values are for, and so what becomes of them where there is no room. The numbers are on the wire: append only.
    Stream {
        /// What the machine does.
        System = 1 => "system",
        /// What jobs do.
        Job = 2 => "job",
        /// What somebody must know.
        Alarm = 3 => "alarm",
        /// What programs tell, one by one.
        Trace = 4 => "trace",
    }
}

/// A message of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum Message<'a> {
    /// A child says who it is.
    Attach(Attach),
    /// A parent takes it, or, later on, says what time it is.
    Welcome {
        /// The farm's clock, in microseconds.
        now_us: u64,
    },
    /// A parent does not take it.
    Refuse {
        /// Why, for a person.
        why: String,
    },
    /// A neighbour lives.
    Beat {
        /// Messages of data that have come to it by this link.
        heard: u64,
    },
    /// Values.
    Data(Data<'a>),
    /// What somebody must know; at most [`ALARMS_A_MESSAGE`].
    Alarms(Vec<Alarm>),
    /// Who says this knows it; as many.
    AlarmAcks(Vec<AlarmAck>),
    /// An agent is asked something.
    Control(Control<'a>),
    /// An agent answers.
    Answer(Answer<'a>),
    /// How a post stands.
    Standing(Standing),
    /// What is to be measured, and how often.
    Table(Table),
    /// A part of what all posts do together.
    Part(Part),
    /// Nothing was heard of a post for [`DEAD_US`].
    Suspect(PostId),
    /// This post watches the one that it has called.
    Watch(PostId),
}

words! {
    /// Which way a part goes. The numbers are on the wire: append only.
    PartOp {
        /// Down: each back end says the value.
        Down = 1 => "down",
        /// Up: the sum of what those below have said.
        Up = 2 => "up",
    }
}

/// A part of what all posts do together: a value goes down to every back end, and the sum of what they say comes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Which way it goes.
    pub op: PartOp,
    /// Which of the parent's rounds it belongs to.
    pub round: u32,
    /// Back ends whose values are in it; 0 on the way down.
    pub from: u32,
    /// The value; sums stop at `u64::MAX`.
    pub value: u64,
}

/// What is to be measured, and how often: where nothing is said of something, what is said of all holds, and without that a
/// second and all metrics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// A later table has a higher one.
    pub version: u64,
    /// At most [`WISHES_MAX`].
    pub wishes: Vec<Wish>,
}

/// Wishes of a table, at most.
pub const WISHES_MAX: usize = 512;

/// What is to be measured of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Of what.
    pub scope: Scope,
    /// How often, in microseconds; 0: never.
    pub period_us: u64,
    /// Which metrics: bit n is the metric with number n; 0: all.
    pub metrics: u64,
}

/// What a wish is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// All jobs and machines.
    All,
    /// A job's units.
    Job(JobId),
    /// The machine of a post, and the units on it.
    Post(PostId),
}

impl Wish {
    fn put(&self, out: &mut Vec<u8>) {
        let (scope, id) = match self.scope {
            Scope::All => (0, 0),
            Scope::Job(job) => (1, job.0),
            Scope::Post(post) => (2, post.0),
        };
        ((scope as u8, id), (self.period_us, self.metrics)).put(out);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let ((scope, id), (period_us, metrics)) = <((u8, u64), (u64, u64))>::read(rest)?;
        let scope = match scope {
            0 => Scope::All,
            1 => Scope::Job(JobId(id)),
            2 => Scope::Post(PostId(id)),
            _ => return Err(Malformed),
        };
        Ok(Self { scope, period_us, metrics })
    }
}

/// Who calls, and what it has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Its post.
    pub post: PostId,
    /// Its level.
    pub level: u8,
    /// Messages of data that it had no room for so far.
    pub dropped: u64,
    /// Of each stream, the sequence number of the first message that is to come.
    pub sequences: [u32; Stream::ALL.len()],
}

/// How a post stands in the tree. The numbers are of messages of data since the start of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The post.
    pub post: PostId,
    /// Whose child it is.
    pub parent: PostId,
    /// Its level.
    pub level: u8,
    /// Its children.
    pub children: u32,
    /// What has been said.
    pub counts: Counts,
}

/// What a post has said, and what was said to it. What its children sent has been received, was late, was dropped by them,
/// or is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Made for its parent.
    pub sent: u64,
    /// Come from its children in time.
    pub received: u64,
    /// Of those made, there was no room for so many, or no parent for too long.
    pub dropped: u64,
    /// Come from its children when the wave was over.
    pub late: u64,
    /// Sent by its children, not dropped by them, and never come.
    pub gaps: u64,
}

/// Values that a post has measured, or summed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// What they are for.
    pub stream: Stream,
    /// Who measured them.
    pub origin: PostId,
    /// Which of its messages of this stream it is: a number that is missing was lost.
    pub sequence: u32,
    /// When the values were measured, by the farm's clock, in microseconds.
    pub at_us: u64,
    /// The values, not looked at.
    pub triples: &'a [u8],
}

mod kind {
    pub(super) const ATTACH: u8 = 1;
    pub(super) const WELCOME: u8 = 2;
    pub(super) const REFUSE: u8 = 3;
    pub(super) const BEAT: u8 = 5;
    pub(super) const DATA: u8 = 6;
    pub(super) const ALARMS: u8 = 7;
    pub(super) const ALARM_ACKS: u8 = 8;
    pub(super) const CONTROL: u8 = 9;
    pub(super) const ANSWER: u8 = 10;
    pub(super) const STANDING: u8 = 11;
    pub(super) const TABLE: u8 = 12;
    pub(super) const PART: u8 = 15;
    pub(super) const SUSPECT: u8 = 18;
    pub(super) const WATCH: u8 = 19;
}

impl<'a> Message<'a> {
    /// Whether a record is one of data, whatever is in it.
    pub fn is_data(record: &[u8]) -> bool {
        record.first() == Some(&kind::DATA)
    }

    /// Appends the record's bytes. A sentence that is too long is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Attach(Attach { post, level, dropped, sequences }) => {
                ((kind::ATTACH, post.0), (*level, *dropped)).put(out);
                sequences.iter().for_each(|sequence| sequence.put(out));
            }
            Self::Welcome { now_us } => (kind::WELCOME, *now_us).put(out),
            Self::Refuse { why } => {
                out.push(kind::REFUSE);
                out.extend_from_slice(&why.as_bytes()[..why.floor_char_boundary(WORDS_BYTES_MAX)]);
            }
            Self::Beat { heard } => (kind::BEAT, *heard).put(out),
            Self::Data(Data { stream, origin, sequence, at_us, triples }) => {
                out.push(kind::DATA);
                ((*stream as u8, origin.0), (*sequence, *at_us)).put(out);
                out.extend_from_slice(triples);
            }
            Self::Alarms(alarms) => {
                out.push(kind::ALARMS);
                alarms.iter().take(ALARMS_A_MESSAGE).for_each(|alarm| alarm.put(out));
            }
            Self::AlarmAcks(acks) => {
                out.push(kind::ALARM_ACKS);
                acks.iter().take(ALARMS_A_MESSAGE).for_each(|ack| ack.put(out));
            }
            Self::Control(Control { post, asked, piece }) => {
                (kind::CONTROL, (post.0, *asked)).put(out);
                piece.put(out);
            }
            Self::Answer(Answer { post, piece }) => {
                (kind::ANSWER, post.0).put(out);
                piece.put(out);
            }
            Self::Standing(Standing { post, parent, level, children, counts }) => {
                ((kind::STANDING, post.0), (parent.0, (*level, *children))).put(out);
                let Counts { sent, received, dropped, late, gaps } = counts;
                [sent, received, dropped, late, gaps].into_iter().for_each(|count| count.put(out));
            }
            Self::Table(Table { version, wishes }) => {
                (kind::TABLE, *version).put(out);
                wishes.iter().take(WISHES_MAX).for_each(|wish| wish.put(out));
            }
            Self::Part(Part { op, round, from, value }) => {
                ((kind::PART, *op as u8), (*round, (*from, *value))).put(out);
            }
            Self::Suspect(post) => (kind::SUSPECT, post.0).put(out),
            Self::Watch(post) => (kind::WATCH, post.0).put(out),
        }
    }

    /// Reads a record; none of a kind that this release does not know.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn read(record: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut rest = Reader(record);
        let message = match rest.u8()? {
            kind::ATTACH => {
                let (post, level, dropped) = (PostId(rest.u64()?), rest.u8()?, rest.u64()?);
                let mut sequences = [0; Stream::ALL.len()];
                for sequence in &mut sequences {
                    *sequence = rest.u32()?;
                }
                Self::Attach(Attach { post, level, dropped, sequences })
            }
            kind::WELCOME => Self::Welcome { now_us: rest.u64()? },
            kind::REFUSE => {
                let why = String::from_utf8_lossy(std::mem::take(&mut rest.0)).into_owned();
                Self::Refuse { why }
            }
            kind::BEAT => Self::Beat { heard: rest.u64()? },
            kind::DATA => {
                let ((stream, origin), (sequence, at_us)) = <((u8, u64), (u32, u64))>::read(&mut rest)?;
                let Some(stream) = Stream::from_number(stream) else { return Ok(None) };
                let triples = std::mem::take(&mut rest.0);
                Self::Data(Data { stream, origin: PostId(origin), sequence, at_us, triples })
            }
            kind::ALARMS => Self::Alarms(alarm::read_all(&mut rest)?),
            kind::ALARM_ACKS => Self::AlarmAcks(alarm::read_all(&mut rest)?),
            kind::CONTROL => {
                let (post, asked) = (PostId(rest.u64()?), rest.u8()?);
                Self::Control(Control { post, asked, piece: Piece::read(&mut rest)? })
            }
            kind::ANSWER => {
                let post = PostId(rest.u64()?);
                Self::Answer(Answer { post, piece: Piece::read(&mut rest)? })
            }
            kind::STANDING => {
                let (post, parent) = (PostId(rest.u64()?), PostId(rest.u64()?));
                let (level, children) = (rest.u8()?, rest.u32()?);
                let (sent, received, dropped) = (rest.u64()?, rest.u64()?, rest.u64()?);
                let counts = Counts { sent, received, dropped, late: rest.u64()?, gaps: rest.u64()? };
                Self::Standing(Standing { post, parent, level, children, counts })
            }
            kind::TABLE => {
                let (version, mut wishes) = (rest.u64()?, Vec::new());
                while !rest.0.is_empty() && wishes.len() < WISHES_MAX {
                    wishes.push(Wish::read(&mut rest)?);
                }
                Self::Table(Table { version, wishes })
            }
            kind::PART => {
                let (op, (round, (from, value))) = <(u8, (u32, (u32, u64)))>::read(&mut rest)?;
                let Some(op) = PartOp::from_number(op) else { return Ok(None) };
                Self::Part(Part { op, round, from, value })
            }
            kind::SUSPECT => Self::Suspect(PostId(rest.u64()?)),
            kind::WATCH => Self::Watch(PostId(rest.u64()?)),
            _ => return Ok(None),
        };
        if rest.0.is_empty() { Ok(Some(message)) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        message.write(&mut out);
        out
    }

    fn samples() -> [Message<'static>; 14] {
        let piece = Piece { number: 3, nth: 1, of: 2, bytes: b"ab" };
        let data =
            Data { stream: Stream::Job, origin: PostId(0x0102), sequence: 9, at_us: 5, triples: &[1, 1, 7] };
        let counts = Counts { sent: 1, received: 2, dropped: 3, late: 4, gaps: u64::MAX };
        let (post, parent) = (PostId(8), PostId::FRONT);
        let key = AlarmKey { origin: PostId(7), sensor: "disk".into() };
        let ack = AlarmAck { key: key.clone(), episode: 5, version: 2, reacted: true, drained: false };
        let (level, value) = (Some(AlarmLevel::Warning), Some(0.5));
        let (node, text) = ("n1".to_owned(), "half of it is free".to_owned());
        let (drains, reacted, drained, is_first) = (false, false, false, true);
        let (episode, version) = (5, 2);
        let alarm =
            Alarm { key, episode, version, level, drains, reacted, drained, is_first, value, node, text };
        let of = |scope| Wish { scope, period_us: 100_000, metrics: 6 };
        let wishes = [Scope::All, Scope::Job(JobId(7)), Scope::Post(PostId(8))].map(of).to_vec();
        [
            Message::Attach(Attach { post: PostId(7), level: 2, dropped: 3, sequences: [4, 5, 6, u32::MAX] }),
            Message::Welcome { now_us: u64::MAX },
            Message::Beat { heard: 3 },
            Message::Standing(Standing { post, parent, level: 1, children: 32, counts }),
            Message::Refuse { why: "no".into() },
            Message::Data(data),
            Message::Table(Table { version: 9, wishes }),
            Message::Control(Control { post: PostId(0x0102), asked: 1, piece }),
            Message::Answer(Answer { post: PostId(0x0102), piece }),
            Message::Part(Part { op: PartOp::Up, round: 5, from: 16, value: u64::MAX }),
            Message::Alarms(vec![alarm.clone(), alarm]),
            Message::AlarmAcks(vec![ack]),
            Message::Suspect(PostId(0x0102)),
            Message::Watch(PostId(0x0102)),
        ]
    }

    #[test]
    fn what_is_written_is_read_and_bytes_are_pinned() {
        for message in samples() {
            let bytes = written(&message);
            assert_eq!(Message::read(&bytes), Ok(Some(message)));
        }
        let data = written(&samples()[5]);
        assert_eq!(data, [6, 2, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 1, 7]);
        assert_eq!(written(&samples()[12]), [18, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written(&samples()[13]), [19, 2, 1, 0, 0, 0, 0, 0, 0]);
        let part = written(&samples()[9]);
        assert_eq!(part, [15, 2, 5, 0, 0, 0, 16, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(
            written(&samples()[7]),
            [9, 2, 1, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, b'a', b'b']
        );
        assert_eq!(written(&samples()[8])[..10], [10, 2, 1, 0, 0, 0, 0, 0, 0, 3]);
        let of_data: Vec<_> =
            (0..samples().len()).filter(|at| Message::is_data(&written(&samples()[*at]))).collect();
        assert_eq!(of_data, [5]);
    }

    #[test]
    fn a_record_that_is_cut_short_or_too_long_is_malformed() {
        for message in samples()[..4].iter().chain(&samples()[9..10]) {
            let bytes = written(message);
            for cut in 0..bytes.len() {
                assert_eq!(Message::read(&bytes[..cut]), Err(Malformed), "{message:?} cut at {cut}");
            }
            assert_eq!(Message::read(&[&bytes[..], &[0]].concat()), Err(Malformed), "{message:?}");
        }
        for at in [5, 7, 8] {
            assert_eq!(Message::read(&written(&samples()[at])[..10]), Err(Malformed));
        }
        let mut none_of_two = written(&samples()[8]);
        none_of_two[17] = 2;
        assert_eq!(Message::read(&none_of_two), Err(Malformed), "the third of two");
        let long = Piece { number: 1, nth: 0, of: 1, bytes: &[0; PIECE_BYTES + 1] };
        let long = written(&Message::Answer(Answer { post: PostId(1), piece: long }));
        assert_eq!(Message::read(&long), Err(Malformed));
    }

    #[test]
    fn what_a_later_release_says_is_skipped() {
        assert_eq!(Message::read(&[200, 1, 2]), Ok(None));
        let mut data = written(&samples()[5]);
        data[1] = 99;
        assert_eq!(Message::read(&data), Ok(None), "a stream that is not known here");
        let mut part = written(&samples()[9]);
        part[1] = 99;
        assert_eq!(Message::read(&part), Ok(None), "an operation that is not known here");
    }

    #[test]
    fn a_long_sentence_is_cut_at_a_letter() {
        let refuse = Message::Refuse { why: "ä".repeat(900) };
        let Ok(Some(Message::Refuse { why })) = Message::read(&written(&refuse)) else { panic!() };
        assert_eq!(why, "ä".repeat(500));
    }
}
