//! The course of a run of power cuts: jobs are submitted, the power is cut, the farm goes on from what was on
//! the disk, and nothing that was acknowledged may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use md5::{Digest, Md5};
use serde_json::Value;
use starfarm_chaos::Random;

use super::disk::{Disk, Lack};
use crate::Signal;
use crate::patience::until;
use crate::reply::units;
use crate::temp::TempDir;
use crate::torture::{Stage, middle, number};
use crate::wiretap::{Intervals, Wiretap};

/// MiB of the disk.
const DISK_MIB: u64 = 512;
/// The power is cut up to so long after a submission.
const LIFE_MAX_MS: u64 = 1_500;
/// Datagrams that were sent before the cut are on their way for less than this.
const WIRE: Duration = Duration::from_millis(100);
/// Digits of the units of a search that is found in a moment, and of the one that fills the state.
const DIGITS: usize = 4;
const FILL_DIGITS: usize = 6;
/// Units of a job of programs.
const PROGRAMS: u64 = 400;

/// How many cuts.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// So many.
    pub count: usize,
    /// Chooses the moments.
    pub seed: u64,
    /// Every how many units of 10^6 the first job has a hit: hits are what a state consists of that does not
    /// shrink.
    pub fill_step: usize,
}

/// Figures of a run in which nothing was lost.
#[derive(Clone, Debug, Default)]
pub struct CutReport {
    /// Power cuts.
    pub cuts: usize,
    /// Results that were acknowledged, in units, and found again.
    pub acknowledged: u128,
    /// Cuts before which nothing new was acknowledged: they prove little.
    pub idle: usize,
    /// Bytes of the state directory before the last cut.
    pub state_bytes: u64,
    /// From each start to the line that says that the scheduler listens.
    pub ready: Vec<Duration>,
}

impl fmt::Display for CutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.state_bytes as f64 / f64::from(1 << 20);
        writeln!(f, "power cuts {}, state {mib:.1} MiB at the end", self.cuts)?;
        writeln!(f, "units acknowledged {}, lost 0; cuts with nothing new {}", self.acknowledged, self.idle)?;
        write!(f, "scheduler ready: {}", middle(&self.ready))
    }
}

/// A job that was acknowledged.
#[derive(Debug)]
struct Job {
    id: String,
    units: u64,
    hits: bool,
    /// All of it was there after a cut: from then on its counters tell enough.
    seen: bool,
}

struct Cutter {
    stage: Stage,
    disk: Option<Disk>,
    tap: Wiretap,
    random: Random,
    jobs: Vec<Job>,
    /// A job that never ends, and whether it was paused.
    waiting: (String, bool),
    report: CutReport,
    acknowledged: u128,
    // Gone last: disks are mounted in it.
    ground: TempDir,
}

/// Cuts the power.
///
/// # Errors
/// There are no loop devices here, or they are not ours.
///
/// # Panics
/// Something that was acknowledged is lost.
pub fn cut_power(cuts: &Cuts) -> Result<CutReport, Lack> {
    let ground = TempDir::new();
    let disk = Disk::ext4(&image(&ground, 0), &mount_point(&ground, 0), DISK_MIB)?;
    let args = ["--no-seal", "--checkpoint-seconds", "1"];
    let mut stage =
        Stage::set_in(TempDir::new(), disk.path().join("farm"), 2, cuts.seed, &args, &["--no-seal"]);
    let tap = Wiretap::on(&stage.proxy);
    stage.start_workers();
    let waiting = stage.submit(&["--name", "waits", "--range", "0..1000000", "--", "true"]);
    stage.cli(&["job", "pause", &waiting]).exits(0);
    let mut cutter = Cutter {
        stage,
        disk: Some(disk),
        tap,
        random: Random::new(cuts.seed),
        jobs: Vec::new(),
        waiting: (waiting, true),
        report: CutReport::default(),
        acknowledged: 0,
        ground,
    };
    cutter.fill(cuts.fill_step);
    for number in 1..=cuts.count {
        cutter.life(number);
        cutter.cut(number);
        cutter.check();
        let mib = cutter.report.state_bytes >> 20;
        eprintln!("cut {number}: state {mib} MiB, {} units acknowledged so far", cutter.acknowledged);
    }
    Ok(cutter.finish())
}

fn image(ground: &TempDir, number: usize) -> PathBuf {
    ground.path().join(format!("disk-{number}.img"))
}

fn mount_point(ground: &TempDir, number: usize) -> PathBuf {
    ground.path().join(format!("disk-{number}"))
}

impl Cutter {
    /// A large state first: with a small one, more is written at once than is asked for.
    fn fill(&mut self, step: usize) {
        self.search(FILL_DIGITS, step, "1000");
        let id = self.jobs[0].id.clone();
        self.stage.cli(&["job", "wait", &id, "--timeout", "200"]).exits(0);
    }

    fn search(&mut self, digits: usize, step: usize, units_per_task: &str) {
        let units = 10_u64.pow(digits as u32);
        let planted = (0..units).step_by(step);
        let targets: Vec<_> =
            planted.map(|unit| format!("{:x}", Md5::digest(format!("{unit:0digits$}")))).collect();
        let text = format!(
            "[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
             targets = {targets:?}\nstop = \"never\"\nunits_per_task = {units_per_task}\n",
            "?d".repeat(digits),
        );
        let path = self.stage.dir.write("job.toml", text);
        let id = self.stage.submit(&["--now", &path.to_string_lossy()]);
        self.jobs.push(Job { id, units, hits: step == 1, seen: false });
    }

    fn programs(&mut self) {
        let range = format!("0..{PROGRAMS}");
        let args = ["--now", "--range", &range, "--units-per-task", "3", "--", "printf", "%0300d", "{}"];
        let id = self.stage.submit(&args);
        self.jobs.push(Job { id, units: PROGRAMS, hits: false, seen: false });
    }

    /// Something to acknowledge.
    fn life(&mut self, number: usize) {
        match number % 2 {
            0 => self.search(DIGITS, 1, "1"),
            _ => self.programs(),
        }
        let life = Duration::from_millis(self.random.below(LIFE_MAX_MS));
        std::thread::sleep(life);
        let (id, paused) = &mut self.waiting;
        self.stage.cli(&["job", if *paused { "resume" } else { "pause" }, id]).exits(0);
        *paused = !*paused;
    }

    /// The power fails; the farm goes on from what is on the disk.
    fn cut(&mut self, number: usize) {
        let disk = self.disk.take().expect("a disk is mounted");
        self.stage.scheduler().signal(Signal::STOP);
        let pid = self.stage.scheduler().pid().as_raw_nonzero().get();
        until("the scheduler stands still", || stands_still(pid));
        std::thread::sleep(WIRE);
        let state = self.stage.state().clone();
        self.report.state_bytes = bytes_below(&state);
        disk.copy_image(&image(&self.ground, number));
        self.stage.kill_scheduler();
        drop(disk);
        let _ = std::fs::remove_file(image(&self.ground, number - 1));
        let disk = Disk::mount_image(&image(&self.ground, number), &mount_point(&self.ground, number));
        let disk = disk.unwrap_or_else(|lack| panic!("after the cut: {}", lack.0));
        self.stage.set_state(disk.path().join("farm"));
        self.disk = Some(disk);
        self.report.cuts += 1;
        self.stage.audit();
        self.stage.start_scheduler();
        until("the scheduler is ready", || self.stage.is_ready());
        self.report.ready.push(self.stage.since_start());
    }

    /// What was acknowledged before the cut is there.
    fn check(&mut self) {
        let acknowledged = self.tap.acknowledged();
        let count: u128 = acknowledged.values().map(Intervals::count).sum();
        self.report.idle += usize::from(count == self.acknowledged);
        self.acknowledged = count;
        let shown = self.stage.ask(&["jobs"])["jobs"].take();
        let shown: BTreeMap<String, &Value> =
            shown.as_array().into_iter().flatten().map(|job| (job["id"].to_string(), job)).collect();
        let (id, paused) = &self.waiting;
        let waiting = shown.get(id).unwrap_or_else(|| panic!("job {id} was acknowledged and is lost"));
        assert_eq!(waiting["state"] == "paused", *paused, "{waiting}");
        for job in &mut self.jobs {
            let found =
                shown.get(&job.id).unwrap_or_else(|| panic!("job {} was acknowledged and is lost", job.id));
            let ended = found["state"] == "finished";
            assert!(ended || !job.seen, "a job that had ended goes on: {found}");
            let id: u64 = job.id.parse().expect("a job's number");
            if let Some(acknowledged) = acknowledged.get(&id).filter(|_| !job.seen) {
                check_job(&self.stage, job, found, acknowledged);
            }
            job.seen |= ended;
        }
    }

    /// All jobs come to their end, exact as ever.
    fn finish(mut self) -> CutReport {
        self.stage.cli(&["job", "cancel", &self.waiting.0]).exits(0);
        for job in &self.jobs {
            self.stage.cli(&["job", "wait", &job.id, "--timeout", "120"]).exits(0);
        }
        for job in &self.jobs {
            check_job(&self.stage, job, &self.stage.job(&job.id), &Intervals::up_to(job.units));
        }
        self.stage.end_workers();
        self.stage.scheduler().signal(Signal::TERM);
        self.stage.scheduler().wait();
        self.stage.audit();
        self.report.acknowledged = self.acknowledged;
        assert!(self.report.idle < self.report.cuts, "nothing was ever acknowledged: nothing is proved");
        self.report
    }
}

/// Requires that a job's results hold each of these units.
fn check_job(stage: &Stage, job: &Job, shown: &Value, acknowledged: &Intervals) {
    let (count, done) = (acknowledged.count(), u128::from(number(shown, "units_done")));
    assert!(count <= done, "{count} units were acknowledged of {shown}");
    let listed = match job.hits {
        true => "hits",
        false if job.units == PROGRAMS => "outputs",
        false => return,
    };
    let there: BTreeSet<u128> = units(&stage.ask(&["results", &job.id])[listed]).into_iter().collect();
    let lost: Vec<_> = acknowledged.units().filter(|unit| !there.contains(unit)).collect();
    assert!(lost.is_empty(), "acknowledged and lost of job {}: {lost:?}", job.id);
}

/// Whether all threads of a process are stopped: what they had asked the disk for has been answered.
fn stands_still(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = tasks.map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    });
    states.all(|state| matches!(state, Some('T') | None))
}

fn bytes_below(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            _ => entry.metadata().map_or(0, |data| data.len()),
        })
        .sum()
}
