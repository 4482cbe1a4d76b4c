//! Places of a packed file whose contents are gone. Neighbours become one, whose header says how long it is, and all behind
//! that header goes back to the file system: short contents, of which several lie in a block of the disk, give their room
//! back as well.
//!
//! The header is synced before anything behind it goes, and it is written only where it lies in one sector of the disk, so
//! that all of it is there or nothing. Else, after a power failure, no header might be found where one must be, and the next
//! start would take that for damage.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use starfarm_protocol::packed::{Entry, HEADER_BYTES};

use crate::store::packed::PackedFile;
use crate::store::table::{Home, Table};

/// What a file system gives back at least.
const BLOCK_BYTES: u64 = 4 << 10;
/// What a disk writes as a whole at least.
const SECTOR_BYTES: u64 = 512;
/// Holes whose room goes back while nobody else has the file.
const AT_ONCE: usize = 500;

/// All of one file.
#[derive(Debug)]
pub(crate) struct Holes {
    /// Where each begins, by its end.
    begins: Table<8, 8>,
    /// What may go back to the file system once the header before it is synced, the oldest first.
    due: VecDeque<(u64, u64)>,
    /// How many went back.
    given: u64,
}

/// A file that is to be synced, which needs no lock, and how many of its holes that are given or due by then.
pub(crate) struct Waiting(Arc<File>, u64);

/// It was synced.
pub(crate) struct Synced(u64);

impl Waiting {
    pub(crate) fn sync(self) -> io::Result<Synced> {
        self.0.sync_data().map(|()| Synced(self.1))
    }
}

/// Whether a header at that place is written as a whole.
fn is_in_one_sector(at: u64) -> bool {
    at % SECTOR_BYTES + HEADER_BYTES <= SECTOR_BYTES
}

impl Holes {
    pub(crate) fn new(home: &Home) -> Self {
        Self { begins: Table::new(home), due: VecDeque::new(), given: 0 }
    }

    /// One that a scan has found. The start before may have ended before its room went back.
    pub(crate) fn note(&mut self, gone: &Entry) {
        self.put(gone.at, gone.end());
    }

    fn put(&mut self, at: u64, end: u64) {
        // A full disk may not take it. It does not join with what goes behind it then.
        drop(self.begins.insert(&end.to_le_bytes(), &at.to_le_bytes()));
        let from = at + HEADER_BYTES;
        // Less than a block gives nothing back.
        if from.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES <= end {
            self.due.push_back((from, end));
        }
    }

    /// The contents of these entries, which lie side by side, are gone. At the file's end it becomes shorter.
    pub(crate) fn make(&mut self, file: &mut PackedFile, run: &[Entry]) -> io::Result<()> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let (mut at, mut end, mut behind) = (first.at, last.end(), Vec::new());
        while let Some(hole) = file.hole_at(end)? {
            end = hole.end();
            behind.push(end);
        }
        let is_last = end == file.end();
        while let Some(before) = self.begins.get(&at.to_le_bytes())?.map(u64::from_le_bytes) {
            if !is_last && !is_in_one_sector(before) {
                break;
            }
            self.begins.remove(&at.to_le_bytes())?;
            at = before;
        }
        // Where it does not join one before, those whose headers may not be written anew stay for themselves.
        let alone = match at == first.at && !is_last {
            true => run.iter().take_while(|entry| !is_in_one_sector(entry.at)).count(),
            false => 0,
        };
        for entry in &run[..alone] {
            file.mark_gone(entry)?;
            self.put(entry.at, entry.end());
        }
        let Some(start) = run.get(alone) else { return Ok(()) };
        behind.iter().try_for_each(|end| self.begins.remove(&end.to_le_bytes()).map(drop))?;
        if is_last {
            for (from, to) in &mut self.due {
                (*from, *to) = ((*from).min(at), (*to).min(at));
            }
            return file.cut(at);
        }
        at = if alone > 0 { start.at } else { at };
        match (at, end) == (start.at, start.end()) {
            true => file.mark_gone(start)?,
            false => file.write_hole(at, end)?,
        }
        self.put(at, end);
        Ok(())
    }

    /// What is to be synced before room goes back; none where none waits.
    pub(crate) fn waiting(&self, file: &PackedFile) -> Option<Waiting> {
        (!self.due.is_empty()).then(|| Waiting(file.file(), self.given + self.due.len() as u64))
    }

    /// What waited before that sync goes back, or a part of it: whether it was all.
    pub(crate) fn give_back(&mut self, file: &PackedFile, Synced(waited): &Synced) -> io::Result<bool> {
        let count = (waited.saturating_sub(self.given) as usize).min(self.due.len());
        for (from, to) in self.due.drain(..count.min(AT_ONCE)) {
            self.given += 1;
            file.punch(from, to)?;
        }
        Ok(count <= AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    use starfarm_protocol::packed::Found;
    use starfarm_protocol::random::SplitMix64;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-holes-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    /// A file with so many entries of these lengths, and where they lie.
    fn file(path: &Path, count: u32, length: impl Fn(u32) -> usize) -> (PackedFile, Vec<Entry>) {
        let mut file = PackedFile::open(path).unwrap();
        let append = |i: u32| file.append([i as u8; 32], &vec![i as u8; length(i)]).unwrap();
        let entries = (0..count).map(append).collect();
        file.file().sync_all().unwrap();
        (file, entries)
    }

    fn bytes_on_disk(file: &PackedFile) -> u64 {
        file.file().sync_all().unwrap();
        rustix::fs::fstat(&*file.file()).unwrap().st_blocks as u64 * 512
    }

    fn give_back(holes: &mut Holes, file: &PackedFile) {
        let Some(synced) = holes.waiting(file).map(|waiting| waiting.sync().unwrap()) else { return };
        while !holes.give_back(file, &synced).unwrap() {}
    }

    /// What a new start finds: the entries that are there, and the holes. Where two lie side by side, the header of the first
    /// could not be written anew.
    fn scan(file: &PackedFile) -> (BTreeMap<u64, Entry>, Holes) {
        let (mut there, mut holes) = (BTreeMap::new(), Holes::new(&Home::Memory));
        let mut last = None::<Entry>;
        for found in file.scan(0) {
            let Ok(Found::Entry(entry)) = found else { panic!("{found:?}") };
            if entry.gone {
                let before = last.replace(entry).filter(|before| before.end() == entry.at);
                assert!(before.is_none_or(|before| !is_in_one_sector(before.at)), "two side by side");
                holes.note(&entry);
            } else {
                assert!(file.body(&entry).unwrap().is_some());
                there.insert(entry.at, entry);
            }
        }
        (there, holes)
    }

    #[test]
    fn what_is_removed_gives_its_room_back_and_keeps_its_place() {
        let path = scratch("room");
        let (mut file, entries) = file(&path, 3, |i| if i == 1 { 4 << 20 } else { 9 });
        let (before, mut holes) = (bytes_on_disk(&file), Holes::new(&Home::Memory));
        holes.make(&mut file, &entries[1..2]).unwrap();
        assert_eq!(bytes_on_disk(&file), before, "the header is synced first");
        give_back(&mut holes, &file);
        assert!(bytes_on_disk(&file) < before / 100, "{before} before, {} after", bytes_on_disk(&file));
        let mut gone = entries[1];
        gone.gone = true;
        let found: Vec<_> = file.scan(0).map(Result::unwrap).collect();
        assert_eq!(found, [entries[0], gone, entries[2]].map(Found::Entry));
        fs::remove_file(path).unwrap();
    }

    /// Of two jobs that ran side by side, one was deleted, and then the other.
    #[test]
    fn short_contents_give_their_room_back_when_their_neighbours_are_gone_too() {
        let path = scratch("short");
        let (mut file, entries) = file(&path, 4_001, |_| 1_000);
        let (before, mut holes) = (bytes_on_disk(&file), Holes::new(&Home::Memory));
        for entry in entries[..4_000].iter().step_by(2) {
            holes.make(&mut file, &[*entry]).unwrap();
        }
        give_back(&mut holes, &file);
        // A new start knows no more than what the file says.
        holes = scan(&file).1;
        for entry in entries[..4_000].iter().skip(1).step_by(2) {
            holes.make(&mut file, &[*entry]).unwrap();
        }
        give_back(&mut holes, &file);
        assert!(bytes_on_disk(&file) < 20_000, "{before} before, {} after", bytes_on_disk(&file));
        assert_eq!(scan(&file).0.into_values().collect::<Vec<_>>(), [entries[4_000]]);
        holes.make(&mut file, &entries[4_000..]).unwrap();
        assert_eq!((file.end(), fs::metadata(&path).unwrap().len()), (0, 0));
        fs::remove_file(path).unwrap();
    }

    /// What waits for a sync must not hit what was written there since.
    #[test]
    fn what_is_written_where_the_file_was_cut_stays() {
        let path = scratch("cut");
        let (mut file, entries) = file(&path, 3, |_| 10_000);
        let mut holes = Holes::new(&Home::Memory);
        holes.make(&mut file, &entries[1..2]).unwrap();
        let synced = holes.waiting(&file).unwrap().sync().unwrap();
        holes.make(&mut file, &entries[2..]).unwrap();
        assert_eq!(file.end(), entries[1].at);
        let new = file.append([9; 32], &[9; 10_000]).unwrap();
        holes.make(&mut file, &entries[..1]).unwrap();
        while !holes.give_back(&file, &synced).unwrap() {}
        assert_eq!(holes.waiting(&file).unwrap().1, synced.0 + 1, "that came after the sync");
        give_back(&mut holes, &file);
        assert!(file.body(&new).unwrap().is_some());
        assert_eq!(scan(&file).0.into_values().collect::<Vec<_>>(), [new]);
        fs::remove_file(path).unwrap();
    }

    /// Room of what is there and of the headers of holes, in whole blocks, and a few of the file system's own.
    fn bytes_at_most(file: &PackedFile) -> u64 {
        let mut blocks = BTreeSet::new();
        for found in file.scan(0) {
            let Ok(Found::Entry(entry)) = found else { panic!("{found:?}") };
            let last = if entry.gone { entry.body() } else { entry.end() };
            blocks.extend(entry.at / BLOCK_BYTES..=(last - 1) / BLOCK_BYTES);
            // A part of a block is not given back.
            blocks.insert((entry.end() - 1) / BLOCK_BYTES);
        }
        (blocks.len() as u64 + 4) * BLOCK_BYTES
    }

    #[test]
    fn whatever_goes_in_whatever_order_the_rest_is_whole_and_little_room_is_lost() {
        for seed in 0..40_u64 {
            let path = scratch(&format!("any-{seed}"));
            let mut dice = SplitMix64(seed);
            let mut random = move |below| dice.below(below);
            let lengths: Vec<usize> = (0..120).map(|_| random(6_000) as usize).collect();
            let (mut file, entries) = file(&path, 120, |i| lengths[i as usize]);
            let mut there: BTreeMap<u64, Entry> = entries.iter().map(|entry| (entry.at, *entry)).collect();
            let mut appended: BTreeMap<u64, u64> =
                entries.iter().map(|entry| (entry.at, entry.end())).collect();
            let mut holes = Holes::new(&Home::Memory);
            while !there.is_empty() {
                match random(6) {
                    0 => {
                        let new = file.append([7; 32], &vec![7; random(6_000) as usize]).unwrap();
                        there.insert(new.at, new);
                        appended.insert(new.at, new.end());
                    }
                    1 => {
                        give_back(&mut holes, &file);
                        let (most, bytes) = (bytes_at_most(&file), bytes_on_disk(&file));
                        assert!(bytes <= most, "seed {seed}: {bytes} bytes, {most} at most");
                    }
                    2 => holes = scan(&file).1,
                    _ => {
                        let from = random(there.len() as u64) as usize;
                        let count = 1 + random(4) as usize;
                        let run: Vec<Entry> = there.values().skip(from).take(count).copied().collect();
                        for run in run.chunk_by(|entry, next| entry.end() == next.at) {
                            holes.make(&mut file, run).unwrap();
                        }
                        there.retain(|at, _| !run.iter().any(|entry| entry.at == *at));
                    }
                }
                assert_eq!(scan(&file).0, there, "seed {seed}");
                for found in file.scan(0) {
                    let Ok(Found::Entry(entry)) = found else { panic!("{found:?}") };
                    let is_as_it_was = appended.get(&entry.at) == Some(&entry.end());
                    assert!(
                        is_as_it_was || is_in_one_sector(entry.at),
                        "seed {seed}: {entry:?} could be torn"
                    );
                }
            }
            assert_eq!(file.end(), 0, "seed {seed}");
            fs::remove_file(path).unwrap();
        }
    }
}
