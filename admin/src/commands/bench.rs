//! `starfarm bench dispatch`: how fast tasks that do nothing go through a scheduler, with real processes
//! and real sockets, on the ordinary path. What is measured of the monitoring tree is in `udp` and `tree`.

mod processes;
mod tree;
mod udp;

use starfarm_protocol::job::Sizing;
use std::time::Duration;

use serde::Serialize;
use starfarm_protocol::admin::{JobInfo, Place};
use starfarm_protocol::spec::{Space, Work};

use super::{Context, submit, wait};
use crate::cli::Dispatch;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::interrupt::Signals;
use crate::jobfile::JobFile;
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};
use crate::progress::Progress;
use processes::Farm;
pub(crate) use tree::run as tree;
pub(crate) use udp::run as udp;

/// How often the job is looked at. Each look costs the scheduler some microseconds, so: seldom.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Report {
    /// Tasks of one unit each.
    pub(crate) tasks: u64,
    pub(crate) nodes: u16,
    /// From the first dispatch to the job's end.
    pub(crate) seconds: f64,
    /// Tasks in a second of that time.
    pub(crate) tasks_per_s: f64,
    /// User and system time of the whole scheduler process from submission to end, in microseconds, for
    /// each task. The system counts it in ticks, mostly of 10 ms.
    pub(crate) scheduler_cpu_us_per_task: f64,
    /// Events that the XML log had no room for.
    pub(crate) log_events_dropped: u64,
}

pub(crate) fn run(context: &mut Context, dispatch: &Dispatch) -> Result<(), Failure> {
    let report = measure(dispatch, &Signals::count()?)?;
    context.printer.document(&report)
}

/// Starts a farm, gives it the tasks, and ends it.
///
/// # Errors
/// The farm cannot be started or loses units; [`Exit::Interrupted`].
pub(crate) fn measure(dispatch: &Dispatch, signals: &Signals) -> Result<Report, Failure> {
    let mut farm = Farm::start(dispatch, signals)?;
    let cpu_before = farm.scheduler_cpu_seconds()?;
    let id = submit::send(&mut farm.client, &job(dispatch.tasks), Place::Tail, false)?;
    let progress = Progress::new(true);
    let job = loop {
        std::thread::sleep(LOOK);
        signals.check()?;
        farm.check()?;
        let job = farm.client.job(id)?;
        if job.state.ended() {
            break job;
        }
        progress.show(&job);
    };
    let cpu_seconds = farm.scheduler_cpu_seconds()? - cpu_before;
    progress.end();
    let dropped = farm.client.status()?.log_events_dropped;
    report(dispatch, &job, cpu_seconds, dropped)
}

/// One unit a task, and nothing to do for it.
fn job(tasks: u64) -> JobFile {
    let space = Space::Range { from: 0, to: i64::try_from(tasks).unwrap_or(i64::MAX), step: 1 };
    JobFile { sizing: Sizing::Units(1), ..JobFile::new("bench dispatch".to_owned(), space, Work::Nothing) }
}

fn report(
    dispatch: &Dispatch,
    job: &JobInfo,
    cpu_seconds: f64,
    log_events_dropped: u64,
) -> Result<Report, Failure> {
    let all_done = wait::exit_of(job) == Exit::Ok && job.units_done == u128::from(dispatch.tasks);
    let seconds = job.run_seconds.filter(|seconds| *seconds > 0.0 && all_done).ok_or_else(|| {
        Failure::new(
            Exit::UnitsFailed,
            format!(
                "only {} of {} tasks were done; the job is {}",
                job.units_done, dispatch.tasks, job.state
            ),
        )
    })?;
    let tasks = dispatch.tasks as f64;
    Ok(Report {
        tasks: dispatch.tasks,
        nodes: dispatch.nodes,
        seconds,
        tasks_per_s: tasks / seconds,
        scheduler_cpu_us_per_task: cpu_seconds * 1e6 / tasks,
        log_events_dropped,
    })
}

impl Document for Report {
    const NAME: &'static str = "bench-dispatch";

    fn table(&self, style: Style) -> String {
        facts(
            &[
                ("tasks", Cell::new(human::count(self.tasks as f64))),
                ("nodes", Cell::new(self.nodes.to_string())),
                ("time", Cell::new(human::seconds(self.seconds))),
                ("tasks per second", Cell::new(human::count(self.tasks_per_s))),
                ("scheduler CPU per task", Cell::new(format!("{:.3} us", self.scheduler_cpu_us_per_task))),
                ("log events dropped", Cell::new(self.log_events_dropped.to_string())),
            ],
            style,
        )
    }

    fn quiet(&self) -> String {
        self.tasks_per_s.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job as some_job;
    use starfarm_protocol::job::JobState;
    use starfarm_protocol::units::Units;

    fn dispatch(tasks: u64) -> Dispatch {
        Dispatch {
            tasks,
            nodes: 2,
            slots: 1,
            no_seal: false,
            no_journal: false,
            no_log: false,
            no_monitor: false,
        }
    }

    #[test]
    fn figures_are_for_each_task() {
        let ended = JobInfo {
            state: JobState::Finished,
            units_done: Units(1_000_000),
            run_seconds: Some(2.0),
            ..some_job(1)
        };
        let report = report(&dispatch(1_000_000), &ended, 1.5, 0).unwrap();
        assert_eq!((report.tasks_per_s, report.scheduler_cpu_us_per_task), (500_000.0, 1.5));
        assert_eq!(job(7).spec.work, Work::Nothing);
        assert_eq!(starfarm_decomposers::units(&job(7).spec.space), Ok(7));
    }

    #[test]
    fn a_job_that_lost_tasks_is_no_measurement() {
        let short = JobInfo { state: JobState::Finished, units_done: Units(9), ..some_job(1) };
        assert_eq!(report(&dispatch(10), &short, 1.0, 0).unwrap_err().exit, Exit::UnitsFailed);
    }
}
