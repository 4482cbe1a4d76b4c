//! The messages and their bytes.

use crc32c::crc32c;

use super::{BulkError, CHUNK_BYTES, CONTENT_BYTES_MAX};
use crate::bytes::{Malformed, Reader};
use crate::ids::{ContentHash, JobId};

/// Longest sentence of a refusal, in bytes.
const WORDS_BYTES_MAX: usize = 1_000;

/// What a caller asks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "a request's own line says what its fields are")]
pub enum Request<'a> {
    /// Send the content with this hash from `offset` on: so much of it the caller has.
    Get { hash: ContentHash, offset: u64 },
    /// Store a content of `total` bytes; chunks follow.
    Put { hash: ContentHash, total: u64 },
    /// A piece of the content that is being put.
    Chunk(Chunk<'a>),
    /// Say which content has the value of this unit, of a job whose units a program names.
    Locate { job: JobId, unit: u128 },
    /// Store all of these contents, which are whole.
    PutAll(Few<'a>),
}

/// Short contents, one behind the other, as they travel together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Few<'a>(&'a [u8]);

/// What the scheduler answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "a reply's own line says what its fields are")]
pub enum Reply<'a> {
    /// The content is here, of `total` bytes; chunks follow up to its end.
    Found { total: u64 },
    /// The scheduler has so many bytes: go on with the put from here. All of `total`: it is stored already, send nothing.
    Have { bytes: u64 },
    /// A piece of the content that is being fetched.
    Chunk(Chunk<'a>),
    /// The content that was put is whole and kept.
    Stored,
    /// No; why, for a person.
    Refused(String),
    /// There is no room for what is put: try again later. Why, for a person.
    NoRoom(String),
    /// The content that has the unit.
    Located(Located),
}

/// A content that has the values of units that a program named, side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// BLAKE3 of the content.
    pub hash: ContentHash,
    /// The first of its units.
    pub first: u128,
    /// How many they are, 1 or more.
    pub units: u64,
}

/// A piece of a content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// Where it begins.
    pub offset: u64,
    /// 1..=[`CHUNK_BYTES`] bytes.
    pub bytes: &'a [u8],
}

mod kind {
    pub(super) const GET: u8 = 1;
    pub(super) const PUT: u8 = 2;
    pub(super) const CHUNK: u8 = 3;
    pub(super) const LOCATE: u8 = 4;
    pub(super) const PUT_ALL: u8 = 5;
    pub(super) const FOUND: u8 = 17;
    pub(super) const HAVE: u8 = 18;
    pub(super) const REPLY_CHUNK: u8 = 19;
    pub(super) const STORED: u8 = 20;
    pub(super) const REFUSED: u8 = 21;
    pub(super) const NO_ROOM: u8 = 22;
    pub(super) const LOCATED: u8 = 23;
}

impl Located {
    /// The content has this unit.
    pub fn has(&self, unit: u128) -> bool {
        unit.checked_sub(self.first).is_some_and(|within| within < u128::from(self.units))
    }
}

impl<'a> Request<'a> {
    /// The record's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Get { hash, offset } => record(kind::GET, &[&hash.0, &offset.to_le_bytes()]),
            Self::Put { hash, total } => record(kind::PUT, &[&hash.0, &total.to_le_bytes()]),
            Self::Chunk(chunk) => chunk.to_bytes(kind::CHUNK),
            Self::Locate { job, unit } => record(kind::LOCATE, &[&job.0.to_le_bytes(), &unit.to_le_bytes()]),
            Self::PutAll(Few(all)) => record(kind::PUT_ALL, &[&crc32c(all).to_le_bytes(), all]),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BulkError::Malformed`], [`BulkError::Crc`], [`BulkError::TooLong`].
    pub fn read(record: &'a [u8]) -> Result<Self, BulkError> {
        let mut rest = Reader(record);
        let request = match rest.u8()? {
            kind::GET => Self::Get { hash: ContentHash(rest.array()?), offset: rest.u64()? },
            kind::PUT => Self::Put { hash: ContentHash(rest.array()?), total: length(&mut rest)? },
            kind::CHUNK => Self::Chunk(Chunk::read(&mut rest)?),
            kind::LOCATE => Self::Locate { job: JobId(rest.u64()?), unit: rest.u128()? },
            kind::PUT_ALL => Self::PutAll(Few::read(&mut rest)?),
            _ => return Err(BulkError::Malformed),
        };
        if rest.0.is_empty() { Ok(request) } else { Err(BulkError::Malformed) }
    }
}

impl<'a> Reply<'a> {
    /// The record's bytes. A sentence that is too long is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Found { total } => record(kind::FOUND, &[&total.to_le_bytes()]),
            Self::Have { bytes } => record(kind::HAVE, &[&bytes.to_le_bytes()]),
            Self::Chunk(chunk) => chunk.to_bytes(kind::REPLY_CHUNK),
            Self::Stored => record(kind::STORED, &[]),
            Self::Refused(why) => record(kind::REFUSED, &[cut(why)]),
            Self::NoRoom(why) => record(kind::NO_ROOM, &[cut(why)]),
            Self::Located(Located { hash, first, units }) => {
                record(kind::LOCATED, &[&hash.0, &first.to_le_bytes(), &units.to_le_bytes()])
            }
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BulkError::Malformed`], [`BulkError::Crc`], [`BulkError::TooLong`].
    pub fn read(record: &'a [u8]) -> Result<Self, BulkError> {
        let mut rest = Reader(record);
        let reply = match rest.u8()? {
            kind::FOUND => Self::Found { total: length(&mut rest)? },
            kind::HAVE => Self::Have { bytes: length(&mut rest)? },
            kind::REPLY_CHUNK => Self::Chunk(Chunk::read(&mut rest)?),
            kind::STORED => Self::Stored,
            kind::REFUSED => Self::Refused(words(&mut rest)),
            kind::NO_ROOM => Self::NoRoom(words(&mut rest)),
            kind::LOCATED => {
                let (hash, first, units) = (ContentHash(rest.array()?), rest.u128()?, rest.u64()?);
                let is_one = units > 0 && first.checked_add(units.into()).is_some();
                Self::Located(Located {
                    hash,
                    first,
                    units: if is_one { units } else { return Err(BulkError::Malformed) },
                })
            }
            _ => return Err(BulkError::Malformed),
        };
        if rest.0.is_empty() { Ok(reply) } else { Err(BulkError::Malformed) }
    }
}

impl<'a> Few<'a> {
    /// Most contents that travel together: to keep one takes its time, however short it is.
    pub const COUNT_MAX: usize = 128;
    /// Bytes that they may take, with [`Few::EACH_BYTES`] for each of them.
    const BYTES_MAX: usize = CHUNK_BYTES;
    /// What each takes beside its bytes.
    const EACH_BYTES: usize = 4;
    /// Longest content that travels so, in bytes.
    pub const CONTENT_BYTES_MAX: usize = Self::BYTES_MAX - Self::EACH_BYTES;

    /// Puts a content behind those that are in `all`; false, and nothing is done, where it does not fit.
    pub fn add(all: &mut Vec<u8>, content: &[u8]) -> bool {
        let fits = all.len() + Self::EACH_BYTES + content.len() <= Self::BYTES_MAX
            && Few(all).contents().count() < Self::COUNT_MAX;
        if fits {
            all.extend_from_slice(&(content.len() as u32).to_le_bytes());
            all.extend_from_slice(content);
        }
        fits
    }

    /// Those that [`Few::add`] put there, one at least.
    pub fn new(all: &'a [u8]) -> Self {
        Self(all)
    }

    /// Each of them.
    pub fn contents(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = Reader(self.0);
        std::iter::from_fn(move || next(&mut rest).ok())
    }

    fn read(rest: &mut Reader<'a>) -> Result<Self, BulkError> {
        let (crc, all) = (rest.u32()?, std::mem::take(rest).0);
        if all.is_empty() || all.len() > Self::BYTES_MAX {
            return Err(BulkError::Malformed);
        }
        if crc32c(all) != crc {
            return Err(BulkError::Crc);
        }
        let (mut each, mut count) = (Reader(all), 0);
        while !each.0.is_empty() {
            next(&mut each)?;
            count += 1;
        }
        if count <= Self::COUNT_MAX { Ok(Self(all)) } else { Err(BulkError::Malformed) }
    }
}

fn next<'a>(rest: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let bytes = rest.u32()?;
    rest.bytes(bytes as usize)
}

impl<'a> Chunk<'a> {
    fn to_bytes(self, kind: u8) -> Vec<u8> {
        record(kind, &[&self.offset.to_le_bytes(), &crc32c(self.bytes).to_le_bytes(), self.bytes])
    }

    fn read(rest: &mut Reader<'a>) -> Result<Self, BulkError> {
        let (offset, crc, bytes) = (rest.u64()?, rest.u32()?, std::mem::take(rest).0);
        if bytes.is_empty() || bytes.len() > CHUNK_BYTES {
            return Err(BulkError::Malformed);
        }
        if crc32c(bytes) == crc { Ok(Self { offset, bytes }) } else { Err(BulkError::Crc) }
    }
}

fn record(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut record = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    record.push(kind);
    parts.iter().for_each(|part| record.extend_from_slice(part));
    record
}

/// Bytes of a content.
fn length(rest: &mut Reader<'_>) -> Result<u64, BulkError> {
    let bytes = rest.u64()?;
    if bytes <= CONTENT_BYTES_MAX { Ok(bytes) } else { Err(BulkError::TooLong) }
}

fn cut(words: &str) -> &[u8] {
    &words.as_bytes()[..words.floor_char_boundary(WORDS_BYTES_MAX)]
}

fn words(rest: &mut Reader<'_>) -> String {
    String::from_utf8_lossy(std::mem::take(rest).0).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: ContentHash = ContentHash([7; 32]);

    fn few(contents: &[&[u8]]) -> Vec<u8> {
        let mut all = Vec::new();
        contents.iter().for_each(|content| assert!(Few::add(&mut all, content)));
        all
    }

    #[test]
    fn contents_travel_together_as_far_as_they_fit() {
        let contents: [&[u8]; 3] = [b"abc", b"", &[7; 1_000]];
        let all = few(&contents);
        assert_eq!(Few::new(&all).contents().collect::<Vec<_>>(), contents);
        let mut all = few(&[&[1; Few::BYTES_MAX - 2 * Few::EACH_BYTES - 5]]);
        assert!(!Few::add(&mut all, b"123456") && Few::add(&mut all, b"12345") && !Few::add(&mut all, b""));
        assert!(Request::read(&Request::PutAll(Few::new(&all)).to_bytes()).is_ok());
        all.push(0);
        for wrong in [&all[..], b"", &[1, 0, 0], &[2, 0, 0, 0, 9]] {
            let read = Request::PutAll(Few(wrong)).to_bytes();
            assert_eq!(Request::read(&read), Err(BulkError::Malformed), "{} bytes", wrong.len());
        }
        let mut many = few(&[&b"x"[..]; Few::COUNT_MAX]);
        assert!(!Few::add(&mut many, b"y") && Request::read(&Request::PutAll(Few(&many)).to_bytes()).is_ok());
        many.extend_from_slice(&0_u32.to_le_bytes());
        assert_eq!(Request::read(&Request::PutAll(Few(&many)).to_bytes()), Err(BulkError::Malformed));
        let mut changed = Request::PutAll(Few(&few(&contents))).to_bytes();
        changed[7] ^= 1;
        assert_eq!(Request::read(&changed), Err(BulkError::Crc));
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let chunk = Chunk { offset: 5, bytes: b"abc" };
        for request in [
            Request::Get { hash: HASH, offset: 9 },
            Request::Put { hash: HASH, total: 10 },
            Request::Chunk(chunk),
            Request::Locate { job: JobId(3), unit: u128::MAX },
            Request::PutAll(Few::new(&few(&[b"abc", b"", b"d"]))),
        ] {
            assert_eq!(Request::read(&request.to_bytes()), Ok(request));
        }
        for reply in [
            Reply::Found { total: 1 },
            Reply::Have { bytes: 2 },
            Reply::Chunk(chunk),
            Reply::Stored,
            Reply::Refused("no content with this hash".into()),
            Reply::NoRoom("the disk is full".into()),
            Reply::Located(Located { hash: HASH, first: 1 << 100, units: 9 }),
        ] {
            assert_eq!(Reply::read(&reply.to_bytes()), Ok(reply));
        }
    }

    #[test]
    fn what_is_cut_changed_or_too_long_is_refused() {
        let chunk = Request::Chunk(Chunk { offset: 0, bytes: b"abcdefghij" }).to_bytes();
        for at in 13..chunk.len() {
            let mut changed = chunk.clone();
            changed[at] ^= 4;
            assert_eq!(Request::read(&changed), Err(BulkError::Crc));
        }
        let get = Request::Get { hash: HASH, offset: 9 }.to_bytes();
        (0..get.len()).for_each(|length| assert!(Request::read(&get[..length]).is_err()));
        assert!(Reply::read(&[]).is_err() && Reply::read(&[99]).is_err());
        let long = Request::Put { hash: HASH, total: u64::MAX }.to_bytes();
        assert_eq!(Request::read(&long), Err(BulkError::TooLong));
        let empty = Request::Chunk(Chunk { offset: 0, bytes: b"" }).to_bytes();
        assert_eq!(Request::read(&empty), Err(BulkError::Malformed));
    }
}
