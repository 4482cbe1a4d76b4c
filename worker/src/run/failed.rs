//! Scratch directories of units that failed, kept for whoever looks into that: the newest ones, where a person wants any.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use starfarm_worker_core::Task;

#[derive(Debug)]
pub(crate) struct Failed {
    dir: PathBuf,
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The newest is last.
    dirs: VecDeque<PathBuf>,
    /// The job that a person was told of last.
    told: Option<u64>,
}

impl Failed {
    /// Up to `most` of them in the directory `dir`, which is made if need be. Those from before count.
    pub(crate) fn open(dir: &Path, most: usize) -> io::Result<Self> {
        starfarm_net::private_folder(dir)?;
        let entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        let mut dirs = entries
            .into_iter()
            .map(|entry| Ok((entry.metadata()?.modified()?, entry.path())))
            .collect::<io::Result<Vec<_>>>()?;
        dirs.sort();
        let dirs = dirs.into_iter().map(|(_, path)| path).collect();
        Ok(Self { dir: dir.to_owned(), most, kept: Mutex::new(Kept { dirs, told: None }) })
    }

    /// Takes what a unit left in `scratch`, where that is anything, and says where it is: once for each job.
    pub(super) fn keep(&self, scratch: &Path, task: &Task, unit: u128) {
        match self.take(scratch, task, unit) {
            Ok(None) => {}
            Ok(Some(words)) => starfarm_net::say(&format!("starfarm-worker: {words}")),
            Err(error) => starfarm_net::say(&format!(
                "starfarm-worker: what unit {unit} of job {} left, which failed, cannot be kept in {}: {error}",
                task.job.0,
                self.dir.display()
            )),
        }
    }

    /// The disk has no room for a unit, which should not run once more for each of them: all go. False where none did.
    pub(super) fn give_way(&self) -> bool {
        let all = std::mem::take(&mut self.kept.lock().expect("a panic ends the process").dirs);
        all.into_iter().filter(|dir| starfarm_net::remove_all(dir).is_ok()).count() > 0
    }

    fn take(&self, scratch: &Path, task: &Task, unit: u128) -> io::Result<Option<String>> {
        // Only what its owner may write to can be moved, and the unit may have closed it.
        fs::set_permissions(scratch, Permissions::from_mode(0o700))?;
        if fs::read_dir(scratch)?.next().is_none() {
            return Ok(None);
        }
        let mut kept = self.kept.lock().expect("a panic ends the process");
        let job = task.job.0;
        let to = self.dir.join(format!("{job}-{unit}-{}", task.attempt.0));
        // Another farm's may have the same numbers.
        if let Some(at) = kept.dirs.iter().position(|dir| *dir == to) {
            kept.dirs.remove(at);
            starfarm_net::remove_all(&to)?;
        }
        fs::rename(scratch, &to)?;
        kept.dirs.push_back(to.clone());
        while kept.dirs.len() > self.most
            && let Some(oldest) = kept.dirs.pop_front()
        {
            let _ = starfarm_net::remove_all(&oldest);
        }
        let is_news = kept.told.replace(job) != Some(job);
        Ok(is_news.then(|| {
            let (to, most) = (to.display(), self.most);
            format!("unit {unit} of job {job} failed: its scratch directory is {to}; the last {most} of failed units are kept")
        }))
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, ContentHash, JobId};

    use super::*;
    use crate::testing::TempDir;

    fn fail(dir: &TempDir, failed: &Failed, unit: u128, file: Option<&str>) -> Option<String> {
        let scratch = dir.0.join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        file.into_iter().for_each(|name| fs::write(scratch.join(name), name).unwrap());
        let task = Task { job: JobId(3), spec: ContentHash([1; 32]), attempt: Attempt(7), lo: 0, units: 99 };
        failed.take(&scratch, &task, unit).unwrap()
    }

    fn names(dir: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.0.join("failed")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_are_kept_and_each_job_is_told_of_once() {
        let dir = TempDir::new();
        let failed = Failed::open(&dir.0.join("failed"), 2).unwrap();
        let told = fail(&dir, &failed, 1, Some("core")).unwrap();
        assert!(told.contains("failed/3-1-7") && told.contains("the last 2"), "{told}");
        assert_eq!(fs::read(dir.0.join("failed/3-1-7/core")).unwrap(), b"core");
        assert_eq!([fail(&dir, &failed, 2, Some("a")), fail(&dir, &failed, 3, Some("b"))], [None, None]);
        assert_eq!(names(&dir), ["3-2-7", "3-3-7"]);
        assert_eq!(fail(&dir, &failed, 4, None), None);
        assert_eq!(names(&dir), ["3-2-7", "3-3-7"], "an empty one tells nothing");
        // The same numbers again, as another farm's unit has them.
        fail(&dir, &failed, 2, Some("c"));
        assert_eq!(names(&dir), ["3-2-7", "3-3-7"]);
        assert!(dir.0.join("failed/3-2-7/c").exists() && !dir.0.join("failed/3-2-7/a").exists());
        // Where a unit needs the room.
        assert_eq!((failed.give_way(), failed.give_way(), names(&dir).len()), (true, false, 0));
    }

    #[test]
    fn those_from_an_earlier_start_count() {
        let dir = TempDir::new();
        let failed = Failed::open(&dir.0.join("failed"), 9).unwrap();
        (0..4).for_each(|unit| drop(fail(&dir, &failed, unit, Some("x"))));
        let failed = Failed::open(&dir.0.join("failed"), 2).unwrap();
        fail(&dir, &failed, 5, Some("x"));
        assert_eq!(names(&dir).len(), 2);
    }
}
