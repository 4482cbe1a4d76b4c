//! `starfarm jobs` and `starfarm job`: which jobs are meant, and what is done with them.

use clap::{Args, Subcommand};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::terms::Limit;

use super::value::{job_id, job_state, label, max_nodes, or_none, positive_seconds, storage_limit, unit};

#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// Only those in this state; several with commas between
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = job_state())]
    pub(crate) state: Vec<JobState>,
    /// Only those with this label; repeat it for those that have all
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Instead of the farm's figures: those of all jobs with this label together; repeat it for those that have all
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct JobArg {
    /// The job's number
    #[arg(value_parser = job_id)]
    pub(crate) id: JobId,
}

/// Jobs by their numbers, or by their labels.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// The jobs' numbers
    #[arg(value_name = "ID", value_parser = job_id, required_unless_present = "label", conflicts_with = "label")]
    pub(crate) ids: Vec<JobId>,
    /// Instead of numbers: all jobs with this label that this can be done with; repeat it for those that have all
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Job {
    /// Show all that is known of a job
    Show(JobArg),
    /// Say why a job waits or runs as it does, and why its tasks have their size
    Explain(JobArg),
    /// Wait until jobs have ended, exit code 1 if units failed; or until the farm pauses one, exit code 8
    Wait {
        #[command(flatten)]
        jobs: Selection,
        /// Wait so many seconds at most; the exit code is then 124
        #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
        timeout: Option<f64>,
        /// Wait on while the farm has paused it
        #[arg(long)]
        wait_paused: bool,
    },
    /// Print what units wrote, as it was written: all units that have ended, or one
    Logs(Logs),
    /// End jobs; what is done is kept
    Cancel(Selection),
    /// Give out no more of jobs
    Pause(Selection),
    /// Go on with paused jobs
    Resume(Selection),
    /// Change the limits of jobs that have not ended
    Set(Set),
    /// Put a job at the head of the queue
    Front(JobArg),
    /// Run a job now, the running one later
    Switch(JobArg),
    /// Forget ended jobs and their results
    Delete {
        #[command(flatten)]
        jobs: Selection,
        /// Where one has not ended, cancel it first
        #[arg(long)]
        cancel: bool,
    },
    /// Merge a job's results again, as its `[merge]` says, and wait for that: after a failure, or where units failed
    Merge(JobArg),
    /// Run some of a job's units again; one that has ended goes on
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Retry {
        /// The failed units, with all their retries
        #[arg(long, group = "which")]
        failed: bool,
        /// The units whose outputs are missing or damaged on the scheduler's disk
        #[arg(long, group = "which")]
        missing_outputs: bool,
        #[command(flatten)]
        job: JobArg,
    },
}

const SET_EXAMPLES: &str = "\
Examples:
  starfarm job set 7 --storage-limit 20G
  starfarm job set --label project=x --storage-limit none --max-nodes 4";

#[derive(Args, Clone, Debug)]
#[command(after_help = SET_EXAMPLES, group = clap::ArgGroup::new("limit").required(true).multiple(true))]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) jobs: Selection,
    /// Let at most so many nodes have tasks of it at once; those above that finish what they have
    #[arg(long, value_name = "COUNT|none", group = "limit", value_parser = or_none(max_nodes, Limit::MaxNodes))]
    pub(crate) max_nodes: Option<Limit>,
    /// Pause the job when all its outputs take so many bytes, such as 10G; one that was paused for less goes on
    #[arg(long, value_name = "BYTES|none", group = "limit", value_parser = or_none(storage_limit, Limit::StorageLimit))]
    pub(crate) storage_limit: Option<Limit>,
}

impl Set {
    /// The limits that are given.
    pub(crate) fn limits(&self) -> impl Iterator<Item = Limit> {
        self.max_nodes.into_iter().chain(self.storage_limit)
    }
}

const LOGS_EXAMPLES: &str = "\
Examples:
  starfarm job logs 7                  # standard output of all units that have ended
  starfarm job logs 7 12 --stderr      # standard error of unit 12
  starfarm job logs 7 --follow         # and what comes, until the job has ended";

#[derive(Args, Debug)]
#[command(after_help = LOGS_EXAMPLES)]
pub(crate) struct Logs {
    #[command(flatten)]
    pub(crate) job: JobArg,
    /// Only this unit
    #[arg(value_parser = unit)]
    pub(crate) unit: Option<u128>,
    /// Standard error instead of standard output
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Go on with units as they end, until the job has ended, or Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
}
