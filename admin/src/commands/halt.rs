//! `--halt`: the end of a job before all of its units have run, at the word of who waits for it.

use std::time::Duration;

use starfarm_protocol::admin::{JobCommand, JobInfo, MergeInfo};
use starfarm_protocol::job::JobState;

use super::wait;
use crate::cli::{Halt, HaltWhy};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::say;

/// How often a job is looked at that may have to end early: quick units are over soon.
const HALT_LOOK: Duration = Duration::from_millis(25);

/// When to end, and whether that has been said.
pub(crate) struct Halting {
    halt: Halt,
    is_due: bool,
}

impl Halting {
    pub(crate) fn new(halt: Option<Halt>) -> Self {
        Self { halt: halt.unwrap_or(Halt::Never), is_due: false }
    }

    /// How often to look at a job that is looked at so often, or not, without it.
    pub(crate) fn period(&self, others: Option<Duration>) -> Option<Duration> {
        if self.is_wanted() { Some(HALT_LOOK) } else { others }
    }

    /// There is something to look for.
    fn is_wanted(&self) -> bool {
        self.halt != Halt::Never
    }

    /// Ends the job as it is now, if that is due.
    pub(crate) fn look(&mut self, client: &mut Client, job: &JobInfo) -> Result<(), Failure> {
        let Some(command) = self.next(job) else { return Ok(()) };
        match client.job_verb(job.id, command) {
            // It ended by itself meanwhile.
            Err(failure) if failure.exit == Exit::Conflict => Ok(()),
            told => told,
        }
    }

    fn next(&mut self, job: &JobInfo) -> Option<JobCommand> {
        let Halt::At { now, why, units } = self.halt else { return None };
        if self.is_due {
            // Those that ran have ended.
            let is_over = job.state == JobState::Paused && job.units_out == 0;
            return is_over.then_some(JobCommand::Cancel);
        }
        let (count, what) = counted(why, job);
        if count < units {
            return None;
        }
        self.is_due = true;
        let left = if now { "the others are ended" } else { "those that run may end, no others begin" };
        say(&format!("--halt: {count} {} {what}, {left}", if count == 1 { "unit" } else { "units" }));
        Some(if now { JobCommand::Cancel } else { JobCommand::Pause })
    }

    /// The exit code that the end of a job calls for: units that passed were all that was wanted. Quick units may have ended
    /// the job before any look at it.
    pub(crate) fn exit_of(&self, job: &JobInfo) -> Exit {
        let Halt::At { why, units, .. } = self.halt else { return wait::exit_of(job) };
        let is_reached = self.is_due || job.state.ended() && counted(why, job).0 >= units;
        let is_enough = match why {
            HaltWhy::Success => true,
            HaltWhy::Done => job.units_failed == 0,
            HaltWhy::Fail => false,
        };
        let is_merged = !job.merge.as_ref().is_some_and(MergeInfo::has_failed);
        if is_reached && is_enough && is_merged { Exit::Ok } else { wait::exit_of(job) }
    }
}

/// How many units count, and what became of them.
fn counted(why: HaltWhy, job: &JobInfo) -> (u128, &'static str) {
    let (passed, failed) = (job.units_done.0, job.units_failed.0);
    match why {
        HaltWhy::Fail => (failed, "failed"),
        HaltWhy::Success => (passed, "passed"),
        HaltWhy::Done => (passed.saturating_add(failed), "ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;
    use crate::commands::wait::LOOK;
    use starfarm_protocol::units::Units;

    fn state(state: JobState, [passed, failed, out]: [u128; 3]) -> JobInfo {
        let [units_done, units_failed, units_out] = [passed, failed, out].map(Units);
        JobInfo { state, units_done, units_failed, units_out, ..job(1) }
    }

    fn halting(text: &str) -> Halting {
        Halting::new(Some(text.parse().unwrap()))
    }

    #[test]
    fn now_cancels_once() {
        let mut halting = halting("now,fail=2");
        assert_eq!(halting.next(&state(JobState::Running, [50, 1, 4])), None);
        assert_eq!(halting.next(&state(JobState::Running, [51, 2, 4])), Some(JobCommand::Cancel));
        let cancelled = state(JobState::Cancelled, [51, 2, 4]);
        assert_eq!((halting.next(&cancelled), halting.exit_of(&cancelled)), (None, Exit::UnitsFailed));
    }

    #[test]
    fn soon_waits_for_those_that_run() {
        let mut halting = halting("soon,success=3");
        assert_eq!(halting.next(&state(JobState::Running, [3, 9, 4])), Some(JobCommand::Pause));
        assert_eq!(halting.next(&state(JobState::Paused, [3, 9, 4])), None);
        assert_eq!(halting.next(&state(JobState::Paused, [6, 9, 0])), Some(JobCommand::Cancel));
        assert_eq!(
            halting.exit_of(&state(JobState::Cancelled, [6, 9, 0])),
            Exit::Ok,
            "it is what was wanted"
        );
    }

    #[test]
    fn done_counts_both_and_never_nothing() {
        let mut done = halting("now,done=3");
        assert_eq!(done.next(&state(JobState::Running, [2, 1, 0])), Some(JobCommand::Cancel));
        assert_eq!(done.exit_of(&state(JobState::Cancelled, [2, 1, 0])), Exit::UnitsFailed);
        assert_eq!(done.exit_of(&state(JobState::Cancelled, [3, 0, 0])), Exit::Ok);
        let mut never = halting("never");
        assert!(!never.is_wanted());
        assert_eq!(never.next(&state(JobState::Running, [9, 9, 9])), None);
    }

    /// Units that passed were asked for, and others that failed made the exit code.
    #[test]
    fn a_job_that_is_over_before_the_first_look_ends_as_halt_asks() {
        for (halt, job, exit) in [
            ("now,success=1", state(JobState::Failed, [1, 3, 0]), Exit::Ok),
            ("soon,success=2", state(JobState::Failed, [1, 3, 0]), Exit::UnitsFailed),
            ("now,fail=1", state(JobState::Failed, [1, 3, 0]), Exit::UnitsFailed),
            ("now,fail=1", state(JobState::Finished, [4, 0, 0]), Exit::Ok),
            ("now,done=2", state(JobState::Failed, [1, 3, 0]), Exit::UnitsFailed),
            ("now,done=2", state(JobState::Cancelled, [3, 0, 0]), Exit::Ok),
            ("now,success=1", state(JobState::Paused, [1, 3, 0]), Exit::Paused),
            ("never", state(JobState::Failed, [1, 3, 0]), Exit::UnitsFailed),
        ] {
            assert_eq!(halting(halt).exit_of(&job), exit, "{halt}");
        }
    }

    #[test]
    fn quick_units_are_looked_at_more_often() {
        assert!(halting("now,fail=1").period(None).unwrap() < LOOK / 4);
        assert_eq!(halting("never").period(Some(LOOK)), Some(LOOK));
        assert_eq!(halting("never").period(None), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "2",
            "now",
            "now,fail",
            "now,fail=0",
            "soon,fail=30%",
            "later,fail=1",
            "now,all=1",
            "now,fail=-1",
        ] {
            assert!(text.parse::<Halt>().is_err(), "{text}");
        }
    }
}
