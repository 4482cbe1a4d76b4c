//! Contents that came from nodes and that no result has named yet: how many bytes of each node, and since when. A node that
//! puts what belongs to nothing fills no disk with it. In memory alone: what a start finds is swept when it has been there
//! for as long (`command::room`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use starfarm_protocol::ids::{ContentHash, PublicKey};

/// Contents that no result names are removed after this: a result follows its contents within seconds, or once the worker
/// hears its scheduler again.
pub(crate) const UNNAMED_KEPT: Duration = Duration::from_secs(3_600);

/// What a content counts at least, in bytes: where it lies and who brought it takes room as well, here and on the disk.
const EACH_BYTES_MIN: u64 = 512;

/// All such contents.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    contents: HashMap<ContentHash, Content>,
    bytes: HashMap<PublicKey, u64>,
}

#[derive(Debug)]
struct Content {
    from: PublicKey,
    bytes: u64,
    since: Instant,
}

impl Unnamed {
    /// Bytes from that node.
    pub(crate) fn of(&self, key: &PublicKey) -> u64 {
        self.bytes.get(key).copied().unwrap_or(0)
    }

    /// A node has put a content that was not there before.
    pub(crate) fn put(&mut self, hash: ContentHash, from: PublicKey, bytes: u64, now: Instant) {
        let bytes = bytes.max(EACH_BYTES_MIN);
        if self.contents.insert(hash, Content { from, bytes, since: now }).is_none() {
            *self.bytes.entry(from).or_default() += bytes;
        }
    }

    /// Those that nobody has named for too long. They are counted no more.
    pub(crate) fn take_old(&mut self, now: Instant) -> Vec<ContentHash> {
        let is_old = |content: &Content| now.saturating_duration_since(content.since) >= UNNAMED_KEPT;
        let old = self.contents.iter().filter(|(_, content)| is_old(content)).map(|(hash, _)| *hash);
        let old: Vec<_> = old.collect();
        old.iter().for_each(|hash| self.forget(hash));
        old
    }

    /// It belongs to something.
    pub(crate) fn forget(&mut self, hash: &ContentHash) {
        let Some(Content { from, bytes, .. }) = self.contents.remove(hash) else { return };
        let left = self.of(&from).saturating_sub(bytes);
        match left {
            0 => self.bytes.remove(&from),
            left => self.bytes.insert(from, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_result_names_is_counted_no_more_and_what_none_names_goes_after_a_while() {
        let (mut unnamed, start) = (Unnamed::default(), Instant::now());
        let (hash, key) = (|byte| ContentHash([byte; 32]), PublicKey([7; 32]));
        for (byte, bytes) in [(1, 1_000), (2, 2_000), (3, 3_000), (3, 3_000)] {
            unnamed.put(hash(byte), key, bytes, start);
        }
        assert_eq!((unnamed.of(&key), unnamed.of(&PublicKey([8; 32]))), (6_000, 0));
        [1, 9].iter().for_each(|byte| unnamed.forget(&hash(*byte)));
        assert_eq!(unnamed.of(&key), 5_000);
        unnamed.put(hash(4), key, 5, start + UNNAMED_KEPT / 2);
        assert_eq!(unnamed.take_old(start + UNNAMED_KEPT / 2), []);
        let mut old = unnamed.take_old(start + UNNAMED_KEPT);
        old.sort();
        assert_eq!((old, unnamed.of(&key)), (vec![hash(2), hash(3)], EACH_BYTES_MIN));
        assert_eq!(unnamed.take_old(start + UNNAMED_KEPT * 2), [hash(4)]);
        assert_eq!((unnamed.of(&key), unnamed.bytes.len()), (0, 0));
    }
}
