//! Commands that the scheduler acknowledged right before it was killed. After the next start they must be in
//! force.

use super::plan::Plan;
use super::stage::Stage;

/// What was promised so far.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    given: usize,
    /// A second job, and whether it was paused.
    job: Option<(String, bool)>,
    /// A node that was told to drain, or to go on.
    node: Option<(String, bool)>,
    /// The node was not heard yet after the last start.
    node_is_open: bool,
    /// Checks that passed.
    pub(crate) kept: usize,
}

impl Promises {
    /// Gives the next command; whoever calls this kills the scheduler right after it.
    pub(crate) fn give(&mut self, stage: &Stage, plan: &Plan) {
        let node = Stage::name(plan.spared());
        match (self.given % 4, &mut self.job) {
            (0, _) => {
                let id = stage.submit(&["--name", "second", "--range", "0..3", "--", "true"]);
                stage.cli(&["job", "pause", &id]).exits(0);
                self.job = Some((id, true));
            }
            (1, _) => {
                stage.cli(&["node", "drain", &node]).exits(0);
                self.node = Some((node, true));
            }
            (2, Some((id, paused))) => {
                stage.cli(&["job", "resume", id]).exits(0);
                *paused = false;
            }
            _ => {
                stage.cli(&["node", "resume", &node]).exits(0);
                self.node = Some((node, false));
            }
        }
        self.given += 1;
    }

    /// The scheduler is there again.
    pub(crate) fn check(&mut self, stage: &Stage) {
        if let Some((id, paused)) = &self.job {
            let job = stage.job(id);
            assert_eq!(job["state"] == "paused", *paused, "a pause or resume was acknowledged: {job}");
            self.kept += 1;
        }
        self.node_is_open = self.node.is_some();
    }

    /// The node's state shows only once it was heard.
    pub(crate) fn check_node(&mut self, stage: &Stage) {
        let Some((name, drained)) = self.node.as_ref().filter(|_| self.node_is_open) else { return };
        match stage.node_state(name).as_str() {
            "suspect" | "lost" => return,
            state => assert_eq!(state == "draining", *drained, "node {name} is {state}"),
        }
        self.kept += 1;
        self.node_is_open = false;
    }

    /// Takes all of it back, and waits for the second job.
    pub(crate) fn release(&mut self, stage: &Stage) {
        if let Some((name, true)) = &self.node {
            stage.cli(&["node", "resume", name]).exits(0);
        }
        if let Some((id, paused)) = &self.job {
            if *paused {
                stage.cli(&["job", "resume", id]).exits(0);
            }
            stage.cli(&["job", "wait", id, "--timeout", "120"]).exits(0);
        }
    }
}
