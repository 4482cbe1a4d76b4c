//! The outputs of a farm's jobs, read: each that must be there is there and what its hash says, and so is each content that
//! a job needs. The bytes are described in `protocol/src/outputs.rs` and `protocol/src/packed.rs`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored, intervals};
use starfarm_protocol::packed::{Entry, Found, Scan};
use starfarm_protocol::spec::{JobSpec, Space};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Stream;

use crate::owed::Owed;
use crate::report::{LostContent, LostOutput, Outputs};

/// A packed file that is read.
struct Packed {
    file: File,
    end: u64,
}

impl Packed {
    /// The file at `path`; none where it is not there.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let end = file.metadata()?.len();
        Ok(Some(Self { file, end }))
    }

    /// All entries; what lies between is passed over.
    fn entries(&self) -> impl Iterator<Item = io::Result<Entry>> + '_ {
        let read = |bytes: &mut [u8], at| self.file.read_exact_at(bytes, at);
        Scan::new(read, 0, self.end).filter_map(|found| match found {
            Ok(Found::Entry(entry)) => Some(Ok(entry)),
            Ok(Found::Damage(..) | Found::Tail(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn body(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        // No entry ends behind the file.
        let mut bytes = vec![0; usize::try_from(entry.length).map_err(|_| ErrorKind::FileTooLarge)?];
        self.file.read_exact_at(&mut bytes, entry.body())?;
        Ok(bytes)
    }
}

/// Contents by hash: where each lies, where it is whole.
#[derive(Default)]
struct Contents {
    file: Option<Packed>,
    all: HashMap<ContentHash, Option<Entry>>,
}

impl Contents {
    fn read(path: &Path) -> io::Result<Self> {
        let file = Packed::open(path)?;
        let mut all: HashMap<ContentHash, Option<Entry>> = HashMap::new();
        if let Some(file) = &file {
            for entry in file.entries() {
                let entry = entry?;
                let hash = ContentHash(entry.label);
                let is_whole = !entry.gone && ContentHash::of(&file.body(&entry)?) == hash;
                match (entry.gone, is_whole) {
                    (true, _) => drop(all.remove(&hash)),
                    (false, true) => drop(all.insert(hash, Some(entry))),
                    // One that was damaged may have been stored again.
                    (false, false) => drop(all.entry(hash).or_insert(None)),
                }
            }
        }
        Ok(Self { file, all })
    }

    fn loss(&self, hash: &ContentHash) -> Option<OutputLoss> {
        match self.all.get(hash) {
            None => Some(OutputLoss::Missing),
            Some(None) => Some(OutputLoss::Damaged),
            Some(Some(_)) => None,
        }
    }

    /// The content, where it is whole.
    fn get(&self, hash: &ContentHash) -> io::Result<Option<Vec<u8>>> {
        match (self.all.get(hash), &self.file) {
            (Some(Some(entry)), Some(file)) => file.body(entry).map(Some),
            _ => Ok(None),
        }
    }
}

/// Checks the outputs that must be there in the state directory `dir` of `farm`. Up to the record `synced` they were on the
/// disk; what the journal has beyond it a start writes again.
pub(crate) fn check(dir: &Path, farm: FarmId, owed: &[Owed], synced: Option<u64>) -> io::Result<Outputs> {
    let contents = Contents::read(&dir.join("blobs"))?;
    let mut report = Outputs::default();
    for owed in owed {
        report.units.0 += owed.units.units();
        needed(owed, &contents, &mut report)?;
        let path = dir.join(format!("outputs/{}.outputs", owed.job.0));
        let Kept { whole, damaged, last } = kept(&path, &Owner::new(farm, owed.job), &contents)?;
        let mut lost = owed.units.without(&whole);
        // Without the note how far they were synced, only the file itself says where it ends.
        let after = synced.unwrap_or(last);
        let again = owed.journal.iter().filter(|(sequence, _)| *sequence > after);
        let again: UnitSet = again.map(|&(_, unit)| (unit, unit.saturating_add(1))).collect();
        let waiting = lost.within(&again);
        report.in_journal.0 += waiting.units();
        lost = lost.without(&waiting);
        tell(owed.job, &lost.within(&damaged), OutputLoss::Damaged, &mut report);
        tell(owed.job, &lost.without(&damaged), OutputLoss::Missing, &mut report);
    }
    let damaged = contents.all.iter().filter(|(_, entry)| entry.is_none()).map(|(hash, _)| *hash);
    let untold: Vec<_> =
        damaged.filter(|hash| report.contents.iter().all(|lost| lost.hash != *hash)).collect();
    let what = OutputLoss::Damaged;
    report.contents.extend(untold.into_iter().map(|hash| LostContent { hash, job: None, what }));
    report.lost.sort_by_key(|lost| (lost.job, lost.lo));
    report.contents.sort_by_key(|lost| (lost.job, lost.hash.0));
    Ok(report)
}

fn tell(job: JobId, units: &UnitSet, what: OutputLoss, report: &mut Outputs) {
    let lost = units.iter().map(|(lo, hi)| LostOutput { job, lo: Units(lo), hi: Units(hi), what });
    report.lost.extend(lost);
}

/// The specification of a job, and what it names.
fn needed(owed: &Owed, contents: &Contents, report: &mut Outputs) -> io::Result<()> {
    let mut needed = vec![owed.spec];
    if let Some(bytes) = contents.get(&owed.spec)?
        && let Ok(JobSpec { space: Space::List { chunks, .. }, .. }) = JobSpec::from_bytes(&bytes)
    {
        needed.extend(chunks.iter().map(|chunk| chunk.hash));
    }
    let lost = needed.into_iter().filter_map(|hash| Some((hash, contents.loss(&hash)?)));
    report.contents.extend(lost.map(|(hash, what)| LostContent { hash, job: Some(owed.job), what }));
    Ok(())
}

#[derive(Default)]
struct Kept {
    whole: UnitSet,
    damaged: UnitSet,
    /// Sequence of the last batch.
    last: u64,
}

/// What the file of a job's outputs has.
fn kept(path: &Path, owner: &Owner, contents: &Contents) -> io::Result<Kept> {
    let mut kept = Kept::default();
    let Some(file) = Packed::open(path)? else { return Ok(kept) };
    for entry in file.entries() {
        let entry = entry?;
        let Some(batch) = owner.batch(&entry.label).filter(|batch| batch.sequence > kept.last) else {
            continue;
        };
        kept.last = batch.sequence;
        let body = file.body(&entry)?;
        match batch.kind {
            Kind::Vain => {}
            Kind::Again if entry.has_body(&body) => {
                for (lo, hi) in intervals(&body) {
                    kept.whole.remove(lo, hi);
                    kept.damaged.remove(lo, hi);
                }
            }
            Kind::Again => {}
            Kind::Outputs => {
                for piece in owner.outputs(&batch, &body, entry.has_body(&body)) {
                    match &piece {
                        Piece::Whole(stored) => kept.enter(stored.unit, long_loss(stored, contents)),
                        // The number may be what is damaged.
                        Piece::Damaged(Some(unit)) => kept.damaged.insert(*unit, unit.saturating_add(1)),
                        Piece::Damaged(None) => {}
                    }
                }
            }
        }
    }
    Ok(kept)
}

impl Kept {
    /// The last run of a unit is the one that counts.
    fn enter(&mut self, unit: u128, loss: Option<OutputLoss>) {
        let end = unit.saturating_add(1);
        self.whole.remove(unit, end);
        self.damaged.remove(unit, end);
        match loss {
            None => self.whole.insert(unit, end),
            Some(OutputLoss::Damaged) => self.damaged.insert(unit, end),
            Some(OutputLoss::Missing) => {}
        }
    }
}

/// What became of a unit's long outputs.
fn long_loss(stored: &Stored, contents: &Contents) -> Option<OutputLoss> {
    let outputs = &stored.outcome.outputs;
    [&outputs.stdout, &outputs.stderr].into_iter().find_map(|stream| match stream {
        Stream::Uploaded { hash, .. } => contents.loss(hash),
        Stream::Inline(_) => None,
    })
}
