//! Contents on their way in from nodes. One that is longer than a chunk lies in a file without a name, so that memory
//! does not grow with it. What came of those whose streams broke is kept for a while, for the node that sent it: it goes
//! on there.

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

/// A content that comes in piece by piece. It survives the stream that it came by.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) hash: ContentHash,
    pub(crate) offset: u64,
    pub(crate) crc: u32,
    hasher: blake3::Hasher,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// A chunk at most.
    Memory(Vec<u8>),
    Disk(File),
}

impl Incoming {
    /// Nothing has come yet of a content of `total` bytes. A file is in the directory `dir`.
    pub(crate) fn new(hash: ContentHash, total: u64, dir: &Path) -> io::Result<Self> {
        let body = match total > CHUNK_BYTES as u64 {
            true => Body::Disk(unnamed(dir)?),
            false => Body::Memory(Vec::new()),
        };
        Ok(Self { hash, offset: 0, crc: 0, hasher: blake3::Hasher::new(), body })
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.body {
            Body::Memory(all) => all.extend_from_slice(bytes),
            Body::Disk(file) => file.write_all_at(bytes, self.offset)?,
        }
        self.hasher.update(bytes);
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// What came has the hash that it was announced with.
    pub(crate) fn is_right(&self) -> bool {
        *self.hasher.finalize().as_bytes() == self.hash.0
    }

    /// Its bytes from `offset` on fill `bytes`.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.body {
            Body::Memory(all) => bytes.copy_from_slice(&all[offset as usize..][..bytes.len()]),
            Body::Disk(file) => file.read_exact_at(bytes, offset)?,
        }
        Ok(())
    }

    fn is_on_disk(&self) -> bool {
        matches!(self.body, Body::Disk(_))
    }
}

/// What is on its way from all nodes.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Bytes that each node has announced on its connections.
    announced: HashMap<PublicKey, u64>,
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

    /// Keeps what came from a node before its stream broke. A chunk is sent again as easily.
    pub(crate) fn keep(&mut self, from: PublicKey, incoming: Incoming, now: Instant) {
        if !incoming.is_on_disk() || incoming.offset == 0 {
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
        assert_eq!(transfers.take(&greedy, &ContentHash([197; 32])).unwrap().offset, CHUNK_BYTES as u64);
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
    fn a_long_content_lies_on_the_disk_and_one_that_is_not_what_it_says_is_noticed() {
        let content = vec![7; 100_000];
        for total in [100_000, 60_000, 0] {
            let content = &content[..total];
            let mut incoming =
                Incoming::new(ContentHash::of(content), total as u64, &std::env::temp_dir()).unwrap();
            content.chunks(CHUNK_BYTES).for_each(|chunk| incoming.take(chunk).unwrap());
            assert!(incoming.is_right());
            assert_eq!(incoming.is_on_disk(), total > CHUNK_BYTES);
            let mut bytes = vec![0; total];
            incoming.read(&mut bytes, 0).unwrap();
            assert_eq!(bytes, content);
            incoming.take(b"x").unwrap();
            assert!(!incoming.is_right());
        }
    }
}
