//! All hits of a job in order. The farm keeps some of them in memory; the records have them all, as they came. They are
//! put in order on the disk, in files without a name, so that neither memory nor the time for a page grows with the job.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::journal::Record;

use super::{Retirer, Segments, open};
use crate::error::SchedulerError;
use crate::store::sorted::{Sorted, Sorter};

/// A unit and a target.
type Hit = (u128, u32);

/// Bytes of a hit in these files.
const HIT_BYTES: usize = 20;
/// Old segments are rewritten while others read them; they read again, so often ...
const TRIES: u32 = 20;
/// ... after so long each time.
const PAUSE: Duration = Duration::from_millis(100);

/// The different hits of a job, in order.
#[derive(Debug)]
pub(crate) struct Listing(Sorted<HIT_BYTES>);

impl Listing {
    /// How many there are.
    pub(crate) fn hits(&self) -> u64 {
        self.0.len()
    }

    /// Up to `take` of them from the `skip`th on.
    pub(crate) fn page(&self, skip: u64, take: u64) -> io::Result<Vec<Hit>> {
        Ok(self.0.page(skip, take)?.iter().map(from_bytes).collect())
    }

    /// BLAKE3 of a line `UNIT TARGET` for each.
    pub(crate) fn hash(&self) -> io::Result<ContentHash> {
        let line = |(unit, target): Hit| format!("{unit} {target}\n");
        let lines = |page: Vec<[u8; HIT_BYTES]>| page.iter().map(from_bytes).map(line).collect::<String>();
        ContentHash::of_parts(self.0.pages().map(|page| page.map(lines)))
    }
}

/// Who lists hits of jobs while segments may be rewritten. One at a time: each reads the whole journal.
pub(crate) struct Lister {
    segments: Segments,
    turn: Mutex<()>,
}

impl Lister {
    pub(crate) fn new(dir: PathBuf, farm: FarmId) -> Self {
        Self { segments: Segments { dir, farm }, turn: Mutex::new(()) }
    }

    /// The hits of `job` by the records up to `sequence` at least, which are on the disk.
    ///
    /// # Errors
    /// The records cannot be read, or there is no room to put hits in order.
    pub(crate) fn list(&self, job: JobId, sequence: u64) -> Result<Listing, SchedulerError> {
        let _turn = self.turn.lock().expect("a panic under the lock ends the process");
        let mut tries = 0;
        loop {
            tries += 1;
            let why = match list(&self.segments, job, false) {
                Ok((listing, last)) if last >= sequence => return Ok(listing),
                Ok((_, last)) => SchedulerError::State(format!("the journal ends at record {last}")),
                Err(why) => why,
            };
            if tries == TRIES {
                return Err(why);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Retirer {
    /// The hits that a job had by its last end. To be called by the thread that rewrites segments.
    pub(crate) fn hits_at_end(&self, job: JobId) -> Result<Listing, SchedulerError> {
        list(&self.segments, job, true).map(|(listing, _)| listing)
    }
}

/// The hits of `job`, and the last record that was read.
fn list(segments: &Segments, job: JobId, to_end: bool) -> Result<(Listing, u64), SchedulerError> {
    let no_room = |e: io::Error| {
        SchedulerError::State(format!("the hits of job {} cannot be put in order: {e}", job.0))
    };
    let (mut sorter, mut end) = (Sorter::new(&segments.dir).map_err(no_room)?, None);
    let last = open::replay(segments, 0, &mut |frame| {
        let record = Record::decode(frame.kind, frame.body)
            .map_err(|_| format!("record {} of kind {} cannot be read", frame.sequence, frame.kind))?;
        match record {
            Record::Done { job: of, hits, .. } if of == job => sorter.add(hits.iter().map(to_bytes)),
            Record::Ended(ended) if ended.job == job && to_end => sorter.mark().map(|mark| end = Some(mark)),
            _ => Ok(()),
        }
        .map_err(|e| format!("the hits of job {} cannot be put in order: {e}", job.0))
    })?;
    let hits = sorter.finish(end, || Ok(())).map_err(no_room)?;
    Ok((Listing(hits), last))
}

fn to_bytes(&(unit, target): &Hit) -> [u8; HIT_BYTES] {
    let mut bytes = [0; HIT_BYTES];
    bytes[..16].copy_from_slice(&unit.to_be_bytes());
    bytes[16..].copy_from_slice(&target.to_be_bytes());
    bytes
}

fn from_bytes(bytes: &[u8; HIT_BYTES]) -> Hit {
    let (unit, target) = bytes.split_first_chunk::<16>().expect("a hit is longer");
    (u128::from_be_bytes(*unit), u32::from_be_bytes(*target.first_chunk().expect("as long as a target")))
}
