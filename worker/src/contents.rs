//! Contents that came over the bulk channel, kept by hash while there is room: specifications and pieces
//! of lists. Fetching itself is in `bulk`.

use std::sync::{Arc, Mutex, MutexGuard};

use starfarm_decomposers::Chunks;
use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::{ContentHash, JobId};

use crate::bulk::{Bulk, FetchError};
use starfarm_exec::CancelFlag;

/// Bytes that are kept; the newest content is kept even if it alone is longer.
const KEPT_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Contents {
    bulk: Bulk,
    kept: Mutex<Kept>,
}

impl Contents {
    pub(crate) fn new(bulk: Bulk) -> Self {
        Self { bulk, kept: Mutex::new(Kept { contents: Vec::new(), bytes_max: KEPT_BYTES_MAX }) }
    }

    /// The content with this hash, fetched if it is not here.
    pub(crate) fn get(&self, hash: ContentHash, cancel: &CancelFlag) -> Result<Arc<[u8]>, FetchError> {
        if let Some(content) = self.lock().look_up(&hash) {
            return Ok(content);
        }
        let content: Arc<[u8]> = self.bulk.get(hash, cancel)?.into();
        self.lock().insert(hash, Arc::clone(&content));
        Ok(content)
    }

    /// The content with this hash, which is not kept here.
    pub(crate) fn fetch(&self, hash: ContentHash, cancel: &CancelFlag) -> Result<Vec<u8>, FetchError> {
        self.bulk.get(hash, cancel)
    }

    /// The content that has the value of a unit which a program named.
    pub(crate) fn locate(&self, job: JobId, unit: u128, cancel: &CancelFlag) -> Result<Located, FetchError> {
        self.bulk.locate(job, unit, cancel)
    }

    /// The channel itself, for what is stored.
    pub(crate) fn bulk(&self) -> &Bulk {
        &self.bulk
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("a panic ends the process")
    }
}

impl Chunks for Contents {
    fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>> {
        self.lock().look_up(hash)
    }
}

/// The kept contents. The one that was asked for last is last, so that it is found at once.
struct Kept {
    contents: Vec<(ContentHash, Arc<[u8]>)>,
    bytes_max: usize,
}

impl Kept {
    fn look_up(&mut self, hash: &ContentHash) -> Option<Arc<[u8]>> {
        let at = self.contents.iter().rposition(|(kept, _)| kept == hash)?;
        self.contents[at..].rotate_left(1);
        self.contents.last().map(|(_, content)| Arc::clone(content))
    }

    /// Keeps a content, and drops those that were not asked for the longest.
    fn insert(&mut self, hash: ContentHash, content: Arc<[u8]>) {
        self.contents.retain(|(kept, _)| *kept != hash);
        self.contents.push((hash, content));
        while self.bytes() > self.bytes_max && self.contents.len() > 1 {
            self.contents.remove(0);
        }
    }

    fn bytes(&self) -> usize {
        self.contents.iter().map(|(_, content)| content.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_asked_for_is_dropped_first_and_the_newest_never() {
        let hash = |n| ContentHash([n; 32]);
        let mut kept = Kept { contents: Vec::new(), bytes_max: 100 };
        for n in 0..4 {
            kept.insert(hash(n), vec![n; 30].into());
            kept.look_up(&hash(0));
        }
        let here: Vec<bool> = (0..4).map(|n| kept.look_up(&hash(n)).is_some()).collect();
        assert_eq!(here, [true, false, true, true]);
        kept.insert(hash(9), vec![9; 500].into());
        assert_eq!((kept.contents.len(), kept.bytes()), (1, 500));
        kept.insert(hash(9), vec![9; 500].into());
        assert_eq!(kept.bytes(), 500);
    }
}
