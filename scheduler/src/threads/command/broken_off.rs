//! Transfers to the bulk channel that broke off, kept so that a later connection can go on with them.

use std::collections::HashMap;

use starfarm_protocol::bulk::Incoming;
use starfarm_protocol::ids::ContentHash;

/// Bytes of transfers that broke off that are kept at most; beyond them all are dropped, and sent from their start.
const BROKEN_OFF_BYTES_MAX: u64 = 64 << 20;

/// What came of transfers whose connections broke, so that they can go on. Whoever goes on with one takes it out.
#[derive(Default)]
pub(crate) struct BrokenOff(HashMap<ContentHash, Incoming>);

impl BrokenOff {
    /// Keeps what came, unless more of the same is here.
    pub(super) fn keep(&mut self, incoming: Incoming) {
        if self.0.values().map(Incoming::offset).sum::<u64>() + incoming.offset() > BROKEN_OFF_BYTES_MAX {
            self.0.clear();
        }
        let before = self.0.get(&incoming.hash()).map_or(0, Incoming::offset);
        if incoming.offset() > before {
            self.0.insert(incoming.hash(), incoming);
        }
    }

    /// Where a put of `total` bytes goes on.
    pub(super) fn take(&mut self, hash: ContentHash, total: u64) -> Incoming {
        let kept = self.0.remove(&hash).filter(|incoming| incoming.offset() < total);
        kept.unwrap_or_else(|| Incoming::new(hash))
    }
}
