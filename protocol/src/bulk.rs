//! The bulk channel: contents fetched and stored by their hash, over a sealed stream
//! ([`crate::seal::stream`]). The first record of a stream from its caller is one byte, which says what is
//! spoken: [`BULK`] or [`ADMIN`]. After it each record is one message, all numbers little endian.
//!
//! | kind | request | body | answered by |
//! | --- | --- | --- | --- |
//! | 1 | get | hash 32, offset u64 | found, then chunks up to the end; or refused |
//! | 2 | put | hash 32, total u64 | have; or refused, no room |
//! | 3 | chunk | offset u64, CRC32C u32, bytes | after the last one: stored, refused or no room |
//!
//! | kind | reply | body |
//! | --- | --- | --- |
//! | 17 | found | total u64 |
//! | 18 | have | bytes u64: the put goes on from here; all of them: it is stored already |
//! | 19 | chunk | as above |
//! | 20 | stored | |
//! | 21 | refused | UTF-8, why, in words |
//! | 22 | no room | UTF-8, why: not now; to a put alone, which is to be tried again |
//!
//! A transfer that breaks off goes on where it was: a get names an offset, a put is told one. The CRC finds
//! the chunk that a bad memory or disk has changed, the hash vouches for the whole. No sockets, no files.

use std::fmt;

use crc32c::crc32c;

use crate::ids::ContentHash;

/// First record of a stream that speaks this protocol.
pub const BULK: u8 = 1;
/// First record of a stream that carries admin requests.
pub const ADMIN: u8 = 2;

/// Bytes of a chunk; the last one of a content is shorter.
pub const CHUNK_BYTES: usize = 60 * 1024;
const _: () = assert!(
    CHUNK_BYTES + 1 + 8 + 4 <= crate::seal::stream::RECORD_PLAIN_MAX,
    "a chunk's message fits into one record"
);
/// Longest content, in bytes. A specification with ten million targets has about 350 MB.
pub const CONTENT_BYTES_MAX: u64 = 1 << 30;
/// Longest sentence of a refusal, in bytes.
const WORDS_BYTES_MAX: usize = 1_000;

/// What a caller asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Send the content with this hash from `offset` on.
    Get {
        /// Which.
        hash: ContentHash,
        /// Bytes that the caller has.
        offset: u64,
    },
    /// Store a content; chunks follow.
    Put {
        /// Which.
        hash: ContentHash,
        /// Its length in bytes.
        total: u64,
    },
    /// A piece of the content that is being put.
    Chunk(Chunk<'a>),
}

/// What the scheduler answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// The content is here; chunks follow up to its end.
    Found {
        /// Its length in bytes.
        total: u64,
    },
    /// Go on with the put from here. All of `total`: it is stored already, send nothing.
    Have {
        /// Bytes that the scheduler has.
        bytes: u64,
    },
    /// A piece of the content that is being fetched.
    Chunk(Chunk<'a>),
    /// The content that was put is whole and kept.
    Stored,
    /// No; why, for a person.
    Refused(String),
    /// There is no room for what is put: try again later. Why, for a person.
    NoRoom(String),
}

/// A piece of a content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// Where it begins.
    pub offset: u64,
    /// 1..=[`CHUNK_BYTES`] bytes.
    pub bytes: &'a [u8],
}

/// Why a message or a content is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkError {
    /// A record that is no message of this protocol.
    Malformed,
    /// A chunk does not have the CRC that it says.
    Crc,
    /// A chunk does not continue the content, or goes beyond its end.
    OutOfPlace,
    /// The whole content does not have the hash that it was asked by.
    Hash,
    /// Longer than [`CONTENT_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BulkError::Malformed => {
                "a message of the bulk channel cannot be read: are both sides of one release?"
            }
            BulkError::Crc => "a chunk was changed on its way: check the memory and disks of both machines",
            BulkError::OutOfPlace => "a chunk does not continue its content",
            BulkError::Hash => "a content does not have the hash it was asked by",
            BulkError::TooLong => "a content is longer than 1 GiB",
        })
    }
}

impl std::error::Error for BulkError {}

mod kind {
    pub(super) const GET: u8 = 1;
    pub(super) const PUT: u8 = 2;
    pub(super) const CHUNK: u8 = 3;
    pub(super) const FOUND: u8 = 17;
    pub(super) const HAVE: u8 = 18;
    pub(super) const REPLY_CHUNK: u8 = 19;
    pub(super) const STORED: u8 = 20;
    pub(super) const REFUSED: u8 = 21;
    pub(super) const NO_ROOM: u8 = 22;
}

impl<'a> Request<'a> {
    /// The record's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Get { hash, offset } => hash_and_number(kind::GET, hash, *offset),
            Self::Put { hash, total } => hash_and_number(kind::PUT, hash, *total),
            Self::Chunk(chunk) => chunk.to_bytes(kind::CHUNK),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BulkError::Malformed`], [`BulkError::Crc`], [`BulkError::TooLong`].
    pub fn read(record: &'a [u8]) -> Result<Self, BulkError> {
        let (&kind, body) = record.split_first().ok_or(BulkError::Malformed)?;
        match kind {
            kind::GET => {
                let (hash, offset) = read_hash_and_number(body)?;
                Ok(Self::Get { hash, offset })
            }
            kind::PUT => {
                let (hash, total) = read_hash_and_number(body)?;
                Ok(Self::Put { hash, total: allowed(total)? })
            }
            kind::CHUNK => Ok(Self::Chunk(Chunk::read(body)?)),
            _ => Err(BulkError::Malformed),
        }
    }
}

impl<'a> Reply<'a> {
    /// The record's bytes. A sentence that is too long is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Found { total } => number(kind::FOUND, *total),
            Self::Have { bytes } => number(kind::HAVE, *bytes),
            Self::Chunk(chunk) => chunk.to_bytes(kind::REPLY_CHUNK),
            Self::Stored => vec![kind::STORED],
            Self::Refused(why) => words(kind::REFUSED, why),
            Self::NoRoom(why) => words(kind::NO_ROOM, why),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BulkError::Malformed`], [`BulkError::Crc`], [`BulkError::TooLong`].
    pub fn read(record: &'a [u8]) -> Result<Self, BulkError> {
        let (&kind, body) = record.split_first().ok_or(BulkError::Malformed)?;
        match kind {
            kind::FOUND => Ok(Self::Found { total: allowed(read_number(body)?)? }),
            kind::HAVE => Ok(Self::Have { bytes: allowed(read_number(body)?)? }),
            kind::REPLY_CHUNK => Ok(Self::Chunk(Chunk::read(body)?)),
            kind::STORED if body.is_empty() => Ok(Self::Stored),
            kind::REFUSED => Ok(Self::Refused(String::from_utf8_lossy(body).into_owned())),
            kind::NO_ROOM => Ok(Self::NoRoom(String::from_utf8_lossy(body).into_owned())),
            _ => Err(BulkError::Malformed),
        }
    }
}

impl<'a> Chunk<'a> {
    fn to_bytes(self, kind: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + 8 + 4 + self.bytes.len());
        out.push(kind);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&crc32c(self.bytes).to_le_bytes());
        out.extend_from_slice(self.bytes);
        out
    }

    fn read(body: &'a [u8]) -> Result<Self, BulkError> {
        let (offset, rest) = body.split_first_chunk().ok_or(BulkError::Malformed)?;
        let (crc, bytes) = rest.split_first_chunk().ok_or(BulkError::Malformed)?;
        if bytes.is_empty() || bytes.len() > CHUNK_BYTES {
            return Err(BulkError::Malformed);
        }
        if crc32c(bytes) != u32::from_le_bytes(*crc) {
            return Err(BulkError::Crc);
        }
        Ok(Self { offset: u64::from_le_bytes(*offset), bytes })
    }
}

/// The chunks of `content` from `offset` on, for either direction.
pub fn chunks(content: &[u8], offset: u64) -> impl Iterator<Item = Chunk<'_>> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    let starts = (from as u64..).step_by(CHUNK_BYTES);
    content[from..].chunks(CHUNK_BYTES).zip(starts).map(|(bytes, offset)| Chunk { offset, bytes })
}

/// A content that comes in chunk by chunk. It survives the stream that it came by.
#[derive(Clone, Debug)]
pub struct Incoming {
    hash: ContentHash,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Nothing has come yet of the content with this hash.
    pub fn new(hash: ContentHash) -> Self {
        Self { hash, bytes: Vec::new() }
    }

    /// Which content it is.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Bytes that have come: where a get or put goes on.
    pub fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Takes the next chunk of a content of `total` bytes. Memory grows with what comes, not with what is
    /// announced.
    ///
    /// # Errors
    /// [`BulkError::OutOfPlace`]; nothing is taken then.
    pub fn take(&mut self, chunk: &Chunk<'_>, total: u64) -> Result<(), BulkError> {
        if chunk.offset != self.offset() || self.offset() + chunk.bytes.len() as u64 > total {
            return Err(BulkError::OutOfPlace);
        }
        self.bytes.extend_from_slice(chunk.bytes);
        Ok(())
    }

    /// The whole content, once [`Incoming::offset`] has reached its length.
    ///
    /// # Errors
    /// [`BulkError::Hash`]: what came is not what was asked for; start anew.
    pub fn finish(self) -> Result<Vec<u8>, BulkError> {
        if ContentHash::of(&self.bytes) == self.hash { Ok(self.bytes) } else { Err(BulkError::Hash) }
    }
}

fn allowed(total: u64) -> Result<u64, BulkError> {
    if total <= CONTENT_BYTES_MAX { Ok(total) } else { Err(BulkError::TooLong) }
}

fn words(kind: u8, words: &str) -> Vec<u8> {
    [&[kind], &words.as_bytes()[..words.floor_char_boundary(WORDS_BYTES_MAX)]].concat()
}

fn number(kind: u8, number: u64) -> Vec<u8> {
    [&[kind][..], &number.to_le_bytes()].concat()
}

fn read_number(body: &[u8]) -> Result<u64, BulkError> {
    body.try_into().map(u64::from_le_bytes).map_err(|_| BulkError::Malformed)
}

fn hash_and_number(kind: u8, hash: &ContentHash, number: u64) -> Vec<u8> {
    [&[kind][..], &hash.0, &number.to_le_bytes()].concat()
}

fn read_hash_and_number(body: &[u8]) -> Result<(ContentHash, u64), BulkError> {
    let (hash, rest) = body.split_first_chunk().ok_or(BulkError::Malformed)?;
    Ok((ContentHash(*hash), read_number(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: ContentHash = ContentHash([7; 32]);

    #[test]
    fn messages_come_back_as_they_were() {
        let chunk = Chunk { offset: 5, bytes: b"abc" };
        for request in [
            Request::Get { hash: HASH, offset: 9 },
            Request::Put { hash: HASH, total: 10 },
            Request::Chunk(chunk),
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

    #[test]
    fn a_content_arrives_in_chunks_and_can_go_on_where_it_was() {
        let content: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
        let total = content.len() as u64;
        let mut incoming = Incoming::new(ContentHash::of(&content));
        for chunk in chunks(&content, 0).take(2) {
            incoming.take(&chunk, total).unwrap();
        }
        let stray = Chunk { offset: 0, bytes: b"again" };
        assert_eq!(incoming.take(&stray, total), Err(BulkError::OutOfPlace));
        for chunk in chunks(&content, incoming.offset()) {
            incoming.take(&chunk, total).unwrap();
        }
        assert_eq!(incoming.take(&Chunk { offset: total, bytes: b"x" }, total), Err(BulkError::OutOfPlace));
        assert_eq!(incoming.finish().unwrap(), content);
        assert_eq!(Incoming::new(HASH).finish(), Err(BulkError::Hash));
        assert_eq!(chunks(&content, u64::MAX).count(), 0);
    }
}
