//! Which outputs of a job are there and whole, as its file and the contents say, and which of those that should be there
//! are not. It goes through all of the file, so it works on a snapshot, and nobody waits for it.

use std::io;

use starfarm_protocol::admin::{LostOutputs, OutputLoss};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::outputs::again::Again;
use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;

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
    /// Units of which a run that does not count is damaged, or its contents are.
    superseded_damaged: UnitSet,
    /// Units of which a run that does not count has lost its contents.
    superseded_missing: UnitSet,
}

impl Kept {
    /// A run of units that counts, as it was found: the last one does.
    fn found(&mut self, (unit, end): (u128, u128), loss: Option<OutputLoss>) {
        self.whole.remove(unit, end);
        self.damaged.remove(unit, end);
        match loss {
            None => self.whole.insert(unit, end),
            Some(OutputLoss::Damaged) => self.damaged.insert(unit, end),
            Some(OutputLoss::Missing) => {}
        }
    }

    /// A run that does not count.
    fn superseded(&mut self, (unit, end): (u128, u128), loss: Option<OutputLoss>) {
        match loss {
            None => {}
            Some(OutputLoss::Damaged) => self.superseded_damaged.insert(unit, end),
            Some(OutputLoss::Missing) => self.superseded_missing.insert(unit, end),
        }
    }

    /// What is lost of the outputs of the units `owed`, and what was found to be of runs that do not count; in order.
    fn lost(&self, owed: &UnitSet) -> Vec<LostOutputs> {
        let lost = owed.without(&self.whole);
        let (damaged, missing) = (lost.within(&self.damaged), lost.without(&self.damaged));
        let sets = [
            (&damaged, OutputLoss::Damaged, false),
            (&missing, OutputLoss::Missing, false),
            (&self.superseded_damaged, OutputLoss::Damaged, true),
            (&self.superseded_missing, OutputLoss::Missing, true),
        ];
        let told = sets.into_iter().flat_map(|(units, what, superseded)| {
            let of = move |(lo, hi)| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded };
            units.iter().map(of)
        });
        let mut all: Vec<_> = told.collect();
        all.sort_by_key(|lost| (lost.lo, lost.superseded));
        all
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

    /// Whose it is, the file, and when units were last wanted again.
    pub(super) fn parts(&self) -> (Owner, &Option<PackedFile>, &Again) {
        (self.owner, &self.file, &self.again)
    }

    /// Each content that any of the outputs names, those of runs that do not count among them.
    ///
    /// # Errors
    /// The disk's, and the first of `named`.
    pub(crate) fn each_named(&self, mut named: impl FnMut(&ContentHash) -> io::Result<()>) -> io::Result<()> {
        self.lost(&UnitSet::default(), true, |hash| named(hash).map(|()| None)).map(drop)
    }

    /// Which of the outputs of the units `owed` are not there, or not whole, in order. `content` says it of a long one.
    /// `all`: those of runs that do not count are told too, as far as it can be said of which unit they are.
    pub(crate) fn lost(
        &self,
        owed: &UnitSet,
        all: bool,
        mut content: impl FnMut(&ContentHash) -> io::Result<Option<OutputLoss>>,
    ) -> io::Result<Vec<LostOutputs>> {
        let mut kept = Kept::default();
        let counts = |unit: u128, sequence: u64| self.again.last(unit) < sequence;
        let mut found = |kept: &mut Kept, sequence: u64, stored: &Stored| {
            let units = (stored.unit, stored.end());
            match counts(stored.unit, sequence) {
                true => kept.found(units, loss(stored, &mut content)?),
                false if all => kept.superseded(units, loss(stored, &mut content)?),
                false => {}
            }
            io::Result::Ok(())
        };
        for step in self.file.iter().flat_map(|file| Walk::new(file.scan(0), self.owner, 0)) {
            let Step::Batch(entry, batch) = step? else { continue };
            let Some(file) = self.file.as_ref().filter(|_| batch.kind == Kind::Outputs) else { continue };
            for piece in file.pieces(&self.owner, &entry, &batch)? {
                match piece {
                    Piece::Whole(stored) => found(&mut kept, batch.sequence, &stored)?,
                    // The number may be what is damaged.
                    Piece::Damaged(Some(unit)) if counts(unit, batch.sequence) => {
                        kept.damaged.insert(unit, unit.saturating_add(1));
                    }
                    Piece::Damaged(Some(unit)) if all => {
                        kept.superseded((unit, unit.saturating_add(1)), Some(OutputLoss::Damaged));
                    }
                    Piece::Damaged(_) => {}
                }
            }
        }
        for (sequence, stored) in &self.beyond {
            found(&mut kept, *sequence, stored)?;
        }
        Ok(kept.lost(owed))
    }
}

/// What became of the long outputs of a unit.
fn loss(
    stored: &Stored,
    content: &mut impl FnMut(&ContentHash) -> io::Result<Option<OutputLoss>>,
) -> io::Result<Option<OutputLoss>> {
    let mut uploaded = stored.outcome.outputs.uploaded();
    uploaded.find_map(|(hash, _)| content(&hash).transpose()).transpose()
}
