//! Places of a packed file whose contents are gone. Neighbours become one, whose header says how long it is, and all behind
//! that header goes back to the file system: short contents, of which several lie in a block of the disk, give their room
//! back as well.
//!
//! The header is synced before anything behind it goes. Else, after a power failure, the headers that were within would be
//! missing where the old first one leads to, and the next start would take that for damage.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use starfarm_protocol::packed::{Entry, HEADER_BYTES};

use crate::store::packed::PackedFile;
use crate::store::table::{Home, Table};

/// What a file system gives back at least.
const BLOCK_BYTES: u64 = 4 << 10;

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
        let (mut at, mut end) = (first.at, last.end());
        while let Some(before) = self.begins.remove(&at.to_le_bytes())? {
            at = u64::from_le_bytes(before);
        }
        while let Some(behind) = file.hole_at(end)? {
            end = behind.end();
            self.begins.remove(&end.to_le_bytes())?;
        }
        if end == file.end() {
            for (from, to) in &mut self.due {
                (*from, *to) = ((*from).min(at), (*to).min(at));
            }
            return file.cut(at);
        }
        match (at, end) == (first.at, first.end()) {
            true => file.mark_gone(first)?,
            false => file.write_hole(at, end)?,
        }
        self.put(at, end);
        Ok(())
    }

    /// The file, which is to be synced without a lock, and what may go back after that; none where nothing waits.
    pub(crate) fn waiting(&self, file: &PackedFile) -> Option<(Arc<File>, u64)> {
        (!self.due.is_empty()).then(|| (file.file(), self.given + self.due.len() as u64))
    }

    /// The file was synced: what waited before that goes back.
    pub(crate) fn give_back(&mut self, file: &PackedFile, waited: u64) -> io::Result<()> {
        while self.given < waited
            && let Some((from, to)) = self.due.pop_front()
        {
            self.given += 1;
            file.punch(from, to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    use starfarm_protocol::packed::Found;

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
        let Some((_, waited)) = holes.waiting(file) else { return };
        holes.give_back(file, waited).unwrap();
    }

    /// What a new start finds: the entries that are there, and the holes, of which no two lie side by side.
    fn scan(file: &PackedFile) -> (BTreeMap<u64, Entry>, Holes) {
        let (mut there, mut holes, mut last) = (BTreeMap::new(), Holes::new(&Home::Memory), None);
        for found in file.scan(0) {
            let Ok(Found::Entry(entry)) = found else { panic!("{found:?}") };
            if entry.gone {
                assert_ne!(last.replace(entry.end()), Some(entry.at), "two side by side");
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
        let (_, waited) = holes.waiting(&file).unwrap();
        holes.make(&mut file, &entries[2..]).unwrap();
        assert_eq!(file.end(), entries[1].at);
        let new = file.append([9; 32], &[9; 10_000]).unwrap();
        holes.make(&mut file, &entries[..1]).unwrap();
        holes.give_back(&file, waited).unwrap();
        assert_eq!(holes.waiting(&file).unwrap().1, waited + 1, "that came after the sync");
        give_back(&mut holes, &file);
        assert!(file.body(&new).unwrap().is_some());
        assert_eq!(scan(&file).0.into_values().collect::<Vec<_>>(), [new]);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn whatever_goes_in_whatever_order_the_rest_is_whole_and_little_room_is_lost() {
        for seed in 0..40_u64 {
            let path = scratch(&format!("any-{seed}"));
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut random = move |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let lengths: Vec<usize> = (0..120).map(|_| random(6_000) as usize).collect();
            let (mut file, entries) = file(&path, 120, |i| lengths[i as usize]);
            let mut there: BTreeMap<u64, Entry> = entries.iter().map(|entry| (entry.at, *entry)).collect();
            let mut holes = Holes::new(&Home::Memory);
            while !there.is_empty() {
                match random(6) {
                    0 => {
                        let new = file.append([7; 32], &vec![7; random(6_000) as usize]).unwrap();
                        there.insert(new.at, new);
                    }
                    1 => give_back(&mut holes, &file),
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
            }
            assert_eq!(file.end(), 0, "seed {seed}");
            fs::remove_file(path).unwrap();
        }
    }
}
