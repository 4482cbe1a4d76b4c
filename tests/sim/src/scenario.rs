//! A scenario: a TOML file that says which machines, network, jobs and faults there are, and what must come
//! out of it. Unknown keys are refused. Times are in seconds of the virtual clock, `_ms` in milliseconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, de};
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::settings::{Given, Settings};
use starfarm_scheduler_core::Evidence;
use starfarm_scheduler_core::limits::TASKS_A_TURN;

use crate::devices::{self, DeviceModel};
use crate::expect::{Expect, Law};
use crate::fault::{FaultModel, Line};

/// A whole scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is about, in a sentence.
    pub story: String,
    /// Seeds 1..=seeds are run by the tests.
    #[serde(default = "three")]
    pub seeds: u64,
    /// In tests the run is this many times shorter: units, times of faults and commands are divided.
    #[serde(default = "one")]
    pub shorten: f64,
    /// The run ends at this time even if jobs are unfinished; else it ends with its jobs.
    pub until_s: Option<f64>,
    /// Turns of the scheduler between two full checks.
    #[serde(default = "often")]
    pub check_every: u64,
    /// The number of nodes that are up is written down this often.
    pub sample_s: Option<f64>,
    /// The farm's settings, by the keys of the scheduler's `config.toml`.
    #[serde(default, deserialize_with = "settings")]
    pub settings: Settings,
    /// The scheduler's surroundings.
    #[serde(default)]
    pub farm: FarmModel,
    /// The network.
    #[serde(default)]
    pub network: Network,
    /// Machines, in groups; they are numbered through from 0.
    pub nodes: Vec<Group>,
    /// Jobs, in the order of their submission.
    pub jobs: Vec<JobModel>,
    /// Faults by chance.
    #[serde(default)]
    pub faults: Vec<FaultModel>,
    /// Commands and faults at given times.
    #[serde(default)]
    pub script: Vec<Line>,
    /// The law of task sizes must hold.
    pub law: Option<Law>,
    /// What must come out.
    #[serde(default)]
    pub expect: Expect,
    /// Folder for the farm's XML log, where one is wanted.
    #[serde(skip)]
    pub log: Option<std::path::PathBuf>,
    /// What is so of the jobs' results.
    #[serde(skip)]
    pub truth: Option<Arc<dyn Evidence>>,
}

/// The scheduler's surroundings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FarmModel {
    /// A record is durable after this.
    pub durable_ms: f64,
    /// Datagrams that its receive buffer holds.
    pub receive_datagrams: u32,
    /// Time that it takes for one datagram; 0: none, and the buffer never fills.
    pub service_us: u64,
    /// Records between two checkpoints.
    pub checkpoint_records: u64,
    /// Hits of a job that are in memory as long as it runs, and a quarter of that from then on; the core's own number if
    /// absent.
    pub hits_kept: Option<usize>,
    /// Workers are given proofs of the scheduler's epoch, as where datagrams are sealed.
    pub proofs: bool,
    /// Tasks that one turn gives out, about; it takes half as many back.
    pub tasks_a_turn: u64,
    /// Its clock may be earlier by up to this after a restart.
    pub clock_back_s: f64,
    /// Its rim is played, too: a turn takes this long, and what comes meanwhile is one batch of the next; sessions
    /// switch in two steps. 0: every input has a turn of its own, and a session is there at once.
    pub turn_us: u64,
}

impl Default for FarmModel {
    fn default() -> Self {
        Self {
            durable_ms: 1.0,
            receive_datagrams: 3_640,
            service_us: 0,
            checkpoint_records: 500,
            hits_kept: None,
            proofs: true,
            tasks_a_turn: TASKS_A_TURN,
            clock_back_s: 0.0,
            turn_us: 0,
        }
    }
}

/// The way between the scheduler and every machine, the same in both directions. Shares lie in 0..=1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Share of datagrams that are lost.
    pub loss: f64,
    /// Share of datagrams that arrive twice.
    pub duplicate: f64,
    /// Share of datagrams that are late by up to `reorder_ms`.
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_ms: f64,
    /// Least delay.
    pub delay_ms: f64,
    /// A delay is longer by up to this.
    pub jitter_ms: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self { loss: 0.0, duplicate: 0.0, reorder: 0.0, reorder_ms: 50.0, delay_ms: 0.2, jitter_ms: 0.1 }
    }
}

/// Machines of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
    pub count: u32,
    /// Slots of each.
    #[serde(default = "one_slot")]
    pub slots: u16,
    /// Memory that runs may claim there together, in the measure of the jobs'.
    #[serde(default)]
    pub memory: u64,
    /// Cards that runs may have there.
    #[serde(default)]
    pub gpus: u16,
    /// Devices beside the cores; those of one entry are alike.
    #[serde(default)]
    pub devices: Vec<DeviceModel>,
    /// Speed of a slot: a unit takes its job's `unit_us` divided by this.
    #[serde(default = "one")]
    pub speed: f64,
    /// Speeds of machines differ by up to this share.
    #[serde(default)]
    pub speed_spread: f64,
    /// Durations on one slot differ by up to this share.
    #[serde(default)]
    pub noise: f64,
    /// Tasks that a worker's queue holds.
    #[serde(default = "queue_tasks")]
    pub queue_tasks_max: u32,
    /// Datagrams that a worker's receive buffer holds.
    #[serde(default = "receive_datagrams")]
    pub receive_datagrams: u16,
    /// When they start.
    #[serde(default)]
    pub start_s: f64,
    /// Every unit of a command fails there: the machines are sick.
    #[serde(default)]
    pub sick: bool,
    /// Their disks have no room for the files of every so manieth unit of a command; 0 for none.
    #[serde(default)]
    pub no_room_every: u64,
    /// They give every second unit of a command back, one by one, though nobody asks for it.
    #[serde(default)]
    pub gives_back: bool,
    /// They list units of ever new jobs that do not exist, a thousand with each heartbeat.
    #[serde(default)]
    pub names_unknown_jobs: bool,
    /// Each of their results of a search names a hit that is none.
    #[serde(default)]
    pub false_hits: bool,
    /// So many of their results of a search name none of its hits, as a share.
    #[serde(default)]
    pub leaves_out: f64,
    /// Their results say of a run over a task that it was over a unit less than it was.
    #[serde(default)]
    pub miscounts: bool,
    /// Nobody can read their results.
    #[serde(default)]
    pub rubbish: bool,
    /// With each heartbeat they report units that others have.
    #[serde(default)]
    pub reports_others: bool,
    /// They tell of a microsecond for whatever they computed.
    #[serde(default)]
    pub lies_of_speed: bool,
    /// Jobs, counted from 1, that they lack something for: they refuse them ...
    #[serde(default)]
    pub refuses: Vec<u64>,
    /// ... until then; for good if absent.
    pub able_s: Option<f64>,
    /// Shortest and longest time after the start of a worker in which its machine, which still boots, computes at a
    /// fiftieth of its speed.
    #[serde(default)]
    pub boot_s: [f64; 2],
    /// A batch system ends each worker so long after its start: it leaves by itself in time ...
    pub deadline_s: Option<f64>,
    /// ... and another one starts so long after that; none if absent.
    pub again_s: Option<f64>,
}

impl Group {
    /// The device of a slot; none of a core.
    pub(crate) fn device(&self, slot: u16) -> Option<&DeviceModel> {
        devices::of_slot(&self.devices, self.slots, slot)
    }

    /// All slots of a machine.
    pub(crate) fn all_slots(&self) -> u16 {
        self.devices.iter().fold(self.slots, |all, model| all + model.count)
    }
}

/// What a job does with a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkModel {
    /// Looks for hits over an interval.
    Search,
    /// Runs unit by unit; each has an outcome.
    Command,
    /// Reports intervals and nothing else.
    Nothing,
}

/// Runs of a command over whole tasks.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TogetherModel {
    /// Share of the runs that tell how far they are: if one is stopped or fails, its first units count.
    pub tells: f64,
    /// Share of the runs of several units that fail somewhere on the way, whatever units these are.
    pub fails: f64,
    /// What each takes to start, on a slot of speed 1.
    pub start_s: f64,
}

/// A job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobModel {
    /// What is done.
    pub work: WorkModel,
    /// N.
    pub units: u64,
    /// A program names them while the job runs, at most so many in a batch; 0: they are known.
    #[serde(default)]
    pub batch: u64,
    /// Computing time of a unit on a slot of speed 1, in microseconds.
    pub unit_us: f64,
    /// Slots that a run takes.
    #[serde(default = "one_slot")]
    pub slots: u16,
    /// Memory that a run claims, in any measure.
    #[serde(default)]
    pub memory: u64,
    /// Cards that a run takes, in halves: 1 shares one.
    #[serde(default)]
    pub gpu_halves: u64,
    /// Submitted then.
    #[serde(default)]
    pub at_s: f64,
    /// Computing time of a task; the core's own default if absent.
    pub target_s: Option<f64>,
    /// Units of every task; instead of `target_s`.
    pub units_per_task: Option<u64>,
    /// A long task of a search reports after this much computing.
    pub part_s: Option<f64>,
    /// Hits planted, at units by chance.
    #[serde(default)]
    pub hits: u32,
    /// The share of its units that is computed twice.
    #[serde(default)]
    pub check: f64,
    /// So many of its hits are answers that only the scheduler knows.
    #[serde(default)]
    pub known: u32,
    /// The search ends with its last hit.
    #[serde(default)]
    pub stop_at_last_hit: bool,
    /// A failed unit of a command is run again this often.
    #[serde(default)]
    pub retries: u32,
    /// Every unit that this divides fails whenever it is run; 0: none.
    #[serde(default)]
    pub fail_always: u64,
    /// Every unit that this divides fails the first time; 0: none.
    #[serde(default)]
    pub fail_once: u64,
    /// Units that kill their worker.
    #[serde(default)]
    pub poison: Vec<u64>,
    /// One run of the program computes all units of a task (`per = "task"`).
    pub together: Option<TogetherModel>,
    /// Idle nodes get copies of its last tasks, as always those of a search.
    #[serde(default)]
    pub copies: bool,
    /// A unit of a command that hangs is ended as a time-out after this, at the earliest.
    pub hang_s: Option<f64>,
    /// It pauses when the usual share of its units fails; else it bears everything.
    #[serde(default)]
    pub bears_the_usual: bool,
    /// It starts when the jobs of these numbers, which were submitted before, have ended well.
    #[serde(default)]
    pub after: Vec<u64>,
    /// At most so many nodes have tasks of it at once.
    pub max_nodes: Option<u32>,
    /// It goes to the head of jq and runs at once.
    #[serde(default)]
    pub now: bool,
}

impl JobModel {
    /// What a run takes of its machine.
    pub(crate) fn needs(&self) -> Resources {
        Resources::new(self.slots, self.memory).with(Resource::Gpus, self.gpu_halves * GPU_PARTS / 2)
    }
}

/// A table of settings: those that it names, and what follows for the rest.
fn settings<'de, D: Deserializer<'de>>(table: D) -> Result<Settings, D::Error> {
    let table = BTreeMap::<String, f64>::deserialize(table)?;
    let mut given = Given::default();
    table.iter().try_for_each(|(key, &value)| given.set(key, value)).map_err(de::Error::custom)?;
    given.settle().map_err(de::Error::custom)
}

fn one() -> f64 {
    1.0
}

fn three() -> u64 {
    3
}

fn often() -> u64 {
    16
}

fn one_slot() -> u16 {
    1
}

fn queue_tasks() -> u32 {
    4_096
}

fn receive_datagrams() -> u16 {
    92
}

impl Scenario {
    /// Reads a scenario. The error is a sentence with the file, and line and column where there are any.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("{}: {e}; name a scenario's file", path.display()))?;
        let scenario = Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(scenario)
    }

    /// Reads a scenario's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let scenario: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Machines in all groups.
    pub fn machines(&self) -> u32 {
        self.nodes.iter().map(|group| group.count).sum()
    }

    fn check(&self) -> Result<(), String> {
        let machines = self.machines();
        let ranges = self.faults.iter().map(|f| f.nodes).chain(self.script.iter().map(|line| line.nodes));
        for [first, last] in ranges.flatten() {
            if first > last || last >= machines {
                return Err(format!("nodes {first} to {last}: there are nodes 0 to {}", machines - 1));
            }
        }
        self.script.iter().try_for_each(|line| line.check(self.jobs.len()))?;
        if self.until_s.is_none() && self.expect.end_by_s.is_none() {
            return Err("say `until_s`, or `end_by_s` under [expect]: a run must have an end".to_owned());
        }
        if !self.jobs.is_sorted_by(|a, b| a.at_s <= b.at_s) {
            return Err("put the jobs in the order of their `at_s`".to_owned());
        }
        if self.jobs.iter().any(|job| job.work != WorkModel::Command && !job.poison.is_empty()) {
            return Err("only units of a command can be poison".to_owned());
        }
        if self.jobs.iter().any(|job| job.work != WorkModel::Command && job.together.is_some()) {
            return Err("only units of a command can be computed together".to_owned());
        }
        let fixed = self.jobs.iter().any(|job| job.units_per_task.is_some() && job.target_s.is_some());
        if fixed {
            return Err("a job has a `target_s` or `units_per_task`, not both".to_owned());
        }
        Ok(())
    }

    /// The same, shorter by `self.shorten`, for tests.
    pub fn shortened(mut self) -> Self {
        let by = std::mem::replace(&mut self.shorten, 1.0);
        for job in &mut self.jobs {
            job.units = ((job.units as f64 / by) as u64).max(1);
            job.at_s /= by;
        }
        for fault in &mut self.faults {
            fault.from_s /= by;
            fault.to_s /= by;
        }
        for line in &mut self.script {
            line.at_s /= by;
        }
        if let Some(law) = &mut self.law {
            law.to_s /= by;
        }
        if let Some(until_s) = &mut self.until_s {
            *until_s /= by;
        }
        // Faults last as long as before, and the last one may hold up the end.
        if let Some(end_by_s) = &mut self.expect.end_by_s {
            *end_by_s = *end_by_s / by + 3_600.0;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "story = \"s\"\n[[nodes]]\ncount = 2\n[[jobs]]\nwork = \"nothing\"\nunits = 5\n\
                         unit_us = 1.0\n[expect]\nend_by_s = 9\n";

    #[test]
    fn what_is_wrong_is_said() {
        assert!(Scenario::parse(SMALL).is_ok());
        let wrong = |more: &str| Scenario::parse(&format!("{SMALL}{more}")).unwrap_err();
        assert!(wrong("colour = 1\n").contains("unknown field `colour`"));
        let line = |what: &str| wrong(&format!("[[script]]\nat_s = 1\n{what}\n"));
        assert!(line("do = \"cancel-job\"\njob = 2").contains("needs a job"));
        assert!(line("do = \"crash\"\nnodes = [1, 2]").contains("nodes 0 to 1"));
        assert!(line("do = \"crash\"").contains("first and last node"));
        assert!(wrong("[settings]\nheartbeat_seconds = 0\n").contains("0.1 to 60 seconds"));
        assert!(wrong("[settings]\ncolour = 1\n").contains("there is no setting \"colour\""));
        let endless = SMALL.replace("end_by_s = 9", "");
        assert!(Scenario::parse(&endless).unwrap_err().contains("must have an end"));
    }
}
