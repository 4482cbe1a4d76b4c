//! Packed files as bytes: many contents, one behind the other, in one file that only grows at its end. What a content is
//! for lies in its label, whose meaning belongs to who writes it. Files are opened and written elsewhere.
//!
//! An entry is a header of 64 bytes and a body; numbers are little endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..8 | the marker `starpk01` |
//! | 8..12 | CRC32C of bytes 12..56 |
//! | 12..16 | CRC32C of the body |
//! | 16..24 | bytes of the body |
//! | 24..56 | the label |
//! | 56 | 0; 255 when the content is gone and its room given back. Not under the CRC: one byte is written |
//! | 57..64 | 0 |
//!
//! Where contents that lie side by side are gone, one header with a label of zeros may stand for all of them; the rest of
//! their bytes is its body.
//!
//! A scan reads headers and jumps over bodies. Where no header stands it looks for the next one by its marker: if
//! there is one, what lies between is damage and what follows is kept; if there is none, it is a torn tail.

use std::io;

use crate::bytes::Reader;

/// Bytes of a header.
pub const HEADER_BYTES: u64 = 64;
/// Where a header says that its content is gone, and what stands there then.
pub const GONE_AT: u64 = 56;
/// See [`GONE_AT`].
pub const GONE: u8 = 255;
const MARKER: &[u8; 8] = b"starpk01";
/// Bytes that a scan reads at once where it goes on ...
pub const WINDOW_BYTES: usize = 256 << 10;
/// ... and where it has jumped over a body.
const JUMP_BYTES: usize = 4 << 10;

/// Meaning of an entry to the one who wrote it.
pub type Label = [u8; 32];

/// Where an entry lies and what it says of itself. Its body is not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Offset of its header.
    pub at: u64,
    /// Bytes of its body.
    pub length: u64,
    /// What it is for.
    pub label: Label,
    body_crc: u32,
    /// Its room was given back.
    pub gone: bool,
}

impl Entry {
    /// An entry for `body` at the offset `at`.
    pub fn new(at: u64, label: Label, body: &[u8]) -> Self {
        Self::with_crc(at, label, body.len() as u64, crc32c::crc32c(body))
    }

    /// The same for a body of `length` bytes, which has this CRC32C.
    pub fn with_crc(at: u64, label: Label, length: u64, body_crc: u32) -> Self {
        Self { at, length, label, body_crc, gone: false }
    }

    /// A place without a content from `at` to `end`, where there is a header's room at least.
    pub fn hole(at: u64, end: u64) -> Self {
        Self { gone: true, ..Self::with_crc(at, Label::default(), end - at - HEADER_BYTES, 0) }
    }

    /// Offset of its body.
    pub fn body(&self) -> u64 {
        self.at + HEADER_BYTES
    }

    /// Where the next entry begins.
    pub fn end(&self) -> u64 {
        self.body() + self.length
    }

    /// CRC32C of its body.
    pub fn body_crc(&self) -> u32 {
        self.body_crc
    }

    /// Whether `bytes` are the body that was written.
    pub fn has_body(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && crc32c::crc32c(bytes) == self.body_crc
    }

    /// Its header's bytes.
    pub fn header(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(MARKER);
        bytes[12..16].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.label);
        let crc = crc32c::crc32c(&bytes[12..56]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes[GONE_AT as usize] = if self.gone { GONE } else { 0 };
        bytes
    }

    /// The entry whose header begins `bytes` and is at `at`; `None` where that is no header.
    pub fn read(at: u64, bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES as usize)?;
        let mut fields = Reader(header.strip_prefix(MARKER)?);
        let (crc, body_crc, length) = (fields.u32().ok()?, fields.u32().ok()?, fields.u64().ok()?);
        let (label, gone) = (fields.array().ok()?, header[GONE_AT as usize] == GONE);
        (crc == crc32c::crc32c(&header[12..56])).then_some(Self { at, length, label, body_crc, gone })
    }
}

/// What a scan comes upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// An entry.
    Entry(Entry),
    /// Something else stands from the first to the second offset, where entries go on.
    Damage(u64, u64),
    /// From here to the end of the file there is no whole entry.
    Tail(u64),
}

/// Goes through a packed file. `F` fills bytes from an offset of it.
#[derive(Debug)]
pub struct Scan<F> {
    window: Window<F>,
    at: u64,
}

impl<F: Fn(&mut [u8], u64) -> io::Result<()>> Scan<F> {
    /// What a file of `end` bytes holds from `at` on, which is 0 or the end of an entry.
    pub fn new(read: F, at: u64, end: u64) -> Self {
        Self { window: Window { read, end, start: 0, bytes: Vec::new() }, at }
    }
}

impl<F: Fn(&mut [u8], u64) -> io::Result<()>> Iterator for Scan<F> {
    type Item = io::Result<Found>;

    /// The next thing; `None` at the end of the file and behind a torn tail.
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.window.end { None } else { Some(self.find()) }
    }
}

impl<F: Fn(&mut [u8], u64) -> io::Result<()>> Scan<F> {
    fn find(&mut self) -> io::Result<Found> {
        if let Some(entry) = self.window.entry(self.at)? {
            self.at = entry.end();
            return Ok(Found::Entry(entry));
        }
        let from = std::mem::replace(&mut self.at, self.window.end);
        let Some(to) = self.window.find(from + 1)? else { return Ok(Found::Tail(from)) };
        self.at = to;
        Ok(Found::Damage(from, to))
    }
}

/// A piece of a file in memory, moved forward as it is read.
#[derive(Debug)]
struct Window<F> {
    read: F,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<F: Fn(&mut [u8], u64) -> io::Result<()>> Window<F> {
    /// The bytes from `at` on: a header's worth at least, less only at the end of the file.
    fn from(&mut self, at: u64) -> io::Result<&[u8]> {
        let held = self.start + self.bytes.len() as u64;
        if at < self.start || at + HEADER_BYTES > held {
            let most = if at > held { JUMP_BYTES } else { WINDOW_BYTES };
            let count = self.end.saturating_sub(at).min(most as u64) as usize;
            self.bytes.resize(count, 0);
            (self.read)(&mut self.bytes, at)?;
            self.start = at;
        }
        Ok(&self.bytes[(at - self.start) as usize..])
    }

    /// The entry at `at`, if one is there and ends before the file does.
    fn entry(&mut self, at: u64) -> io::Result<Option<Entry>> {
        let room = self.end.saturating_sub(at).saturating_sub(HEADER_BYTES);
        Ok(Entry::read(at, self.from(at)?).filter(|entry| entry.length <= room))
    }

    /// Where the next entry begins, from `at` on.
    fn find(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        while at + HEADER_BYTES <= self.end {
            let bytes = self.from(at)?;
            match bytes.windows(MARKER.len()).position(|bytes| bytes == MARKER) {
                Some(skip) => {
                    at += skip as u64;
                    if self.entry(at)?.is_some() {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
                // The marker may begin in the last bytes.
                None => at += (bytes.len() - MARKER.len() + 1) as u64,
            }
        }
        Ok(None)
    }
}
