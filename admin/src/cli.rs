//! The command line: names, flags and their help, nothing else. Names are a contract; a test holds them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::{MaxFailures, Per, Sizing};
use starfarm_protocol::resources::{memory, size};
use starfarm_protocol::spec::{OUTPUT_LIMIT_MAX, OutputLimit};
use value::gpus;

use crate::output::Format;

pub(crate) use job::{Job, Jobs, Logs, Selection, Set, Status};
pub(crate) use key::Key;
pub(crate) use log::{Export, Log, Replay};
pub(crate) use measure::{Bench, Dispatch, Plan, Shape, TreeBench, Udp};
pub(crate) use monitor::{About, Follow, Monitor, MonitorSet, Stream as MonitorStream};
pub(crate) use parallel::{Halt, HaltWhy, Parallel};
pub(crate) use results::{Results, Streams, Wanted};
pub(crate) use tree::{Strategy, Tree, TreeCommand, TreeForm, TreePlan};
use value::{
    SLOTS_MAX, interval, job_id, job_name, label, max_nodes, per, positive_seconds, shell, target,
    units_per_task, variable,
};

mod job;
mod key;
mod log;
mod measure;
mod monitor;
mod parallel;
mod results;
mod tree;
mod value;

/// A fault-tolerant task farm.
///
/// Try it on this machine: `starfarm run JOB.toml`. On several: `starfarm scheduler` on one, `starfarm
/// worker` on the others, then `starfarm submit`.
///
/// Exit codes: 0 ok, 1 the job ended with failed units, or an audit does not hold, 2 usage, 3 no scheduler answers, 4 not found,
/// 5 refused, 6 conflict, 8 the farm paused the job, 124 time limit, 130 interrupted.
#[derive(Parser, Debug)]
#[command(name = "starfarm", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What holds for every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The farm: the scheduler's state directory on this machine, or a join file such as its `admin.join`
    #[arg(long, global = true, value_name = "DIR|FILE", env = "STARFARM_FARM")]
    pub(crate) farm: Option<PathBuf>,
    /// Form of what is printed [default: table]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", env = "STARFARM_OUTPUT")]
    pub(crate) output: Option<Format>,
    /// Show no progress of what is waited for
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// When to use colours; auto: on a terminal, unless the variable NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: ColorChoice,
}

impl Cli {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// They make no sense, or ask for help.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let mut command = Self::command();
        let matches = match parallel::try_as_parallel(&command, &words) {
            Some(Ok(matches)) => matches,
            Some(Err(why)) => command.try_get_matches_from_mut(words).map_err(|_| why)?,
            None => command.try_get_matches_from_mut(words)?,
        };
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let names_farm = matches.value_source("farm") == Some(ValueSource::CommandLine);
        if names_farm && matches!(cli.command, Command::Run(_)) {
            let run = command.find_subcommand_mut("run").expect("it was just read");
            return Err(run.error(ErrorKind::ArgumentConflict, RUN_ON_FARM));
        }
        Ok(cli)
    }
}

/// A variable or a file may name the farm of the other commands.
const RUN_ON_FARM: &str = "`run` starts a farm of its own: leave --farm out. `starfarm submit` gives the job to that farm; \
    --state says where a run keeps its state";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run one job on a farm of its own on this machine, until it ends; again, to go on with what is left
    Run(Box<Run>),
    /// Run the scheduling node
    Scheduler(Box<Scheduler>),
    /// Run a computing node
    Worker(Box<starfarm_worker::Options>),
    /// Submit a job: a job file, or a program for each unit
    Submit(Box<Submit>),
    /// List the jobs
    Jobs(Jobs),
    /// Show or steer one job
    #[command(subcommand)]
    Job(Job),
    /// List the nodes
    Nodes,
    /// Show or steer one node
    #[command(subcommand)]
    Node(Node),
    /// List, add and revoke keys
    #[command(subcommand)]
    Key(Key),
    /// Print a job's hits, failed units and outputs
    Results(Results),
    /// Print the farm's figures, or those of the jobs with some labels
    Status(Status),
    /// Print what happened on the farm lately, or go on printing it
    Events(Events),
    /// Watch the farm on the screen: jobs, nodes and what happens; `?` shows the keys
    Top(Top),
    /// Prove from ledger and journal alone that each unit of each ended job was counted once
    Audit(Audit),
    /// Replay, check and convert a farm's log
    #[command(subcommand)]
    Log(Log),
    /// Show what jobs and nodes use, and say what is measured
    #[command(subcommand)]
    Monitor(Monitor),
    /// Show, plan or form the tree of processes that monitors the farm
    Tree(Tree),
    /// Measure this machine's time per dispatch and say how many nodes it could carry
    Plan(Plan),
    /// Measure how fast this machine gives out tasks
    #[command(subcommand)]
    Bench(Bench),
    /// Print what a job file may say
    #[command(long_about = crate::commands::reference::job_file_text())]
    JobFile,
    /// Print the JSON schema of what `--output json` prints, or the names of all
    Schema {
        /// Which one
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Print a shell's completions: what Tab offers
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        #[arg(value_parser = shell())]
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands
    #[command(hide = true)]
    Man {
        /// Write them here, as NAME.1
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Where shells look for them:
  starfarm completions bash > ~/.local/share/bash-completion/completions/starfarm
  starfarm completions zsh > ~/.zfunc/_starfarm    # with fpath+=~/.zfunc before compinit
  starfarm completions fish > ~/.config/fish/completions/starfarm.fish";

const RUN_EXAMPLES: &str = "\
Examples:
  starfarm run job.toml
  starfarm run --parallel -k 'wc -l {}' ::: one.txt two.txt
  starfarm run --range 0..1000 --retries 2 -- ./simulate --seed {}";

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Run only the units that the file of --joblog lacks
    #[arg(long, requires = "joblog")]
    pub(crate) resume: bool,
    /// Units that run at once: 4, +2 for two more than there are cores, or 50% of them [default: the number of cores]
    #[arg(long, short = 'j', alias = "jobs", value_name = "K", value_parser = value::at_once)]
    pub(crate) slots: Option<u16>,
    /// Where the farm keeps its state [default: starfarm/runs/HASH in the XDG state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Start anew, even where an earlier run of the same job can be gone on with
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write the files that units made into this folder, as units end
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What says without a job file which units there are.
const UNITS: [&str; 5] = ["program", "range", "lines", "grid", "parallel"];

/// Which job is meant: a job file, a program and its units, or a line of GNU parallel.
#[derive(Args, Debug, Default)]
pub(crate) struct Source {
    /// The job file; `-` is standard input
    #[arg(value_name = "JOB.toml", required_unless_present_any = UNITS, conflicts_with_all = UNITS)]
    pub(crate) job: Option<PathBuf>,
    /// A program and its arguments; `{}` is the unit's value, `{index}` its number; no shell sees it
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
    /// A unit for each integer from A up to, not including, B
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    /// A unit for each line of a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["range", "grid"])]
    pub(crate) lines: Option<PathBuf>,
    /// A unit for each combination; repeat it for more names, `{k}` is the value
    #[arg(long, value_name = "k=v1,v2", conflicts_with = "range")]
    pub(crate) grid: Vec<String>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
    #[command(flatten)]
    pub(crate) parallel: Parallel,
}

/// `starfarm scheduler`: the scheduler's own flags, and ours for farms that we start ourselves.
#[derive(Args, Debug)]
pub(crate) struct Scheduler {
    #[command(flatten)]
    pub(crate) args: starfarm_scheduler::Options,
    /// Stop when standard input ends: whoever started this has gone
    #[arg(long, hide = true)]
    pub(crate) parent_pipe: bool,
}

const SUBMIT_EXAMPLES: &str = "\
Examples:
  starfarm submit job.toml --wait
  starfarm submit --range 0..1000 -- ./render --frame {}
  starfarm submit --lines files.txt --retries 2 -- gzip {}
  starfarm submit --parallel 'gzip -c {} > {.}.gz' :::: files.txt
  starfarm submit --grid size=1,2,3 --grid mode=a,b --dry-run -- ./try {size} {mode}";

#[derive(Args, Debug)]
#[command(after_help = SUBMIT_EXAMPLES)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Put it at the head of the queue
    #[arg(long)]
    pub(crate) front: bool,
    /// Switch to it at once
    #[arg(long, conflicts_with = "front")]
    pub(crate) now: bool,
    /// If the same job is in the farm and has not ended, go on with that one instead of a new one; with
    /// --joblog, run only the units that that file lacks
    #[arg(long)]
    pub(crate) resume: bool,
    /// Wait until it has ended, exit code 1 if units failed; or until the farm pauses it, exit code 8
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait on while the farm has paused it
    #[arg(long, requires = "wait")]
    pub(crate) wait_paused: bool,
    /// Wait so many seconds at most; the job goes on, the exit code is 124
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = positive_seconds)]
    pub(crate) timeout: Option<f64>,
    /// Write the files that units made into this folder, as units end
    #[arg(long, value_name = "DIR", requires = "wait")]
    pub(crate) dir: Option<PathBuf>,
    /// Show what would be submitted, and ask no farm
    #[arg(long, conflicts_with_all = ["wait", "front", "now", "resume"])]
    pub(crate) dry_run: bool,
}

/// What may be said of any job; it takes precedence over the job file.
#[derive(Args, Debug, Default)]
pub(crate) struct JobOptions {
    /// Name of the job
    #[arg(long, value_parser = job_name)]
    pub(crate) name: Option<String>,
    /// What one run of the program computes: a unit, or all units of a task, of which {lo}, {hi}, {last}, {count} and {file}
    /// tell it [default: unit]
    #[arg(long, value_name = "unit|task", value_parser = per)]
    pub(crate) per: Option<Per>,
    /// End a unit's program after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) timeout_seconds: Option<f64>,
    /// End a unit's program that runs for so many seconds, and 30 times as long as others on its node
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) hang_seconds: Option<f64>,
    /// Run a failed unit again up to so many times
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,
    /// Keep so many bytes of each output of a unit: head and tail. With strict a unit that writes more fails
    /// [default: 1048576]
    #[arg(long, value_name = "BYTES|strict|strict:BYTES")]
    pub(crate) output_limit: Option<OutputLimit>,
    /// Pause when so many units have failed for good, or never [default: when nearly all fail]
    #[arg(long, value_name = "COUNT|never")]
    pub(crate) max_failures: Option<MaxFailures>,
    /// Whether idle nodes get copies of the last tasks [default: true for a search, false for programs]
    #[arg(long, value_name = "BOOL")]
    pub(crate) speculative: Option<bool>,
    /// Seconds that a task should take
    #[arg(long, value_name = "SECONDS", value_parser = target)]
    pub(crate) target_seconds: Option<Sizing>,
    /// Units of a task, instead of a time
    #[arg(long, value_name = "COUNT", conflicts_with = "target_seconds", value_parser = units_per_task)]
    pub(crate) units_per_task: Option<Sizing>,
    /// Directory that programs start in; a node without it refuses the job [default: the job file's, where a node has it]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Add a variable to the programs' environment; repeat it for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// File that a unit's program reads as standard input, from the directory that it starts in, such as `{}.in`
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<String>,
    /// File or pattern beneath this directory that goes along to each unit, or a unit's own, such as `in/{}.jpg`; repeat
    /// it for more
    #[arg(long, value_name = "PATTERN")]
    pub(crate) inputs: Vec<String>,
    /// File that each unit makes, such as `{}.png`; repeat it for more
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Vec<String>,
    /// Bytes that the files of a unit may have together [default: 268435456]
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u64).range(1..=OUTPUT_LIMIT_MAX))]
    pub(crate) files_limit: Option<u64>,
    /// Slots of a worker that each unit takes [default: 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u16).range(1..=SLOTS_MAX))]
    pub(crate) unit_slots: Option<u16>,
    /// Memory that each unit claims, such as 2G: units start where it is free [default: none]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// GPUs that each unit has to itself, or its share of one: 1, 2, 0.5 [default: none]
    #[arg(long, value_name = "N", value_parser = gpus)]
    pub(crate) gpus: Option<f64>,
    /// Start when these jobs have finished; if one fails, this one is cancelled
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = job_id)]
    pub(crate) after: Vec<JobId>,
    /// Start when these jobs have ended, in whatever way
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = job_id)]
    pub(crate) after_any: Vec<JobId>,
    /// Give the job a label; repeat it for more
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// Let at most so many nodes have tasks of it at once [default: any number]
    #[arg(long, value_name = "COUNT", value_parser = max_nodes)]
    pub(crate) max_nodes: Option<u32>,
    /// Pause the job when its outputs take so many bytes, such as 10G [default: any number]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) storage_limit: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArg {
    /// The node's name
    pub(crate) name: String,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Node {
    /// Show all that is known of a node
    Show(NodeArg),
    /// Say why a node idles, how much it may hold, or why it is kept out
    Explain(NodeArg),
    /// Give a node no more tasks
    Drain(NodeArg),
    /// Give a node tasks again
    Resume(NodeArg),
    /// Forget a lost node
    Forget(NodeArg),
}

const EVENTS_EXAMPLES: &str = "\
Examples:
  starfarm events                      # the last thousand lines
  starfarm events --follow             # and what comes, until Ctrl-C
  starfarm events --follow --tasks     # tasks sent and back too, one by one
  starfarm events --output jsonl --follow --after 120";

#[derive(Args, Debug)]
#[command(after_help = EVENTS_EXAMPLES)]
pub(crate) struct Events {
    /// Go on printing what happens, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Tasks that are sent to nodes and come back, too, a line each; at most 200 a second, the rest is counted
    #[arg(long, requires = "follow")]
    pub(crate) tasks: bool,
    /// Only what has a number above this: to go on where an earlier call ended
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub(crate) after: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Look at the farm so often
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Change nothing: no pause, cancel or drain
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// The scheduler's state directory; the scheduler may run, have stopped or be broken [default: that of --farm]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Only this job; repeat it for more
    #[arg(long, value_name = "ID", value_parser = job_id)]
    pub(crate) job: Vec<JobId>,
    /// Also read `outputs` and `blobs`: every output must be there and be what its hash says
    #[arg(long)]
    pub(crate) outputs: bool,
}

#[cfg(test)]
mod tests;
