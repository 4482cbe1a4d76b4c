//! All hits of a job in order. The farm keeps some of them in memory; the records have them all, as they came. They are
//! put in order on the disk, in files without a name, so that neither memory nor the time for a page grows with the job.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::journal::Record;

use super::{Retirer, Segments, open};
use crate::error::SchedulerError;
use crate::store::disk::unnamed;

/// A unit and a target.
type Hit = (u128, u32);

/// Bytes of a hit in these files.
const HIT_BYTES: usize = 20;
/// Hits that are put in order in memory: 4 MiB.
const RUN_HITS: usize = 131_072;
/// Hits that are read at once.
const READ_HITS: u64 = 1_024;
/// Old segments are rewritten while others read them; they read again, so often ...
const TRIES: u32 = 20;
/// ... after so long each time.
const PAUSE: Duration = Duration::from_millis(100);

/// The different hits of a job, in order.
#[derive(Debug)]
pub(crate) struct Listing {
    file: File,
    hits: u64,
}

impl Listing {
    /// How many there are.
    pub(crate) fn hits(&self) -> u64 {
        self.hits
    }

    /// Up to `take` of them from the `skip`th on.
    pub(crate) fn page(&self, skip: u64, take: u64) -> io::Result<Vec<Hit>> {
        let from = skip.min(self.hits);
        read(&self.file, from, take.min(self.hits - from))
    }

    /// BLAKE3 of a line `UNIT TARGET` for each.
    pub(crate) fn hash(&self) -> io::Result<ContentHash> {
        let pages = (0..self.hits).step_by(READ_HITS as usize);
        let lines = |hits: Vec<Hit>| {
            hits.iter().map(|(unit, target)| format!("{unit} {target}\n")).collect::<String>()
        };
        ContentHash::of_parts(pages.map(|at| self.page(at, READ_HITS).map(lines)))
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
    let mut runs = Runs::new(&segments.dir).map_err(no_room)?;
    let last = open::replay(segments, 0, &mut |frame| {
        let record = Record::decode(frame.kind, frame.body)
            .map_err(|_| format!("record {} of kind {} cannot be read", frame.sequence, frame.kind))?;
        match record {
            Record::Done { job: of, hits, .. } if of == job => runs.add(&hits),
            Record::Ended(ended) if ended.job == job && to_end => runs.end(),
            _ => Ok(()),
        }
        .map_err(|e| format!("the hits of job {} cannot be put in order: {e}", job.0))
    })?;
    let listing = runs.flush().and_then(|()| runs.merge(&segments.dir)).map_err(no_room)?;
    Ok((listing, last))
}

/// Hits in order, piece by piece.
struct Runs {
    file: File,
    unordered: Vec<Hit>,
    /// First hit and number of each run, in the file.
    runs: Vec<(u64, u64)>,
    /// So many of them came before the last end of the job, if that is asked.
    by_end: Option<usize>,
}

impl Runs {
    fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self { file: unnamed(dir)?, unordered: Vec::new(), runs: Vec::new(), by_end: None })
    }

    fn add(&mut self, hits: &[Hit]) -> io::Result<()> {
        self.unordered.extend(hits);
        if self.unordered.len() >= RUN_HITS { self.flush() } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        self.by_end = Some(self.runs.len());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unordered.is_empty() {
            return Ok(());
        }
        self.unordered.sort_unstable();
        let from = self.runs.last().map_or(0, |(from, hits)| from + hits);
        let bytes: Vec<u8> = self.unordered.iter().flat_map(to_bytes).collect();
        self.file.write_all_at(&bytes, from * HIT_BYTES as u64)?;
        self.runs.push((from, self.unordered.len() as u64));
        self.unordered.clear();
        Ok(())
    }

    fn merge(mut self, dir: &Path) -> io::Result<Listing> {
        self.runs.truncate(self.by_end.unwrap_or(usize::MAX));
        let mut cursors: Vec<Cursor> =
            self.runs.iter().map(|&(at, left)| Cursor { at, left, read: Vec::new() }).collect();
        let mut heads = BinaryHeap::new();
        for (run, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(cursor.next(&self.file)?.map(|hit| Reverse((hit, run))));
        }
        let file = unnamed(dir)?;
        let (mut writer, mut hits, mut last) = (BufWriter::new(&file), 0, None);
        while let Some(Reverse((hit, run))) = heads.pop() {
            if last != Some(hit) {
                writer.write_all(&to_bytes(&hit))?;
                (hits, last) = (hits + 1, Some(hit));
            }
            heads.extend(cursors[run].next(&self.file)?.map(|hit| Reverse((hit, run))));
        }
        writer.flush()?;
        drop(writer);
        Ok(Listing { file, hits })
    }
}

/// Where a run is read.
struct Cursor {
    at: u64,
    left: u64,
    /// What was read ahead, the next one last.
    read: Vec<Hit>,
}

impl Cursor {
    fn next(&mut self, file: &File) -> io::Result<Option<Hit>> {
        if self.read.is_empty() && self.left > 0 {
            let hits = self.left.min(READ_HITS);
            self.read = read(file, self.at, hits)?;
            self.read.reverse();
            (self.at, self.left) = (self.at + hits, self.left - hits);
        }
        Ok(self.read.pop())
    }
}

fn to_bytes(&(unit, target): &Hit) -> [u8; HIT_BYTES] {
    let mut bytes = [0; HIT_BYTES];
    bytes[..16].copy_from_slice(&unit.to_le_bytes());
    bytes[16..].copy_from_slice(&target.to_le_bytes());
    bytes
}

fn read(file: &File, from: u64, hits: u64) -> io::Result<Vec<Hit>> {
    let mut bytes = vec![0; hits as usize * HIT_BYTES];
    file.read_exact_at(&mut bytes, from * HIT_BYTES as u64)?;
    let hit = |bytes: &[u8]| {
        let (mut unit, mut target) = ([0; 16], [0; 4]);
        unit.copy_from_slice(&bytes[..16]);
        target.copy_from_slice(&bytes[16..]);
        (u128::from_le_bytes(unit), u32::from_le_bytes(target))
    };
    Ok(bytes.chunks_exact(HIT_BYTES).map(hit).collect())
}
