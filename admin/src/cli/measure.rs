//! The flags of what measures this machine: `starfarm plan` and `starfarm bench`.

use clap::{Args, Subcommand, value_parser};

use super::value::{SLOTS_MAX, positive, positive_seconds};

const PLAN_EXAMPLES: &str = "\
Examples, for nodes of 8 slots:
  starfarm plan --slots 8 --target-seconds 60
  starfarm plan --slots 8 --speed 3e8 --size 2e10    # T_target = S / C
  starfarm plan --slots 8 --nodes 1000               # the least T_target that so many nodes allow
  starfarm plan --slots 8 --nodes 1000 --speed 3e8   # and how many units such a task has

The law: P_max = T_target / (K * T_dispatch); T_dispatch is measured here. The other way round:
T_target >= P * K * T_dispatch.";

/// `starfarm plan`: the law P_max = T_target / (K * T_dispatch), with T_target = S / C.
#[derive(Args, Debug)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct Plan {
    /// K: tasks that a node runs at once
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(1..))]
    pub(crate) slots: u32,
    /// P: nodes that the farm is to have; gives T_target, granularity and T_retry
    #[arg(long, value_name = "P", conflicts_with_all = ["size", "target_seconds"], value_parser = value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// C: units a second that one task is computed at
    #[arg(long, value_name = "C", value_parser = positive)]
    pub(crate) speed: Option<f64>,
    /// S: units of a task
    #[arg(long, value_name = "S", requires = "speed", value_parser = positive)]
    pub(crate) size: Option<f64>,
    /// T_target: seconds that a task takes, instead of C and S
    #[arg(long, value_name = "SECONDS", required_unless_present_any = ["size", "nodes"], conflicts_with_all = ["speed", "size"], value_parser = positive_seconds)]
    pub(crate) target_seconds: Option<f64>,
    /// Measure with so many tasks
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = value_parser!(u64).range(1..))]
    pub(crate) tasks: u64,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Dispatch tasks that do nothing, with scheduler and workers as processes of their own
    Dispatch(Dispatch),
    /// Send an agent's `udp_receive` datagrams as fast as you say, from another process on this machine
    Udp(Udp),
    /// Form a tree of agents on this machine, and have it broadcast and sum up
    Tree(TreeBench),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct TreeBench {
    /// Processes of each level, the front first: 1x4x16 is a front, 4 CPs, and 16 back ends, 4 below each CP
    #[arg(long, value_name = "1xNx..", value_parser = shape)]
    pub(crate) shape: Shape,
    /// Rounds one after the other, of which the median is taken; so many times ten then go side by side
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
}

/// Processes of each level below the front, the top one first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape(pub(crate) Vec<usize>);

/// Processes of a tree, at most.
const POSTS_MAX: usize = 512;

fn shape(text: &str) -> Result<Shape, String> {
    let levels = text.split('x').map(|level| level.parse().ok().filter(|count| *count > 0));
    let levels: Option<Vec<usize>> = levels.collect();
    match levels.as_deref() {
        Some([1, below @ ..]) if (1..=8).contains(&below.len()) && below.is_sorted() => {
            let posts = below.iter().fold(0_usize, |sum, level| sum.saturating_add(*level));
            if posts <= POSTS_MAX {
                Ok(Shape(below.to_vec()))
            } else {
                Err(format!("that is more than {POSTS_MAX} processes"))
            }
        }
        _ => Err("write 1 and the processes of each level below, none fewer than above: 1x4x16".to_owned()),
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Udp {
    /// Datagrams a second, of 8 B and 12 B a value
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: u32,
    /// For so long
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// From so many addresses of this machine, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = value_parser!(u16).range(1..=20_000))]
    pub(crate) senders: u16,
    /// Values of a datagram
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = value_parser!(u16).range(1..=100))]
    pub(crate) values: u16,
    /// Bytes of receive buffer, as the kernel counts them [default: the stage's own, 8 MiB]
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u32).range(1..=1 << 30))]
    pub(crate) buffer: Option<u32>,
    /// Have the values summed up by their ids too, as for a mean
    #[arg(long)]
    pub(crate) mean: bool,
    /// Send them to this address, and receive nothing
    #[arg(long, hide = true)]
    pub(crate) to: Option<std::net::SocketAddr>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Dispatch {
    /// How many tasks, of one unit each
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) tasks: u64,
    /// How many worker processes
    #[arg(long, value_name = "P", value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) nodes: u16,
    /// Slots of each worker
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = value_parser!(u16).range(1..=SLOTS_MAX))]
    pub(crate) slots: u16,
    /// Turn the seal off, to see what it costs
    #[arg(long, hide = true)]
    pub(crate) no_seal: bool,
    /// Keep no journal: shows what it costs
    #[arg(long)]
    pub(crate) no_journal: bool,
    /// Write no XML log: shows what it costs
    #[arg(long)]
    pub(crate) no_log: bool,
    /// Keep no monitoring tree, and run no agents: shows what they cost
    #[arg(long)]
    pub(crate) no_monitor: bool,
}
