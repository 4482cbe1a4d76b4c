//! Waiting for a job's end, with progress on standard error.

use std::time::{Duration, Instant};

use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::ids::JobId;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::say;
use crate::progress::Progress;

/// How often the job is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// As progress is shown.
    ForProgress,
    /// So often.
    Every(Duration),
}

/// Waits until the job has ended; `goes_on` is asked at each look and may end the wait.
///
/// # Errors
/// [`Exit::TimeLimit`] after `timeout` seconds; those of `goes_on` and of the client.
pub(crate) fn until_end(
    client: &mut Client,
    id: JobId,
    look: Look,
    timeout: Option<f64>,
    mut goes_on: impl FnMut(&JobInfo) -> Result<(), Failure>,
) -> Result<JobInfo, Failure> {
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let progress = Progress::new();
    let period = match look {
        Look::ForProgress => progress.period(),
        Look::Every(period) => period,
    };
    let mut paused = false;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // The scheduler answers at once when the job ends, so a long look costs no time there.
        let job = client.wait(id, left.unwrap_or(Duration::MAX).min(period))?;
        if has_ended(&job) {
            progress.end();
            return Ok(job);
        }
        progress.show(&job);
        // A job that the farm paused waits for a person, who may be the one that waits here.
        let note = Some(&job.note).filter(|note| !note.is_empty() && !paused);
        if let Some(note) = note {
            say(&format!("job {} is paused: {}", id.0, human::printable(note)));
        }
        paused = !job.note.is_empty();
        goes_on(&job)?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let words = format!("job {} has not ended yet, the time limit is over; the job goes on", id.0);
            return Err(Failure::new(Exit::TimeLimit, words));
        }
    }
}

/// Whether nothing more will happen to the job.
pub(crate) fn has_ended(job: &JobInfo) -> bool {
    matches!(job.state.as_str(), "finished" | "failed" | "cancelled")
}

/// The exit code that an ended job calls for.
pub(crate) fn exit_of(job: &JobInfo) -> Exit {
    match job.state == "finished" && job.units_failed == "0" {
        true => Exit::Ok,
        false => Exit::UnitsFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;

    #[test]
    fn only_a_finished_job_without_failed_units_is_a_success() {
        for (state, failed, ended, exit) in [
            ("finished", "0", true, Exit::Ok),
            ("finished", "2", true, Exit::UnitsFailed),
            ("failed", "1", true, Exit::UnitsFailed),
            ("cancelled", "0", true, Exit::UnitsFailed),
            ("paused", "0", false, Exit::UnitsFailed),
            ("running", "0", false, Exit::UnitsFailed),
        ] {
            let job = JobInfo { state: state.into(), units_failed: failed.into(), ..job(1) };
            assert_eq!((has_ended(&job), exit_of(&job)), (ended, exit), "{state}");
        }
    }
}
