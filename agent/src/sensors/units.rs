//! `units`: what the units of each job use that run on this node, one message a job: job, number of units that run, then CPU
//! time, memory and I/O as summaries, each if it is known. What a summary's numbers are of, and how short units count, says
//! `running` of `starfarm-agent-core`. No message from the worker is needed: its file `running` says what runs where.
//!
//! | of a unit | counts | does not |
//! | --- | --- | --- |
//! | CPU time of a program | its process and all descendants, those that have ended included once somebody has waited for them, and daemons of it that others have inherited | what such a daemon used between the last look and its end; of a process that ignores its children's ends, theirs |
//! | CPU time in a thread | the worker's thread, and no other: what a driver's threads do for it is the node's | |
//! | memory | resident pages of all its processes; what several of them share counts for each, so a sum may be more than there is | what is swapped out; a unit in a thread has the worker's memory, so it is not known |
//! | cards | load and memory in use of the cards that it has, as `cards.json` beside `running` says; of one that several units share, each has an equal part | what it does on a card that it was not given |
//! | I/O | read from disks and written to them, as far as the processes may be looked at | what it did between the last look and its end; what the system holds in memory is written when the system likes |
//!
//! The system counts a process's CPU time in ticks, of 10 ms as a rule: a difference is off by one at most, and they do not add
//! up. What the worker says of ended units is exact.
//!
//! Settings: `running`, the path of that file, and `farm`, the farm's id. Whoever makes the stage sets each once, so that no
//! other can point it elsewhere. Until then it says nothing. `only`, a job's number, or `all-but`, the numbers of several: of which
//! jobs it tells; `metrics`: which, by their bits. Jobs with a period of their own have a stage of their own. `apart`, the numbers of
//! several: of their units another post of the node tells, in a tree of their own; what their programs say comes from here, as of no units.
//! `prepare`: the next look says nothing, and the one after it knows what was used since then.

mod family;
mod proc;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use starfarm_agent_core::running::{Accounts, Record, Usage, Used};
use starfarm_agent_core::{Context, Message, Module, Stage, Summary, Type, ids};
use starfarm_protocol::gauges::{self, Gauges};
use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::running::{Runs, Slot, slots};

use crate::program;

use super::accelerators;
use super::measure::{Measure, OUT, PROC, Sensor};
use super::source::Source;
use processes::Processes;

/// This sensor.
pub const MODULE: Module =
    Module { name: Units::NAME, types: &[Type { name: Units::NAME, new: &|| stage(Path::new(PROC)) }] };

/// One that reads below this folder as if it were /proc.
pub fn stage(proc: &Path) -> Box<dyn Stage> {
    let (accounts, processes) = (Accounts::default(), Processes::new(proc));
    let (running, cards, farm, records) = (None, None, None, Vec::new());
    let (jobs, apart, metrics) = (Jobs::default(), Vec::new(), u64::MAX);
    Box::new(Sensor(Units {
        running,
        cards,
        farm,
        records,
        accounts,
        processes,
        looked_us: 0,
        jobs,
        apart,
        silent: BTreeSet::new(),
        metrics,
        prepares: false,
    }))
}

/// A record that says nothing may just be written: it is read so often.
const READS_MAX: usize = 3;
/// After so long, processes whose numbers are known are looked at anew: others may have these numbers now.
const NUMBERS_LAST_US: u64 = 10_000_000;

struct Units {
    running: Option<Source>,
    /// The file beside it that says how cards do.
    cards: Option<PathBuf>,
    farm: Option<FarmId>,
    records: Vec<Record>,
    accounts: Accounts,
    processes: Processes,
    /// When all processes were looked at last.
    looked_us: u64,
    /// Of which jobs it tells.
    jobs: Jobs,
    /// Those of whose units another post tells, and of these the ones of which nothing is to be said any more.
    apart: Vec<JobId>,
    silent: BTreeSet<JobId>,
    /// Which metrics it tells: bit n is the metric with number n.
    metrics: u64,
    /// The next look is for the one after it alone.
    prepares: bool,
}

/// Some jobs.
enum Jobs {
    Only(JobId),
    AllBut(Vec<JobId>),
}

impl Default for Jobs {
    fn default() -> Self {
        Self::AllBut(Vec::new())
    }
}

impl Jobs {
    fn has(&self, job: JobId) -> bool {
        match self {
            Self::Only(only) => *only == job,
            Self::AllBut(others) => !others.contains(&job),
        }
    }
}

impl Units {
    /// Reads the file into `records`.
    fn read(&mut self) -> Option<()> {
        let (farm, running) = (self.farm?, self.running.as_mut()?);
        for _ in 0..READS_MAX {
            self.records.clear();
            self.records.extend(slots(farm, running.read()?));
            if self.records.iter().all(Record::is_ok) {
                break;
            }
        }
        Some(())
    }

    /// Some slot runs a program of the jobs that it measures.
    fn runs_processes(&self) -> bool {
        let mut slots = self.records.iter().flatten().flatten();
        slots.any(|slot| {
            matches!(slot.runs, Runs::Process(_))
                && self.jobs.has(slot.job)
                && !self.apart.contains(&slot.job)
        })
    }

    /// Another post tells of the units of these jobs from now on, and of no others. What it has not looked at meanwhile it looks at
    /// for the first time.
    fn set_apart(&mut self, apart: Vec<JobId>) {
        let is_back = |slot: &Slot| self.apart.contains(&slot.job) && !apart.contains(&slot.job);
        if self.records.iter().flatten().flatten().any(is_back) {
            self.accounts = Accounts::default();
        }
        self.silent.retain(|job| apart.contains(job));
        self.apart = apart;
    }

    /// Processes first and the file after them: so what a process used that has ended meanwhile is in the file, once.
    fn look(&mut self, now_us: u64) -> Option<()> {
        self.read()?;
        if self.runs_processes() {
            let anew = now_us.abs_diff(self.looked_us) > NUMBERS_LAST_US;
            if anew {
                self.looked_us = now_us;
            }
            self.processes.look(anew);
            self.read()?;
        }
        self.processes.belong_to(&self.records);
        Some(())
    }
}

impl Measure for Units {
    const NAME: &'static str = "units";

    fn measure(&mut self, context: &mut Context<'_>) {
        let now_us = context.now_us();
        if self.look(now_us).is_none() {
            // What comes then is another worker's, or is this one's from its start on.
            self.accounts = Accounts::default();
            return;
        }
        let is_told = !std::mem::take(&mut self.prepares);
        let Self { accounts, processes, records, jobs, apart, silent, metrics, cards, .. } = self;
        let cards = cards.as_deref().and_then(accelerators::read);
        let cards = cards.map(|cards| of_cards(&cards, records)).unwrap_or_default();
        let usages = accounts.look(records, now_us, |n, slot| match slot.runs {
            _ if apart.contains(&slot.job) => Used::default(),
            Runs::Process(_) => processes.used(n),
            Runs::Thread(number) => Used { cpu_us: processes.thread_cpu_us(number), ..Used::default() },
            Runs::Nothing | Runs::Somewhere => Used::default(),
        });
        for usage in usages.iter().filter(|usage| is_told && jobs.has(usage.job)) {
            if apart.contains(&usage.job) {
                let tells = usage.units > 0 && program::tells(usage.job, now_us);
                let is_said = if tells { silent.remove(&usage.job) } else { silent.insert(usage.job) };
                if tells || is_said {
                    context.emit(OUT, |message| put_names_alone(usage.job, tells, now_us, message));
                }
                continue;
            }
            context.emit(OUT, |message| {
                put(usage, cards.get(&usage.job), *metrics, message);
                program::put(usage.job, now_us, message);
            });
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let is_set = || Err(format!("`{key}` of `{}` is set already", Self::NAME));
        match key {
            "running" if self.running.is_some() => is_set(),
            "running" if !value.starts_with('/') => Err(format!("`{value}` is no absolute path")),
            "running" => {
                self.cards = Path::new(value).parent().map(|folder| folder.join(gauges::FILE));
                self.running = Some(Source::at(value.into()));
                Ok(())
            }
            "farm" if self.farm.is_some() => is_set(),
            "farm" => {
                let farm = value.parse::<FarmId>();
                self.farm = Some(farm.map_err(|why| format!("`{value}` is no farm's id: {why}"))?);
                Ok(())
            }
            "only" => {
                let job = value.parse().map_err(|_| format!("`{value}` is no job's number"))?;
                self.jobs = Jobs::Only(JobId(job));
                Ok(())
            }
            "all-but" => {
                self.jobs = Jobs::AllBut(numbers(value)?);
                Ok(())
            }
            "apart" => {
                self.set_apart(numbers(value)?);
                Ok(())
            }
            "prepare" => {
                self.prepares = true;
                Ok(())
            }
            "metrics" => {
                self.metrics = value.parse().map_err(|_| format!("`{value}` is no number"))?;
                Ok(())
            }
            _ => Err(format!("`{}` has no setting `{key}`", Self::NAME)),
        }
    }
}

fn numbers(value: &str) -> Result<Vec<JobId>, String> {
    let jobs = value.split_whitespace().map(|job| job.parse().map(JobId));
    jobs.collect::<Result<_, _>>().map_err(|_| format!("`{value}` are no jobs' numbers"))
}

/// Of a job of whose units others tell: what its programs say, or that they say nothing.
fn put_names_alone(job: JobId, tells: bool, now_us: u64, message: &mut Message<'_>) {
    message.put_number(ids::JOB, job.0);
    [ids::UNITS, ids::FROM, ids::OF].into_iter().for_each(|id| message.put_number(id, 0));
    if tells {
        program::put(job, now_us, message);
    }
}

/// Load and memory of the cards that units have.
type OfCards = [Option<Summary>; 2];

/// The same by job, of the units that run and have cards.
fn of_cards(cards: &Gauges, records: &[Record]) -> BTreeMap<JobId, OfCards> {
    let mut jobs: BTreeMap<JobId, OfCards> = BTreeMap::new();
    for (slot, record) in records.iter().enumerate() {
        let unit = record.as_ref().ok().and_then(Option::as_ref).and_then(Slot::unit);
        let Some(((job, _), share)) = unit.zip(cards.share(slot)) else { continue };
        let of_job = jobs.entry(job).or_default();
        for (sum, value) in of_job.iter_mut().zip([share.load, share.memory_bytes]) {
            let value = value.map(Summary::of);
            *sum = sum.zip(value).map(|(sum, value)| sum.and(value)).or(*sum).or(value);
        }
    }
    jobs
}

fn put(usage: &Usage, cards: Option<&OfCards>, metrics: u64, message: &mut Message<'_>) {
    message.put_number(ids::JOB, usage.job.0);
    message.put_number(ids::UNITS, usage.units);
    let [load, card_memory] = cards.copied().unwrap_or_default();
    let figures = [
        (Metric::Cpu, usage.cpu),
        (Metric::Memory, usage.memory),
        (Metric::Io, usage.io),
        (Metric::Gpu, load),
        (Metric::GpuMemory, card_memory),
    ];
    for (metric, summary) in figures {
        if let Some(summary) = summary
            && metrics & (1 << metric as u8) != 0
        {
            message.put(ids::of(metric), &summary.write());
        }
    }
}
