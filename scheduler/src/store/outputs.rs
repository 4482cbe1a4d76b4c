//! What units of commands wrote: one packed file per job, never one file per unit. The checkpoint thread writes,
//! the command thread reads pages.
//!
//! A batch is written after the journal has its record, and carries the record's sequence. So a file is never
//! ahead of the journal, and what a crash took from its end is written again when the journal is replayed. Files
//! are opened when they are first needed.

mod in_order;
mod job_file;
mod kept;
mod note;
mod walk;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use starfarm_net::private_folder;
use starfarm_protocol::ids::{Attempt, FarmId, JobId};
use starfarm_protocol::outputs::Owner;
use starfarm_protocol::wire::CommandUnit;
use starfarm_scheduler_core::{NodeId, Record};

use crate::descriptors::wait_for;
use crate::store::disk::{if_there, numbers};
use crate::store::packed::PackedFile;
pub(crate) use in_order::InOrder;
use job_file::{Access, JobFile, Known};
pub(crate) use job_file::{Output, Page};
pub(crate) use kept::Snapshot;
pub(crate) use note::DueNote;
use note::Note;

/// Files that are open at one time; where it would be more, all are synced and closed.
const OPEN_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct OutputStore {
    dir: PathBuf,
    farm: FarmId,
    access: Access,
    /// The journal gives all records after this one again, until [`OutputStore::is_replayed`].
    replayed_after: u64,
    written_upto: u64,
    /// Jobs whose file was there when the store was opened, and not empty.
    found: HashSet<JobId>,
    jobs: HashMap<JobId, JobFile>,
    /// Jobs of which whoever keeps count of what outputs name knows all: this start wrote it, or it was read.
    read: HashSet<JobId>,
    /// Bytes of each job's file, and of all.
    sizes: HashMap<JobId, u64>,
    bytes: u64,
    /// Why those of a job cannot be read; only where nobody keeps them.
    unreadable: HashMap<JobId, String>,
    note: Note,
    /// How many of them have their file open, at most.
    open: usize,
    /// A file was made since the directory was synced.
    made: bool,
    notes: Vec<String>,
}

impl OutputStore {
    /// Opens the store of a farm in directory `dir`, or makes it. All records of the journal after `replayed_after`
    /// will be given again, so what the files lack of them comes back; up to it what [`OutputStore::unsynced`] gave was
    /// synced. What a batch says of a record after `written_upto`, the journal's last, is cut off: a person gave up the
    /// journal's end, and its numbers are given again.
    ///
    /// # Errors
    /// The directory cannot be used, or something in it is no file: the words name it.
    pub(crate) fn open(dir: &Path, farm: FarmId, replayed_after: u64, written_upto: u64) -> io::Result<Self> {
        private_folder(dir)?;
        let mut store =
            Self { made: true, ..Self::new(dir, farm, Access::Kept, (replayed_after, written_upto)) };
        let jobs = store.jobs()?;
        for job in &jobs {
            let bytes = length(&store.path(*job))?;
            if bytes > 0 {
                store.found.insert(*job);
            }
            store.has_bytes(*job, bytes);
        }
        length(&dir.join("again"))?;
        store.note = Note::open(dir, farm, written_upto, &jobs, &mut store.notes)?;
        // Releases before wrote there what no reader needs any more.
        if_there(fs::remove_file(dir.join("synced")))?;
        Ok(store)
    }

    /// The store in directory `dir` of a farm that nobody runs. The journal is to give all its records after
    /// `replayed_after`.
    pub(crate) fn look(dir: &Path, farm: FarmId, replayed_after: u64) -> Self {
        let store = Self::new(dir, farm, Access::AtRest, (replayed_after, u64::MAX));
        Self { note: Note::look(dir, farm), ..store }
    }

    /// The journal has given all that it has. A file that is opened from now on is what there is.
    pub(crate) fn is_replayed(&mut self) {
        self.replayed_after = u64::MAX;
        self.jobs.values_mut().for_each(JobFile::is_replayed);
    }

    /// Whether the file of a job was there when the store was opened, and not empty.
    pub(crate) fn was_found(&self, job: JobId) -> bool {
        self.found.contains(&job)
    }

    fn new(dir: &Path, farm: FarmId, access: Access, (replayed_after, written_upto): (u64, u64)) -> Self {
        Self {
            dir: dir.to_owned(),
            farm,
            access,
            replayed_after,
            written_upto,
            found: HashSet::new(),
            jobs: HashMap::new(),
            read: HashSet::new(),
            sizes: HashMap::new(),
            bytes: 0,
            unreadable: HashMap::new(),
            note: Note::default(),
            open: 0,
            made: false,
            notes: Vec::new(),
        }
    }

    /// The note of jobs and of units that were wanted again, where it is to be saved: due before a checkpoint is, since what
    /// lies before that is not replayed again.
    pub(crate) fn due_note(&self) -> Option<DueNote> {
        self.note.due(&self.dir, self.farm)
    }

    /// That note is on the disk.
    pub(crate) fn is_saved(&mut self, note: &DueNote) {
        self.note.is_saved(note);
    }

    /// Whether such a record says anything of outputs.
    pub(crate) fn heeds(record: &Record) -> bool {
        matches!(
            record,
            Record::Ran { .. } | Record::Tried { .. } | Record::Retried { .. } | Record::Rerun { .. }
        )
    }

    /// Keeps what the journal's record `sequence` says of outputs. Records come in their order; one that is here
    /// already is left out.
    pub(crate) fn take(&mut self, sequence: u64, record: &Record) -> io::Result<()> {
        if let Some(job) = record.job().filter(|_| Self::heeds(record)) {
            self.make_way(sequence, job)?;
        }
        let (job, taken) = match record {
            Record::Ran { job, attempt, node, units } => {
                (*job, self.append(sequence, *job, (*attempt, *node), units))
            }
            Record::Tried { job, unit, .. } => {
                (*job, self.made_job(*job).and_then(|file| file.ran_in_vain(sequence, *unit)))
            }
            Record::Retried { job, units } | Record::Rerun { job, units } => {
                let file = self.job(*job, false);
                let retried = file.and_then(|file| file.map_or(Ok(()), |file| file.retry(sequence, units)));
                self.note.want(*job, sequence, units);
                (*job, retried)
            }
            _ => return Ok(()),
        };
        let file = self.jobs.get(&job).and_then(|file| file.file.as_ref());
        if let Some(bytes) = file.map(PackedFile::end) {
            self.has_bytes(job, bytes);
        }
        match (taken, self.access) {
            // Who looks at this job is told so; all others can be read.
            (Err(why), Access::AtRest) => {
                self.unreadable.entry(job).or_insert_with(|| why.to_string());
                Ok(())
            }
            (taken, _) => taken,
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
        of: (Attempt, NodeId),
        units: &[(u128, CommandUnit)],
    ) -> io::Result<()> {
        self.made_job(job)?.add(sequence, of, units)
    }

    /// Up to `take` outputs of `job` from the `skip`th on, those that are damaged among them.
    pub(crate) fn page(&mut self, job: JobId, skip: u64, take: u64) -> io::Result<Page> {
        self.job(job, false)?.map_or_else(|| Ok(Page::default()), |file| file.page(skip, take))
    }

    /// All outputs of `job` as they are now, to look through without holding anybody up.
    pub(crate) fn snapshot(&mut self, job: JobId) -> io::Result<Snapshot> {
        self.job(job, false)?.map_or_else(|| Ok(Snapshot::default()), JobFile::snapshot)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the file of a job.
    pub(crate) fn bytes_of(&self, job: JobId) -> u64 {
        self.sizes.get(&job).copied().unwrap_or(0)
    }

    fn has_bytes(&mut self, job: JobId, bytes: u64) {
        let before = match bytes {
            0 => self.sizes.remove(&job),
            bytes => self.sizes.insert(job, bytes),
        };
        self.bytes = self.bytes + bytes - before.unwrap_or(0);
    }

    /// Jobs with outputs that this start did not write itself and nobody has [read](OutputStore::read): those of earlier
    /// starts, and what a person has put in the place of a file since.
    pub(crate) fn unread(&mut self) -> io::Result<Vec<JobId>> {
        let known: Vec<_> = self.jobs.keys().copied().collect();
        known.into_iter().try_for_each(|job| self.forget_replaced(job))?;
        let mut jobs = self.jobs()?;
        jobs.retain(|job| !self.read.contains(job));
        Ok(jobs)
    }

    /// As [`OutputStore::snapshot`], for whoever keeps count of what outputs name from now on.
    pub(crate) fn read(&mut self, job: JobId) -> io::Result<Snapshot> {
        let snapshot = self.snapshot(job)?;
        self.read.insert(job);
        Ok(snapshot)
    }

    /// What needs a sync so that all that was appended is durable: for the one thread that does so without holding up
    /// who appends. Due before a checkpoint is saved, since what lies before it is not replayed again.
    ///
    /// # Errors
    /// A file was deleted or replaced: what was appended to it since the last time is in the journal alone.
    pub(crate) fn unsynced(&mut self) -> io::Result<Vec<Arc<File>>> {
        let mut files = Vec::new();
        if self.made {
            files.push(Arc::new(wait_for(|| File::open(&self.dir))?));
        }
        for file in self.jobs.values_mut().filter(|file| file.dirty) {
            if !file.is_in_place()? {
                return Err(io::Error::other(format!(
                    "{} was deleted or replaced while the scheduler ran; what the journal has of it is written when the \
                     scheduler starts",
                    file.path.display()
                )));
            }
            files.push(file.file()?.file());
        }
        // Nobody may read there for long: a person learns of it while the right file can still be put back.
        let open: Vec<_> =
            self.jobs.iter().filter(|(_, file)| file.file.is_some()).map(|(job, _)| *job).collect();
        open.into_iter().try_for_each(|job| self.forget_replaced(job))?;
        // Not before all are open: who could not be opened now is due the next time.
        self.made = false;
        self.jobs.values_mut().for_each(|file| file.dirty = false);
        Ok(files)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.unsynced()?.iter().try_for_each(|file| file.sync_all())
    }

    pub(crate) fn delete(&mut self, job: JobId) -> io::Result<()> {
        self.close(job);
        self.has_bytes(job, 0);
        self.note.retain(|other| other != job);
        if_there(fs::remove_file(self.path(job))).map(drop)
    }

    /// Jobs that have outputs here.
    pub(crate) fn jobs(&self) -> io::Result<Vec<JobId>> {
        Ok(numbers(&self.dir, ".outputs")?.into_iter().map(JobId).collect())
    }

    pub(crate) fn retain_only(&mut self, jobs: &HashSet<JobId>) -> io::Result<()> {
        self.note.retain(|job| jobs.contains(&job));
        self.jobs()?.into_iter().filter(|job| !jobs.contains(job)).try_for_each(|job| self.delete(job))
    }

    /// What a person should know of files that were opened since this was last asked.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.dir.join(format!("{}.outputs", job.0))
    }

    fn close(&mut self, job: JobId) {
        self.read.remove(&job);
        let was_open = self.jobs.remove(&job).is_some_and(|file| file.file.is_some());
        self.open -= usize::from(was_open);
    }

    /// A file that lacks a record and has later ones ends before these: the journal gives them all again.
    fn make_way(&mut self, sequence: u64, job: JobId) -> io::Result<()> {
        if self.access == Access::AtRest || self.replayed_after == u64::MAX {
            return Ok(());
        }
        let Some(file) = self.job(job, false)? else { return Ok(()) };
        if let Some(at) = file.where_it_is_lacking(sequence) {
            file.file()?.cut(at)?;
            self.close(job);
        }
        Ok(())
    }

    /// Lets go of a file that a person deleted or replaced, where all that was written to it was synced: what lies there now
    /// is what a start would find.
    fn forget_replaced(&mut self, job: JobId) -> io::Result<()> {
        let Some(file) = self.jobs.get(&job).filter(|file| !file.dirty && self.access == Access::Kept) else {
            return Ok(());
        };
        if !file.is_in_place()? {
            self.notes.push(format!(
                "{} was deleted or replaced while the scheduler runs: outputs of job {} that are not there now are missing, \
                 says `starfarm results`. Put the right file there, or let their units run again with `starfarm job retry \
                 --missing-outputs`",
                file.path.display(),
                job.0
            ));
            self.close(job);
        }
        Ok(())
    }

    fn made_job(&mut self, job: JobId) -> io::Result<&mut JobFile> {
        Ok(self.job(job, true)?.expect("it is made where it is not there"))
    }

    /// The file of a job; `None` where there is none and none is to be made.
    fn job(&mut self, job: JobId, make: bool) -> io::Result<Option<&mut JobFile>> {
        if let Some(why) = self.unreadable.get(&job) {
            return Err(io::Error::other(why.clone()));
        }
        // One that is open goes on to be appended to: the next checkpoint says what became of it.
        if !make || self.jobs.get(&job).is_some_and(|file| file.file.is_none()) {
            self.forget_replaced(job)?;
        }
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
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            let there = path.try_exists().map_err(named)?;
            if !there && !make {
                return Ok(None);
            }
            self.made |= !there && self.access == Access::Kept;
            if !there && self.replayed_after == u64::MAX {
                self.read.insert(job);
            }
            let (replayed_after, written_upto) = (self.replayed_after, self.written_upto);
            let known = Known { replayed_after, written_upto, again: self.note.of(job) };
            let owner = Owner::new(self.farm, job);
            let file =
                JobFile::open(owner, path.clone(), self.access, known, &mut self.notes).map_err(named)?;
            self.note.has_file(job);
            file.retried.iter().for_each(|(sequence, units)| self.note.want(job, *sequence, units));
            self.jobs.insert(job, file);
        }
        Ok(self.jobs.get_mut(&job))
    }
}

/// Bytes of the file `path`, which must be one.
fn length(path: &Path) -> io::Result<u64> {
    let there = if_there(fs::metadata(path))?;
    match there {
        Some(there) if !there.is_file() => {
            let path = path.display();
            Err(io::Error::other(format!("{path} is no file, and one belongs there: move it away")))
        }
        there => Ok(there.map_or(0, |there| there.len())),
    }
}

#[cfg(test)]
pub(crate) mod tests;
