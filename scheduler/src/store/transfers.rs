//! Contents on their way in from nodes. A short one lies in memory, of which all have a fixed part, else in a file without a
//! name. What came of those whose streams broke is kept on the disk for a while, for the node that sent it: it goes on there.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use starfarm_protocol::bulk::CHUNK_BYTES;
use starfarm_protocol::ids::{ContentHash, PublicKey};

use crate::store::disk::unnamed;

/// Transfers of a node that broke off: one for each connection that it may have.
const BROKEN_OFF_OF_NODE_MAX: usize = 4;
/// Files of all transfers that broke off. Descriptors for them are set aside.
const BROKEN_OFF_MAX: usize = 64;
/// Bytes of them on the disk: the longest content fits.
const BROKEN_OFF_BYTES_MAX: u64 = 1 << 30;
/// A worker whose connection broke opens another one as soon as it gets through. What nobody goes on with for so long is
/// dropped.
const BROKEN_OFF_KEPT: Duration = Duration::from_secs(600);

/// Bytes of all contents that come in from nodes and lie in memory. Others lie on the disk.
const IN_MEMORY_MAX: u64 = 32 << 20;
/// Bytes of one of them.
const EACH_IN_MEMORY_MAX: u64 = 4 << 20;

/// A content that comes in piece by piece. It survives the stream that it came by.
#[derive(Debug)]
pub(crate) struct Incoming {
    hash: ContentHash,
    offset: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Memory(Vec<u8>),
    Disk(Box<OnDisk>),
}

#[derive(Debug)]
struct OnDisk {
    file: File,
    hasher: blake3::Hasher,
    crc: u32,
}

impl OnDisk {
    fn take(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        self.hasher.update(bytes);
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Ok(())
    }
}

impl Incoming {
    /// Nothing has come yet. It is to lie in memory.
    pub(crate) fn in_memory(hash: ContentHash) -> Self {
        Self { hash, offset: 0, body: Body::Memory(Vec::new()) }
    }

    /// Nothing has come yet. It is to lie in a file without a name in the directory `dir`, unless a chunk holds all of it.
    pub(crate) fn new(hash: ContentHash, total: u64, dir: &Path) -> io::Result<Self> {
        let mut new = Self::in_memory(hash);
        if total > CHUNK_BYTES as u64 {
            new.move_to_disk(dir)?;
        }
        Ok(new)
    }

    /// It is to lie on the disk from now on, if it does not.
    pub(crate) fn move_to_disk(&mut self, dir: &Path) -> io::Result<()> {
        if let Body::Memory(all) = &self.body {
            let mut on_disk = Box::new(OnDisk { file: unnamed(dir)?, hasher: blake3::Hasher::new(), crc: 0 });
            on_disk.take(all, 0)?;
            self.body = Body::Disk(on_disk);
        }
        Ok(())
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self.body, Body::Disk(_))
    }

    /// Bytes that have come.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.body {
            Body::Memory(all) => all.extend_from_slice(bytes),
            Body::Disk(on_disk) => on_disk.take(bytes, self.offset)?,
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// The content, where what came has the hash that it was announced with.
    pub(crate) fn finish(self) -> Option<Whole> {
        let Self { hash, offset, body } = self;
        let (came, crc) = match &body {
            Body::Memory(all) => (ContentHash::of(all), crc32c::crc32c(all)),
            Body::Disk(on_disk) => (ContentHash(*on_disk.hasher.finalize().as_bytes()), on_disk.crc),
        };
        (came == hash).then_some(Whole { hash, bytes: offset, crc, body })
    }
}

/// A content that came in and is what its hash says.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
    body: Body,
}

impl Whole {
    /// Shows its bytes in order, a piece at a time; a piece that was read from the disk is in `room`.
    ///
    /// # Errors
    /// The disk's, also where it has changed what was written there, and those of `see`.
    pub(crate) fn each_piece(
        &self,
        room: &mut [u8],
        mut see: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let on_disk = match &self.body {
            Body::Memory(all) => return see(all, 0),
            Body::Disk(on_disk) => on_disk,
        };
        let (mut at, mut crc) = (0, 0);
        while at < self.bytes {
            let count = (self.bytes - at).min(room.len() as u64) as usize;
            let piece = &mut room[..count];
            on_disk.file.read_exact_at(piece, at)?;
            crc = crc32c::crc32c_append(crc, piece);
            see(piece, at)?;
            at += count as u64;
        }
        let is_right = crc == self.crc;
        if is_right { Ok(()) } else { Err(io::Error::other("the disk has changed what was written")) }
    }
}

/// What is on its way from all nodes.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Bytes that each node has announced on its connections.
    announced: HashMap<PublicKey, u64>,
    /// Bytes that those have announced which lie in memory.
    in_memory: u64,
    /// The oldest first.
    broken_off: VecDeque<BrokenOff>,
}

#[derive(Debug)]
struct BrokenOff {
    from: PublicKey,
    incoming: Incoming,
    since: Instant,
}

impl Transfers {
    /// Bytes that a node has announced.
    pub(crate) fn of(&self, key: &PublicKey) -> u64 {
        self.announced.get(key).copied().unwrap_or(0)
    }

    /// A node announces so many bytes.
    pub(crate) fn begin(&mut self, key: PublicKey, total: u64) {
        *self.announced.entry(key).or_default() += total;
    }

    /// They have come, or their stream broke.
    pub(crate) fn end(&mut self, key: PublicKey, total: u64) {
        match self.of(&key).saturating_sub(total) {
            0 => self.announced.remove(&key),
            left => self.announced.insert(key, left),
        };
    }

    /// Whether a content of so many bytes may lie in memory until [`Transfers::free_memory`].
    pub(crate) fn take_memory(&mut self, total: u64) -> bool {
        let fits = total <= EACH_IN_MEMORY_MAX && self.in_memory + total <= IN_MEMORY_MAX;
        self.in_memory += if fits { total } else { 0 };
        fits
    }

    pub(crate) fn free_memory(&mut self, total: u64) {
        self.in_memory -= total;
    }

    /// Keeps what came from a node before its stream broke, and lies on the disk. A chunk is sent again as easily.
    pub(crate) fn keep(&mut self, from: PublicKey, incoming: Incoming, now: Instant) {
        if incoming.offset < CHUNK_BYTES as u64 || !incoming.is_on_disk() {
            return;
        }
        drop(self.take(&from, &incoming.hash));
        self.broken_off.push_back(BrokenOff { from, incoming, since: now });
        if self.broken_off.iter().filter(|it| it.from == from).count() > BROKEN_OFF_OF_NODE_MAX {
            self.drop_oldest_of(&from);
        }
        // Who has most gives way: no node throws away what others have broken off.
        while self.bytes(|_| true) > BROKEN_OFF_BYTES_MAX || self.broken_off.len() > BROKEN_OFF_MAX {
            let nodes = self.broken_off.iter().map(|it| it.from);
            let Some(most) = nodes.max_by_key(|key| self.bytes(|it| it == key)) else { return };
            self.drop_oldest_of(&most);
        }
    }

    /// What came of a content from that node before.
    pub(crate) fn take(&mut self, key: &PublicKey, hash: &ContentHash) -> Option<Incoming> {
        let at = self.broken_off.iter().position(|it| it.from == *key && it.incoming.hash == *hash)?;
        self.broken_off.remove(at).map(|it| it.incoming)
    }

    /// Drops what nobody has gone on with for too long.
    pub(crate) fn drop_old(&mut self, now: Instant) {
        self.broken_off.retain(|it| now.saturating_duration_since(it.since) < BROKEN_OFF_KEPT);
    }

    /// The disk is nearly full, and all of it can be sent again.
    pub(crate) fn drop_broken_off(&mut self) {
        self.broken_off.clear();
    }

    fn drop_oldest_of(&mut self, key: &PublicKey) {
        let at = self.broken_off.iter().position(|it| it.from == *key);
        drop(at.and_then(|at| self.broken_off.remove(at)));
    }

    fn bytes(&self, of: impl Fn(&PublicKey) -> bool) -> u64 {
        self.broken_off.iter().filter(|it| of(&it.from)).map(|it| it.incoming.offset).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 1 << 20;

    fn broken(byte: u8) -> Incoming {
        let mut incoming = Incoming::new(ContentHash([byte; 32]), LONG, &std::env::temp_dir()).unwrap();
        incoming.take(&vec![byte; CHUNK_BYTES]).unwrap();
        incoming
    }

    /// All that had broken off was thrown away together, whoever it came from.
    #[test]
    fn who_breaks_off_much_loses_its_own_and_nothing_of_others() {
        let (mut transfers, start) = (Transfers::default(), Instant::now());
        let (first, greedy) = (PublicKey([1; 32]), PublicKey([2; 32]));
        transfers.keep(first, broken(1), start);
        (1..=200).for_each(|byte| transfers.keep(greedy, broken(byte), start));
        assert!(transfers.take(&greedy, &ContentHash([196; 32])).is_none());
        assert!(transfers.take(&greedy, &ContentHash([1; 32])).is_none(), "another node's is not its own");
        assert_eq!(transfers.take(&greedy, &ContentHash([197; 32])).unwrap().offset(), CHUNK_BYTES as u64);
        // So do many together: the first has one, each of these three.
        transfers.keep(first, broken(1), start);
        (3..=40).for_each(|key| {
            (1..=3).for_each(|byte| transfers.keep(PublicKey([key; 32]), broken(byte), start))
        });
        assert_eq!(transfers.broken_off.len(), BROKEN_OFF_MAX);
        assert!(transfers.take(&first, &ContentHash([1; 32])).is_some());
    }

    #[test]
    fn what_nobody_goes_on_with_is_dropped_after_a_while() {
        let (mut transfers, start, key) = (Transfers::default(), Instant::now(), PublicKey([1; 32]));
        transfers.keep(key, broken(1), start);
        transfers.keep(key, broken(2), start + Duration::from_secs(1));
        transfers.drop_old(start + BROKEN_OFF_KEPT);
        assert!(transfers.take(&key, &ContentHash([1; 32])).is_none());
        assert!(transfers.take(&key, &ContentHash([2; 32])).is_some());
    }

    #[test]
    fn bytes_that_are_announced_count_until_they_have_come() {
        let (mut transfers, key) = (Transfers::default(), PublicKey([1; 32]));
        transfers.begin(key, LONG);
        transfers.begin(key, 1);
        assert_eq!((transfers.of(&key), transfers.of(&PublicKey([2; 32]))), (LONG + 1, 0));
        transfers.end(key, LONG);
        transfers.end(key, 1);
        assert!(transfers.announced.is_empty());
    }

    #[test]
    fn few_contents_lie_in_memory() {
        let mut transfers = Transfers::default();
        assert!(!transfers.take_memory(EACH_IN_MEMORY_MAX + 1));
        let count = IN_MEMORY_MAX / EACH_IN_MEMORY_MAX;
        assert!((0..count).all(|_| transfers.take_memory(EACH_IN_MEMORY_MAX)) && !transfers.take_memory(1));
        transfers.free_memory(EACH_IN_MEMORY_MAX);
        assert!(transfers.take_memory(1) && !transfers.take_memory(EACH_IN_MEMORY_MAX));
    }

    #[test]
    fn a_content_is_whole_wherever_it_lies_and_one_that_is_not_what_it_says_is_noticed() {
        let (content, dir) = (vec![7; 1_000_000], std::env::temp_dir());
        for total in [1_000_000, 60_000, 0] {
            let content = &content[..total];
            let hash = ContentHash::of(content);
            let begin = |moves_at: usize| {
                let mut incoming = Incoming::in_memory(hash);
                for (at, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
                    if at == moves_at {
                        incoming.move_to_disk(&dir).unwrap();
                    }
                    incoming.take(chunk).unwrap();
                }
                incoming
            };
            for moves_at in [0, 3, usize::MAX] {
                let (mut bytes, mut room) = (Vec::new(), vec![0; 70_000]);
                let whole = begin(moves_at).finish().unwrap();
                let see = |piece: &[u8], at: u64| {
                    assert_eq!(at, bytes.len() as u64);
                    bytes.extend_from_slice(piece);
                    Ok(())
                };
                whole.each_piece(&mut room, see).unwrap();
                let crc = crc32c::crc32c(content);
                assert!(bytes == content && (whole.bytes, whole.crc) == (total as u64, crc));
                let mut longer = begin(moves_at);
                longer.take(b"x").unwrap();
                assert!(longer.finish().is_none());
            }
        }
        let is_on_disk = |total| Incoming::new(ContentHash::of(b""), total, &dir).unwrap().is_on_disk();
        assert!(is_on_disk(CHUNK_BYTES as u64 + 1) && !is_on_disk(CHUNK_BYTES as u64));
    }
}
