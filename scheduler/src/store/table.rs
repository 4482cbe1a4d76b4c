//! A table by key on the disk, in a file without a name: memory does not grow with it. It is gone with the process; who keeps
//! one makes it anew from what is durable.
//!
//! Entries lie where a keyed hash of their key says, or behind that where others were first. The high bits of the hash say
//! where, so that a table that becomes larger is written from front to back.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;

use crate::descriptors::wait_for;
use crate::store::disk::unnamed;

/// Places of the smallest table.
const PLACES_MIN: u64 = 1 << 10;
/// Places that are read at once.
const WINDOW: u64 = 16;
/// Bytes that are moved at once where all of it is written anew.
const PAGE_BYTES: usize = 256 << 10;

/// What the first byte of a place says.
const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// It was taken: a search goes on behind it.
const GONE: u8 = 2;

/// Where the file of a table lies.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// In this folder, which is writable.
    Folder(PathBuf),
    /// Nowhere: for who looks at a farm that is not his.
    Memory,
}

impl Home {
    fn file(&self) -> io::Result<File> {
        match self {
            Home::Folder(folder) => wait_for(|| unnamed(folder)),
            Home::Memory => {
                Ok(rustix::fs::memfd_create("table", rustix::fs::MemfdFlags::CLOEXEC).map(File::from)?)
            }
        }
    }
}

/// Values of `V` bytes by keys of `K` bytes.
#[derive(Debug)]
pub(crate) struct Table<const K: usize, const V: usize> {
    home: Home,
    hasher: RandomState,
    /// None before the first entry.
    file: Option<File>,
    /// A power of two.
    places: u64,
    taken: u64,
    gone: u64,
}

/// What a search has come to.
enum Found<const V: usize> {
    /// The entry's place.
    At(u64, [u8; V]),
    /// It is not there; it would be put here.
    Free(u64, u8),
}

impl<const K: usize, const V: usize> Table<K, V> {
    /// Bytes of a place.
    const BYTES: usize = 1 + K + V;

    /// An empty one.
    pub(crate) fn new(home: &Home) -> Self {
        Self { home: home.clone(), hasher: RandomState::new(), file: None, places: 0, taken: 0, gone: 0 }
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.taken
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let Some(file) = &self.file else { return Ok(None) };
        match self.find(file, key)? {
            Found::At(_, value) => Ok(Some(value)),
            Found::Free(..) => Ok(None),
        }
    }

    /// Gives a key a value; the one that it had.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::StorageFull`] where the table must grow and cannot. It is as before then.
    pub(crate) fn insert(&mut self, key: &[u8; K], value: &[u8; V]) -> io::Result<Option<[u8; V]>> {
        if (self.taken + self.gone + 1) * 10 > self.places * 7 {
            self.write_anew()?;
        }
        let file = self.file.as_ref().expect("a table with places has a file");
        let (at, before) = match self.find(file, key)? {
            Found::At(at, before) => (at, Some(before)),
            Found::Free(at, was) => {
                self.taken += 1;
                self.gone -= u64::from(was == GONE);
                (at, None)
            }
        };
        file.write_all_at(&place(key, value), at * Self::BYTES as u64)?;
        Ok(before)
    }

    /// Removes a key; the value that it had.
    pub(crate) fn remove(&mut self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let Some(file) = &self.file else { return Ok(None) };
        let Found::At(at, value) = self.find(file, key)? else { return Ok(None) };
        file.write_all_at(&[GONE], at * Self::BYTES as u64)?;
        self.taken -= 1;
        self.gone += 1;
        Ok(Some(value))
    }

    /// Shows each entry to `see`, in no order.
    ///
    /// # Errors
    /// The disk's, and the first of `see`, which is asked no more then.
    pub(crate) fn each(&self, mut see: impl FnMut(&[u8; K], &[u8; V]) -> io::Result<()>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let step = (PAGE_BYTES / Self::BYTES) as u64;
        let mut bytes = Vec::new();
        for from in (0..self.places).step_by(step as usize) {
            bytes.resize((self.places - from).min(step) as usize * Self::BYTES, 0);
            file.read_exact_at(&mut bytes, from * Self::BYTES as u64)?;
            bytes.chunks_exact(Self::BYTES).filter(|bytes| bytes[0] == TAKEN).try_for_each(|bytes| {
                let (key, value) = parts(bytes);
                see(key, value)
            })?;
        }
        Ok(())
    }

    /// The first place that a key may have.
    fn first(&self, key: &[u8; K], places: u64) -> u64 {
        self.hasher.hash_one(key) >> (64 - places.trailing_zeros())
    }

    fn find(&self, file: &File, key: &[u8; K]) -> io::Result<Found<V>> {
        let (mut at, mut free, mut bytes) = (self.first(key, self.places), None, Vec::new());
        loop {
            let count = WINDOW.min(self.places - at);
            bytes.resize(count as usize * Self::BYTES, 0);
            file.read_exact_at(&mut bytes, at * Self::BYTES as u64)?;
            for bytes in bytes.chunks_exact(Self::BYTES) {
                match bytes[0] {
                    TAKEN if bytes[1..=K] == key[..] => return Ok(Found::At(at, *parts::<K, V>(bytes).1)),
                    TAKEN => {}
                    was => {
                        let (first, was) = *free.get_or_insert((at, was));
                        // A place is always free: no table is full.
                        if bytes[0] == FREE {
                            return Ok(Found::Free(first, was));
                        }
                    }
                }
                at += 1;
            }
            at %= self.places;
        }
    }

    /// Writes all entries into a new file that has room for more of them, or for fewer where many have gone.
    fn write_anew(&mut self) -> io::Result<()> {
        let places = ((self.taken + 1).next_power_of_two() * 2).max(PLACES_MIN);
        let file = self.home.file()?;
        let bytes = places * Self::BYTES as u64;
        // No write behind this finds a full disk, where the file system knows how.
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
            Err(e) => return Err(e.into()),
        }
        let mut writer =
            Writer { file: &file, page: vec![0; PAGE_BYTES / Self::BYTES * Self::BYTES], from: 0 };
        self.each(|key, value| writer.put(self.first(key, places), places, &place(key, value)))?;
        writer.flush()?;
        (self.file, self.places, self.gone) = (Some(file), places, 0);
        Ok(())
    }
}

fn place<const K: usize, const V: usize>(key: &[u8; K], value: &[u8; V]) -> Vec<u8> {
    [&[TAKEN], &key[..], &value[..]].concat()
}

fn parts<const K: usize, const V: usize>(place: &[u8]) -> (&[u8; K], &[u8; V]) {
    let (key, value) = place[1..].split_at(K);
    (key.try_into().expect("a place has a key"), value.try_into().expect("and a value"))
}

/// A table as it is written from front to back: entries come in the order of their places, but for those that ran over the
/// end before.
struct Writer<'a> {
    file: &'a File,
    /// Whole places, those from byte `from` of the file on.
    page: Vec<u8>,
    from: u64,
}

impl Writer<'_> {
    /// Puts an entry at the place `at` or the next free one behind it.
    fn put(&mut self, mut at: u64, places: u64, entry: &[u8]) -> io::Result<()> {
        let bytes = entry.len() as u64;
        loop {
            let offset = at * bytes;
            if !(self.from..self.from + self.page.len() as u64).contains(&offset) {
                self.flush()?;
                self.from = offset / self.page.len() as u64 * self.page.len() as u64;
                let there = self.file.metadata()?.len().saturating_sub(self.from).min(self.page.len() as u64);
                self.file.read_exact_at(&mut self.page[..there as usize], self.from)?;
            }
            let within = (offset - self.from) as usize;
            if self.page[within] == FREE {
                self.page[within..][..entry.len()].copy_from_slice(entry);
                return Ok(());
            }
            at = (at + 1) % places;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let there = self.file.metadata()?.len().saturating_sub(self.from).min(self.page.len() as u64);
        self.file.write_all_at(&self.page[..there as usize], self.from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    type Small = Table<3, 2>;

    fn key(n: u32) -> [u8; 3] {
        [n as u8, (n >> 8) as u8, (n >> 16) as u8]
    }

    fn value(n: u64) -> [u8; 2] {
        (n as u16).to_le_bytes()
    }

    fn all(table: &Small) -> HashMap<[u8; 3], [u8; 2]> {
        let mut all = HashMap::new();
        table
            .each(|key, value| {
                assert!(all.insert(*key, *value).is_none(), "{key:?} is there twice");
                Ok(())
            })
            .unwrap();
        all
    }

    /// Beside a map in memory, through growth, removals and what comes back.
    #[test]
    fn a_table_has_what_was_put_there() {
        for home in [Home::Memory, Home::Folder(std::env::temp_dir())] {
            let (mut table, mut model) = (Small::new(&home), HashMap::new());
            assert!(table.get(&key(1)).unwrap().is_none() && table.remove(&key(1)).unwrap().is_none());
            // A generator of Knuth's: its high bits are chance enough.
            let mut random = 7_u64;
            let mut below = |most: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % most
            };
            for step in 0..60_000_u64 {
                // It grows at first, shrinks, and goes on with few.
                let keys = if step < 30_000 { 20_000 } else { 500 };
                let key = key(below(keys) as u32);
                match below(if (30_000..40_000).contains(&step) { 2 } else { 4 }) {
                    0 => assert_eq!(table.remove(&key).unwrap(), model.remove(&key), "step {step}"),
                    1 => assert_eq!(table.get(&key).unwrap(), model.get(&key).copied(), "step {step}"),
                    _ => assert_eq!(
                        table.insert(&key, &value(step)).unwrap(),
                        model.insert(key, value(step)),
                        "step {step}"
                    ),
                }
                assert_eq!(table.len(), model.len() as u64);
                if step % 5_000 == 0 {
                    assert_eq!(all(&table), model);
                }
            }
            assert_eq!(all(&table), model);
            assert!((table.taken + table.gone) * 10 <= table.places * 7);
        }
    }

    /// Contents come and go for years: the places of those that went are used again.
    #[test]
    fn a_table_does_not_grow_where_as_many_go_as_come() {
        let mut table = Small::new(&Home::Memory);
        for n in 0..200_000_u32 {
            table.insert(&key(n), &value(0)).unwrap();
            if n >= 300 {
                assert!(table.remove(&key(n - 300)).unwrap().is_some());
            }
        }
        assert_eq!((table.len(), table.places), (300, PLACES_MIN));
        (199_700..200_000).for_each(|n| assert!(table.get(&key(n)).unwrap().is_some()));
    }

    /// Searches run over the end of the table, and go on at its front, also where it is written anew.
    #[test]
    fn entries_beyond_the_end_are_at_the_front() {
        let mut table = Small::new(&Home::Memory);
        table.insert(&key(0), &value(0)).unwrap();
        table.remove(&key(0)).unwrap();
        let ends = |table: &Small, n: &u32| table.first(&key(*n), PLACES_MIN) >= PLACES_MIN - 2;
        let late: Vec<u32> = (0..1 << 20).filter(|n| ends(&table, n)).take(40).collect();
        for n in &late {
            table.insert(&key(*n), &value(u64::from(*n))).unwrap();
        }
        let is_there = |table: &Small, n: u32| table.get(&key(n)).unwrap() == Some(value(n.into()));
        assert!(late.iter().all(|n| is_there(&table, *n)));
        let others = (1 << 20..).take(700);
        for n in others.clone() {
            table.insert(&key(n), &value(n.into())).unwrap();
        }
        assert!(table.places > PLACES_MIN && late.iter().copied().chain(others).all(|n| is_there(&table, n)));
    }
}
