//! Which jobs a command is about: those whose numbers are given, or all with some labels.

use starfarm_protocol::admin::{JobCommand, JobInfo};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;

use crate::cli::Selection;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::say;

/// All jobs that have all of these labels, by number; of no label: all jobs.
///
/// # Errors
/// Those of the client.
pub(super) fn labelled(client: &mut Client, labels: &[(String, String)]) -> Result<Vec<JobInfo>, Failure> {
    let mut jobs = client.jobs(Vec::new())?;
    jobs.retain(|job| job.terms.has_labels(labels));
    Ok(jobs)
}

/// The jobs that are meant, by number. Labels mean those jobs that `suits` says yes to.
///
/// # Errors
/// [`Exit::NotFound`] where no job has the labels; those of the client.
pub(super) fn ids(
    client: &mut Client,
    selection: &Selection,
    suits: impl Fn(&JobInfo) -> bool,
) -> Result<Vec<JobId>, Failure> {
    let mut ids = selection.ids.clone();
    if ids.is_empty() {
        let jobs = labelled(client, &selection.label)?;
        if jobs.is_empty() {
            let message = "no job has these labels: `starfarm jobs --output json` shows the labels of all";
            return Err(Failure::new(Exit::NotFound, message));
        }
        ids.extend(jobs.iter().filter(|job| suits(job)).map(|job| job.id));
        if ids.is_empty() {
            say("jobs have these labels, and there is nothing to do for them");
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Whether a command on `job` does anything; one that does nothing is an error where the job is named by its number.
pub(super) fn suits(command: JobCommand, job: &JobInfo) -> bool {
    match command {
        JobCommand::Cancel | JobCommand::Front | JobCommand::Switch | JobCommand::Limit(_) => {
            !job.state.ended()
        }
        JobCommand::Pause => !job.state.ended() && job.state != JobState::Paused,
        JobCommand::Resume => job.state == JobState::Paused || !job.refused_by.is_empty(),
        JobCommand::Delete => job.state.ended(),
        JobCommand::Retry => job.units_failed.0 > 0,
    }
}

/// Does `act` for each; those for which it was done. Where it fails for one, the others have their turn all the same, and
/// the last failure comes back.
pub(super) fn each(
    ids: &[JobId],
    mut act: impl FnMut(JobId) -> Result<(), Failure>,
) -> (Vec<JobId>, Result<(), Failure>) {
    let (mut done, mut result) = (Vec::new(), Ok(()));
    for &id in ids {
        match act(id) {
            Ok(()) => done.push(id),
            Err(failure) => {
                if let Err(before) = std::mem::replace(&mut result, Err(failure)) {
                    say(&before.message);
                }
            }
        }
    }
    (done, result)
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::terms::Limit;

    use super::*;
    use crate::commands::job::testing::job;

    #[test]
    fn what_fails_for_one_job_is_done_for_the_others() {
        let ids = [1, 2, 3, 4].map(JobId);
        let odd = |id: JobId| match id.0 % 2 {
            1 => Ok(()),
            _ => Err(Failure::new(Exit::Conflict, format!("job {}", id.0))),
        };
        let (done, result) = each(&ids, odd);
        assert_eq!(done, [JobId(1), JobId(3)]);
        assert_eq!(result, Err(Failure::new(Exit::Conflict, "job 4")));
    }

    #[test]
    fn labels_mean_the_jobs_that_a_command_does_something_for() {
        let of = |state| JobInfo { state, ..job(1) };
        for (command, state, does) in [
            (JobCommand::Cancel, JobState::Waiting, true),
            (JobCommand::Cancel, JobState::Finished, false),
            (JobCommand::Pause, JobState::Paused, false),
            (JobCommand::Resume, JobState::Paused, true),
            (JobCommand::Resume, JobState::Running, false),
            (JobCommand::Delete, JobState::Running, false),
            (JobCommand::Delete, JobState::Cancelled, true),
            (JobCommand::Limit(Limit::MaxNodes(None)), JobState::Paused, true),
            (JobCommand::Limit(Limit::MaxNodes(None)), JobState::Failed, false),
        ] {
            assert_eq!(suits(command, &of(state)), does, "{command:?} {state}");
        }
    }
}
