//! How long a farm is without its scheduler: the scheduler of a farm with much behind it and much at its
//! workers is killed, and started again at once.

use std::fmt;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::report::middle;
use super::stage::Stage;
use super::work::Work;
use super::{Kind, number};
use crate::patience::GUARD;
use crate::wiretap::Wiretap;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// Datagrams that were sent before a kill are on their way for less than this.
const WIRE: Duration = Duration::from_millis(50);
/// Between two looks by a command.
const ASK: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Restarts {
    /// Tasks that are done before the first kill.
    pub tasks_done: u64,
    /// Tasks at workers at each kill, at least.
    pub outstanding: u64,
    /// Kills.
    pub repetitions: usize,
    /// Workers.
    pub workers: usize,
    /// Units of a task of the search.
    pub units_per_task: u64,
    /// So long all of it may take to get there.
    pub patience: Duration,
}

/// What was measured, for each kill.
#[derive(Clone, Debug, Default)]
pub struct RestartReport {
    /// Tasks done and tasks at workers.
    pub before: Vec<(u64, u64)>,
    /// From the start to the line that says that the scheduler listens.
    pub ready: Vec<Duration>,
    /// From the start to the first acknowledgement of a task by a worker.
    pub first_task: Vec<Duration>,
}

impl fmt::Display for RestartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (done, out) in &self.before {
            writeln!(f, "killed with {done} tasks done, {out} at workers")?;
        }
        writeln!(f, "scheduler ready: {}", middle(&self.ready))?;
        write!(f, "first task at a worker: {}", middle(&self.first_task))
    }
}

/// Measures.
///
/// # Panics
/// The farm does not come to where it is to be killed, or does not come back.
pub fn restarts(wanted: &Restarts) -> RestartReport {
    // Acknowledgements of tasks are read on the wire.
    let dir = crate::TempDir::new();
    let state = dir.path().join("farm");
    let mut stage = Stage::set_in(dir, state, wanted.workers, 1, &["--no-seal"], &["--no-seal"]);
    let tap = Wiretap::on(&stage.proxy);
    stage.start_workers();
    // There is always more to do.
    let units = (wanted.tasks_done * wanted.units_per_task * 10).ilog10() + 1;
    let plan =
        Plan { units: 10_u64.pow(units), units_per_task: wanted.units_per_task, ..Plan::full(Kind::Search) };
    let work = Work::submit(&stage, &plan);
    let mut report = RestartReport::default();
    for _ in 0..wanted.repetitions {
        let start = Instant::now();
        loop {
            let done = number(&stage.job(&work.id), "units_done") / wanted.units_per_task;
            let out = stage.ask(&["status"])["dq"].as_u64().unwrap_or(0);
            if done >= wanted.tasks_done && out >= wanted.outstanding {
                report.before.push((done, out));
                break;
            }
            assert!(start.elapsed() < wanted.patience, "{done} tasks are done, {out} are at workers");
            stage.check_alive();
            std::thread::sleep(ASK);
        }
        stage.kill_scheduler();
        // What it had sent is still on its way.
        std::thread::sleep(WIRE);
        tap.forget_offers();
        stage.start_scheduler();
        until(&stage, "the scheduler is ready", || stage.is_ready());
        report.ready.push(stage.since_start());
        until(&stage, "a worker has a task", || tap.first_task().is_some());
        report.first_task.push(stage.since_start());
    }
    report
}

fn until(stage: &Stage, what: &str, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert!(stage.since_start() < GUARD, "waited in vain until {what}");
        std::thread::sleep(LOOK);
    }
}
