//! The bulk channel: contents fetched and stored by their hash, over a sealed stream
//! ([`crate::seal::stream`]). The first record of a stream from its caller is one byte, which says what is
//! spoken: [`BULK`] or [`ADMIN`]. After it each record is one message, all numbers little endian.
//!
//! | kind | request | body | answered by |
//! | --- | --- | --- | --- |
//! | 1 | get | hash 32, offset u64 | found, then chunks up to the end; or refused |
//! | 2 | put | hash 32, total u64 | have; or refused, no room |
//! | 3 | chunk | offset u64, CRC32C u32, bytes | after the last one: stored, refused or no room |
//! | 4 | locate | job u64, unit u128 | located; or refused |
//! | 5 | put all | CRC32C u32 of what follows; then of each content: bytes u32, its bytes | stored: all of them are; or refused, no room |
//!
//! | kind | reply | body |
//! | --- | --- | --- |
//! | 17 | found | total u64 |
//! | 18 | have | bytes u64: the put goes on from here; all of them: it is stored already |
//! | 19 | chunk | as above |
//! | 20 | stored | |
//! | 21 | refused | UTF-8, why, in words |
//! | 22 | no room | UTF-8, why: not now; to a put alone, which is to be tried again |
//! | 23 | located | hash 32, first unit u128, units u64: the content that has the unit, of a job whose units a program names |
//!
//! A transfer that breaks off goes on where it was: a get names an offset, a put is told one. The CRC finds
//! the chunk that a bad memory or disk has changed, the hash vouches for the whole.
//!
//! Both halves live here, what they decide and not what they do it with: no sockets, no files, no clock. `message` has
//! the bytes, `incoming` a content on its way into memory, `client` the worker's half and `health` whether TCP gets
//! through for it, `server` the scheduler's half.

mod client;
mod health;
mod incoming;
mod message;
mod server;

pub use client::{Client, Deed, PATIENCE_US, Source, Work};
pub use health::Health;
pub use incoming::{Incoming, chunks};
pub use message::{Chunk, Few, Located, Reply, Request};
pub use server::{Next, Server, Shelf};

use crate::bytes::Malformed;
use crate::word::words;

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
/// Either side closes a stream on which nothing was asked for this long.
pub const IDLE_US: u64 = 30_000_000;

words! {
    /// Why a message or a content is not believed. The words are for a person.
    BulkError {
        /// A record that is no message of this protocol.
        Malformed => "a message of the bulk channel cannot be read: are both sides of one release?",
        /// A chunk does not have the CRC that it says.
        Crc => "a chunk was changed on its way: check the memory and disks of both machines",
        /// A chunk does not continue the content, or goes beyond its end.
        OutOfPlace => "a chunk does not continue its content",
        /// The whole content does not have the hash that it was asked by.
        Hash => "a content does not have the hash it was asked by",
        /// Longer than [`CONTENT_BYTES_MAX`].
        TooLong => "a content is longer than 1 GiB",
    }
}

impl std::error::Error for BulkError {}

impl From<Malformed> for BulkError {
    fn from(Malformed: Malformed) -> Self {
        BulkError::Malformed
    }
}
