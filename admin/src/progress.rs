//! Progress of one job on standard error: a bar with rate and remaining time on a terminal, else a line
//! every few seconds.

use starfarm_protocol::job::JobState;
use starfarm_protocol::units::Units;
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use starfarm_protocol::admin::JobInfo;

use crate::human;
use crate::output::say;

/// A bar that moves four times a second is alive.
const BAR_PERIOD: Duration = Duration::from_millis(250);
/// A log wants fewer lines.
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// A look that comes a little early still gets its line.
const LINE_SLACK: Duration = Duration::from_millis(100);
/// Steps of the bar: units may be more than it can count.
const STEPS: u64 = 10_000;

/// Shows how far a job is.
pub(crate) struct Progress {
    is_shown: bool,
    bar: Option<ProgressBar>,
    /// When the last line was written, or this was made: what ends soon needs no line.
    last_line: Cell<Instant>,
}

impl Progress {
    /// A bar where standard error is a terminal; nothing at all where it is not to be shown.
    pub(crate) fn new(is_shown: bool) -> Self {
        let has_bar = is_shown && io::stderr().is_terminal();
        Self { is_shown, bar: has_bar.then(bar), last_line: Cell::new(Instant::now()) }
    }

    /// How often [`Progress::show`] has something to show; called more often, it passes some over.
    pub(crate) fn period(&self) -> Duration {
        if self.bar.is_some() { BAR_PERIOD } else { LINE_PERIOD }
    }

    pub(crate) fn show(&self, job: &JobInfo) {
        match &self.bar {
            _ if !self.is_shown => {}
            Some(bar) => {
                let settled = human::fraction(settled(job), job.units_total);
                bar.set_position((settled * STEPS as f64) as u64);
                bar.set_message(line(job));
            }
            None if self.last_line.get().elapsed() + LINE_SLACK >= LINE_PERIOD => {
                self.last_line.set(Instant::now());
                say(&format!("job {}: {}", job.id.0, line(job)));
            }
            None => {}
        }
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {wide_msg}").expect("a fixed template that parses");
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    bar.with_style(style)
}

/// Units of which the outcome is known.
pub(crate) fn settled(job: &JobInfo) -> Units {
    Units(job.units_done.0.saturating_add(job.units_failed.0))
}

/// "12.3 %, 1.20 M of 10.0 M units, 250 K/s, 35 s left, 2 hits, 1 failed, running".
fn line(job: &JobInfo) -> String {
    let settled = settled(job);
    let mut parts = vec![format!("{} of {} units", human::units(settled), human::total(job))];
    if !job.grows {
        parts.insert(0, human::share(settled, job.units_total));
    }
    if job.units_per_s > 0.0 {
        parts.push(format!("{}/s", human::count(job.units_per_s)));
    }
    if let Some(eta) = job.eta_seconds {
        parts.push(format!("{} left", human::seconds(eta)));
    }
    if job.hits > 0 {
        parts.push(format!("{} hits", job.hits));
    }
    if job.units_failed != 0 {
        parts.push(format!("{} failed", human::units(job.units_failed)));
    }
    if job.state != JobState::Running {
        parts.push(job.state.to_string());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::job::testing::job;

    #[test]
    fn a_line_says_what_is_known() {
        let new = JobInfo { state: JobState::Queued, units_done: Units(0), units_total: Units(10), ..job(1) };
        let new = JobInfo { units_per_s: 0.0, eta_seconds: None, hits: 0, units_failed: Units(0), ..new };
        assert_eq!(line(&new), "0.0 %, 0 of 10 units, queued");
        let busy = JobInfo {
            state: JobState::Running,
            units_done: Units(3_000_000),
            units_failed: Units(10),
            units_total: Units(10_000_000),
            units_per_s: 250_000.0,
            eta_seconds: Some(28.0),
            hits: 2,
            ..job(1)
        };
        assert_eq!(line(&busy), "30.0 %, 3.00 M of 10.0 M units, 250 K/s, 28 s left, 2 hits, 10 failed");
    }
}
