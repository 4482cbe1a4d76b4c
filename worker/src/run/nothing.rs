//! Nothing is done: that is how `starfarm bench dispatch` measures everything else.

use std::time::Duration;

use starfarm_protocol::spec::Space;
use starfarm_worker_core::Task;

use super::executor::{Context, Executor};
use crate::report::Report;
use starfarm_exec::CancelFlag;

pub(super) struct Nothing {
    units: u128,
}

impl Nothing {
    pub(super) fn new(space: &Space) -> Result<Self, String> {
        starfarm_decomposers::units(space).map(|units| Self { units })
    }
}

impl Executor for Nothing {
    fn units(&self) -> u128 {
        self.units
    }

    fn run(&self, task: &Task, _: &CancelFlag, _: &Context, report: &mut Report) {
        report.done(task, task.lo, task.units, Duration::ZERO, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::wire::Outcome;

    use super::*;
    use crate::run::executor::testing::parts;

    #[test]
    fn all_of_a_task_comes_back_done_at_once() {
        let nothing = Nothing::new(&Space::Range { from: 0, to: 100, step: 1 }).unwrap();
        let done = parts(&nothing, 90, 10);
        let said: Vec<_> = done.iter().map(|part| (part.lo, part.units, part.outcome)).collect();
        assert_eq!(said, [(90, 10, Outcome::Done)]);
    }
}
