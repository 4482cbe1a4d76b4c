//! Which outputs of a job are there and whole, as its file and the contents say, and which of those that should be there
//! are not. It goes through all of the file, so it works on a snapshot, and nobody waits for it.

use std::io;

use starfarm_protocol::admin::{LostOutputs, OutputLoss};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored, intervals};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Stream;

use super::walk::{Step, Walk};
use crate::store::packed::PackedFile;

/// A job's outputs at a moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    owner: Owner,
    file: Option<PackedFile>,
    /// At rest: what the journal has beyond the file, and which units were wanted again, by the sequence of the record.
    beyond: Vec<Stored>,
    retried: Vec<(u64, Vec<(u128, u128)>)>,
}

#[derive(Default)]
struct Kept {
    whole: UnitSet,
    damaged: UnitSet,
}

impl Kept {
    /// A run of the unit, as it was found: the last one counts.
    fn found(&mut self, unit: u128, loss: Option<OutputLoss>) {
        self.forget(unit, unit.saturating_add(1));
        match loss {
            None => self.whole.insert(unit, unit.saturating_add(1)),
            Some(OutputLoss::Damaged) => self.damaged.insert(unit, unit.saturating_add(1)),
            Some(OutputLoss::Missing) => {}
        }
    }

    fn forget(&mut self, lo: u128, hi: u128) {
        self.whole.remove(lo, hi);
        self.damaged.remove(lo, hi);
    }
}

impl Snapshot {
    pub(super) fn new(
        owner: Owner,
        file: Option<PackedFile>,
        beyond: Vec<Stored>,
        retried: Vec<(u64, Vec<(u128, u128)>)>,
    ) -> Self {
        Self { owner, file, beyond, retried }
    }

    /// Each content that any of the outputs names, those of runs that do not count among them.
    pub(crate) fn each_named(&self, mut named: impl FnMut(&ContentHash)) -> io::Result<()> {
        let content = |hash: &ContentHash| {
            named(hash);
            Ok(None)
        };
        self.lost(&UnitSet::default(), content).map(drop)
    }

    /// Which of the outputs of the units `owed` are not there, or not whole, in order. `content` says it of a long one.
    pub(crate) fn lost(
        &self,
        owed: &UnitSet,
        mut content: impl FnMut(&ContentHash) -> io::Result<Option<OutputLoss>>,
    ) -> io::Result<Vec<LostOutputs>> {
        let mut kept = Kept::default();
        let mut last = 0;
        if let Some(file) = &self.file {
            for step in Walk::new(file.scan(0), self.owner, 0) {
                let Step::Batch(entry, batch) = step? else { continue };
                last = batch.sequence;
                match batch.kind {
                    Kind::Vain => {}
                    Kind::Again => {
                        let units = file.body(&entry)?.map(|body| intervals(&body)).unwrap_or_default();
                        units.iter().for_each(|&(lo, hi)| kept.forget(lo, hi));
                    }
                    Kind::Outputs => {
                        for piece in file.pieces(&self.owner, &entry, &batch)? {
                            match piece {
                                Piece::Whole(stored) => kept.found(stored.unit, loss(&stored, &mut content)?),
                                // The number may be what is damaged.
                                Piece::Damaged(Some(unit)) => {
                                    kept.damaged.insert(unit, unit.saturating_add(1))
                                }
                                Piece::Damaged(None) => {}
                            }
                        }
                    }
                }
            }
        }
        let after = self.retried.iter().filter(|(sequence, _)| *sequence > last);
        after.flat_map(|(_, units)| units).for_each(|&(lo, hi)| kept.forget(lo, hi));
        for stored in &self.beyond {
            kept.found(stored.unit, loss(stored, &mut content)?);
        }
        Ok(told(&owed.without(&kept.whole), &kept.damaged))
    }
}

/// What became of the long outputs of a unit.
fn loss(
    stored: &Stored,
    content: &mut impl FnMut(&ContentHash) -> io::Result<Option<OutputLoss>>,
) -> io::Result<Option<OutputLoss>> {
    let outputs = &stored.outcome.outputs;
    for stream in [&outputs.stdout, &outputs.stderr] {
        if let Stream::Uploaded { hash, .. } = stream
            && let Some(loss) = content(hash)?
        {
            return Ok(Some(loss));
        }
    }
    Ok(None)
}

fn told(lost: &UnitSet, damaged: &UnitSet) -> Vec<LostOutputs> {
    let of = |what, units: UnitSet| -> Vec<LostOutputs> {
        units.iter().map(|(lo, hi)| LostOutputs { lo: Units(lo), hi: Units(hi), what }).collect()
    };
    let mut all = of(OutputLoss::Damaged, lost.within(damaged));
    all.extend(of(OutputLoss::Missing, lost.without(damaged)));
    all.sort_by_key(|lost| lost.lo);
    all
}
