//! Memory for archives of files that units made: a bounded part of a worker's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of an archive in memory. A longer one is in a file ...
pub(super) const IN_MEMORY_MAX: u64 = 2 << 20;
/// ... and so is one where those of all slots take so much.
const ALL_IN_MEMORY_MAX: u64 = 32 << 20;

/// What the archives of all slots take of a worker's memory, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<AtomicU64>);

/// A part of it, which goes back with this.
#[derive(Debug)]
pub(super) struct Held(Memory, u64);

impl Memory {
    /// So many bytes for one archive, if there is room for it.
    pub(super) fn take(&self, bytes: u64) -> Option<Held> {
        let more = |all: u64| Some(all + bytes).filter(|all| *all <= ALL_IN_MEMORY_MAX);
        if bytes > IN_MEMORY_MAX {
            return None;
        }
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Held(self.clone(), bytes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}
