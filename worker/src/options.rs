//! What a person can say to a worker, and the defaults.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::fs::{Access, access};
use starfarm_agent::OwnFile;
use starfarm_protocol::limits::{NAME_BYTES_MAX, SLOTS_MAX};
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources, size};
use starfarm_protocol::seal::is_valid_name;
use starfarm_worker_core::Limits;

use crate::WorkerError;
use crate::agent;
use crate::cards::{self, Card};
use crate::devices::{Choice, Listed};
use crate::facts;
use crate::values::{self, Until};

/// Flags of `starfarm worker` and `starfarm-worker`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The join file that the scheduler wrote (`worker.join` in its state directory)
    #[arg(long, value_name = "FILE", env = "STARFARM_JOIN", required_unless_present = "probe")]
    pub join: Option<PathBuf>,
    /// Say what this machine has for a worker, as a table or as json, and end
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, default_missing_value = "table")]
    pub probe: Option<ProbeFormat>,
    /// Tasks that run at once; with 0 the machine computes nothing, on no device either, and carries posts of the
    /// monitoring tree [default: the number of cores]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(0..=i64::from(SLOTS_MAX)))]
    pub slots: Option<u16>,
    /// OpenCL devices that run searches and kernels beside the cores: gpu (cards and other accelerators), all, none, or
    /// numbers of --probe such as 0,2
    #[arg(long, value_name = "WHICH", default_value = "gpu", value_parser = Choice::parse)]
    pub devices: Choice,
    /// Cards that programs may be given: all, none, or numbers of --probe such as 0,2 [default: all that
    /// CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and ZE_AFFINITY_MASK leave this process]
    #[arg(long, value_name = "WHICH", default_value = "all", hide_default_value = true, value_parser = Choice::parse)]
    pub gpus: Choice,
    /// Where kernels that were compiled for a device are kept, or none [default: starfarm/kernels in the XDG cache
    /// directory]
    #[arg(long, value_name = "DIR|none")]
    pub kernel_cache: Option<PathBuf>,
    /// Memory that running units may claim together, such as 60G [default: nine tenths of what this process may use]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory: Option<u64>,
    /// Name of this node in the farm [default: the host's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Where this node keeps its key and unsent results [default: starfarm/worker-NAME in the XDG state
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Be gone by then, as a batch system wants it: 90m, 2h30m, seconds or 1:30:00 from now, or @SECONDS since 1970.
    /// The worker takes nothing that would not be over before, gives back the rest, and ends with 0
    #[arg(long, value_name = "TIME", value_parser = values::until)]
    pub deadline: Option<Until>,
    /// End, with 0, after so long with nothing to run: 10m, 1h30m, seconds or 1:30:00
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub idle_exit: Option<Duration>,
    /// Inputs of jobs that are kept in the state directory, such as 20G [default: half of what is free at the start]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub store: Option<u64>,
    /// Keep the scratch directories of the last N units that failed, 10 if N is left out, in `failed` in the state
    /// directory
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep_failed: Option<u16>,
    /// Measure nothing for the farm: nobody sees what this machine and the units on it use
    #[arg(long)]
    pub no_monitor: bool,
    /// Ports at which this machine takes links of other workers' posts, such as 4000-4099 [default: any that are free]
    #[arg(long, value_name = "A-B", value_parser = values::ports)]
    pub link_ports: Option<(u16, u16)>,
    /// Take no links of other workers: no post that has others below it is put here
    #[arg(long)]
    pub no_peers: bool,
    /// Run this program once for each alarm of the farm's monitor, with what it is about in STARFARM_ALARM_NODE, _SENSOR, _LEVEL
    /// and so on. Of the workers that have one, one runs it
    #[arg(long, value_name = "PROGRAM", conflicts_with = "no_monitor")]
    pub on_alarm: Option<PathBuf>,
    /// Take no more tasks after a critical alarm of this machine, such as a full disk, as `starfarm node drain` has it
    #[arg(long, conflicts_with = "no_monitor")]
    pub drain_on_alarm: bool,
    /// Stages, services and modules of this machine's own agent, beside those that each has: a TOML file, which the page on
    /// monitoring describes
    #[arg(long, value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// Processors that agents run on, such as 0,2-3 [default: as this process was started]
    #[arg(long, value_name = "LIST", value_parser = starfarm_agent::list_cpus)]
    pub agent_cpus: Option<Cpus>,
    /// Say once a period what this machine is, what waits and runs, how busy each slot was, for how long none was
    #[arg(long)]
    pub verbose: bool,
    /// Turn the seal off, to measure what it costs; the scheduler must be on loopback and do the same
    #[arg(long, hide = true)]
    pub no_seal: bool,
    /// Make new session keys this often, in seconds, instead of every ten minutes
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub rekey_seconds: Option<u64>,
    /// Be the warden of the worker that holds stdin: end its programs when it has gone
    #[arg(long, hide = true)]
    pub warden: bool,
    /// Drain when stdin ends: the farm that started this worker has gone
    #[arg(long, hide = true)]
    pub parent_pipe: bool,
}

/// Processors by their numbers.
pub type Cpus = Vec<usize>;

/// What is said of this node's agents.
pub(crate) struct Agents {
    /// The node's own file.
    pub(crate) file: Option<OwnFile>,
    /// The processors that they run on; none: on all.
    pub(crate) cpus: Vec<usize>,
    /// What runs when there is an alarm anywhere in the farm.
    pub(crate) on_alarm: Option<PathBuf>,
    /// This node gets no more tasks when it has a critical alarm itself.
    pub(crate) drains: bool,
}

/// How a probe is printed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The absolute path of a program that this process may run.
fn program(path: &Path) -> Result<PathBuf, WorkerError> {
    let wrong = |why: &dyn std::fmt::Display| {
        let words = format!("--on-alarm {}: {why}: name a program that this user may run", path.display());
        WorkerError::Usage(words)
    };
    if path.is_dir() {
        return Err(wrong(&"it is a folder"));
    }
    access(path, Access::EXEC_OK).map_err(|error| wrong(&error))?;
    std::path::absolute(path).map_err(|error| wrong(&error))
}

impl Options {
    /// The join file; a worker that works has one.
    pub(crate) fn join(&self) -> Result<&Path, WorkerError> {
        self.join.as_deref().ok_or_else(|| WorkerError::Usage("--join names no file".to_owned()))
    }

    pub(crate) fn slots(&self) -> u16 {
        self.slots.unwrap_or_else(usual_slots)
    }

    /// Which devices run searches and kernels: none of a worker that computes nothing.
    pub(crate) fn devices(&self) -> &Choice {
        if self.slots == Some(0) { &Choice::None } else { &self.devices }
    }

    /// Card number `number` is for programs.
    pub(crate) fn uses_card(&self, number: usize) -> bool {
        match if self.slots == Some(0) { &Choice::None } else { &self.gpus } {
            Choice::Gpu | Choice::All => true,
            Choice::None => false,
            Choice::Numbers(numbers) => numbers.contains(&number),
        }
    }

    /// The cards that programs may be given.
    pub(crate) fn cards(&self) -> Result<Vec<Card>, WorkerError> {
        let cards = usual_cards();
        self.gpus.are_there("--gpus", "this process may use", cards.len(), "cards")?;
        Ok(cards
            .into_iter()
            .enumerate()
            .filter(|(number, _)| self.uses_card(*number))
            .map(|(_, card)| card)
            .collect())
    }

    /// Which of the cards that programs may be given each device is.
    pub(crate) fn cards_of(&self, devices: &[Listed]) -> Vec<Option<u16>> {
        let all = usual_cards();
        // Those that programs are not given have no number.
        let numbers = (0..all.len()).scan(0, |next, number| {
            let used = self.uses_card(number).then_some(*next);
            *next += u16::from(used.is_some());
            Some(used)
        });
        let numbers: Vec<Option<u16>> = numbers.collect();
        cards::of_devices(&all, devices).into_iter().map(|card| numbers[card?]).collect()
    }

    /// Bytes of memory that units may claim, of `all` that this process may use.
    pub(crate) fn memory_bytes(&self, all: u64) -> u64 {
        self.memory.unwrap_or(usual_memory_bytes(all))
    }

    /// When the worker leaves by itself, in microseconds from now on.
    pub(crate) fn limits(&self) -> Result<Limits, WorkerError> {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let left = |until: Until| {
            let passed = || WorkerError::Usage("--deadline: that moment has passed".to_owned());
            until.left(SystemTime::now()).map(us).ok_or_else(passed)
        };
        let deadline_us = self.deadline.map(left).transpose()?;
        Ok(Limits { deadline_us, idle_exit_us: self.idle_exit.map(us) })
    }

    /// What is said of this node's agents, checked.
    pub(crate) fn agents(&self) -> Result<Agents, WorkerError> {
        let usage = |why: String| WorkerError::Usage(format!("--agent-cpus: {why}"));
        let cpus = self.agent_cpus.clone().unwrap_or_default();
        starfarm_agent::check_cpus(&cpus).map_err(usage)?;
        let file = self.agent.as_deref().map(agent::read_file).transpose();
        let file = file.map_err(|error| WorkerError::Usage(format!("--agent {error}")))?;
        let on_alarm = self.on_alarm.as_deref().map(program).transpose()?;
        Ok(Agents { file, cpus, on_alarm, drains: self.drain_on_alarm })
    }

    pub(crate) fn node_name(&self) -> Result<String, WorkerError> {
        let Some(name) = &self.name else { return Ok(host_name()) };
        if is_valid_name(name) {
            return Ok(name.clone());
        }
        Err(WorkerError::Usage(format!(
            "--name {name:?}: a name has 1 to {NAME_BYTES_MAX} ASCII letters, digits, `.`, `_`, `-` or `@`, \
             and starts with a letter or digit"
        )))
    }

    /// Where compiled kernels are kept, if they are.
    pub(crate) fn kernel_cache(&self) -> Option<PathBuf> {
        match &self.kernel_cache {
            Some(dir) => (dir.as_os_str() != "none").then(|| dir.clone()),
            None => usual_kernel_cache(),
        }
    }

    pub(crate) fn state_dir(&self, name: &str) -> Result<PathBuf, WorkerError> {
        if let Some(dir) = &self.state {
            return Ok(dir.clone());
        }
        let base = xdg("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
            WorkerError::Usage("neither XDG_STATE_HOME nor HOME is set: name a directory by --state".into())
        })?;
        Ok(base.join("starfarm").join(format!("worker-{name}")))
    }
}

/// A directory of the user's, by its variable or below `HOME`; none where neither says one.
fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

/// Where a worker that is told nothing keeps compiled kernels.
pub(crate) fn usual_kernel_cache() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache").map(|base| base.join("starfarm/kernels"))
}

/// What units may take together of a worker on this machine that is told nothing, but perhaps its slots.
pub fn has(slots: Option<u16>) -> Resources {
    let facts = facts::read(Path::new("/"), cores());
    let cards = usual_cards().len() as u64 * GPU_PARTS;
    let slots = slots.unwrap_or_else(usual_slots);
    Resources::new(slots, usual_memory_bytes(facts.memory_bytes)).with(Resource::Gpus, cards)
}

/// The cards that this process may use.
pub(crate) fn usual_cards() -> Vec<Card> {
    cards::visible(cards::read(Path::new("/")), |name| std::env::var(name).ok())
}

fn usual_slots() -> u16 {
    u16::try_from(cores()).unwrap_or(SLOTS_MAX).min(SLOTS_MAX)
}

/// Of all that the process may use, for units: the worker and the system need some.
fn usual_memory_bytes(all: u64) -> u64 {
    all / 10 * 9
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name_from(&host)
}

/// A valid name out of a host's: what is not allowed becomes `-`.
fn name_from(host: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = host.trim().chars().map(clean).take(NAME_BYTES_MAX).collect();
    if is_valid_name(&name) { name } else { "worker".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_becomes_a_valid_one() {
        for (host, name) in [("node-7\n", "node-7"), ("a b", "a-b"), ("", "worker"), ("-x", "worker")] {
            assert_eq!(name_from(host), name);
        }
        assert!(is_valid_name(&name_from(&"ä".repeat(99))) && is_valid_name(&name_from(&"x".repeat(99))));
    }
}
