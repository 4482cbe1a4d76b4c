//! The outputs of a farm's jobs, read: each that must be there is there and what its hash says, and so is each content that
//! a job needs. The bytes are described in `protocol/src/outputs.rs` and `protocol/src/packed.rs`.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::outputs::again::Again;
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored, intervals};
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;

use crate::contents::{Contents, Packed};
use crate::merged;
use crate::owed::Owed;
use crate::report::{LostContent, LostOutput, Outputs};

/// Checks the outputs that must be there in the state directory `dir` of `farm`, whose units were last wanted `again` then.
/// `only`: nothing is said of other jobs, where any are named.
pub(crate) fn check(
    dir: &Path,
    farm: FarmId,
    owed: &[Owed],
    again: &BTreeMap<JobId, Again>,
    only: &[JobId],
) -> io::Result<Outputs> {
    let named = |path: &Path, e: &io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let blobs = dir.join("blobs");
    let contents = Contents::read(&blobs, |_| true).map_err(|e| named(&blobs, &e))?;
    let (mut report, mut lost_contents) = (Outputs::default(), HashSet::<ContentHash>::new());
    let never = Again::default();
    for owed in owed.iter().filter(|owed| only.is_empty() || only.contains(&owed.job)) {
        report.units.0 += owed.units.units();
        needed(owed, &contents, &mut report).map_err(|e| named(&blobs, &e))?;
        let path = dir.join(format!("outputs/{}.outputs", owed.job.0));
        let mut kept = Kept::default();
        let wanted = again.get(&owed.job).unwrap_or(&never);
        let read = kept.read(&path, &Owner::new(farm, owed.job), wanted, &contents);
        read.map_err(|e| named(&path, &e))?;
        let waiting = kept.join(owed, &contents);
        report.in_journal.0 += waiting.within(&owed.units).units();
        let lost = owed.units.without(&kept.whole);
        tell(owed.job, &lost.within(&kept.damaged), OutputLoss::Damaged, &mut report);
        tell(owed.job, &lost.without(&kept.damaged), OutputLoss::Missing, &mut report);
        lost_contents.extend(kept.lost_contents.into_values().flatten());
        report.merged.extend(merged::check(dir, owed.job).map_err(|e| named(&dir.join("merged"), &e))?);
    }
    let is_told = |hash: &ContentHash| report.contents.iter().any(|lost| lost.hash == *hash);
    // What only runs name that do not count, or no job, is missed by nobody.
    let (damaged, idle): (Vec<_>, Vec<_>) = contents.damaged().partition(|hash| lost_contents.contains(hash));
    report.idle_damaged = idle.into_iter().filter(|hash| only.is_empty() && !is_told(hash)).count() as u64;
    let untold: Vec<_> = damaged.into_iter().filter(|hash| !is_told(hash)).collect();
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
    needed.extend(&owed.contents);
    if let Some(bytes) = contents.get(&owed.spec)?
        && let Ok(spec) = JobSpec::from_bytes(&bytes)
    {
        needed.extend(spec.contents());
    }
    let lost = needed.into_iter().filter_map(|hash| Some((hash, contents.loss(&hash)?)));
    report.contents.extend(lost.map(|(hash, what)| LostContent { hash, job: Some(owed.job), what }));
    Ok(())
}

/// A job's outputs, as they were found.
#[derive(Default)]
struct Kept {
    /// They are what was written, and so are the contents that they name.
    whole: UnitSet,
    damaged: UnitSet,
    /// The file has them; their contents may be lost.
    there: UnitSet,
    /// Contents that they name and that are lost, by unit.
    lost_contents: BTreeMap<u128, Vec<ContentHash>>,
    /// Sequence of the last batch.
    last: u64,
}

impl Kept {
    /// Reads the file of a job's outputs. Runs from before their unit was last wanted again, as `again` has it, do not count.
    fn read(&mut self, path: &Path, owner: &Owner, again: &Again, contents: &Contents) -> io::Result<()> {
        let Some(file) = Packed::open(path)? else { return Ok(()) };
        for entry in file.entries() {
            let entry = entry?;
            let Some(batch) = owner.batch(&entry.label).filter(|batch| batch.sequence > self.last) else {
                continue;
            };
            self.last = batch.sequence;
            let body = file.body(&entry)?;
            match batch.kind {
                Kind::Vain => {}
                Kind::Again if entry.has_body(&body) => {
                    intervals(&body).into_iter().for_each(|(lo, hi)| self.forget(lo, hi));
                }
                Kind::Again => {}
                Kind::Outputs => {
                    for piece in owner.outputs(&batch, &body, entry.has_body(&body)) {
                        match &piece {
                            Piece::Whole(Stored { unit, .. }) | Piece::Damaged(Some(unit))
                                if again.last(*unit) > batch.sequence => {}
                            Piece::Whole(stored) => {
                                let (unit, end) = (stored.unit, stored.end());
                                let named = stored.outcome.outputs.uploaded().map(|(hash, _)| hash);
                                self.enter((unit, end), named, contents);
                                self.there.insert(unit, end);
                            }
                            // The number may be what is damaged.
                            Piece::Damaged(Some(unit)) => {
                                self.damaged.insert(*unit, unit.saturating_add(1));
                            }
                            Piece::Damaged(None) => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Units whose outputs the file has not, or not whole, and the journal has: the next start writes them again.
    fn join(&mut self, owed: &Owed, contents: &Contents) -> UnitSet {
        let mut waiting = UnitSet::default();
        for &(sequence, (unit, end)) in &owed.journal {
            if sequence > self.last || !self.there.contains(unit) {
                let named = owed.named.get(&unit).into_iter().flatten().copied();
                self.enter((unit, end), named, contents);
                waiting.insert(unit, end);
            }
        }
        waiting
    }

    fn forget(&mut self, lo: u128, hi: u128) {
        for units in [&mut self.whole, &mut self.damaged, &mut self.there] {
            units.remove(lo, hi);
        }
        while let Some((&unit, _)) = self.lost_contents.range(lo..hi.max(lo)).next() {
            self.lost_contents.remove(&unit);
        }
    }

    /// The output of these units, which names these contents. The last run of a unit is the one that counts.
    fn enter(
        &mut self,
        (unit, end): (u128, u128),
        named: impl Iterator<Item = ContentHash>,
        contents: &Contents,
    ) {
        let lost: Vec<_> = named.filter_map(|hash| Some((hash, contents.loss(&hash)?))).collect();
        self.forget(unit, end);
        match lost.first().map(|(_, loss)| *loss) {
            None => self.whole.insert(unit, end),
            Some(OutputLoss::Damaged) => self.damaged.insert(unit, end),
            Some(OutputLoss::Missing) => {}
        }
        if !lost.is_empty() {
            self.lost_contents.insert(unit, lost.into_iter().map(|(hash, _)| hash).collect());
        }
    }
}
