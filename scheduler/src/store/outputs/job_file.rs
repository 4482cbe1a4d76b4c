//! One job's file of outputs: batches of what units wrote, retries, and runs that decided nothing, in the journal's
//! order.
//!
//! | bytes of a label | what |
//! | --- | --- |
//! | 0..8 | sequence of the record |
//! | 8..16 | units in the batch |
//! | 16..24 | units of these of whose output a part was left out |
//! | 24 | 0 outputs. 1: failed units that are wanted again, as pairs of lo and hi: their runs before do not count. 2: a run of a unit that failed, and was followed by another: the unit |
//! | 25..32 | the job and one, so that no file is taken for another job's |

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use starfarm_protocol::bytes::{Malformed, Reader};
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{CommandUnit, Stream};
use starfarm_scheduler_core::NodeId;

use crate::store::packed::{Entry, Found, Label, PackedFile};

/// Units between two entries of an index in memory.
const INDEX_UNITS: u64 = 64;

/// One unit's outcome, as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) unit: u128,
    pub(crate) attempt: Attempt,
    pub(crate) node: NodeId,
    pub(crate) outcome: CommandUnit,
    /// The unit failed in this run, and was wanted again after it: another one counts.
    pub(crate) superseded: bool,
    /// Which run of the unit it was, from 1 on, of those that came to an end: one that died with its worker or was
    /// given back is none.
    pub(crate) run: u64,
}

impl Output {
    /// As its own record has it; what others say of it comes in where it is read.
    fn new(unit: u128, attempt: Attempt, node: NodeId, outcome: CommandUnit) -> Self {
        Self { unit, attempt, node, outcome, superseded: false, run: 1 }
    }
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

#[derive(Debug, Default)]
pub(super) struct JobFile {
    job: JobId,
    access: Access,
    path: PathBuf,
    /// `None`: closed for now.
    pub(super) file: Option<PackedFile>,
    /// Sequence of the last batch; 0: there is none.
    pub(super) last: u64,
    /// Units in the file, and one for each place that is damaged, so that a reader comes upon it.
    units: u64,
    /// Units of these of whose output a part was left out.
    pub(super) cut: u64,
    /// Failed units that were wanted again, by the sequence of the record that says so; ascending.
    retried: Vec<(u64, Vec<(u128, u128)>)>,
    /// How many runs decided nothing.
    vain: u64,
    /// These runs, by unit and sequence of the record; `None` until somebody asks for a page.
    vain_runs: Option<BTreeSet<(u128, u64)>>,
    /// At rest: outputs that the journal has and the file has not, with the sequence of their record.
    beyond: Vec<(u64, Output)>,
    /// Places in the file: how many units lie before, and the offset; ascending. The first unit has one, and the
    /// first behind damage.
    pub(super) index: Vec<(u64, u64)>,
    pub(super) dirty: bool,
}

/// What the label of a batch says.
#[derive(Clone, Copy, Default)]
struct Batch {
    sequence: u64,
    units: u64,
    cut: u64,
    kind: Kind,
    /// The low bytes of its number and one.
    job: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Outputs = 0,
    Retried = 1,
    Vain = 2,
}

/// Numbers of jobs that a label tells apart.
const LABEL_JOBS: u64 = 1 << 56;

impl Batch {
    fn label(&self) -> Label {
        let words = [self.sequence, self.units, self.cut, self.job << 8 | self.kind as u64];
        let mut label = Label::default();
        label.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        label
    }

    fn of(entry: &Entry) -> Self {
        let word = |at: usize| u64::from_le_bytes(entry.label.as_chunks().0[at]);
        let kind = match entry.label[24] {
            1 => Kind::Retried,
            2 => Kind::Vain,
            _ => Kind::Outputs,
        };
        Self { sequence: word(0), units: word(1), cut: word(2), kind, job: word(3) >> 8 }
    }
}

impl JobFile {
    /// Opens the file of `job`, or makes it; one at rest may be missing.
    pub(super) fn open(
        job: JobId,
        path: PathBuf,
        access: Access,
        known: (u64, u64),
        notes: &mut Vec<String>,
    ) -> io::Result<Self> {
        let mut this = Self { job, path, access, ..Self::default() };
        if access == Access::AtRest && !this.path.try_exists()? {
            return Ok(this);
        }
        let mut file = this.open_packed()?;
        if let Some(from) = this.survey(&file, known, notes)? {
            this.repair(&mut file, from, notes)?;
        }
        this.file = Some(file);
        Ok(this)
    }

    fn open_packed(&self) -> io::Result<PackedFile> {
        match self.access {
            Access::Kept => PackedFile::open(&self.path),
            Access::AtRest => PackedFile::look(&self.path),
        }
    }

    /// From byte `from` on nothing can be read. At rest it is left as it is.
    fn repair(&mut self, file: &mut PackedFile, from: u64, notes: &mut Vec<String>) -> io::Result<()> {
        let (path, end) = (self.path.display().to_string(), file.end());
        let is_kept = self.access == Access::Kept;
        if from == 0 {
            let (job, access) = (self.job, self.access);
            *self = Self { job, path: std::mem::take(&mut self.path), access, ..Self::default() };
            let what = if is_kept {
                format!("it is set aside as {}", file.set_aside()?.display())
            } else {
                "it is passed over".into()
            };
            notes.push(format!("{path}: it is another job's, or nothing in it can be read; {what}"));
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
        (replayed_after, written_upto): (u64, u64),
        notes: &mut Vec<String>,
    ) -> io::Result<Option<u64>> {
        let mut damage = None;
        let mut scan = file.scan(0);
        while let Some(found) = scan.next()? {
            let entry = match found {
                Found::Entry(entry) => entry,
                Found::Damage(from, _) => {
                    damage = Some(from);
                    continue;
                }
                Found::Tail(from) => return Ok(Some(from)),
            };
            let batch = Batch::of(&entry);
            // None in one that an older scheduler wrote.
            if batch.job != 0 && batch.job != job_label(self.job) {
                return Ok(Some(0));
            }
            if batch.sequence > written_upto {
                return Ok(damage.or(Some(entry.at)));
            }
            if batch.sequence > replayed_after && (damage.is_some() || file.body(&entry)?.is_none()) {
                return Ok(damage.or(Some(entry.at)));
            }
            if let Some(from) = damage.take() {
                let path = self.path.display();
                notes.push(format!(
                    "{path}: damaged at byte {from}; the outputs there are lost, not the others"
                ));
                self.units += 1;
                self.index.push((self.units, entry.at));
            }
            match batch.kind {
                Kind::Outputs => {}
                Kind::Retried => {
                    let body = file.body(&entry)?.unwrap_or_default();
                    self.retried.push((batch.sequence, read_intervals(&body)));
                }
                Kind::Vain => self.vain += 1,
            }
            self.count(&entry, &batch);
        }
        Ok(None)
    }

    fn count(&mut self, entry: &Entry, batch: &Batch) {
        if self.index.last().is_none_or(|&(units, _)| self.units - units >= INDEX_UNITS) {
            self.index.push((self.units, entry.at));
        }
        (self.units, self.cut) = (self.units + batch.units, self.cut + batch.cut);
        self.last = batch.sequence;
    }

    /// The file, opened where it is closed for now.
    pub(super) fn file(&mut self) -> io::Result<&mut PackedFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open_packed()?,
        };
        Ok(self.file.insert(file))
    }

    fn append(&mut self, batch: &Batch, body: &[u8]) -> io::Result<()> {
        self.dirty = true;
        let entry = self.file()?.append(batch.label(), body)?;
        self.count(&entry, batch);
        Ok(())
    }

    fn batch(&self, sequence: u64, kind: Kind) -> Batch {
        Batch { sequence, units: 0, cut: 0, kind, job: job_label(self.job) }
    }

    /// Appends what units wrote, by the journal's record `sequence`; what is here already is left out.
    pub(super) fn add(
        &mut self,
        sequence: u64,
        (attempt, node): (Attempt, NodeId),
        units: &[(u128, CommandUnit)],
    ) -> io::Result<()> {
        if sequence <= self.last {
            return Ok(());
        }
        let cut = units.iter().filter(|(_, outcome)| is_cut(outcome)).count() as u64;
        if self.access == Access::AtRest {
            let outputs =
                units.iter().map(|(unit, outcome)| Output::new(*unit, attempt, node, outcome.clone()));
            self.cut += cut;
            self.beyond.extend(outputs.map(|output| (sequence, output)));
            return Ok(());
        }
        let mut body = Vec::new();
        for (unit, outcome) in units {
            let start = body.len();
            body.extend_from_slice(&[0; 4]);
            body.extend_from_slice(&unit.to_le_bytes());
            body.extend_from_slice(&attempt.0.to_le_bytes());
            body.extend_from_slice(&node.0.to_le_bytes());
            outcome.write(&mut body);
            let length = (body.len() - start - 4) as u32;
            body[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        self.append(&Batch { units: units.len() as u64, cut, ..self.batch(sequence, Kind::Outputs) }, &body)
    }

    /// Failed units are wanted again, by the record `sequence`.
    pub(super) fn retry(&mut self, sequence: u64, units: &[(u128, u128)]) -> io::Result<()> {
        if sequence <= self.last {
            return Ok(());
        }
        if self.access == Access::Kept {
            let body: Vec<u8> =
                units.iter().flat_map(|(lo, hi)| [lo.to_le_bytes(), hi.to_le_bytes()]).flatten().collect();
            self.append(&self.batch(sequence, Kind::Retried), &body)?;
        }
        self.retried.push((sequence, units.to_vec()));
        Ok(())
    }

    /// A run of `unit` failed, and another one follows, says the record `sequence`.
    pub(super) fn ran_in_vain(&mut self, sequence: u64, unit: u128) -> io::Result<()> {
        if sequence <= self.last {
            return Ok(());
        }
        match self.access {
            Access::Kept => self.append(&self.batch(sequence, Kind::Vain), &unit.to_le_bytes())?,
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
        page.outputs.extend(beyond.iter().map(|(sequence, output)| self.seen(output.clone(), *sequence)));
        page.more = end < self.units + self.beyond.len() as u64;
        Ok(page)
    }

    fn page_of_file(&mut self, skip: u64, end: u64, page: &mut Page) -> io::Result<()> {
        let place = self.index.partition_point(|&(units, _)| units <= skip).checked_sub(1);
        // Without an entry before it damage is what the file begins with.
        let (mut before, at) = place.map_or((0, 0), |place| self.index[place]);
        self.file()?;
        let file = self.file.as_ref().expect("it was just opened");
        let mut scan = file.scan(at);
        while before < end {
            let (label, batch) = match scan.next()? {
                None => break,
                Some(Found::Entry(entry)) => {
                    let label = Batch::of(&entry);
                    (label, if label.units > 0 { file.body(&entry)? } else { None })
                }
                Some(Found::Damage(..) | Found::Tail(_)) => (Batch { units: 1, ..Batch::default() }, None),
            };
            let behind = before + label.units;
            let wanted = behind.min(end).saturating_sub(before.max(skip));
            if wanted > 0 {
                let batch = batch.and_then(|body| read_batch(&body).ok());
                match batch.filter(|batch| batch.len() as u64 == label.units) {
                    None => page.damaged += wanted,
                    Some(batch) => {
                        let batch = batch.into_iter().skip(skip.saturating_sub(before) as usize);
                        let seen =
                            batch.take(wanted as usize).map(|output| self.seen(output, label.sequence));
                        page.outputs.extend(seen);
                    }
                }
            }
            before = behind;
        }
        Ok(())
    }

    /// An output that the record `sequence` brought, with what the other records say of it.
    fn seen(&self, output: Output, sequence: u64) -> Output {
        let wants = |units: &[(u128, u128)]| units.iter().any(|&(lo, hi)| (lo..hi).contains(&output.unit));
        let retries = self.retried.iter().filter(|(_, units)| wants(units));
        let (before, after) = retries.fold((0, 0), |(before, after), &(at, _)| match at > sequence {
            true => (before, after + 1),
            false => (before + 1, after),
        });
        let runs = self.vain_runs.as_ref().expect("whoever asks for a page has them read");
        let vain = runs.range((output.unit, 0)..(output.unit, sequence)).count() as u64;
        Output { superseded: output.outcome.failed.is_some() && after > 0, run: 1 + before + vain, ..output }
    }

    /// Reads which runs decided nothing. Only who asks for outputs needs to know, so only then it takes memory.
    fn know_vain_runs(&mut self) -> io::Result<()> {
        if self.vain_runs.is_some() {
            return Ok(());
        }
        let mut runs = BTreeSet::new();
        if self.vain > 0 {
            let file = self.file()?;
            let mut scan = file.scan(0);
            while let Some(found) = scan.next()? {
                if let Found::Entry(entry) = found
                    && Batch::of(&entry).kind == Kind::Vain
                    && let Some(unit) = file.body(&entry)?.and_then(|body| body.try_into().ok())
                {
                    runs.insert((u128::from_le_bytes(unit), Batch::of(&entry).sequence));
                }
            }
        }
        self.vain_runs = Some(runs);
        Ok(())
    }
}

fn job_label(job: JobId) -> u64 {
    (job.0 + 1) % LABEL_JOBS
}

/// A part of what it wrote was left out.
fn is_cut(outcome: &CommandUnit) -> bool {
    let is_cut = |stream: &Stream| matches!(stream, Stream::Uploaded { kept, total, .. } if kept < total);
    is_cut(&outcome.outputs.stdout) || is_cut(&outcome.outputs.stderr)
}

fn read_intervals(bytes: &[u8]) -> Vec<(u128, u128)> {
    let (numbers, _) = bytes.as_chunks();
    let numbers: Vec<u128> = numbers.iter().map(|number| u128::from_le_bytes(*number)).collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn read_batch(bytes: &[u8]) -> Result<Vec<Output>, Malformed> {
    let (mut rest, mut outputs) = (Reader(bytes), Vec::new());
    while !rest.0.is_empty() {
        let length = rest.u32()? as usize;
        let mut unit = Reader(rest.bytes(length)?);
        let (number, attempt, node) = (unit.u128()?, Attempt(unit.u64()?), NodeId(unit.u32()?));
        let outcome = CommandUnit::read_all(unit.0)?.pop().ok_or(Malformed)?;
        outputs.push(Output::new(number, attempt, node, outcome));
    }
    Ok(outputs)
}
