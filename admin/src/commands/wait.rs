//! Waiting for a job's end, with progress on standard error.

use starfarm_protocol::job::JobState;
use std::time::{Duration, Instant};

use starfarm_protocol::admin::{JobInfo, MergeInfo, MergeState};
use starfarm_protocol::ids::JobId;

use super::results::merged;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::say;
use crate::progress::Progress;

/// How often outputs are looked for that are written as they come.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// How to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// How often the job is looked at; none: as progress is shown.
    pub(crate) look: Option<Duration>,
    /// Whether progress is shown meanwhile.
    pub(crate) progress: bool,
    /// For so many seconds at most.
    pub(crate) timeout: Option<f64>,
    /// Also while the farm has paused the job.
    pub(crate) paused: bool,
    /// Whether there is a farm that more commands can be given to.
    pub(crate) commands: bool,
    /// Whether a scheduler that goes away is waited for.
    pub(crate) rides_out: bool,
}

impl Waiting {
    /// As a person waits who can give the farm other commands meanwhile.
    pub(crate) fn of_person(progress: bool, timeout: Option<f64>) -> Self {
        Self { progress, timeout, commands: true, ..Self::default() }
    }
}

/// Waits until the job has ended, or, if that is so wanted, until the farm has paused it; `goes_on` is asked at each
/// look and may end the wait.
///
/// # Errors
/// [`Exit::TimeLimit`] after the time out; those of `goes_on` and of the client.
pub(crate) fn until_end(
    client: &mut Client,
    id: JobId,
    waiting: Waiting,
    mut goes_on: impl FnMut(&mut Client, &JobInfo) -> Result<(), Failure>,
) -> Result<JobInfo, Failure> {
    let deadline = waiting.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    if waiting.rides_out {
        client.wait_for_scheduler(deadline);
    }
    let progress = Progress::new(waiting.progress);
    let period = waiting.look.unwrap_or_else(|| progress.period());
    // The first look is at the job as it is: it may be paused, and nothing more will happen.
    let (mut told, mut patience) = (None, Duration::ZERO);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // The scheduler answers at once when the job ends, so a long look costs no time there.
        let job = client
            .wait(id, left.unwrap_or(Duration::MAX).min(patience))
            .map_err(|failure| gone(failure, id, waiting.commands))?;
        patience = period;
        if job.state.ended() && !job.merge.as_ref().is_some_and(MergeInfo::is_pending) {
            progress.end();
            let failed = job.merge.iter().filter(|merge| merge.has_failed());
            let commanded = waiting.commands.then_some(id);
            failed.for_each(|merge| say(&format!("job {} {}", id.0, merged::failed(merge, commanded))));
            let is_skipped = job.merge.as_ref().is_some_and(|merge| merge.state == MergeState::Skipped);
            if is_skipped && job.state == JobState::Failed {
                say(&format!("job {} {}", id.0, merged::skipped(commanded)));
            }
            if let Some(words) = cut(job.outputs_cut) {
                say(&format!("job {}: {words}", id.0));
            }
            if waiting.commands && job.units_failed.0 > 0 {
                say(&format!("job {}: `starfarm job show {}` says which units failed and how", id.0, id.0));
            }
            return Ok(job);
        }
        progress.show(&job);
        // Whoever waits here may be the person that the job waits for.
        let stands = stands_still(&job, waiting.commands);
        if let Some(why) = stands.as_ref().filter(|_| told != stands) {
            say(&format!("job {} {}", id.0, human::printable(why)));
        }
        told = stands;
        if is_paused_by_farm(&job) && !waiting.paused {
            progress.end();
            return Ok(job);
        }
        goes_on(client, &job)?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let words = format!("job {} has not ended yet, the time limit is over; the job goes on", id.0);
            return Err(Failure::new(Exit::TimeLimit, words));
        }
    }
}

/// The scheduler went away and did not come back in time: how the wait goes on.
fn gone(failure: Failure, id: JobId, commands: bool) -> Failure {
    if failure.exit != Exit::Unreachable || !commands {
        return failure;
    }
    let id = id.0;
    Failure::unreachable(format!(
        "{}. Job {id} goes on when a scheduler runs again: then `starfarm job wait {id}` waits for its end, and \
         `starfarm results {id} --follow`, with the same --dir, for its results",
        failure.message
    ))
}

/// Whoever waited for `job` ends before it, or could not write all of it: how its results are had all the same. `into_folder`:
/// its files were wanted.
pub(crate) fn left(failure: Failure, job: &JobInfo, into_folder: bool) -> Failure {
    // One that is not found was deleted meanwhile.
    if failure.message.is_empty() || matches!(failure.exit, Exit::Unreachable | Exit::NotFound) {
        return failure;
    }
    let id = job.id.0;
    let advice = match (job.state.ended(), into_folder) {
        (true, true) => {
            format!("has ended: `starfarm results {id} --dir OTHER` writes its files into another folder")
        }
        (true, false) => format!("has ended: `starfarm results {id}` prints its results"),
        (false, true) => format!(
            "goes on: `starfarm results {id} --follow --dir OTHER` writes its files into another folder, `starfarm job \
             cancel {id}` ends it"
        ),
        (false, false) => format!(
            "goes on: `starfarm results {id} --follow` prints its results, `starfarm job cancel {id}` ends it"
        ),
    };
    Failure::new(failure.exit, format!("{}. Job {id} {advice}", failure.message))
}

/// The farm paused it since too much of it failed. A pause by a person has no note.
fn is_paused_by_farm(job: &JobInfo) -> bool {
    job.state == JobState::Paused && !job.note.is_empty()
}

/// Why nothing of the job gets on until a person does something; with `commands`, also by which ones.
fn stands_still(job: &JobInfo, commands: bool) -> Option<String> {
    let id = job.id.0;
    if is_paused_by_farm(job) {
        let advice = if commands { paused_advice(job) } else { String::new() };
        return Some(format!("is paused: {}{advice}", job.note));
    }
    if !job.note.is_empty() && job.state != JobState::Paused {
        return Some(job.note.clone());
    }
    let waits = job.units_out == 0 && job.units_pending != 0;
    let refusal = job.refused_by.first().filter(|_| waits)?;
    let more = match job.refused_by.len() {
        1 => String::new(),
        2 => ", and another node refuses it".to_owned(),
        nodes => format!(", and {} other nodes refuse it", nodes - 1),
    };
    let (node, why) = (&refusal.node, &refusal.why);
    let advice = if commands { format!("; `starfarm job explain {id}` says more") } else { String::new() };
    Some(format!("waits: node {node} cannot run it: {why}{more}{advice}"))
}

/// That so many outputs were cut.
pub(crate) fn cut(outputs: u64) -> Option<String> {
    let words =
        || format!("{} longer than output_limit: head and tail were kept", human::were(outputs, "output"));
    (outputs > 0).then(words)
}

/// What a person may do about a job that the farm paused.
pub(crate) fn paused_advice(job: &JobInfo) -> String {
    let id = job.id.0;
    match job.units_failed.0 {
        // Neither its units nor their outputs tell why.
        0 => format!(": `starfarm job explain {id}` says what helps"),
        _ => format!(
            ": `starfarm results {id}` shows them, `starfarm job resume {id}` goes on without them, `starfarm job retry \
             --failed {id}` with them"
        ),
    }
}

/// The exit code that a job calls for which has ended or was paused by the farm.
pub(crate) fn exit_of(job: &JobInfo) -> Exit {
    match job.state {
        JobState::Paused => Exit::Paused,
        _ if job.merge.as_ref().is_some_and(MergeInfo::has_failed) => Exit::UnitsFailed,
        JobState::Finished if job.units_failed == 0 => Exit::Ok,
        _ => Exit::UnitsFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;
    use starfarm_protocol::units::Units;

    #[test]
    fn only_a_finished_job_without_failed_units_is_a_success() {
        for (state, failed, ended, exit) in [
            (JobState::Finished, 0, true, Exit::Ok),
            (JobState::Finished, 2, true, Exit::UnitsFailed),
            (JobState::Failed, 1, true, Exit::UnitsFailed),
            (JobState::Cancelled, 0, true, Exit::UnitsFailed),
            (JobState::Paused, 0, false, Exit::Paused),
            (JobState::Running, 0, false, Exit::UnitsFailed),
        ] {
            let job = JobInfo { state, units_failed: Units(failed), ..job(1) };
            assert_eq!((job.state.ended(), exit_of(&job)), (ended, exit), "{state}");
        }
    }

    #[test]
    fn whoever_cannot_write_a_result_hears_what_becomes_of_the_job() {
        let of = |state, into_folder| {
            let job = JobInfo { state, ..job(3) };
            left(Failure::new(Exit::Conflict, "no room"), &job, into_folder).message
        };
        let goes_on = of(JobState::Running, true);
        assert!(goes_on.starts_with("no room. Job 3 goes on: `starfarm results 3 --follow --dir OTHER`"));
        assert!(of(JobState::Running, false).contains("`starfarm results 3 --follow` prints"));
        let ended = of(JobState::Finished, true);
        assert!(ended.contains("Job 3 has ended: `starfarm results 3 --dir OTHER`"), "{ended}");
        let quiet = Failure::new(Exit::Ok, "");
        assert_eq!(left(quiet.clone(), &job(3), true), quiet, "whoever reads wants no more");
    }

    #[test]
    fn whoever_waits_hears_once_why_a_job_stands_still() {
        use starfarm_protocol::admin::Refusal;
        let by_farm = JobInfo {
            state: JobState::Paused,
            note: "5 units failed".into(),
            units_failed: Units(5),
            ..job(3)
        };
        assert_eq!(
            stands_still(&by_farm, true).unwrap(),
            "is paused: 5 units failed: `starfarm results 3` shows them, `starfarm job resume 3` goes on without them, \
             `starfarm job retry --failed 3` with them"
        );
        assert_eq!(
            stands_still(&by_farm, false).unwrap(),
            "is paused: 5 units failed",
            "a `run` takes no commands"
        );
        let note = "its decomposer said nothing".into();
        assert_eq!(
            stands_still(&JobInfo { note, units_failed: Units(0), ..by_farm.clone() }, true).unwrap(),
            "is paused: its decomposer said nothing: `starfarm job explain 3` says what helps"
        );
        assert_eq!(
            stands_still(&JobInfo { note: String::new(), ..by_farm }, true),
            None,
            "a person paused it"
        );
        let refusal = |node: &str| Refusal { node: node.into(), why: "no `render`".into() };
        let runs = JobInfo { refused_by: vec![refusal("a"), refusal("b")], ..job(3) };
        assert_eq!(stands_still(&runs, true), None, "others have some of it");
        let waits = JobInfo { units_out: Units(0), ..runs };
        assert_eq!(
            stands_still(&waits, true).unwrap(),
            "waits: node a cannot run it: no `render`, and another node refuses it; `starfarm job explain 3` says more"
        );
    }
}
