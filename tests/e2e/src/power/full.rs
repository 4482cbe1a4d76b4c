//! A disk that fills up under a running scheduler: first it takes no new job and starts no program, and goes on by
//! itself when there is room; without a low-water mark it stops in words, and has all that it acknowledged when it is
//! started again.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use super::disk::{Disk, Lack};
use crate::Signal;
use crate::patience::{until, until_some};
use crate::reply::units;
use crate::temp::TempDir;
use crate::torture::{Stage, number};
use crate::wiretap::{Intervals, Wiretap};

/// KiB of the disk: some MiB for the ballast and the journal, and the rest for a stranger.
const DISK_KIB: u64 = 48 << 10;
/// No new job with less room than this.
const LOW_WATER_MIB: u64 = 20;
/// Units of the job, each a program that writes 300 bytes, which travel in its result.
const UNITS: u64 = 3_000;
/// A stranger writes so much at a time.
static FILLER: [u8; 65_536] = [7; 65_536];

/// What was seen.
#[derive(Clone, Debug)]
pub struct FullReport {
    /// Units that were acknowledged when the scheduler stopped; all of them are there.
    pub acknowledged: u128,
    /// What it said about the new job.
    pub refusal: String,
    /// Its last words.
    pub last_words: String,
}

impl fmt::Display for FullReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a new job: {}", self.refusal)?;
        writeln!(f, "the end: {}", self.last_words)?;
        write!(f, "units acknowledged by then {}, lost 0", self.acknowledged)
    }
}

/// Fills the disk of a scheduler.
///
/// # Errors
/// Nothing can be mounted here.
///
/// # Panics
/// Something that was acknowledged is lost, or the scheduler does not stop, or says nothing.
pub fn fill_disk() -> Result<FullReport, Lack> {
    let ground = TempDir::new();
    let disk = Disk::tmpfs(&ground.path().join("disk"), DISK_KIB)?;
    let mark = LOW_WATER_MIB.to_string();
    let flags = |mark| ["--no-seal", "--checkpoint-seconds", "1", "--low-water-mib", mark];
    let farm = disk.path().join("farm");
    let mut stage = Stage::set_in(TempDir::new(), farm, 2, 1, &flags(&mark), &["--no-seal"]);
    let tap = Wiretap::on(&stage.proxy);
    stage.start_workers();
    let range = format!("0..{UNITS}");
    let args = ["--range", &range, "--units-per-task", "5", "--", "printf", "%0300d", "{}"];
    let id = stage.submit(&args);
    until("it works", || number(&stage.job(&id), "units_done") > 100);

    let filler = disk.path().join("filler");
    fill(&filler, |free_mib| free_mib >= LOW_WATER_MIB - 2);
    let refused = stage.cli(&["submit", "--range", "0..3", "--", "true"]);
    assert_ne!(refused.code, 0, "a new job is taken with less than {LOW_WATER_MIB} MiB left");
    until("no program runs", || {
        let job = stage.job(&id);
        number(&job, "units_out") == 0 && job["note"].as_str().is_some_and(|note| note.contains("room"))
    });
    let done = number(&stage.job(&id), "units_done");
    assert!(done < UNITS, "it was full too late: nothing is proved");
    let _ = std::fs::remove_file(&filler);
    until("the job goes on by itself", || number(&stage.job(&id), "units_done") > done);

    stage.scheduler().signal(Signal::TERM);
    stage.scheduler().wait();
    stage.set_scheduler_args(&flags("0"));
    stage.start_scheduler();
    until("the scheduler is ready", || stage.is_ready());
    // Whatever is given back is taken again.
    let code = until_some("the scheduler stops", || {
        fill(&filler, |_| true);
        stage.scheduler().poll()
    });
    assert!(code > 0 && code < 128, "it ends by itself: {code}");
    let log = stage.scheduler_log();
    let last_words = log.lines().rev().find(|line| line.contains("room")).unwrap_or_default().to_owned();
    assert!(!last_words.is_empty(), "it says what to do: {log}");
    let acknowledged = tap.acknowledged().remove(&number_of(&id)).unwrap_or_default();
    assert!(acknowledged.count() > 0, "nothing was acknowledged: nothing is proved");

    let _ = std::fs::remove_file(&filler);
    stage.start_scheduler();
    until("the scheduler is ready", || stage.is_ready());
    require(&stage, &id, &acknowledged);
    stage.submit(&["--range", "0..3", "--", "true"]);
    stage.cli(&["job", "wait", &id, "--timeout", "120"]).exits(0);
    require(&stage, &id, &Intervals::up_to(UNITS));
    stage.end_workers();
    stage.scheduler().signal(Signal::TERM);
    stage.scheduler().wait();
    stage.audit();
    Ok(FullReport {
        acknowledged: acknowledged.count(),
        refusal: refused.stderr.trim().to_owned(),
        last_words,
    })
}

/// Writes on while so many MiB are free and it is wanted, and there is room.
fn fill(path: &Path, wanted: impl Fn(u64) -> bool) {
    let file = File::options().create(true).append(true).open(path);
    let mut file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let free_mib = || rustix::fs::statvfs(path).map_or(0, |disk| (disk.f_bavail * disk.f_frsize) >> 20);
    while wanted(free_mib()) && file.write_all(&FILLER).is_ok() {}
}

fn number_of(id: &str) -> u64 {
    id.parse().expect("a job's number")
}

/// Each of these units has its output, all of it.
fn require(stage: &Stage, id: &str, wanted: &Intervals) {
    let outputs = stage.ask(&["results", id])["outputs"].take();
    let there: BTreeSet<u128> = units(&outputs).into_iter().collect();
    let text = |output: &Value| output["stdout"]["text"].as_str().map_or(0, str::len);
    let cut: Vec<_> = outputs.as_array().into_iter().flatten().filter(|output| text(output) != 300).collect();
    assert!(cut.is_empty(), "not kept: {cut:?}");
    let lost: Vec<_> = wanted.units().filter(|unit| !there.contains(unit)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}
