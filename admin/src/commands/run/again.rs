//! A run of a job that may have been run before in this folder: which job to go on with, and what to say
//! about it.

use starfarm_protocol::job::JobState;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use starfarm_protocol::admin::{JobCommand, JobInfo, MergeInfo, Place};
use starfarm_protocol::ids::{ContentHash, JobId};

use crate::client::Client;
use crate::commands::submit;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::jobfile::JobFile;
use crate::output::say;

/// The file in a run's folder that says what was run there.
const MEMO: &str = "run.json";

/// What was run in a folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Memo {
    /// The job file, absolute; none where the job was said on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job_file: Option<PathBuf>,
    /// BLAKE3 of its specification, which its inputs are part of.
    spec: ContentHash,
    ended: bool,
}

impl Memo {
    pub(super) fn new(job_file: Option<&Path>, spec: ContentHash) -> Self {
        let job_file = job_file.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        Self { job_file, spec, ended: false }
    }

    /// Notes it in the run's folder.
    pub(super) fn write(&self, folder: &Path, ended: bool) -> Result<(), Failure> {
        let text =
            serde_json::to_string(&Self { ended, ..self.clone() }).expect("a plain struct is always JSON");
        let path = folder.join(MEMO);
        // It holds a path of the user's.
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
    }

    /// Says where this job file was run with other inputs and has not ended.
    pub(super) fn tell_of_left_behind(&self, folder: &Path) {
        let Some(job_file) = &self.job_file else { return };
        for left in self.left_behind(folder) {
            say(&format!(
                "{} or its inputs have changed since an earlier run, which has not ended: this is another job; \
                 what that one has done stays in {}",
                job_file.display(),
                left.display()
            ));
        }
    }

    /// The folders beside `folder` where it was.
    fn left_behind(&self, folder: &Path) -> Vec<PathBuf> {
        let siblings = folder.parent().and_then(|runs| fs::read_dir(runs).ok()).into_iter().flatten();
        let is_left = |path: &PathBuf| {
            let text = fs::read(path.join(MEMO)).unwrap_or_default();
            serde_json::from_slice::<Memo>(&text)
                .is_ok_and(|memo| memo.job_file == self.job_file && memo.spec != self.spec && !memo.ended)
        };
        siblings.filter_map(|entry| Some(entry.ok()?.path())).filter(is_left).collect()
    }
}

/// What a job of an earlier run is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Job(JobCommand),
    /// Its units are done, and merging their results failed.
    Merge,
}

/// What is to be done with the jobs that a folder knows.
#[derive(PartialEq, Eq, Debug, Default)]
struct Course {
    /// Jobs of another specification, which would be computed first.
    pause: Vec<JobId>,
    /// An unfinished job of this specification that is not wanted.
    cancel: Vec<JobId>,
    /// The job to go on with, and what it needs to be told.
    go_on: Option<(JobId, Option<Order>)>,
    /// Ended jobs that make room for a new one.
    delete: Vec<JobId>,
}

impl Course {
    fn of(known: &[JobInfo], spec: ContentHash, fresh: bool) -> Self {
        let open = |job: &&JobInfo| !job.state.ended();
        let of_spec = |job: &&JobInfo| job.spec == spec;
        let pause = known.iter().filter(open).filter(|job| job.spec != spec && job.state != JobState::Paused);
        let mut course = Self { pause: pause.map(|job| job.id).collect(), ..Self::default() };
        let unfinished = known.iter().filter(of_spec).filter(open);
        if fresh {
            course.cancel = unfinished.map(|job| job.id).collect();
        } else {
            let resume =
                |job: &JobInfo| (job.state == JobState::Paused).then_some(Order::Job(JobCommand::Resume));
            let last = known.iter().filter(of_spec).max_by_key(|job| job.id);
            let again = |job: &JobInfo| match awaits_merge(job) {
                true => Some((job.id, None)),
                false => Some((job.id, Some(again(job)?))),
            };
            course.go_on = unfinished.map(|job| (job.id, resume(job))).next().or(last.and_then(again));
        }
        if course.go_on.is_none() {
            // The results of the last run stay until the next one has them.
            let mut ended: Vec<JobId> =
                known.iter().filter(of_spec).filter(|job| job.state.ended()).map(|job| job.id).collect();
            ended.sort_unstable();
            ended.pop();
            course.delete = ended;
        }
        course
    }
}

/// What of an ended job did not go well and may go better now.
fn again(job: &JobInfo) -> Option<Order> {
    match job.state {
        JobState::Failed => Some(Order::Job(JobCommand::Retry)),
        JobState::Finished if job.merge.as_ref().is_some_and(MergeInfo::has_failed) => Some(Order::Merge),
        _ => None,
    }
}

/// Its units are done, and their results are merged by and by.
fn awaits_merge(job: &JobInfo) -> bool {
    job.state == JobState::Finished && job.merge.as_ref().is_some_and(MergeInfo::is_pending)
}

/// The job to run: one of an earlier run that is not over, or a new one.
pub(super) fn job_to_run(client: &mut Client, job: &JobFile, fresh: bool) -> Result<JobId, Failure> {
    let spec = submit::hash(job);
    let known = client.jobs(Vec::new())?;
    let course = Course::of(&known, spec, fresh);
    for id in course.pause {
        client.job_verb(id, JobCommand::Pause)?;
        say(&format!(
            "job {} of an earlier run here is another one, or its inputs have changed since: it stays, paused",
            id.0
        ));
    }
    for id in course.cancel {
        client.job_verb(id, JobCommand::Cancel)?;
        say(&format!("job {} of an earlier run is cancelled: this run starts anew", id.0));
    }
    if let Some((id, order)) = course.go_on {
        let words = |job: &JobInfo| going_on(job, order);
        let words = known.iter().find(|job| job.id == id).map(words).unwrap_or_default();
        // The state may have lost what the worker needs, and here it is.
        submit::put_back(client, job)?;
        let told = match order {
            None => Ok(()),
            Some(Order::Job(command)) => client.job_verb(id, command),
            Some(Order::Merge) => client.merge(id),
        };
        match told {
            Ok(()) => {
                say(&words);
                return Ok(id);
            }
            // A search that has found what it sought does not go on, whatever failed.
            Err(failure) if failure.exit == Exit::Conflict => {}
            Err(failure) => return Err(failure),
        }
    }
    if let Some(last) = known.iter().rfind(|job| job.spec == spec && job.state.ended()) {
        say(&format!("job {} of an earlier run has ended ({}): this run starts anew", last.id.0, last.state));
    }
    let id = submit::send(client, job, Place::Tail, false)?;
    for id in course.delete {
        client.job_verb(id, JobCommand::Delete)?;
    }
    Ok(id)
}

fn going_on(job: &JobInfo, order: Option<Order>) -> String {
    let (id, done, total) = (job.id.0, human::units(job.units_done), human::total(job));
    match order {
        Some(Order::Job(JobCommand::Retry)) => {
            let failed = human::units(job.units_failed);
            format!("job {id} has ended, failed units: {failed}; they are tried again, --fresh starts anew")
        }
        Some(Order::Merge) => format!(
            "job {id} has ended, and merging its results failed; that is tried again, --fresh starts anew"
        ),
        _ => format!("going on with job {id}: {done} of {total} units are done; --fresh starts anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;
    use starfarm_protocol::admin::MergeState;

    const SPEC: ContentHash = ContentHash([7; 32]);

    fn known(id: u64, spec: u8, state: JobState) -> JobInfo {
        JobInfo { spec: ContentHash([spec; 32]), state, ..job(id) }
    }

    #[test]
    fn the_first_run_of_a_job() {
        assert_eq!(Course::of(&[], SPEC, false), Course::default());
        assert_eq!(Course::of(&[known(1, 8, JobState::Finished)], SPEC, false), Course::default());
    }

    #[test]
    fn an_unfinished_job_goes_on() {
        for (state, verb) in [
            (JobState::Running, None),
            (JobState::Queued, None),
            (JobState::Paused, Some(Order::Job(JobCommand::Resume))),
        ] {
            let jobs = [known(1, 7, JobState::Finished), known(2, 7, state)];
            let go_on = Some((JobId(2), verb));
            assert_eq!(Course::of(&jobs, SPEC, false), Course { go_on, ..Course::default() });
            let cancel = vec![JobId(2)];
            assert_eq!(Course::of(&jobs, SPEC, true), Course { cancel, ..Course::default() });
        }
    }

    #[test]
    fn failed_units_are_tried_again_and_what_has_finished_starts_anew() {
        let go_on = Some((JobId(2), Some(Order::Job(JobCommand::Retry))));
        let jobs = [known(1, 7, JobState::Finished), known(2, 7, JobState::Failed)];
        assert_eq!(Course::of(&jobs, SPEC, false), Course { go_on, ..Course::default() });
        let delete = vec![JobId(1)];
        assert_eq!(Course::of(&jobs, SPEC, true), Course { delete: delete.clone(), ..Course::default() });
        for state in [JobState::Finished, JobState::Cancelled] {
            let jobs = [known(1, 7, JobState::Failed), known(2, 7, state), known(3, 8, JobState::Failed)];
            assert_eq!(
                Course::of(&jobs, SPEC, false),
                Course { delete: delete.clone(), ..Course::default() }
            );
        }
    }

    #[test]
    fn where_only_the_merge_failed_nothing_is_computed_again() {
        let merge = |state| {
            let merge =
                Some(MergeInfo { state, why: String::new(), seconds: 0.0, output: None, files: Vec::new() });
            JobInfo { merge, ..known(2, 7, JobState::Finished) }
        };
        let go_on = |job: JobInfo, fresh| Course::of(&[job], SPEC, fresh).go_on;
        assert_eq!(go_on(merge(MergeState::Failed), false), Some((JobId(2), Some(Order::Merge))));
        assert_eq!(go_on(merge(MergeState::Failed), true), None);
        assert_eq!(go_on(merge(MergeState::Running), false), Some((JobId(2), None)));
        assert_eq!(go_on(merge(MergeState::Done), false), None);
    }

    #[test]
    fn a_job_with_other_inputs_stays_and_is_paused() {
        let jobs =
            [known(1, 8, JobState::Running), known(2, 8, JobState::Paused), known(3, 7, JobState::Running)];
        let (pause, go_on) = (vec![JobId(1)], Some((JobId(3), None)));
        assert_eq!(Course::of(&jobs, SPEC, false), Course { pause, go_on, ..Course::default() });
    }

    #[test]
    fn changed_inputs_are_noticed_by_the_job_files_name() {
        let runs = std::env::temp_dir().join(format!("starfarm-runs-{}", std::process::id()));
        let folder = |name: &str| {
            let path = runs.join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (old, new) = (folder("old"), folder("new"));
        let before = Memo::new(Some(Path::new("job.toml")), ContentHash([1; 32]));
        let now = Memo::new(Some(Path::new("job.toml")), SPEC);
        before.write(&old, false).unwrap();
        now.write(&new, false).unwrap();
        Memo::new(Some(Path::new("other.toml")), ContentHash([2; 32]))
            .write(&folder("other"), false)
            .unwrap();
        fs::write(folder("garbled").join(MEMO), "{").unwrap();
        assert_eq!(now.left_behind(&new), std::slice::from_ref(&old));
        before.write(&old, true).unwrap();
        assert_eq!(now.left_behind(&new), [] as [PathBuf; 0]);
        fs::remove_dir_all(runs).unwrap();
    }
}
