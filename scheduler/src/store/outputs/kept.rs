//! Which outputs of a job are there and whole, as its file and the contents say, and which of those that should be there
//! are not. It goes through all of the file, so it works on a snapshot, and nobody waits for it.

use std::io;

use starfarm_protocol::admin::{LostOutputs, OutputLoss};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::outputs::again::Again;
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored};
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
    /// At rest: what the journal has beyond the file, with the sequence of the record.
    beyond: Vec<(u64, Stored)>,
    /// Runs from before a unit was last wanted again do not count.
    again: Again,
}

#[derive(Default)]
struct Kept {
    whole: UnitSet,
    damaged: UnitSet,
}

impl Kept {
    /// A run of the unit, as it was found: the last one counts.
    fn found(&mut self, unit: u128, loss: Option<OutputLoss>) {
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

impl Snapshot {
    pub(super) fn new(
        owner: Owner,
        file: Option<PackedFile>,
        beyond: Vec<(u64, Stored)>,
        again: Again,
    ) -> Self {
        Self { owner, file, beyond, again }
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
        let counts = |unit: u128, sequence: u64| self.again.last(unit) < sequence;
        for step in self.file.iter().flat_map(|file| Walk::new(file.scan(0), self.owner, 0)) {
            let Step::Batch(entry, batch) = step? else { continue };
            let Some(file) = self.file.as_ref().filter(|_| batch.kind == Kind::Outputs) else { continue };
            for piece in file.pieces(&self.owner, &entry, &batch)? {
                match piece {
                    Piece::Whole(stored) => {
                        let loss = loss(&stored, &mut content)?;
                        if counts(stored.unit, batch.sequence) {
                            kept.found(stored.unit, loss);
                        }
                    }
                    // The number may be what is damaged.
                    Piece::Damaged(Some(unit)) if counts(unit, batch.sequence) => {
                        kept.damaged.insert(unit, unit.saturating_add(1));
                    }
                    Piece::Damaged(_) => {}
                }
            }
        }
        for (sequence, stored) in &self.beyond {
            let loss = loss(stored, &mut content)?;
            if counts(stored.unit, *sequence) {
                kept.found(stored.unit, loss);
            }
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
