//! The outputs of a farm's jobs, read: each that must be there is there and what its hash says, and so is each content that
//! a job needs. The bytes are described in `protocol/src/outputs.rs` and `protocol/src/packed.rs`.

use std::io;
use std::path::Path;

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored, intervals};
use starfarm_protocol::spec::{JobSpec, Space};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Stream;

use crate::contents::{Contents, Packed};
use crate::owed::Owed;
use crate::report::{LostContent, LostOutput, Outputs};

/// Checks the outputs that must be there in the state directory `dir` of `farm`. Up to the record `synced` they were on the
/// disk; what the journal has beyond it a start writes again.
pub(crate) fn check(dir: &Path, farm: FarmId, owed: &[Owed], synced: Option<u64>) -> io::Result<Outputs> {
    let contents = Contents::read(&dir.join("blobs"), |_| true)?;
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
    let damaged = contents.damaged();
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
