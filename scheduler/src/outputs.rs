//! What units of commands wrote: one packed file per job, never one file per unit. The checkpoint thread writes,
//! the command thread reads pages.
//!
//! A batch is written after the journal has its record, and carries the record's sequence. So a file is never
//! ahead of the journal, and what a crash took from its end is written again when the journal is replayed. Files
//! are opened when they are first needed.
//!
//! | bytes of a label | what |
//! | --- | --- |
//! | 0..8 | sequence of the record |
//! | 8..16 | units in the batch |
//! | 16..24 | units of these of whose output a part was left out |
//! | 24 | 0; 1: no outputs, but failed units that are wanted again, as pairs of lo and hi: their runs before do not count |
//! | 25..32 | the job and one, so that no file is taken for another job's |

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{CommandUnit, Stream};
use starfarm_scheduler_core::{NodeId, Record};

use crate::descriptors::wait_for;
use crate::packed::{Entry, Found, Label, PackedFile};

/// Units between two entries of an index in memory.
const INDEX_UNITS: u64 = 64;
/// Files that are open at one time; where it would be more, all are synced and closed.
const OPEN_MAX: usize = 256;

/// One unit's outcome, as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) unit: u128,
    pub(crate) attempt: Attempt,
    pub(crate) node: NodeId,
    pub(crate) outcome: CommandUnit,
    /// The unit failed in this run, and was wanted again after it: another one counts.
    pub(crate) superseded: bool,
}

/// Some outputs of a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Page {
    pub(crate) outputs: Vec<Output>,
    /// So many more lie between them and cannot be read. Where not even their number can, they count as one.
    pub(crate) damaged: u64,
    pub(crate) more: bool,
}

/// Outputs of all jobs.
#[derive(Debug)]
pub(crate) struct OutputStore {
    dir: PathBuf,
    /// The journal gives all records after this one again.
    replayed_after: u64,
    written_upto: u64,
    jobs: HashMap<JobId, JobFile>,
    /// How many of them have their file open, at most.
    open: usize,
    /// A file was made since the directory was synced.
    made: bool,
    scratch: Vec<u8>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct JobFile {
    job: JobId,
    path: PathBuf,
    /// `None`: closed for now.
    file: Option<PackedFile>,
    /// Sequence of the last batch; 0: there is none.
    last: u64,
    /// Units in the file, and one for each place that is damaged, so that a reader comes upon it.
    units: u64,
    /// Units of these of whose output a part was left out.
    cut: u64,
    /// Failed units that were wanted again, by the sequence of the record that says so; ascending.
    retried: Vec<(u64, Vec<(u128, u128)>)>,
    /// Places in the file: how many units lie before, and the offset; ascending. The first unit has one, and the
    /// first behind damage.
    index: Vec<(u64, u64)>,
    dirty: bool,
}

/// What the label of a batch says.
#[derive(Clone, Copy, Default)]
struct Batch {
    sequence: u64,
    units: u64,
    cut: u64,
    is_retry: bool,
    /// The low bytes of its number and one.
    job: u64,
}

/// Numbers of jobs that a label tells apart.
const LABEL_JOBS: u64 = 1 << 56;

impl Batch {
    fn label(&self) -> Label {
        let mut label = Label::default();
        label[..8].copy_from_slice(&self.sequence.to_le_bytes());
        label[8..16].copy_from_slice(&self.units.to_le_bytes());
        label[16..24].copy_from_slice(&self.cut.to_le_bytes());
        label[24] = self.is_retry.into();
        label[25..].copy_from_slice(&self.job.to_le_bytes()[..7]);
        label
    }

    fn of(entry: &Entry) -> Self {
        let number =
            |at: usize| entry.label[at..at + 8].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let (is_retry, job) = (entry.label[24] == 1, number(24) >> 8);
        Self { sequence: number(0), units: number(8), cut: number(16), is_retry, job }
    }
}

impl OutputStore {
    /// Opens the store in directory `dir`, or makes it. All records of the journal after `replayed_after` will be
    /// given again; up to it what [`OutputStore::unsynced`] gave was synced.
    /// What a batch says of a record after `written_upto`, the journal's last, is cut off: a person gave up the
    /// journal's end, and its numbers are given again.
    pub(crate) fn open(dir: &Path, replayed_after: u64, written_upto: u64) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let (dir, scratch, notes) = (dir.to_owned(), Vec::new(), Vec::new());
        Ok(Self {
            dir,
            replayed_after,
            written_upto,
            jobs: HashMap::new(),
            open: 0,
            made: true,
            scratch,
            notes,
        })
    }

    /// Keeps what the journal's record `sequence` says of outputs. Records come in their order; one that is here
    /// already is left out.
    pub(crate) fn take(&mut self, sequence: u64, record: &Record) -> io::Result<()> {
        match record {
            Record::Ran { job, attempt, node, units } => self.append(sequence, *job, *attempt, *node, units),
            Record::Retried { job, units } => self.retry(sequence, *job, units),
            _ => Ok(()),
        }
    }

    /// Failed units of `job` are wanted again.
    fn retry(&mut self, sequence: u64, job: JobId, units: &[(u128, u128)]) -> io::Result<()> {
        let body: Vec<u8> =
            units.iter().flat_map(|(lo, hi)| [lo.to_le_bytes(), hi.to_le_bytes()]).flatten().collect();
        match self.job(job, false)? {
            Some(file) if sequence > file.last => {
                file.append(
                    &Batch { sequence, units: 0, cut: 0, is_retry: true, job: job_label(job) },
                    &body,
                )?;
                file.retried.push((sequence, units.to_vec()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Units of `job` of whose output a part was left out.
    pub(crate) fn cut(&mut self, job: JobId) -> io::Result<u64> {
        Ok(self.job(job, false)?.map_or(0, |file| file.cut))
    }

    /// Appends what units of `job` wrote, by the journal's record `sequence`.
    pub(crate) fn append(
        &mut self,
        sequence: u64,
        job: JobId,
        attempt: Attempt,
        node: NodeId,
        units: &[(u128, CommandUnit)],
    ) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for (unit, outcome) in units {
            let start = scratch.len();
            scratch.extend_from_slice(&[0; 4]);
            scratch.extend_from_slice(&unit.to_le_bytes());
            scratch.extend_from_slice(&attempt.0.to_le_bytes());
            scratch.extend_from_slice(&node.0.to_le_bytes());
            outcome.write(&mut scratch);
            let length = (scratch.len() - start - 4) as u32;
            scratch[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        let cut = units.iter().filter(|(_, outcome)| is_cut(outcome)).count() as u64;
        let batch = Batch { sequence, units: units.len() as u64, cut, is_retry: false, job: job_label(job) };
        let written = self.job(job, true).and_then(|file| {
            let file = file.expect("it is made where it is not there");
            if sequence <= file.last { Ok(()) } else { file.append(&batch, &scratch) }
        });
        self.scratch = scratch;
        written
    }

    /// Sequence of the last record of `job` that is here; 0: none is.
    #[cfg(test)]
    pub(crate) fn last_sequence(&mut self, job: JobId) -> io::Result<u64> {
        Ok(self.job(job, false)?.map_or(0, |file| file.last))
    }

    /// Up to `take` outputs of `job` from the `skip`th on, those that are damaged among them.
    pub(crate) fn page(&mut self, job: JobId, skip: u64, take: u64) -> io::Result<Page> {
        self.job(job, false)?.map_or_else(|| Ok(Page::default()), |file| file.page(skip, take))
    }

    /// What needs a sync so that all that was appended is durable: for the one thread that does so without holding up
    /// who appends. Due before a checkpoint is saved, since what lies before it is not replayed again.
    pub(crate) fn unsynced(&mut self) -> io::Result<Vec<Arc<File>>> {
        let mut files = Vec::new();
        if self.made {
            files.push(Arc::new(wait_for(|| File::open(&self.dir))?));
        }
        for file in self.jobs.values_mut().filter(|file| file.dirty) {
            files.push(file.file()?.file());
        }
        // Not before all are open: who could not be opened now is due the next time.
        self.made = false;
        self.jobs.values_mut().for_each(|file| file.dirty = false);
        Ok(files)
    }

    /// Makes all that was appended durable.
    fn sync_all(&mut self) -> io::Result<()> {
        self.unsynced()?.iter().try_for_each(|file| file.sync_all())
    }

    /// Drops the outputs of a job.
    pub(crate) fn delete(&mut self, job: JobId) -> io::Result<()> {
        self.jobs.remove(&job);
        match fs::remove_file(self.path(job)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Drops the outputs of all jobs but these.
    pub(crate) fn retain_only(&mut self, jobs: &HashSet<JobId>) -> io::Result<()> {
        for entry in wait_for(|| fs::read_dir(&self.dir))? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".outputs")?.parse().ok());
            if let Some(job) = number.map(JobId).filter(|job| !jobs.contains(job)) {
                self.delete(job)?;
            }
        }
        Ok(())
    }

    /// What a person should know of files that were opened since this was last asked.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.dir.join(format!("{}.outputs", job.0))
    }

    /// The file of a job; `None` where there is none and none is to be made.
    fn job(&mut self, job: JobId, make: bool) -> io::Result<Option<&mut JobFile>> {
        if self.jobs.get(&job).is_none_or(|file| file.file.is_none()) {
            if self.open >= OPEN_MAX {
                self.sync_all()?;
                self.jobs.values_mut().for_each(|file| file.file = None);
                self.open = 0;
            }
            self.open += 1;
        }
        if !self.jobs.contains_key(&job) {
            let path = self.path(job);
            let there = path.try_exists()?;
            if !there && !make {
                return Ok(None);
            }
            self.made |= !there;
            let file = JobFile::open(job, path, (self.replayed_after, self.written_upto), &mut self.notes)?;
            self.jobs.insert(job, file);
        }
        Ok(self.jobs.get_mut(&job))
    }
}

impl JobFile {
    fn open(job: JobId, path: PathBuf, known: (u64, u64), notes: &mut Vec<String>) -> io::Result<Self> {
        let mut file = PackedFile::open(&path)?;
        let mut this = Self {
            job,
            path,
            file: None,
            last: 0,
            units: 0,
            cut: 0,
            retried: Vec::new(),
            index: Vec::new(),
            dirty: false,
        };
        if let Some(from) = this.survey(&file, known, notes)? {
            let (path, end) = (this.path.display(), file.end());
            if from == 0 {
                let aside = file.set_aside()?;
                (this.last, this.units, this.cut) = (0, 0, 0);
                (this.index, this.retried) = (Vec::new(), Vec::new());
                notes.push(format!(
                    "{path}: it is another job's, or nothing in it can be read; it is set aside as {}",
                    aside.display()
                ));
            } else {
                file.cut(from)?;
                notes.push(format!(
                    "{path}: bytes {from} to {end} cannot be read; they are cut off, and what the journal has of \
                     them is written again"
                ));
            }
            this.dirty = true;
        }
        this.file = Some(file);
        Ok(this)
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
            if batch.is_retry
                && let Some(body) = file.body(&entry)?
            {
                self.retried.push((batch.sequence, read_intervals(&body)));
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

    fn file(&mut self) -> io::Result<&mut PackedFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => PackedFile::open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    fn append(&mut self, batch: &Batch, body: &[u8]) -> io::Result<()> {
        self.dirty = true;
        let entry = self.file()?.append(batch.label(), body)?;
        self.count(&entry, batch);
        Ok(())
    }

    fn page(&mut self, skip: u64, take: u64) -> io::Result<Page> {
        let place = self.index.partition_point(|&(units, _)| units <= skip).checked_sub(1);
        // Without an entry before it damage is what the file begins with.
        let (mut before, at) = place.map_or((0, 0), |place| self.index[place]);
        self.file()?;
        let file = self.file.as_ref().expect("it was just opened");
        let (mut scan, mut page) = (file.scan(at), Page::default());
        let end = skip.saturating_add(take);
        while before < end.min(self.units) {
            let (label, batch) = match scan.next()? {
                None => break,
                Some(Found::Entry(entry)) => (Batch::of(&entry), file.body(&entry)?),
                Some(Found::Damage(..) | Found::Tail(_)) => (Batch { units: 1, ..Batch::default() }, None),
            };
            let behind = before + label.units;
            let wanted = behind.min(end).saturating_sub(before.max(skip));
            if wanted > 0 {
                let batch = batch.and_then(|body| read_batch(&body));
                match batch.filter(|batch| batch.len() as u64 == label.units) {
                    None => page.damaged += wanted,
                    Some(batch) => {
                        let batch = batch.into_iter().skip(skip.saturating_sub(before) as usize);
                        page.outputs.extend(batch.take(wanted as usize).map(|output| Output {
                            superseded: output.outcome.failed.is_some()
                                && self.is_retried(output.unit, &label),
                            ..output
                        }));
                    }
                }
            }
            before = behind;
        }
        page.more = end < self.units;
        Ok(page)
    }

    /// The unit was wanted again after that batch.
    fn is_retried(&self, unit: u128, batch: &Batch) -> bool {
        let after = self.retried.iter().filter(|(sequence, _)| *sequence > batch.sequence);
        after.flat_map(|(_, units)| units).any(|&(lo, hi)| (lo..hi).contains(&unit))
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

fn read_batch(mut bytes: &[u8]) -> Option<Vec<Output>> {
    let mut outputs = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (unit, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        outputs.push(read(unit)?);
        bytes = rest;
    }
    Some(outputs)
}

fn read(bytes: &[u8]) -> Option<Output> {
    let (unit, bytes) = bytes.split_first_chunk()?;
    let (attempt, bytes) = bytes.split_first_chunk()?;
    let (node, bytes) = bytes.split_first_chunk()?;
    Some(Output {
        unit: u128::from_le_bytes(*unit),
        attempt: Attempt(u64::from_le_bytes(*attempt)),
        node: NodeId(u32::from_le_bytes(*node)),
        outcome: CommandUnit::read_all(bytes).ok()?.pop()?,
        superseded: false,
    })
}

#[cfg(test)]
pub(crate) mod tests;
