//! Links between posts of a tree: the records of a sealed stream ([`crate::seal::stream`]) that a post opens to its
//! parent. The first record is [`LINK`] and an attach; each later one is one message: its kind, u8, and its fields, all
//! numbers little endian. Kinds are append-only. A reader skips a kind that it does not know.
//!
//! | kind | name | from | fields |
//! | --- | --- | --- | --- |
//! | 1 | attach | child | post u64 |
//! | 2 | welcome | parent | the farm's clock u64, microseconds |
//! | 3 | refuse | parent | UTF-8, why, in words; the parent hangs up |
//! | 5 | beat | both | nothing |
//! | 6 | data | child | stream u8, origin u64: the post that measured; sequence u32; triples |
//!
//! Triples are ids, lengths and values: see the page on monitoring.

use crate::bytes::{Malformed, Reader};
use crate::field::Field;
use crate::orders::PostId;
use crate::word::words;

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A child says who it is.
    Attach {
        /// Its post.
        post: PostId,
    },
    /// A parent takes it.
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
    Beat,
    /// Values.
    Data(Data<'a>),
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
    /// The values, not looked at.
    pub triples: &'a [u8],
}

mod kind {
    pub(super) const ATTACH: u8 = 1;
    pub(super) const WELCOME: u8 = 2;
    pub(super) const REFUSE: u8 = 3;
    pub(super) const BEAT: u8 = 5;
    pub(super) const DATA: u8 = 6;
}

impl<'a> Message<'a> {
    /// Appends the record's bytes. A sentence that is too long is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Attach { post } => (kind::ATTACH, post.0).put(out),
            Self::Welcome { now_us } => (kind::WELCOME, *now_us).put(out),
            Self::Refuse { why } => {
                out.push(kind::REFUSE);
                out.extend_from_slice(&why.as_bytes()[..why.floor_char_boundary(WORDS_BYTES_MAX)]);
            }
            Self::Beat => out.push(kind::BEAT),
            Self::Data(Data { stream, origin, sequence, triples }) => {
                out.push(kind::DATA);
                ((*stream as u8, origin.0), *sequence).put(out);
                out.extend_from_slice(triples);
            }
        }
    }

    /// Reads a record; none of a kind that this release does not know.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn read(record: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut rest = Reader(record);
        let message = match rest.u8()? {
            kind::ATTACH => Self::Attach { post: PostId(rest.u64()?) },
            kind::WELCOME => Self::Welcome { now_us: rest.u64()? },
            kind::REFUSE => {
                let why = String::from_utf8_lossy(std::mem::take(&mut rest.0)).into_owned();
                Self::Refuse { why }
            }
            kind::BEAT => Self::Beat,
            kind::DATA => {
                let ((stream, origin), sequence): ((u8, u64), u32) = Field::read(&mut rest)?;
                let Some(stream) = Stream::from_number(stream) else { return Ok(None) };
                let triples = std::mem::take(&mut rest.0);
                Self::Data(Data { stream, origin: PostId(origin), sequence, triples })
            }
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

    fn samples() -> [Message<'static>; 5] {
        let data = Data { stream: Stream::Job, origin: PostId(0x0102), sequence: 9, triples: &[1, 1, 7] };
        [
            Message::Attach { post: PostId(7) },
            Message::Welcome { now_us: u64::MAX },
            Message::Refuse { why: "no".into() },
            Message::Beat,
            Message::Data(data),
        ]
    }

    #[test]
    fn what_is_written_is_read_and_bytes_are_pinned() {
        for message in samples() {
            let bytes = written(&message);
            assert_eq!(Message::read(&bytes), Ok(Some(message)));
        }
        let data = written(&samples()[4]);
        assert_eq!(data, [6, 2, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 7]);
    }

    #[test]
    fn a_record_that_is_cut_short_or_too_long_is_malformed() {
        for message in [&samples()[..2], &samples()[3..4]].concat() {
            let bytes = written(&message);
            for cut in 0..bytes.len() {
                assert_eq!(Message::read(&bytes[..cut]), Err(Malformed), "{message:?} cut at {cut}");
            }
            assert_eq!(Message::read(&[&bytes[..], &[0]].concat()), Err(Malformed), "{message:?}");
        }
        assert_eq!(Message::read(&written(&samples()[4])[..10]), Err(Malformed));
    }

    #[test]
    fn what_a_later_release_says_is_skipped() {
        assert_eq!(Message::read(&[200, 1, 2]), Ok(None));
        let mut data = written(&samples()[4]);
        data[1] = 99;
        assert_eq!(Message::read(&data), Ok(None), "a stream that is not known here");
    }

    #[test]
    fn a_long_sentence_is_cut_at_a_letter() {
        let refuse = Message::Refuse { why: "ä".repeat(900) };
        let Ok(Some(Message::Refuse { why })) = Message::read(&written(&refuse)) else { panic!() };
        assert_eq!(why, "ä".repeat(500));
    }
}
