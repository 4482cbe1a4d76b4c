//! The flags of `starfarm monitor`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;

use super::value::{job_id, positive_seconds};

const SET_HELP: &str = "\
What was said of a node holds before what was said of all. It is forgotten when the job ends, or the scheduler.

Examples:
  starfarm monitor set --job 7 --period 0.1 --metrics cpu,memory
  starfarm monitor set --node n3 --off
  starfarm monitor set --all --period 5
  starfarm monitor set --job 7 --default";

const CONTROL_HELP: &str = "\
Orders:
  create NAME TYPE                     make a stage
  end STAGE                            end one, with its edges
  name STAGE NAME                      give it another name
  set STAGE KEY VALUE                  tell it a setting
  link STAGE.OUTPUT STAGE.INPUT        make an edge; unlink takes it away
  timer NAME every SECONDS             make a timer, or set it anew; after SECONDS: once
  end-timer NAME                       end it
  subscribe TIMER STAGE                have it fire for a stage; unsubscribe: no more

What a file, a stage or such an order has made may be changed, not what the agent itself needs, nor what comes to it. An order holds until
the agent starts again, or `monitor load` is given. Options stand before NODE.

Examples:
  starfarm monitor control n3 timer often every 10
  starfarm monitor control n3 set slow every 5";

#[derive(Subcommand, Debug)]
pub(crate) enum Monitor {
    /// Print the newest figures of jobs and nodes
    Show(About),
    /// Say what is measured of something, and how often, from now on
    Set(MonitorSet),
    /// Print figures as they come, or alarms, or what programs tell
    Follow(Follow),
    /// Print the alarms that stand
    Alarms,
    /// Print the newest figures as OpenMetrics text
    Metrics,
    /// Have all agents have the stages of a file beside their own, in place of those that were loaded before
    Load {
        /// The file, TOML, as the page on monitoring describes it; an empty one takes all back
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Check it, and stop there: no farm is asked
        #[arg(long)]
        check: bool,
    },
    /// Have a node's agent change its graph: its stages, edges and timers
    #[command(after_help = CONTROL_HELP)]
    Control {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// What to do
        #[arg(value_name = "ORDER", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        order: Vec<String>,
    },
    /// Show the stages, edges and timers of a node's agent
    Graph {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// As graphviz draws it: pipe it to `dot -Tsvg`
        #[arg(long)]
        dot: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct About {
    /// Of this job alone
    #[arg(long, value_name = "ID", value_parser = job_id, conflicts_with = "node")]
    pub(crate) job: Option<JobId>,
    /// Of this node alone
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Follow {
    #[command(flatten)]
    pub(crate) about: About,
    /// Which [default: figures of jobs and of machines]
    #[arg(long, value_enum)]
    pub(crate) stream: Option<Stream>,
}

/// What is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Stream {
    /// What machines do
    System,
    /// What jobs use
    Job,
    /// Alarms that begin, change or end
    Alarm,
    /// What programs of units tell, one by one and in order
    Trace,
}

#[derive(Args, Debug)]
#[command(after_help = SET_HELP)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["job", "node", "all"]))]
#[command(group = clap::ArgGroup::new("how").required(true).multiple(true).args(["period", "metrics", "off", "default"]))]
pub(crate) struct MonitorSet {
    /// Of the units of this job
    #[arg(long, value_name = "ID", value_parser = job_id)]
    pub(crate) job: Option<JobId>,
    /// Of this node, and of the units on it
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Of all jobs and nodes
    #[arg(long)]
    pub(crate) all: bool,
    /// How often, 0.1 to 3600 [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) period: Option<f64>,
    /// Which metrics, such as cpu,memory [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = metric)]
    pub(crate) metrics: Vec<Metric>,
    /// Nothing
    #[arg(long, conflicts_with_all = ["period", "metrics"])]
    pub(crate) off: bool,
    /// As if nobody had said anything
    #[arg(long, conflicts_with_all = ["period", "metrics", "off"])]
    pub(crate) default: bool,
}

fn metric(text: &str) -> Result<Metric, String> {
    Metric::from_word(text).ok_or_else(|| {
        let all: Vec<_> = Metric::ALL.iter().map(|metric| metric.word()).collect();
        format!("it is one of {}", all.join(", "))
    })
}
