//! The executor that does nothing, by which `starfarm bench dispatch` measures everything else.

use std::time::Duration;

use starfarm_worker_core::Task;

use crate::report::Report;

pub(super) fn run(task: &Task, report: &mut Report) {
    report.done(task, task.lo, task.units, Duration::ZERO, Vec::new());
}
