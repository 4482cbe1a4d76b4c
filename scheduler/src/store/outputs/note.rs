//! The note `again` in the directory of outputs: which jobs have a file there, and when their units were last wanted again.
//! A file that was cut or that is an older copy of itself is known by it. Its bytes are
//! [`starfarm_protocol::outputs::again`]'s.
//!
//! What it says is in the journal, durably, by the time that it is noted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::outputs::again::{self, Again};

use crate::descriptors::wait_for;
use crate::store::Trouble;
use crate::store::disk::{damaged_name, if_there, replace};

#[derive(Debug, Default)]
pub(super) struct Note {
    jobs: BTreeMap<JobId, Again>,
    /// What it says was changed so often, and is on the disk as it was then.
    changes: u64,
    saved: u64,
}

/// A note that is to be saved.
pub(crate) struct DueNote {
    path: PathBuf,
    bytes: Vec<u8>,
    change: u64,
}

impl Note {
    /// The note in directory `dir`; where there is none that can be read, nothing is known.
    pub(super) fn look(dir: &Path, farm: FarmId) -> Self {
        let jobs = fs::read(dir.join("again")).ok().and_then(|bytes| again::read(&bytes, farm));
        Self { jobs: jobs.unwrap_or_default(), ..Self::default() }
    }

    /// The same for who keeps it, without what it says of records after `last`. Where there is none that can be read, each of
    /// the jobs `there`, which have a file, may have had outputs for long; what the file says is noted when it is opened.
    pub(super) fn open(
        dir: &Path,
        farm: FarmId,
        last: u64,
        there: &[JobId],
        notes: &mut Vec<String>,
    ) -> io::Result<Self> {
        let path = dir.join("again");
        let bytes = if_there(wait_for(|| fs::read(&path)))?;
        let Some(jobs) = bytes.as_ref().and_then(|bytes| again::read(bytes, farm)) else {
            if bytes.is_some() {
                let aside = damaged_name(&path);
                fs::rename(&path, &aside)?;
                notes.push(format!(
                    "{}: it is damaged, of another farm or of a newer starfarm; it is set aside as {}. Files of outputs whose \
                     end is lost, or that are older copies, are not recognised if their units were run again before now",
                    path.display(),
                    aside.display()
                ));
            }
            let jobs = there.iter().map(|job| (*job, Again::default())).collect();
            return Ok(Self { jobs, changes: 1, saved: 0 });
        };
        let mut this = Self { jobs, ..Self::default() };
        let mut is_news = false;
        this.jobs.values_mut().for_each(|again| is_news |= again.forget_after(last));
        if is_news {
            // A person gave up the journal's end: its numbers are given again, to other records.
            replace(&path, &again::to_bytes(farm, &this.jobs))?;
        }
        Ok(this)
    }

    /// What is known of a job; `None`: it had no file by the last checkpoint, and none was opened since.
    pub(super) fn of(&self, job: JobId) -> Option<&Again> {
        self.jobs.get(&job)
    }

    /// A job has a file.
    pub(super) fn has_file(&mut self, job: JobId) {
        if let Entry::Vacant(vacant) = self.jobs.entry(job) {
            vacant.insert(Again::default());
            self.changes += 1;
        }
    }

    /// The record `sequence` wants units of a job again. One that never had a file is left out.
    pub(super) fn want(&mut self, job: JobId, sequence: u64, units: &[(u128, u128)]) {
        let Some(again) = self.jobs.get_mut(&job) else { return };
        let mut is_news = false;
        units.iter().for_each(|units| is_news |= again.want(sequence, *units));
        self.changes += u64::from(is_news);
    }

    /// Leaves the other jobs out.
    pub(super) fn retain(&mut self, is_kept: impl Fn(JobId) -> bool) {
        let before = self.jobs.len();
        self.jobs.retain(|job, _| is_kept(*job));
        self.changes += u64::from(self.jobs.len() < before);
    }

    /// What is to be saved in directory `dir`, where it is not as it is there.
    pub(super) fn due(&self, dir: &Path, farm: FarmId) -> Option<DueNote> {
        let due = || DueNote {
            path: dir.join("again"),
            bytes: again::to_bytes(farm, &self.jobs),
            change: self.changes,
        };
        (self.changes > self.saved).then(due)
    }

    /// That one is on the disk.
    pub(super) fn is_saved(&mut self, note: &DueNote) {
        self.saved = note.change;
    }
}

impl DueNote {
    /// Saves it, durably.
    pub(crate) fn save(&self) -> Result<(), Trouble> {
        replace(&self.path, &self.bytes).map_err(|e| {
            let trouble = Trouble::from(e);
            Trouble {
                words: format!("{} cannot be written: {}", self.path.display(), trouble.words),
                ..trouble
            }
        })
    }
}
