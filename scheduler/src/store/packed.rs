//! Packed files on the disk: their bytes are [`starfarm_protocol::packed`]'s.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use starfarm_protocol::outputs::{Batch, Owner, Piece};
use starfarm_protocol::packed::{Entry, GONE, GONE_AT, HEADER_BYTES, Label, Scan};

use crate::descriptors::wait_for;
use crate::store::disk::{FileId, damaged_name, file_id};
use crate::store::transfers::Whole;

/// Bytes that are moved at once.
const PIECE_BYTES: usize = 256 << 10;

/// A clone is the file as it was then: what is appended later is not in it.
#[derive(Clone, Debug)]
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// It is still found under its name: it was not deleted, and no other took its place.
    pub(crate) fn is_in_place(&self) -> io::Result<bool> {
        Ok(file_id(&self.path)? == Some(self.id()?))
    }

    /// Which file it is.
    pub(crate) fn id(&self) -> io::Result<FileId> {
        self.file.metadata().map(|ours| FileId::of(&ours))
    }

    /// Writes an entry behind the last one. It is durable after the file is synced.
    pub(crate) fn append(&mut self, label: Label, body: &[u8]) -> io::Result<Entry> {
        let entry = Entry::new(self.end, label, body);
        self.write(entry, |file| file.write_all_at(body, entry.body()))
    }

    /// As [`PackedFile::append`]: a content that came in piece by piece is moved in pieces.
    pub(crate) fn append_incoming(&mut self, incoming: &Whole) -> io::Result<Entry> {
        let entry = Entry::with_crc(self.end, incoming.hash.0, incoming.bytes, incoming.crc);
        self.write(entry, |file| {
            let write = |piece: &[u8], at| file.write_all_at(piece, entry.body() + at);
            incoming.each_piece(&mut vec![0; PIECE_BYTES], write)
        })
    }

    fn write(&mut self, entry: Entry, write_body: impl FnOnce(&File) -> io::Result<()>) -> io::Result<Entry> {
        let file = &self.file;
        let written = file.write_all_at(&entry.header(), entry.at).and_then(|()| write_body(file));
        match written {
            Ok(()) => self.end = entry.end(),
            // A part of it behind the end would be damage to a later scan.
            Err(_) => drop(file.set_len(self.end)),
        }
        written.map(|()| entry)
    }

    /// What the file holds, from offset `at` on; `at` is 0 or the end of an entry.
    pub(crate) fn scan(&self, at: u64) -> Scan<impl Fn(&mut [u8], u64) -> io::Result<()> + use<'_>> {
        Scan::new(|bytes: &mut [u8], at| fill(&self.file, bytes, at), at, self.end)
    }

    pub(crate) fn read(&self, entry: &Entry, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let offset = offset.min(entry.length);
        let mut bytes = vec![0; (entry.length - offset).min(max as u64) as usize];
        fill(&self.file, &mut bytes, entry.body() + offset)?;
        Ok(bytes)
    }

    /// An entry's whole body; `None` where it is not what was written.
    pub(crate) fn body(&self, entry: &Entry) -> io::Result<Option<Vec<u8>>> {
        let bytes = self.read(entry, 0, usize::MAX)?;
        Ok(entry.has_body(&bytes).then_some(bytes))
    }

    /// The outputs of a batch, one by one.
    pub(crate) fn pieces(&self, owner: &Owner, entry: &Entry, batch: &Batch) -> io::Result<Vec<Piece>> {
        let bytes = self.read(entry, 0, usize::MAX)?;
        Ok(owner.outputs(batch, &bytes, entry.has_body(&bytes)))
    }

    pub(crate) fn cut(&mut self, at: u64) -> io::Result<()> {
        self.file.set_len(at)?;
        self.end = at;
        Ok(())
    }

    /// An entry's content is gone; its place stays.
    pub(crate) fn mark_gone(&self, entry: &Entry) -> io::Result<()> {
        self.file.write_all_at(&[GONE], entry.at + GONE_AT)
    }

    /// Nothing from `at` to `end` is there any more, where entries were.
    pub(crate) fn write_hole(&self, at: u64, end: u64) -> io::Result<()> {
        self.file.write_all_at(&Entry::hole(at, end).header(), at)
    }

    /// The entry at `at`, where its content is gone.
    pub(crate) fn hole_at(&self, at: u64) -> io::Result<Option<Entry>> {
        let mut header = [0; HEADER_BYTES as usize];
        if at >= self.end {
            return Ok(None);
        }
        fill(&self.file, &mut header, at)?;
        Ok(Entry::read(at, &header).filter(|entry| entry.gone))
    }

    /// Gives the room of these bytes back to the file system, where that knows how to.
    pub(crate) fn punch(&self, from: u64, to: u64) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&*self.file, flags, from, to - from) {
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

/// Reads a file's bytes from `at` on. What somebody has cut off meanwhile is zeros, which no checksum takes for what was
/// there.
fn fill(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => {
                bytes.fill(0);
                break;
            }
            Ok(count) => {
                bytes = &mut bytes[count..];
                at += count as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::packed::{Found, WINDOW_BYTES};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-packed-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    fn all(file: &PackedFile) -> Vec<Found> {
        file.scan(0).map(Result::unwrap).collect()
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
}
