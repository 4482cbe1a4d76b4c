//! Many short entries put in order on the disk, in files without a name: memory does not grow with their number. Entries are
//! compared byte by byte, so numbers in them have their high bytes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::store::disk::unnamed;

/// Bytes of entries that are put in order in memory.
const RUN_BYTES: usize = 4 << 20;
/// Entries that are read at once.
const READ_ENTRIES: u64 = 1_024;

/// Entries in order, without repeats.
#[derive(Debug)]
pub(crate) struct Sorted<const N: usize> {
    file: File,
    entries: u64,
}

impl<const N: usize> Sorted<N> {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.entries
    }

    /// Up to `take` of them from the `skip`th on.
    pub(crate) fn page(&self, skip: u64, take: u64) -> io::Result<Vec<[u8; N]>> {
        let from = skip.min(self.entries);
        read(&self.file, from, take.min(self.entries - from))
    }

    /// All of them, a page at a time.
    pub(crate) fn pages(&self) -> impl Iterator<Item = io::Result<Vec<[u8; N]>>> + '_ {
        (0..self.entries).step_by(READ_ENTRIES as usize).map(|at| self.page(at, READ_ENTRIES))
    }
}

/// Entries that are being put in order.
pub(crate) struct Sorter<const N: usize> {
    dir: PathBuf,
    file: File,
    unordered: Vec<[u8; N]>,
    /// First entry and number of each run, in the file.
    runs: Vec<(u64, u64)>,
}

impl<const N: usize> Sorter<N> {
    /// Its files are made in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), file: unnamed(dir)?, unordered: Vec::new(), runs: Vec::new() })
    }

    pub(crate) fn add(&mut self, entries: impl IntoIterator<Item = [u8; N]>) -> io::Result<()> {
        self.unordered.extend(entries);
        if self.unordered.len() >= RUN_BYTES / N { self.flush() } else { Ok(()) }
    }

    /// How much was added so far, for [`Sorter::finish`].
    pub(crate) fn mark(&mut self) -> io::Result<usize> {
        self.flush()?;
        Ok(self.runs.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unordered.is_empty() {
            return Ok(());
        }
        self.unordered.sort_unstable();
        let from = self.runs.last().map_or(0, |(from, entries)| from + entries);
        self.file.write_all_at(self.unordered.as_flattened(), from * N as u64)?;
        self.runs.push((from, self.unordered.len() as u64));
        self.unordered.clear();
        Ok(())
    }

    /// All that was added, or what was added before `mark`; as long as it `goes_on`, which is asked at each page.
    pub(crate) fn finish(
        mut self,
        mark: Option<usize>,
        mut goes_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Sorted<N>> {
        self.flush()?;
        self.runs.truncate(mark.unwrap_or(usize::MAX));
        let mut cursors: Vec<Cursor<N>> =
            self.runs.iter().map(|&(at, left)| Cursor { at, left, read: Vec::new() }).collect();
        let mut heads = BinaryHeap::new();
        for (run, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(cursor.next(&self.file)?.map(|entry| Reverse((entry, run))));
        }
        let file = unnamed(&self.dir)?;
        let (mut writer, mut entries, mut last) = (BufWriter::new(&file), 0, None);
        while let Some(Reverse((entry, run))) = heads.pop() {
            if entries % READ_ENTRIES == 0 {
                goes_on()?;
            }
            if last != Some(entry) {
                writer.write_all(&entry)?;
                (entries, last) = (entries + 1, Some(entry));
            }
            heads.extend(cursors[run].next(&self.file)?.map(|entry| Reverse((entry, run))));
        }
        writer.flush()?;
        drop(writer);
        Ok(Sorted { file, entries })
    }
}

/// Where a run is read.
struct Cursor<const N: usize> {
    at: u64,
    left: u64,
    /// What was read ahead, the next one last.
    read: Vec<[u8; N]>,
}

impl<const N: usize> Cursor<N> {
    fn next(&mut self, file: &File) -> io::Result<Option<[u8; N]>> {
        if self.read.is_empty() && self.left > 0 {
            let entries = self.left.min(READ_ENTRIES);
            self.read = read(file, self.at, entries)?;
            self.read.reverse();
            (self.at, self.left) = (self.at + entries, self.left - entries);
        }
        Ok(self.read.pop())
    }
}

fn read<const N: usize>(file: &File, from: u64, entries: u64) -> io::Result<Vec<[u8; N]>> {
    let mut read = vec![[0; N]; entries as usize];
    file.read_exact_at(read.as_flattened_mut(), from * N as u64)?;
    Ok(read)
}
