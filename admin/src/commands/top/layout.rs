//! How many rows each part of the screen has. What stands in them is in `draw`, how keys scroll them in `keys`.

use super::app::App;

pub(super) const HEAD: u16 = 2;
/// Lines of a table beside its rows: its title and its headings.
pub(super) const FRAME: u16 = 2;
/// Alarms that have a line of their own.
const ALARMS_MAX: u16 = 3;

/// How many rows each part of the screen has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rows {
    pub(super) jobs: u16,
    pub(super) nodes: u16,
    pub(super) events: u16,
    /// Lines of alarms, above the tables.
    pub(super) alarms: u16,
    height: u16,
}

impl Rows {
    /// The rows go where they are needed: each part gets a third of them if it has so many, and what it leaves goes
    /// to the nodes, then to the jobs, then to the events.
    pub(super) fn of(app: &App) -> Self {
        let height = app.size.1;
        let rows = height.saturating_sub(HEAD + 2 * FRAME + 1 + 1);
        // On a screen that is too low for more, the head says how many there are.
        let alarms = app.alarms().len().min(usize::from(ALARMS_MAX.min(rows / 6))) as u16;
        let rows = rows - alarms;
        let want = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX);
        let (jobs, nodes) = (want(app.jobs.rows().len()), want(app.nodes.rows().len()));
        let mut events = (rows / 4).max(1).min(rows);
        let left = rows - events;
        let jobs_rows = jobs.min((left / 2).max(left.saturating_sub(nodes)));
        let nodes_rows = nodes.min(left - jobs_rows);
        events += left - jobs_rows - nodes_rows;
        Self { jobs: jobs_rows, nodes: nodes_rows, events, alarms, height }
    }

    /// Posts of the tree: above them are a line in short and the headings.
    pub(super) fn posts(&self) -> u16 {
        self.body().saturating_sub(2)
    }

    /// Rows of what is shown alone.
    pub(super) fn body(&self) -> u16 {
        self.height.saturating_sub(HEAD + 1)
    }
}
