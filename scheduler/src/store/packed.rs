//! Packed files: many contents, one behind the other, in one file that only grows at its end. What a content is
//! for lies in its label, whose meaning belongs to `blobs` and `outputs`.
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
//! A scan reads headers and jumps over bodies. Where no header stands it looks for the next one by its marker: if
//! there is one, what lies between is damage and what follows is kept; if there is none, it is a torn tail.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use starfarm_protocol::bytes::Reader;

use crate::descriptors::wait_for;
use crate::store::disk::damaged_name;

pub(crate) const HEADER_BYTES: u64 = 64;
const MARKER: &[u8; 8] = b"starpk01";
const GONE_AT: u64 = 56;
const GONE: u8 = 255;
/// Bytes that a scan reads at once where it goes on, and where it has jumped over a body.
const WINDOW_BYTES: usize = 256 << 10;
const JUMP_BYTES: usize = 4 << 10;

/// Meaning of an entry to the one who wrote it.
pub(crate) type Label = [u8; 32];

/// Where an entry lies and what it says of itself. Its body is not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) label: Label,
    body_crc: u32,
    /// Its room was given back.
    pub(crate) gone: bool,
}

impl Entry {
    pub(crate) fn body(&self) -> u64 {
        self.at + HEADER_BYTES
    }

    /// Where the next entry begins.
    pub(crate) fn end(&self) -> u64 {
        self.body() + self.length
    }

    fn header(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(MARKER);
        bytes[12..16].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.label);
        let crc = crc32c::crc32c(&bytes[12..56]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The entry whose header begins `bytes` and is at `at`; `None` where that is no header.
    fn read(at: u64, bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES as usize)?;
        let mut fields = Reader(header.strip_prefix(MARKER)?);
        let (crc, body_crc, length) = (fields.u32().ok()?, fields.u32().ok()?, fields.u64().ok()?);
        let (label, gone) = (fields.array().ok()?, header[GONE_AT as usize] == GONE);
        (crc == crc32c::crc32c(&header[12..56])).then_some(Self { at, length, label, body_crc, gone })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Entry(Entry),
    /// Something else stands from the first to the second offset, where entries go on.
    Damage(u64, u64),
    /// From here to the end of the file there is no whole entry.
    Tail(u64),
}

#[derive(Debug)]
pub(crate) struct PackedFile {
    file: Arc<File>,
    path: PathBuf,
    end: u64,
}

impl PackedFile {
    /// Opens the file at `path`, or makes an empty one.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true).mode(0o600);
        Self::with(wait_for(|| options.open(path))?, path)
    }

    /// Opens the file at `path`, which must be there, for looking: it cannot be changed.
    pub(crate) fn look(path: &Path) -> io::Result<Self> {
        Self::with(wait_for(|| File::open(path))?, path)
    }

    fn with(file: File, path: &Path) -> io::Result<Self> {
        let end = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), path: path.to_owned(), end })
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The file itself, to be synced without holding a lock.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Writes an entry behind the last one. It is durable after the file is synced.
    pub(crate) fn append(&mut self, label: Label, body: &[u8]) -> io::Result<Entry> {
        let (length, body_crc) = (body.len() as u64, crc32c::crc32c(body));
        let entry = Entry { at: self.end, length, label, body_crc, gone: false };
        let file = &self.file;
        let written =
            file.write_all_at(&entry.header(), entry.at).and_then(|()| file.write_all_at(body, entry.body()));
        match written {
            Ok(()) => self.end = entry.end(),
            // A part of it behind the end would be damage to a later scan.
            Err(_) => drop(file.set_len(self.end)),
        }
        written.map(|()| entry)
    }

    /// What the file holds, from offset `at` on; `at` is 0 or the end of an entry.
    pub(crate) fn scan(&self, at: u64) -> Scan<'_> {
        Scan { window: Window::new(&self.file, self.end), at }
    }

    pub(crate) fn read(&self, entry: &Entry, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let offset = offset.min(entry.length);
        let mut bytes = vec![0; (entry.length - offset).min(max as u64) as usize];
        self.file.read_exact_at(&mut bytes, entry.body() + offset)?;
        Ok(bytes)
    }

    /// An entry's whole body; `None` where it is not what was written.
    pub(crate) fn body(&self, entry: &Entry) -> io::Result<Option<Vec<u8>>> {
        let bytes = self.read(entry, 0, usize::MAX)?;
        Ok((crc32c::crc32c(&bytes) == entry.body_crc).then_some(bytes))
    }

    pub(crate) fn cut(&mut self, at: u64) -> io::Result<()> {
        self.file.set_len(at)?;
        self.end = at;
        Ok(())
    }

    /// Gives an entry's room back to the file system, where that knows how to; the entry's place stays.
    pub(crate) fn remove(&self, entry: &Entry) -> io::Result<()> {
        self.file.write_all_at(&[GONE], entry.at + GONE_AT)?;
        if entry.length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&*self.file, flags, entry.body(), entry.length) {
            Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Renames a file of which nothing can be read, and begins a new one. Returns the new name of the old.
    pub(crate) fn set_aside(&mut self) -> io::Result<PathBuf> {
        let aside = damaged_name(&self.path);
        fs::rename(&self.path, &aside)?;
        *self = Self::open(&self.path)?;
        Ok(aside)
    }
}

pub(crate) struct Scan<'a> {
    window: Window<'a>,
    at: u64,
}

impl Scan<'_> {
    /// The next thing; `None` at the end of the file and behind a torn tail.
    pub(crate) fn next(&mut self) -> io::Result<Option<Found>> {
        if self.at >= self.window.end {
            return Ok(None);
        }
        if let Some(entry) = self.window.entry(self.at)? {
            self.at = entry.end();
            return Ok(Some(Found::Entry(entry)));
        }
        let from = std::mem::replace(&mut self.at, self.window.end);
        let Some(to) = self.window.find(from + 1)? else { return Ok(Some(Found::Tail(from))) };
        self.at = to;
        Ok(Some(Found::Damage(from, to)))
    }
}

/// A piece of a file in memory, moved forward as it is read.
struct Window<'a> {
    file: &'a File,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    fn new(file: &'a File, end: u64) -> Self {
        Self { file, end, start: 0, bytes: Vec::new() }
    }

    /// The bytes from `at` on: a header's worth at least, less only at the end of the file.
    fn from(&mut self, at: u64) -> io::Result<&[u8]> {
        let held = self.start + self.bytes.len() as u64;
        if at < self.start || at + HEADER_BYTES > held {
            let most = if at > held { JUMP_BYTES } else { WINDOW_BYTES };
            let count = self.end.saturating_sub(at).min(most as u64) as usize;
            self.bytes.resize(count, 0);
            self.file.read_exact_at(&mut self.bytes, at)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-packed-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    fn all(file: &PackedFile) -> Vec<Found> {
        let mut scan = file.scan(0);
        std::iter::from_fn(|| scan.next().unwrap()).collect()
    }

    /// A file with bodies of these lengths, and its entries.
    fn file(name: &str, lengths: &[usize]) -> (PackedFile, Vec<Entry>) {
        let mut file = PackedFile::open(&scratch(name)).unwrap();
        let entries =
            (0_u8..).zip(lengths).map(|(i, &n)| file.append([i; 32], &vec![i; n]).unwrap()).collect();
        (file, entries)
    }

    fn with_bytes(path: &Path, bytes: &[u8]) -> PackedFile {
        fs::write(path, bytes).unwrap();
        PackedFile::open(path).unwrap()
    }

    #[test]
    fn a_scan_finds_what_was_appended_across_its_windows() {
        let (file, entries) = file("scan", &[0, 1, WINDOW_BYTES - 30, 5, 3 * WINDOW_BYTES, 0, 9]);
        assert_eq!(all(&file), entries.iter().copied().map(Found::Entry).collect::<Vec<_>>());
        assert_eq!(file.body(&entries[4]).unwrap().unwrap(), vec![4; 3 * WINDOW_BYTES]);
        assert_eq!(file.read(&entries[3], 2, 9).unwrap(), [3; 3]);
        assert_eq!(file.end(), entries[6].end());
        fs::remove_file(&file.path).unwrap();
    }

    #[test]
    fn a_file_cut_at_any_byte_keeps_what_is_whole_and_goes_on() {
        let (file, entries) = file("cut", &[3, 0, 100, 17]);
        let bytes = fs::read(&file.path).unwrap();
        for length in 0..bytes.len() {
            let mut file = with_bytes(&file.path, &bytes[..length]);
            let whole: Vec<_> =
                entries.iter().filter(|entry| entry.end() <= length as u64).copied().collect();
            let end = whole.last().map_or(0, Entry::end);
            let mut expected: Vec<_> = whole.into_iter().map(Found::Entry).collect();
            let tail = (end < length as u64).then_some(Found::Tail(end));
            assert_eq!(all(&file), expected.iter().copied().chain(tail).collect::<Vec<_>>(), "{length}");
            file.cut(end).unwrap();
            expected.push(Found::Entry(file.append([9; 32], b"next").unwrap()));
            assert_eq!(all(&file), expected, "{length}");
        }
        fs::remove_file(&file.path).unwrap();
    }

    #[test]
    fn a_flipped_header_hides_one_entry_and_a_flipped_body_is_told() {
        // So that the markers behind the damage lie across the end of a window.
        for body in WINDOW_BYTES - 145..WINDOW_BYTES - 130 {
            let (file, entries) = file("flip", &[7, body, 4]);
            let mut bytes = fs::read(&file.path).unwrap();
            bytes[(entries[1].at + 20) as usize] ^= 8;
            bytes[entries[2].body() as usize] ^= 1;
            let file = with_bytes(&file.path, &bytes);
            let damage = Found::Damage(entries[1].at, entries[2].at);
            assert_eq!(all(&file), [Found::Entry(entries[0]), damage, Found::Entry(entries[2])]);
            assert!(file.body(&entries[0]).unwrap().is_some() && file.body(&entries[2]).unwrap().is_none());
            fs::remove_file(&file.path).unwrap();
        }
    }

    #[test]
    fn what_is_removed_gives_its_room_back_and_keeps_its_place() {
        let (file, entries) = file("room", &[9, 4 << 20, 9]);
        file.file().sync_all().unwrap();
        let before = rustix::fs::fstat(&*file.file()).unwrap().st_blocks;
        file.remove(&entries[1]).unwrap();
        let after = rustix::fs::fstat(&*file.file()).unwrap().st_blocks;
        assert!(after < before / 100, "{before} blocks before, {after} after");
        let gone = Entry { gone: true, ..entries[1] };
        assert_eq!(all(&file), [entries[0], gone, entries[2]].map(Found::Entry));
        fs::remove_file(&file.path).unwrap();
    }
}
