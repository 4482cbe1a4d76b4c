//! How little room may be left: on the disk below the state directory, and under the limit to what jobs store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Free MiB below which nothing new is taken in, where nobody says otherwise.
pub(crate) const LOW_WATER_MIB: u64 = 64;

/// Bytes that may still be written by us below `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Too little room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lack {
    pub(crate) why: String,
    /// What a person can do.
    pub(crate) cure: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no program is started until there is room; {}", self.why, self.cure)
    }
}

/// The mark below which nothing new is taken in, so that what runs can be finished; and how much may be stored by all
/// jobs together, whatever room there is.
#[derive(Clone, Debug)]
pub(crate) struct LowWater {
    dir: PathBuf,
    mib: u64,
    /// The largest content that came lately and found no room.
    waiting: Arc<Mutex<Option<Waiting>>>,
    /// Bytes that may be stored; none: any number.
    limit: Option<u64>,
    /// Bytes that are.
    stored: Arc<AtomicU64>,
}

/// A content that waits at its node for room.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    bytes: u64,
    since: Instant,
}

/// A content that has not come again for so long waits no more: its node comes more often.
const WAITS: Duration = Duration::from_secs(60);
/// Bytes of what still waits.
fn bytes_of(waiting: Option<Waiting>) -> u64 {
    waiting.filter(|waiting| waiting.since.elapsed() < WAITS).map_or(0, |waiting| waiting.bytes)
}

/// A content that comes in is written twice: beside the others until it is whole, then among them.
const WRITTEN: u64 = 2;

impl LowWater {
    /// The mark for the disk of `dir`; 0 MiB: none.
    pub(crate) fn new(dir: &Path, mib: u64) -> Self {
        Self { dir: dir.to_owned(), mib, waiting: Arc::default(), limit: None, stored: Arc::default() }
    }

    /// With a limit to what all jobs store.
    pub(crate) fn with_limit(self, limit: Option<u64>) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// All jobs together store so many bytes.
    pub(crate) fn note_stored(&self, bytes: u64) {
        self.stored.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.mib.saturating_mul(1 << 20)
    }

    /// Why no new job is taken; `None`: it is.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.lack().map(|Lack { why, cure }| format!("{why}: {cure}, then submit again"))
    }

    /// How little room there is, where it is too little, and what to do.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack_beside(0)
    }

    /// Why a content of so many bytes does not come in; `None`: it does. What is refused waits.
    pub(crate) fn lack_for(&self, bytes: u64) -> Option<Lack> {
        self.lack_beside(bytes.saturating_mul(WRITTEN)).inspect(|_| self.wait(bytes))
    }

    /// The same for one that is on its way, of which so many bytes are still to be written.
    pub(crate) fn lack_amid(&self, bytes: u64, left: u64) -> Option<Lack> {
        self.lack_beside(left).inspect(|_| self.wait(bytes))
    }

    /// How little room there is, where contents wait for more or there is too little for anything.
    pub(crate) fn lack_of_all(&self) -> Option<Lack> {
        let mut waiting = self.waiting();
        let lack = self.lack_beside(bytes_of(*waiting).saturating_mul(WRITTEN));
        waiting.take_if(|_| lack.is_none());
        lack
    }

    fn wait(&self, bytes: u64) {
        let mut waiting = self.waiting();
        *waiting = Some(Waiting { bytes: bytes.max(bytes_of(*waiting)), since: Instant::now() });
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().expect("a panic under the lock ends the process")
    }

    fn lack_beside(&self, bytes: u64) -> Option<Lack> {
        let of_disk = self.disk_lacks(bytes).map(|why| Lack { why, cure: "make room" });
        of_disk.or_else(|| self.is_at_limit())
    }

    fn is_at_limit(&self) -> Option<Lack> {
        let (stored, limit) = (self.stored(), self.limit?);
        (stored >= limit).then(|| Lack {
            why: format!("what jobs store takes {stored} bytes, and --storage-limit is {limit}"),
            cure: "delete jobs that you do not need (`starfarm job delete ID`), or start the scheduler with a higher limit",
        })
    }

    /// How little the disk has, where that is too little.
    pub(crate) fn lacks_disk(&self) -> Option<String> {
        self.disk_lacks(0)
    }

    /// The same where so many bytes are to be written.
    fn disk_lacks(&self, bytes: u64) -> Option<String> {
        let (dir, mark) = (self.dir.display(), self.mib);
        match free_bytes(&self.dir) {
            Ok(free) if free >= self.bytes().saturating_add(bytes) => None,
            Ok(free) if free >= self.bytes() => Some(format!(
                "the disk of {dir} has {} MiB left, {mark} MiB of that below the low-water mark: too little for an output \
                 that needs {} MiB while it comes in",
                free >> 20,
                bytes.div_ceil(1 << 20)
            )),
            Ok(free) => Some(format!(
                "the disk of {dir} has {} MiB left, below the low-water mark of {mark} MiB",
                free >> 20
            )),
            Err(e) => Some(format!("it cannot be said how much room the disk of {dir} has: {e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::testing::SmallDisk;

    #[test]
    fn below_the_mark_it_is_said_how_much_there_is() {
        let dir = std::env::temp_dir();
        assert_eq!(LowWater::new(&dir, 0).refusal(), None);
        let words = LowWater::new(&dir, u64::MAX).refusal().unwrap();
        assert!(
            words.contains("MiB left, below the low-water mark") && words.contains("make room"),
            "{words}"
        );
        assert!(LowWater::new(Path::new("/no/such/place"), 0).refusal().unwrap().contains("cannot be said"));
    }

    #[test]
    fn at_the_limit_it_is_said_what_to_do() {
        let farm = LowWater::new(&std::env::temp_dir(), 0).with_limit(Some(100));
        // As the thread that counts says it to all others.
        farm.clone().note_stored(99);
        assert_eq!(farm.lack(), None);
        farm.clone().note_stored(100);
        assert_eq!((farm.stored(), farm.lacks_disk()), (100, None));
        let words = farm.refusal().unwrap();
        assert!(
            words.starts_with("what jobs store takes 100 bytes, and --storage-limit is 100: delete jobs"),
            "{words}"
        );
        assert!(farm.lack().unwrap().to_string().contains("no program is started"));
    }

    #[test]
    fn a_content_that_finds_no_room_above_the_mark_is_waited_for_until_there_is_some() {
        let Some(disk) = SmallDisk::mount(24, "low_water::waiting") else { return };
        let low_water = LowWater::new(disk.path(), 14);
        let filler = disk.fill(18 << 20);
        assert_eq!((low_water.lack_for(1 << 20), low_water.lack_of_all()), (None, None));
        let words = low_water.lack_for(4 << 20).unwrap();
        assert!(words.why.contains("an output that needs 8 MiB while it comes in"), "{words}");
        assert_eq!((low_water.lack(), low_water.lack_of_all()), (None, Some(words)));
        assert_eq!(low_water.lack_for(1 << 20), None, "a shorter one comes in");
        fs::remove_file(&filler).unwrap();
        assert_eq!(low_water.lack_of_all(), None);
        disk.fill(18 << 20);
        assert_eq!(low_water.lack_of_all(), None, "it waits no more");
    }
}
