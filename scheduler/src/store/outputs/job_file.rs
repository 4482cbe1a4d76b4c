//! One job's file of outputs: batches of what units wrote, retries, and runs that decided nothing, in the journal's
//! order. Its bytes are [`starfarm_protocol::outputs`]'s.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use starfarm_protocol::ids::Attempt;
use starfarm_protocol::outputs::again::Again;
use starfarm_protocol::outputs::{Batch, Kind, Owner, Piece, Stored, intervals, intervals_body, is_cut};
use starfarm_protocol::packed::Entry;
use starfarm_protocol::wire::CommandUnit;
use starfarm_scheduler_core::NodeId;

use super::kept::Snapshot;
use super::walk::{Step, Walk};
use crate::store::disk::{FileId, file_id};
use crate::store::packed::PackedFile;

/// Units between two entries of an index in memory.
const INDEX_UNITS: u64 = 64;

/// One unit's outcome, as it is kept, and what other records say of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) stored: Stored,
    /// The unit was wanted again after this run: another one counts.
    pub(crate) superseded: bool,
    /// Which run of the unit it was, from 1 on, of those that came to an end: one that died with its worker or was
    /// given back is none.
    pub(crate) run: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Access {
    /// It keeps them.
    #[default]
    Kept,
    /// It looks at what lies there and changes nothing; what the journal has beyond the files stays in memory.
    AtRest,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Page {
    pub(crate) outputs: Vec<Output>,
    /// So many more lie between them and cannot be read. Where not even their number can, they count as one.
    pub(crate) damaged: u64,
    pub(crate) more: bool,
}

/// What is known before a file is opened.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// The journal gives all records after this one again.
    pub(super) replayed_after: u64,
    /// The journal's last record.
    pub(super) written_upto: u64,
    /// Units that were wanted again; `None`: the job had no file up to `replayed_after`.
    pub(super) again: Option<&'a Again>,
}

#[derive(Debug, Default)]
pub(super) struct JobFile {
    owner: Owner,
    access: Access,
    pub(super) path: PathBuf,
    /// `None`: closed for now.
    pub(super) file: Option<PackedFile>,
    /// Which file it was when it was opened.
    id: Option<FileId>,
    /// Sequence of the last batch; 0: there is none.
    pub(super) last: u64,
    /// Units in the file, and one for each place that is damaged, so that a reader comes upon it.
    units: u64,
    /// Units of these of whose output a part was left out.
    pub(super) cut: u64,
    /// Units that were wanted again, by the sequence of the record that says so; ascending.
    pub(super) retried: Vec<(u64, Vec<(u128, u128)>)>,
    /// How many runs decided nothing.
    vain: u64,
    /// These runs, by unit and sequence of the record; `None` until somebody asks for a page.
    vain_runs: Option<BTreeSet<(u128, u64)>>,
    /// At rest: outputs that the journal has and the file has not, with the sequence of their record.
    beyond: Vec<(u64, Stored)>,
    /// The journal gives all records after this one again.
    replayed_after: u64,
    /// The batches of these records, by sequence, and where each begins; ascending.
    replayed: Vec<(u64, u64)>,
    /// Places in the file, ascending. The first unit has one, and the first behind damage.
    pub(super) index: Vec<Place>,
    pub(super) dirty: bool,
}

/// Where in the file it can be entered.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Place {
    /// Units that lie before.
    units: u64,
    at: u64,
    /// Sequence of the batch before.
    last: u64,
}

impl JobFile {
    /// Opens the file of a job, or makes it; one at rest may be missing.
    pub(super) fn open(
        owner: Owner,
        path: PathBuf,
        access: Access,
        known: Known<'_>,
        notes: &mut Vec<String>,
    ) -> io::Result<Self> {
        let replayed_after = known.replayed_after;
        let mut this = Self { owner, path, access, replayed_after, ..Self::default() };
        if access == Access::AtRest && !this.path.try_exists()? {
            return Ok(this);
        }
        let mut file = this.open_packed()?;
        this.id = Some(file.id()?);
        if let Some(from) = this.survey(&file, known, notes)? {
            this.repair(&mut file, from, known, notes)?;
        }
        this.remember(known, notes);
        this.file = Some(file);
        Ok(this)
    }

    /// What is known of units that were wanted again, and is not in the file: its end was lost, or it is an older copy, or
    /// it is damaged there. What the journal gives again is left to it.
    fn remember(&mut self, known: Known<'_>, notes: &mut Vec<String>) {
        let records = known.again.map(Again::records).unwrap_or_default();
        let upto = records.range(..=known.replayed_after).next_back().map_or(0, |(sequence, _)| *sequence);
        for (sequence, units) in records.into_iter().filter(|(sequence, _)| *sequence <= upto) {
            if let Err(at) = self.retried.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
                self.retried.insert(at, (sequence, units));
            }
        }
        if (1..upto).contains(&self.last) {
            notes.push(format!(
                "{}: its end is lost, or it is an older copy of itself: it ends with record {}, and units were run again \
                 since, by record {upto}. What is there of their runs before does not count, so their outputs are \
                 missing: put the right file there while no scheduler runs, or let the units run again with `starfarm \
                 job retry --missing-outputs`",
                self.path.display(),
                self.last
            ));
        }
    }

    fn open_packed(&self) -> io::Result<PackedFile> {
        match self.access {
            Access::Kept => PackedFile::open(&self.path),
            Access::AtRest => PackedFile::look(&self.path),
        }
    }

    /// From byte `from` on nothing can be read. At rest it is left as it is.
    fn repair(
        &mut self,
        file: &mut PackedFile,
        from: u64,
        known: Known<'_>,
        notes: &mut Vec<String>,
    ) -> io::Result<()> {
        let (path, end) = (self.path.display().to_string(), file.end());
        let is_kept = self.access == Access::Kept;
        if from == 0 {
            let (owner, access, replayed_after) = (self.owner, self.access, self.replayed_after);
            let path_of_it = std::mem::take(&mut self.path);
            *self = Self { owner, path: path_of_it, access, replayed_after, ..Self::default() };
            let what = if is_kept {
                let aside = file.set_aside()?;
                self.id = Some(file.id()?);
                format!("it is set aside as {}", aside.display())
            } else {
                "it is passed over".into()
            };
            notes.push(match known.again {
                Some(_) if known.replayed_after > 0 => format!(
                    "{path}: it is another job's or farm's, or nothing that it had at the last checkpoint can be read; {what}. \
                     What the journal still has of it is written again. The other outputs of this job are missing: put its \
                     own file there while no scheduler runs, or let the units run again with `starfarm job retry \
                     --missing-outputs`"
                ),
                _ => format!(
                    "{path}: nothing in it can be read from its first byte on; {what}. All that belongs there is in the \
                     journal, and is written again"
                ),
            });
        } else if is_kept {
            file.cut(from)?;
            notes.push(format!(
                "{path}: bytes {from} to {end} cannot be read; they are cut off, and what the journal has of them is \
                 written again"
            ));
        }
        self.dirty = is_kept;
        Ok(())
    }

    /// Goes through the file. Returns from where on it is to be cut off: what was not synced may be there in
    /// pieces, in any order, and the journal gives it again. Damage before that stays, with what is behind it.
    fn survey(
        &mut self,
        file: &PackedFile,
        Known { replayed_after, written_upto, .. }: Known<'_>,
        notes: &mut Vec<String>,
    ) -> io::Result<Option<u64>> {
        let mut damage = None;
        for step in Walk::new(file.scan(0), self.owner, 0) {
            let (entry, batch) = match step? {
                Step::Batch(entry, batch) => (entry, batch),
                Step::Damage(from) => {
                    damage = Some(from);
                    continue;
                }
                Step::Tail(from) => return Ok(Some(from)),
            };
            if batch.sequence > written_upto {
                return Ok(damage.or(Some(entry.at)));
            }
            if batch.sequence > replayed_after && (damage.is_some() || file.body(&entry)?.is_none()) {
                return Ok(damage.or(Some(entry.at)));
            }
            if let Some(from) = damage.take() {
                let path = self.path.display();
                notes.push(format!(
                    "{path}: damaged at byte {from}; the outputs there are lost, not the others: `starfarm results` says \
                     which"
                ));
                self.units += 1;
                self.index.push(Place { units: self.units, at: entry.at, last: self.last });
            }
            if batch.sequence > replayed_after {
                self.replayed.push((batch.sequence, entry.at));
            }
            match batch.kind {
                Kind::Outputs => {}
                Kind::Again => {
                    let units = file.body(&entry)?.map(|body| (batch.sequence, intervals(&body)));
                    self.retried.extend(units);
                }
                Kind::Vain => self.vain += 1,
            }
            self.count(&entry, &batch);
        }
        Ok(None)
    }

    fn count(&mut self, entry: &Entry, batch: &Batch) {
        if self.index.last().is_none_or(|place| self.units - place.units >= INDEX_UNITS) {
            self.index.push(Place { units: self.units, at: entry.at, last: self.last });
        }
        (self.units, self.cut) = (self.units + batch.units, self.cut + batch.cut);
        self.last = batch.sequence;
    }

    /// The file that was opened is still found under its name: it was not deleted, and no other took its place.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        Ok(self.id == file_id(&self.path)?)
    }

    /// Whether the record `sequence` has left its batch here.
    fn has(&self, sequence: u64) -> bool {
        let at = || self.replayed.binary_search_by_key(&sequence, |(sequence, _)| *sequence);
        sequence <= self.last && (sequence <= self.replayed_after || at().is_ok())
    }

    /// Where the first batch behind the one of the record `sequence` begins, where that one is lacking.
    pub(super) fn where_it_is_lacking(&self, sequence: u64) -> Option<u64> {
        let behind = self.replayed.partition_point(|(other, _)| *other < sequence);
        let next = self.replayed.get(behind).filter(|_| !self.has(sequence))?;
        Some(next.1)
    }

    /// The journal has given all that it has.
    pub(super) fn is_replayed(&mut self) {
        (self.replayed_after, self.replayed) = (u64::MAX, Vec::new());
    }

    /// The file, opened where it is closed for now.
    pub(super) fn file(&mut self) -> io::Result<&mut PackedFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open_packed()?,
        };
        Ok(self.file.insert(file))
    }

    fn append(&mut self, sequence: u64, kind: Kind, (units, cut): (u64, u64), body: &[u8]) -> io::Result<()> {
        self.dirty = true;
        let label = self.owner.label(sequence, kind, units, cut);
        let entry = self.file()?.append(label, body)?;
        let batch = self.owner.batch(&label).expect("it is its own");
        self.count(&entry, &batch);
        Ok(())
    }

    /// Appends what units wrote, by the journal's record `sequence`; what is here already is left out.
    pub(super) fn add(
        &mut self,
        sequence: u64,
        (attempt, node): (Attempt, NodeId),
        units: &[(u128, CommandUnit)],
    ) -> io::Result<()> {
        if self.has(sequence) {
            return Ok(());
        }
        if self.access == Access::AtRest {
            self.cut += units.iter().filter(|(_, outcome)| is_cut(outcome)).count() as u64;
            let stored = units.iter().map(|(unit, outcome)| {
                (sequence, Stored { unit: *unit, attempt, node, outcome: outcome.clone() })
            });
            self.beyond.extend(stored);
            return Ok(());
        }
        let (body, cut) = self.owner.body(sequence, (attempt, node), units);
        self.append(sequence, Kind::Outputs, (units.len() as u64, cut), &body)
    }

    /// Units are wanted again, by the record `sequence`.
    pub(super) fn retry(&mut self, sequence: u64, units: &[(u128, u128)]) -> io::Result<()> {
        if self.has(sequence) {
            return Ok(());
        }
        if self.access == Access::Kept {
            self.append(sequence, Kind::Again, (0, 0), &intervals_body(units))?;
        }
        // At rest it may be known already.
        if let Err(at) = self.retried.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
            self.retried.insert(at, (sequence, units.to_vec()));
        }
        Ok(())
    }

    /// A run of `unit` failed, and another one follows, says the record `sequence`.
    pub(super) fn ran_in_vain(&mut self, sequence: u64, unit: u128) -> io::Result<()> {
        if self.has(sequence) {
            return Ok(());
        }
        match self.access {
            Access::Kept => self.append(sequence, Kind::Vain, (0, 0), &unit.to_le_bytes())?,
            Access::AtRest => self.know_vain_runs()?,
        }
        self.vain += 1;
        if let Some(runs) = &mut self.vain_runs {
            runs.insert((unit, sequence));
        }
        Ok(())
    }

    /// Up to `take` outputs from the `skip`th on.
    pub(super) fn page(&mut self, skip: u64, take: u64) -> io::Result<Page> {
        self.know_vain_runs()?;
        let end = skip.saturating_add(take);
        let mut page = Page::default();
        if skip < self.units {
            self.page_of_file(skip, end.min(self.units), &mut page)?;
        }
        let past = |place: u64| place.saturating_sub(self.units).min(self.beyond.len() as u64) as usize;
        let beyond = &self.beyond[past(skip)..past(end)];
        page.outputs.extend(beyond.iter().map(|(sequence, stored)| self.seen(stored.clone(), *sequence)));
        page.more = end < self.units + self.beyond.len() as u64;
        Ok(page)
    }

    fn page_of_file(&mut self, skip: u64, end: u64, page: &mut Page) -> io::Result<()> {
        let place = self.index.partition_point(|place| place.units <= skip).checked_sub(1);
        // Without an entry before it damage is what the file begins with.
        let Place { units: mut before, at, last } =
            place.map_or_else(Place::default, |place| self.index[place]);
        self.file()?;
        let file = self.file.as_ref().expect("it was just opened");
        let mut walk = Walk::new(file.scan(at), self.owner, last);
        while before < end {
            let (sequence, units, batch) = match walk.next().transpose()? {
                None => break,
                Some(Step::Batch(entry, batch)) => (batch.sequence, batch.units, Some((entry, batch))),
                Some(Step::Damage(_) | Step::Tail(_)) => (0, 1, None),
            };
            let behind = before + units;
            let wanted = behind.min(end).saturating_sub(before.max(skip));
            if wanted > 0 {
                let mut whole = 0;
                if let Some((entry, batch)) = batch {
                    let pieces = file.pieces(&self.owner, &entry, &batch)?;
                    let pieces = pieces.into_iter().skip(skip.saturating_sub(before) as usize);
                    for piece in pieces.take(wanted as usize) {
                        if let Piece::Whole(stored) = piece {
                            page.outputs.push(self.seen(stored, sequence));
                            whole += 1;
                        }
                    }
                }
                page.damaged += wanted - whole;
            }
            before = behind;
        }
        Ok(())
    }

    /// An output that the record `sequence` brought, with what the other records say of it.
    fn seen(&self, stored: Stored, sequence: u64) -> Output {
        let wants = |units: &[(u128, u128)]| units.iter().any(|&(lo, hi)| (lo..hi).contains(&stored.unit));
        let retries = self.retried.iter().filter(|(_, units)| wants(units));
        let (before, after) = retries.fold((0, 0), |(before, after), &(at, _)| match at > sequence {
            true => (before, after + 1),
            false => (before + 1, after),
        });
        let runs = self.vain_runs.as_ref().expect("whoever asks for a page has them read");
        let vain = runs.range((stored.unit, 0)..(stored.unit, sequence)).count() as u64;
        Output { stored, superseded: after > 0, run: 1 + before + vain }
    }

    /// The file as it is now, for whoever looks through all of it.
    pub(super) fn snapshot(&mut self) -> io::Result<Snapshot> {
        let is_there = self.access == Access::Kept || self.path.try_exists()?;
        let file = if is_there { Some(self.file()?.clone()) } else { None };
        let mut again = Again::default();
        for (sequence, units) in &self.retried {
            for units in units {
                again.want(*sequence, *units);
            }
        }
        Ok(Snapshot::new(self.owner, file, self.beyond.clone(), again))
    }

    /// Reads which runs decided nothing. Only who asks for outputs needs to know, so only then it takes memory.
    fn know_vain_runs(&mut self) -> io::Result<()> {
        if self.vain_runs.is_some() {
            return Ok(());
        }
        let mut runs = BTreeSet::new();
        if self.vain > 0 {
            let owner = self.owner;
            let file = self.file()?;
            for step in Walk::new(file.scan(0), owner, 0) {
                if let Step::Batch(entry, batch) = step?
                    && batch.kind == Kind::Vain
                    && let Some(unit) = file.body(&entry)?.and_then(|body| body.try_into().ok())
                {
                    runs.insert((u128::from_le_bytes(unit), batch.sequence));
                }
            }
        }
        self.vain_runs = Some(runs);
        Ok(())
    }
}
