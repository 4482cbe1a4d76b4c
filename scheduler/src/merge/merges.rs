//! All merges of a farm, and where their results lie.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use starfarm_net::{private_folder, remove_all};
use starfarm_protocol::admin::{JobInfo, MergeInfo, MergeOutcome, MergeState};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::spec::{JobSpec, Merge, is_inside};
use starfarm_scheduler_core::Farm;

use crate::host_program;
use crate::store::disk::{if_there, numbers, replace, sync_folder};

/// How the names of what a job may have here end, behind its number.
const ENDINGS: [&str; 6] = ["json", "output", "pid", "stderr", "files", "work"];

/// All merges of a farm.
#[derive(Debug)]
pub(crate) struct Merges {
    dir: PathBuf,
    jobs: Mutex<BTreeMap<JobId, Asked>>,
    /// How often units of a job were wanted again.
    reopened: AtomicU64,
}

/// The merge of a job.
#[derive(Debug)]
struct Asked {
    merge: Merge,
    is_running: bool,
    /// Nothing is to be done until the job goes on, or a person says so.
    is_settled: bool,
    /// A person wants it for the end of the job at that time, whatever the job lacks.
    wanted_us: Option<u64>,
    outcome: Option<MergeOutcome>,
}

/// A moment between two jobs of which units are wanted again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Since(u64);

impl Asked {
    fn state(&self, job: &JobInfo) -> MergeState {
        let ended_us = job.totals.ended_us.filter(|_| job.state.ended());
        match &self.outcome {
            _ if self.is_running => MergeState::Running,
            Some(outcome) if ended_us == Some(outcome.ended_us) => {
                if outcome.why.is_empty() {
                    MergeState::Done
                } else {
                    MergeState::Failed
                }
            }
            _ if ended_us.is_none() => MergeState::Waiting,
            _ if job.state == JobState::Finished || self.wanted_us == ended_us => MergeState::Waiting,
            _ => MergeState::Skipped,
        }
    }
}

impl Merges {
    /// The merges whose results lie in `dir`; that is made with the first of them.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, jobs: Mutex::default(), reopened: AtomicU64::new(0) }
    }

    /// Ends what a scheduler that was killed has left running.
    pub(crate) fn end_left(&self) {
        host_program::end_left(&self.dir);
    }

    /// A job is there with this specification.
    pub(crate) fn learn(&self, job: JobId, spec: &[u8]) {
        let Some(merge) = JobSpec::from_bytes(spec).ok().and_then(|spec| spec.work.merge().cloned()) else {
            return;
        };
        let told = fs::read(self.path(job, "json")).ok();
        let outcome = told.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        self.jobs()
            .insert(job, Asked { merge, is_running: false, is_settled: false, wanted_us: None, outcome });
    }

    /// Jobs whose results are to be merged sooner or later, and what says since when: for [`Merges::begin`].
    pub(crate) fn unsettled(&self) -> (Vec<JobId>, Since) {
        let jobs = self.jobs();
        let since = Since(self.reopened.load(Ordering::Relaxed));
        (jobs.iter().filter(|(_, asked)| !asked.is_settled).map(|(job, _)| *job).collect(), since)
    }

    /// Units of a job are wanted again.
    pub(crate) fn reopened(&self, job: JobId) {
        let mut jobs = self.jobs();
        self.reopened.fetch_add(1, Ordering::Relaxed);
        jobs.get_mut(&job).into_iter().for_each(|asked| asked.is_settled = false);
    }

    /// Bytes of what came of the merge of a job.
    pub(crate) fn bytes_of(&self, job: JobId) -> u64 {
        let jobs = self.jobs();
        jobs.get(&job).and_then(|asked| asked.outcome.as_ref()).map_or(0, MergeOutcome::bytes)
    }

    /// Bytes of what came of all merges.
    pub(crate) fn bytes(&self) -> u64 {
        self.jobs().values().filter_map(|asked| asked.outcome.as_ref()).map(MergeOutcome::bytes).sum()
    }

    /// Says of each job how its merge stands.
    pub(crate) fn fill(&self, infos: &mut [JobInfo]) {
        let jobs = self.jobs();
        for info in infos {
            let Some(asked) = jobs.get(&info.id) else { continue };
            let state = asked.state(info);
            let told = matches!(state, MergeState::Done | MergeState::Failed);
            let outcome = asked.outcome.clone().filter(|_| told);
            let (why, seconds, output, files) =
                outcome.map(|of| (of.why, of.seconds, of.output, of.files)).unwrap_or_default();
            info.merge = Some(MergeInfo { state, why, seconds, output, files });
        }
    }

    /// Says to the farm how all merges stand: jobs may wait for them.
    pub(crate) fn tell(&self, farm: &mut Farm) {
        for (&job, asked) in &*self.jobs() {
            if let Some(info) = farm.job(job, 0) {
                farm.note_merge(job, asked.state(&info));
            }
        }
    }

    /// What is to be merged now of these jobs: the first that waits and has ended. It runs from now on. Where units were
    /// wanted again since the jobs were listed, they may be told of as they were before: then they are to be listed anew.
    pub(crate) fn begin(&self, infos: &[JobInfo], since: Since) -> Option<(JobId, u64, Merge)> {
        let mut jobs = self.jobs();
        if since != Since(self.reopened.load(Ordering::Relaxed)) {
            return None;
        }
        infos.iter().find_map(|info| {
            let asked = jobs.get_mut(&info.id)?;
            let ended_us = info.totals.ended_us.filter(|_| info.state.ended())?;
            asked.is_settled = asked.state(info) != MergeState::Waiting;
            if asked.is_settled {
                return None;
            }
            asked.is_running = true;
            Some((info.id, ended_us, asked.merge.clone()))
        })
    }

    /// What was merged of a job before is about to be written over: durably no result from now on. Whoever starts after a
    /// crash would else take for the whole result what was written of the new one.
    pub(super) fn is_no_result(&self, job: JobId) -> io::Result<()> {
        let told = self.path(job, "json");
        if_there(fs::remove_file(&told))?.map_or(Ok(()), |()| sync_folder(&told))
    }

    /// It has come to an end. How it stands now: a result of which it cannot be written that it is one is none.
    ///
    /// # Errors
    /// What came of it cannot be written, or what is left of a job that was deleted cannot be removed. It has ended all the
    /// same.
    pub(crate) fn end(&self, job: JobId, mut outcome: MergeOutcome) -> (MergeState, io::Result<()>) {
        // A job may have been deleted meanwhile.
        if !self.has(job) {
            return (MergeState::Skipped, self.delete(job));
        }
        let bytes = serde_json::to_vec(&outcome).expect("it has no odd keys");
        let kept = replace(&self.path(job, "json"), &bytes);
        if let Err(e) = kept.as_ref()
            && outcome.why.is_empty()
        {
            // What there is of it is of no use, and may be why there is no room.
            ENDINGS.iter().for_each(|ending| drop(remove_all(&self.path(job, ending))));
            let why = format!(
                "what came of it cannot be written: {e}: make room, then `starfarm job merge {}`",
                job.0
            );
            outcome = MergeOutcome { why, output: None, files: Vec::new(), ..outcome };
        }
        let state = if outcome.why.is_empty() { MergeState::Done } else { MergeState::Failed };
        if let Some(asked) = self.jobs().get_mut(&job) {
            (asked.is_running, asked.wanted_us, asked.outcome) = (false, None, Some(outcome));
        }
        (state, kept)
    }

    /// It is known here: not deleted.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs().contains_key(&job)
    }

    /// A person wants a job merged again, which has ended.
    ///
    /// # Errors
    /// Nothing is to be merged, or not now; in words.
    pub(crate) fn again(&self, job: &JobInfo) -> Result<(), String> {
        let mut jobs = self.jobs();
        let id = job.id.0;
        let asked = jobs.get_mut(&job.id).ok_or_else(|| format!("job {id} has no [merge]"))?;
        let Some(ended_us) = job.totals.ended_us.filter(|_| job.state.ended()) else {
            return Err(format!("job {id} has not ended: its results are merged then"));
        };
        if asked.is_running {
            return Err(format!("the results of job {id} are being merged"));
        }
        (asked.outcome, asked.wanted_us, asked.is_settled) = (None, Some(ended_us), false);
        Ok(())
    }

    /// A job is deleted.
    pub(crate) fn delete(&self, job: JobId) -> io::Result<()> {
        self.jobs().remove(&job);
        ENDINGS.iter().try_for_each(|ending| remove_all(&self.path(job, ending)))
    }

    /// Removes what is left of other jobs than these: a scheduler that was killed while it deleted one leaves it there, and
    /// nobody would ask for it any more.
    pub(crate) fn retain_only(&self, jobs: &HashSet<JobId>) -> io::Result<()> {
        for ending in ENDINGS {
            let found = numbers(&self.dir, &format!(".{ending}"))?.into_iter().map(JobId);
            found.filter(|job| !jobs.contains(job)).try_for_each(|job| self.delete(job))?;
        }
        Ok(())
    }

    /// Up to `max` bytes of a result from `offset` on; none where there is no such result.
    pub(crate) fn read(
        &self,
        job: JobId,
        file: Option<&str>,
        offset: u64,
        max: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        let path = match file {
            None => self.path(job, "output"),
            Some(name) if is_inside(name) => self.path(job, "files").join(name),
            Some(_) => return Ok(None),
        };
        let Some(file) = if_there(File::open(path))? else { return Ok(None) };
        let mut bytes = vec![0; max];
        let read = file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    /// Where something of a job lies.
    pub(crate) fn path(&self, job: JobId, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", job.0))
    }

    /// The directory of all results, made if need be.
    pub(crate) fn dir(&self) -> io::Result<&Path> {
        private_folder(&self.dir)?;
        Ok(&self.dir)
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, Asked>> {
        self.jobs.lock().expect("a panic under the lock ends the process")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::SmallDisk;

    /// The disk fills up between the last byte of a result and the few that say what it is.
    #[test]
    fn a_merge_whose_end_finds_no_room_has_failed_and_can_be_asked_for_again() {
        let Some(disk) = SmallDisk::mount(4, "merges::end") else { return };
        let merges = Merges::new(disk.path().join("merged"));
        let merge = Merge::Fold(starfarm_protocol::spec::Fold::Concat);
        let asked = Asked { merge, is_running: true, is_settled: true, wanted_us: None, outcome: None };
        merges.jobs().insert(JobId(1), asked);
        fs::write(merges.dir().unwrap().join("1.output"), [7; 1_000]).unwrap();
        let filler = disk.fill(0);
        let outcome =
            MergeOutcome { ended_us: 5, why: String::new(), seconds: 1.0, output: None, files: Vec::new() };
        let (state, kept) = merges.end(JobId(1), outcome.clone());
        assert_eq!(kept.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let stands = || {
            let jobs = merges.jobs();
            let asked = &jobs[&JobId(1)];
            (asked.is_running, asked.outcome.clone().unwrap().why)
        };
        let (is_running, why) = stands();
        assert_eq!((state, is_running), (MergeState::Failed, false));
        assert!(why.ends_with("make room, then `starfarm job merge 1`"), "{why}");
        assert!(!merges.path(JobId(1), "output").exists(), "it is no result, and takes room");
        fs::remove_file(filler).unwrap();
        let (state, kept) = merges.end(JobId(1), outcome);
        kept.unwrap();
        assert_eq!((state, stands()), (MergeState::Done, (false, String::new())));
    }

    #[test]
    fn what_a_kill_left_of_a_deleted_job_goes_with_the_next_start() {
        let dir = std::env::temp_dir().join(format!("starfarm-merges-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let merges = Merges::new(dir.clone());
        let only = |job| merges.retain_only(&[JobId(job)].into()).unwrap();
        only(1);
        assert!(!dir.exists(), "a farm that merges nothing has no such folder");
        for job in [1, 2, 30] {
            let [files @ .., made, work] = ENDINGS;
            for folder in [made, work] {
                fs::create_dir_all(merges.path(JobId(job), folder)).unwrap();
                fs::write(merges.path(JobId(job), folder).join("film.mp4"), "x").unwrap();
            }
            files.iter().for_each(|ending| fs::write(merges.path(JobId(job), ending), "x").unwrap());
        }
        // A kill may come between any two of them.
        fs::remove_file(merges.path(JobId(2), "json")).unwrap();
        only(30);
        let left = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["30.files", "30.json", "30.output", "30.pid", "30.stderr", "30.work"]);
        fs::remove_dir_all(dir).unwrap();
    }
}
