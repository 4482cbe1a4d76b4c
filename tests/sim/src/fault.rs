//! What befalls a farm in a scenario's file: faults that come by chance, and the lines of its script.

use serde::Deserialize;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The worker dies without a word and starts anew.
    Crash,
    /// The worker is stopped and goes on, everything late.
    Pause,
    /// Nothing passes between the machine and the scheduler.
    Partition,
    /// Nothing of the machine reaches the scheduler.
    Mute,
    /// Nothing of the scheduler reaches the machine.
    Deaf,
    /// Datagrams of more than 600 bytes are swallowed on the way, whoever sent them.
    Narrow,
    /// Machines are cut off one by one and mended one by one in another order, all within the duration.
    Swizzle,
    /// The scheduler is told that nobody else hears the machine either.
    Doubt,
    /// The worker is told to leave, and starts anew.
    Leave,
    /// The machine computes at a fiftieth of its speed.
    Slow,
    /// The worker wants new keys: it shakes hands while its session is good.
    Rekey,
    /// What the machine's first slot runs never ends, or goes on after the duration.
    Hang,
    /// The machine's clock jumps ahead by the duration.
    Jump,
    /// The scheduler does nothing for a while.
    Stall,
    /// The scheduler's clock jumps ahead by the duration.
    SchedulerJump,
    /// The scheduler dies, and with it what was not durable. A new one starts after the duration.
    SchedulerCrash,
    /// A scheduler is started from a copy of the state that is two starts old or older, and has the address
    /// for as long as it lasts.
    OldCopy,
    /// The scheduler sleeps, a successor starts from its state at once. It wakes after the duration.
    Sleeper,
}

/// A fault that comes again and again, at times and machines by chance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultModel {
    /// What happens.
    pub kind: FaultKind,
    /// First and last machine; all if absent.
    pub nodes: Option<[u32; 2]>,
    /// No fault before.
    #[serde(default)]
    pub from_s: f64,
    /// No fault begins after.
    pub to_s: f64,
    /// Mean time between two, over all machines together.
    pub every_s: f64,
    /// Shortest and longest duration.
    pub lasts_s: [f64; 2],
}

/// A line of the script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// When.
    pub at_s: f64,
    /// What.
    #[serde(rename = "do")]
    pub deed: Deed,
    /// Which job, counted from 1.
    pub job: Option<u64>,
    /// First and last machine.
    pub nodes: Option<[u32; 2]>,
    /// How long, for faults; for good if absent.
    pub lasts_s: Option<f64>,
    /// The second machine follows this long after the first, and so on.
    #[serde(default)]
    pub stagger_s: f64,
}

/// What a line of the script does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Deed {
    /// Somebody commands something.
    Command(Command),
    /// Something fails.
    Fault(FaultKind),
}

/// What a user commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Cancels a job.
    CancelJob,
    /// Pauses a job.
    PauseJob,
    /// Resumes a job.
    ResumeJob,
    /// Puts a job at the head of jq.
    FrontJob,
    /// Switches to a job.
    SwitchJob,
    /// Deletes an ended job.
    DeleteJob,
    /// Wants the failed units of a job again.
    RetryJob,
    /// Wants the units of a job again whose outputs are lost: a quarter of those that ran.
    RerunJob,
    /// No new tasks for nodes.
    DrainNode,
    /// Tasks for nodes again.
    ResumeNode,
}

impl Line {
    /// The error is a sentence.
    pub(crate) fn check(&self, jobs: usize) -> Result<(), String> {
        let about_job = match self.deed {
            Deed::Command(command) => !matches!(command, Command::DrainNode | Command::ResumeNode),
            Deed::Fault(_) => false,
        };
        let known = self.job.is_none_or(|job| (1..=jobs as u64).contains(&job));
        if about_job != self.job.is_some() || !known {
            return Err(format!("{:?}: it needs a job of the scenario if it is about one", self.deed));
        }
        let about_node = match self.deed {
            Deed::Command(_) => !about_job,
            Deed::Fault(kind) => kind.about_nodes(),
        };
        if about_node && self.nodes.is_none() {
            return Err(format!("{:?}: name the first and last node", self.deed));
        }
        let needs_end =
            [FaultKind::Swizzle, FaultKind::OldCopy, FaultKind::SchedulerCrash, FaultKind::Sleeper];
        if self.lasts_s.is_none() && needs_end.map(Deed::Fault).contains(&self.deed) {
            return Err(format!("{:?}: say how long, with `lasts_s`", self.deed));
        }
        Ok(())
    }
}

impl FaultKind {
    /// It befalls machines, not the scheduler.
    pub(crate) fn about_nodes(self) -> bool {
        use FaultKind::{SchedulerCrash, SchedulerJump, Sleeper, Stall};
        !matches!(self, Stall | SchedulerJump | SchedulerCrash | Sleeper)
    }

    /// It befalls all named machines together, not each for itself.
    pub(crate) fn is_joint(self) -> bool {
        matches!(self, FaultKind::Swizzle | FaultKind::OldCopy) || !self.about_nodes()
    }

    /// A scheduler starts because of it.
    pub(crate) fn starts_a_scheduler(self) -> bool {
        matches!(self, FaultKind::SchedulerCrash | FaultKind::OldCopy | FaultKind::Sleeper)
    }
}
