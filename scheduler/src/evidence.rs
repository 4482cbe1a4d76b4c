//! What the scheduler's disk shows of results: a hit by the specification of its search, an output by the contents that
//! are stored.

use std::sync::{Arc, Mutex};

use starfarm_kernels::Verifier;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_scheduler_core::Evidence;

use crate::store::blobs::Blobs;

/// Searches that are kept ready: to read one anew for each hit would hold up all that the farm does ...
const SEARCHES: usize = 256;
/// ... as far as their targets have so many bytes ...
const SEARCHES_BYTES: usize = 16 << 20;
/// ... but the last ones are kept whatever they have: two jobs may take turns.
const SEARCHES_MIN: usize = 2;

/// Evidence from the contents.
#[derive(Debug)]
pub(crate) struct OnDisk {
    blobs: Arc<Mutex<Blobs>>,
    /// What was asked about lately, the last one first.
    searches: Mutex<Vec<(ContentHash, Arc<Verifier>)>>,
}

impl OnDisk {
    pub(crate) fn new(blobs: Arc<Mutex<Blobs>>) -> Self {
        Self { blobs, searches: Mutex::default() }
    }

    fn blobs(&self) -> std::sync::MutexGuard<'_, Blobs> {
        self.blobs.lock().expect("a panic under the lock ends the process")
    }

    fn search(&self, spec: &ContentHash) -> Option<Arc<Verifier>> {
        let mut searches = self.searches.lock().expect("a panic under the lock ends the process");
        if let Some(at) = searches.iter().position(|(known, _)| known == spec) {
            searches[..=at].rotate_right(1);
        } else {
            insert(&mut searches, *spec, self.read(spec)?);
        }
        Some(Arc::clone(&searches[0].1))
    }

    /// The search of a specification that has just been stored: the first hit need not wait until it is read.
    pub(crate) fn know(&self, spec: ContentHash, search: Verifier) {
        let mut searches = self.searches.lock().expect("a panic under the lock ends the process");
        if searches.iter().all(|(known, _)| *known != spec) {
            insert(&mut searches, spec, search);
        }
    }

    fn read(&self, spec: &ContentHash) -> Option<Verifier> {
        let bytes = self.blobs().read(spec, 0, usize::MAX).ok()??;
        let JobSpec { space, work } = JobSpec::from_bytes(&bytes).ok()?;
        let Work::Search(work) = work else { return None };
        Verifier::new(&work, &space).ok()
    }
}

/// Puts a search before the others; what does not fit any more goes.
fn insert(searches: &mut Vec<(ContentHash, Arc<Verifier>)>, spec: ContentHash, search: Verifier) {
    searches.truncate(SEARCHES - 1);
    searches.insert(0, (spec, Arc::new(search)));
    let mut bytes = 0;
    let fit = searches.iter().take_while(|(_, search)| {
        bytes += search.bytes();
        bytes <= SEARCHES_BYTES
    });
    let fit = fit.count().max(SEARCHES_MIN);
    searches.truncate(fit);
}

impl Evidence for OnDisk {
    fn is_hit(&self, spec: &ContentHash, unit: u128, target: u32) -> Option<bool> {
        Some(self.search(spec)?.is_hit(unit, target))
    }

    fn is_stored(&self, hash: &ContentHash, bytes: u64) -> bool {
        // What a failing disk does not find is computed again.
        self.blobs().has(hash, bytes).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::HexBytes;
    use starfarm_protocol::spec::{Algorithm, SearchWork, Space, Stop};

    use super::*;

    /// An empty store, whose file is gone from its folder at once.
    fn store(name: &str) -> Blobs {
        let path = std::env::temp_dir().join(format!("starfarm-{name}-{}", std::process::id()));
        let blobs = Blobs::open(&path).unwrap().0;
        std::fs::remove_file(&path).unwrap();
        blobs
    }

    fn search(chars: &[u8]) -> Vec<u8> {
        // Of `b`, by RFC 1321's algorithm.
        let digest =
            [0x92, 0xeb, 0x5f, 0xfe, 0xe6, 0xae, 0x2f, 0xec, 0x3a, 0xd7, 0x1c, 0x77, 0x75, 0x31, 0x57, 0x8f];
        search_for(chars, vec![HexBytes(digest.into())])
    }

    /// With so many targets, none of which is a hit; `first` makes it another than the others.
    fn search_of(chars: &[u8], targets: u32, first: u32) -> Vec<u8> {
        let digest = |number: u32| HexBytes([[0; 12].as_slice(), &number.to_be_bytes()].concat());
        search_for(chars, (first..first + targets).map(digest).collect())
    }

    fn search_for(chars: &[u8], targets: Vec<HexBytes>) -> Vec<u8> {
        let work = SearchWork { algorithm: Algorithm::Md5, targets, stop: Stop::Never, needs: None };
        let space = Space::Chars { positions: vec![HexBytes(chars.to_vec())], min: 1 };
        JobSpec { space, work: Work::Search(work) }.to_bytes()
    }

    #[test]
    fn hits_are_checked_by_their_own_search_however_many_there_are() {
        let mut blobs = store("evidence");
        let specs: Vec<ContentHash> =
            (b'c'..=b'k').map(|last| blobs.put(&search(&[b'a', b'b', last])).unwrap()).collect();
        let other = blobs.put(b"no specification").unwrap();
        let evidence = OnDisk::new(Arc::new(Mutex::new(blobs)));
        for spec in specs.iter().chain(specs.iter().rev()) {
            assert_eq!(evidence.is_hit(spec, 1, 0), Some(true));
            assert_eq!(evidence.is_hit(spec, 0, 0), Some(false));
        }
        assert_eq!(evidence.searches.lock().unwrap().len(), specs.len(), "they are small");
        assert_eq!(evidence.is_hit(&other, 1, 0), None);
        assert_eq!(evidence.is_hit(&ContentHash::of(b"never stored"), 1, 0), None);
    }

    #[test]
    fn of_large_searches_only_as_many_are_kept_as_fit() {
        let mut blobs = store("large");
        let specs: Vec<ContentHash> =
            (1..6).map(|first| blobs.put(&search_of(b"ab", 400_000, first)).unwrap()).collect();
        let evidence = OnDisk::new(Arc::new(Mutex::new(blobs)));
        for spec in &specs {
            assert_eq!(evidence.is_hit(spec, 1, 0), Some(false));
        }
        assert_eq!(evidence.searches.lock().unwrap().len(), 2);
    }

    #[test]
    fn an_output_is_stored_where_its_content_is_there_with_that_length() {
        let mut blobs = store("stored");
        let hash = blobs.put(b"hello").unwrap();
        let evidence = OnDisk::new(Arc::new(Mutex::new(blobs)));
        assert!(evidence.is_stored(&hash, 5));
        assert!(!evidence.is_stored(&hash, 4), "another length");
        assert!(!evidence.is_stored(&ContentHash::of(b"never stored"), 12));
    }
}
