//! Which outputs of a job of programs its records say that there must be. A unit that ran to its end left one, even if it
//! wrote nothing.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::wire::Outputs;

/// What the records of a job say of outputs, beside which units are done or failed.
#[derive(Debug, Default)]
pub(crate) struct Wrote {
    /// Units that failed and left nothing.
    nothing: UnitSet,
    /// Outputs that are in the journal too, by the sequence of the record, ascending: the units of each.
    journal: Vec<(u64, (u128, u128))>,
    /// The contents that these name, of those that name any, by the first unit.
    named: BTreeMap<u128, Vec<ContentHash>>,
}

/// The outputs that must be there.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) job: JobId,
    pub(crate) spec: ContentHash,
    /// Those that have the values of units which a program named.
    pub(crate) contents: Vec<ContentHash>,
    pub(crate) units: UnitSet,
    /// Outputs that the journal has too, by the sequence of the record: the units of each.
    pub(crate) journal: Vec<(u64, (u128, u128))>,
    /// The contents that these name, by unit.
    pub(crate) named: BTreeMap<u128, Vec<ContentHash>>,
}

impl Wrote {
    /// The output of these units is in the journal's record `sequence`.
    pub(crate) fn in_journal(&mut self, (unit, hi): (u128, u128), outputs: &Outputs, sequence: u64) {
        self.nothing.remove(unit, hi);
        self.journal.push((sequence, (unit, hi)));
        let named: Vec<_> = outputs.uploaded().map(|(hash, _)| hash).collect();
        if named.is_empty() {
            self.named.remove(&unit);
        } else {
            self.named.insert(unit, named);
        }
    }

    /// A unit failed and left nothing.
    pub(crate) fn nothing(&mut self, unit: u128) {
        self.nothing.insert(unit, unit.saturating_add(1));
    }

    /// Units are wanted again.
    pub(crate) fn forget(&mut self, units: &[(u128, u128)]) {
        units.iter().for_each(|&(lo, hi)| self.nothing.remove(lo, hi));
        let wanted: UnitSet = units.iter().copied().collect();
        self.journal.retain(|(_, (unit, _))| !wanted.contains(*unit));
        self.named.retain(|unit, _| !wanted.contains(*unit));
    }

    /// What must be there of a job whose units `ran`.
    pub(crate) fn owed(
        &mut self,
        (job, spec): (JobId, ContentHash),
        contents: Vec<ContentHash>,
        ran: &UnitSet,
    ) -> Owed {
        let (journal, named) = (std::mem::take(&mut self.journal), std::mem::take(&mut self.named));
        Owed { job, spec, contents, units: ran.without(&self.nothing), journal, named }
    }
}
