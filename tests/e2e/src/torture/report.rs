//! What is told of a run.

use std::fmt;
use std::time::Duration;

use starfarm_chaos::Counters;

/// Figures of a run that found no violation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Units of the job.
    pub units: u64,
    /// Tasks of the job.
    pub tasks: u64,
    /// From submission to the job's end.
    pub wall: Duration,
    /// Workers killed.
    pub worker_kills: usize,
    /// Schedulers killed.
    pub scheduler_kills: usize,
    /// Processes paused.
    pub pauses: usize,
    /// Cuts of the network.
    pub partitions: usize,
    /// From each start of the scheduler to the line that says that it listens.
    pub ready: Vec<Duration>,
    /// From each start to the first task that was given out.
    pub first_task: Vec<Duration>,
    /// Units that came in again.
    pub units_duplicate: u64,
    /// Runs of programs, where there are programs.
    pub runs: Option<u64>,
    /// Tasks that went back.
    pub resent: u64,
    /// Checks of acknowledged commands that passed.
    pub promises_kept: usize,
    /// What the network did to datagrams from workers, and to workers.
    pub network: [Counters; 2],
    /// TCP connections cut.
    pub streams_cut: u64,
    /// The words of the audit.
    pub audit: String,
}

impl Report {
    /// Units that ran more than once, as a share of all; known only of programs, which say that they ran.
    /// A result that comes in again may have been sent twice, which computes nothing.
    pub fn waste(&self) -> Option<f64> {
        self.runs.map(|runs| runs.saturating_sub(self.units) as f64 / self.units.max(1) as f64)
    }
}

/// The middle one, and the largest.
pub fn middle(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    match (sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(median), Some(most)) => {
            format!(
                "median {:.3} s, most {:.3} s of {}",
                median.as_secs_f64(),
                most.as_secs_f64(),
                sorted.len()
            )
        }
        _ => "none".to_owned(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "units {} in {} tasks, {:.1} s", self.units, self.tasks, self.wall.as_secs_f64())?;
        writeln!(
            f,
            "killed: {} workers, {} schedulers; paused {}; partitions {}; TCP streams cut {}",
            self.worker_kills, self.scheduler_kills, self.pauses, self.partitions, self.streams_cut
        )?;
        writeln!(f, "scheduler ready: {}", middle(&self.ready))?;
        writeln!(f, "first task given out: {}", middle(&self.first_task))?;
        let again = self.units_duplicate as f64 / self.units.max(1) as f64;
        writeln!(
            f,
            "results that came in again: {:.2} %; tasks given out again: {}",
            again * 100.0,
            self.resent
        )?;
        if let Some((runs, waste)) = self.runs.zip(self.waste()) {
            writeln!(f, "programs run: {runs}, {:.2} % of the units again", waste * 100.0)?;
        }
        writeln!(f, "acknowledged commands found in force: {}", self.promises_kept)?;
        writeln!(f, "up:   {}\ndown: {}", self.network[0], self.network[1])?;
        write!(f, "audit: {}", self.audit.trim_end())
    }
}
