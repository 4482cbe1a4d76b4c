//! `--halt`: the end of a job before all of its units have run, at the word of who waits for it.

use starfarm_protocol::admin::{JobCommand, JobInfo};
use starfarm_protocol::job::JobState;

use super::wait;
use crate::cli::{Halt, HaltWhy};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::say;

/// When to end, and whether that has been said.
pub(crate) struct Halting {
    halt: Halt,
    is_due: bool,
}

impl Halting {
    pub(crate) fn new(halt: Option<Halt>) -> Self {
        Self { halt: halt.unwrap_or(Halt::Never), is_due: false }
    }

    /// There is something to look for.
    pub(crate) fn is_wanted(&self) -> bool {
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
        let (passed, failed) = (job.units_done.0, job.units_failed.0);
        let (count, what) = match why {
            HaltWhy::Fail => (failed, "failed"),
            HaltWhy::Success => (passed, "passed"),
            HaltWhy::Done => (passed.saturating_add(failed), "ended"),
        };
        if count < units {
            return None;
        }
        self.is_due = true;
        let left = if now { "the others are ended" } else { "those that run may end, no others begin" };
        say(&format!("--halt: {count} {} {what}, {left}", if count == 1 { "unit" } else { "units" }));
        Some(if now { JobCommand::Cancel } else { JobCommand::Pause })
    }

    /// The exit code that the end of a job calls for: units that passed were all that was wanted.
    pub(crate) fn exit_of(&self, job: &JobInfo) -> Exit {
        let is_enough = match self.halt {
            Halt::At { why: HaltWhy::Success, .. } => true,
            Halt::At { why: HaltWhy::Done, .. } => job.units_failed == 0,
            _ => false,
        };
        if self.is_due && is_enough { Exit::Ok } else { wait::exit_of(job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;
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
