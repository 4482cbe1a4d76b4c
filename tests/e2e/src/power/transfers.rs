//! Disks that fill up while files come and go. At the scheduler the job waits for room, and no unit is called done whose
//! files are not there; a worker without room for a job's files lets others compute it, and no unit fails by that.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::disk::{Disk, Lack};
use crate::Signal;
use crate::patience::until;
use crate::temp::TempDir;
use crate::torture::{Stage, number};

/// KiB of the scheduler's disk: some MiB for the ballast and the journal, some below the mark, and room for some files.
const DISK_KIB: u64 = 56 << 10;
/// The same once somebody has made room.
const ROOM_KIB: u64 = 256 << 10;
/// With less room than this no program is started.
const LOW_WATER_MIB: u64 = 20;
/// Units of a job, each with a file of [`FILE_BYTES`].
const UNITS: u64 = 60;
const FILE_BYTES: u64 = 1 << 20;
/// Between two looks that must see the same.
const SETTLES: Duration = Duration::from_secs(2);
/// KiB of the disk of a worker.
const WORKER_KIB: u64 = 16 << 10;
/// MiB of a file for which there is no room there.
const INPUT_MIB: usize = 24;
/// MiB of a file that can be made there, but not packed.
const OUTPUT_MIB: u64 = 9;

/// What was seen.
#[derive(Clone, Debug)]
pub struct TransferReport {
    /// Units whose files were there when the scheduler's disk was full.
    pub kept: u64,
    /// What was said of the job that waited.
    pub note: String,
    /// What the worker said that had no room.
    pub refusals: Vec<String>,
}

impl fmt::Display for TransferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scheduler full with the files of {} of {UNITS} units: {}", self.kept, self.note)?;
        write!(f, "worker full: {}", self.refusals.join("; "))
    }
}

/// Fills the disk of a scheduler with files, then that of a worker.
///
/// # Errors
/// Nothing can be mounted here.
///
/// # Panics
/// A file is lost, or a unit fails, or nobody says why a job waits.
pub fn fill_transfers() -> Result<TransferReport, Lack> {
    let (kept, note) = at_scheduler()?;
    Ok(TransferReport { kept, note, refusals: at_worker()? })
}

fn at_scheduler() -> Result<(u64, String), Lack> {
    let ground = TempDir::new();
    let disk = Disk::tmpfs(&ground.path().join("disk"), DISK_KIB)?;
    let flags = ["--low-water-mib", &LOW_WATER_MIB.to_string()];
    let mut stage = Stage::set_in(TempDir::new(), disk.path().join("farm"), 2, 1, &flags, &[]);
    stage.start_workers();
    let id =
        submit(&stage, &[], &format!("{{ echo {{}}; head -c {FILE_BYTES} /dev/zero; }} > made{{}}"), UNITS);
    let waits = |job: &Value| job["note"].as_str().is_some_and(|note| note.contains("room"));
    // What runs has to end yet, and its files are not taken.
    let mut before = 0;
    until("the job waits for room", || {
        let job = stage.job(&id);
        let done = number(&job, "units_done");
        std::thread::sleep(SETTLES);
        waits(&job) && done == std::mem::replace(&mut before, done)
    });
    let job = stage.job(&id);
    let kept = number(&job, "units_done");
    assert!(0 < kept && kept < UNITS && number(&job, "units_failed") == 0, "{job}");
    assert_eq!(files(&stage, &id, "early"), kept, "what is done has its files");
    disk.resize(ROOM_KIB);
    stage.cli(&["job", "wait", &id, "--timeout", "120"]).exits(0);
    assert_eq!(files(&stage, &id, "all"), UNITS);
    stage.end_workers();
    stage.scheduler().signal(Signal::TERM);
    stage.scheduler().wait();
    stage.cli(&["audit", "--outputs", &stage.state().to_string_lossy()]).exits(0);
    Ok((kept, job["note"].as_str().unwrap_or_default().to_owned()))
}

fn at_worker() -> Result<Vec<String>, Lack> {
    let mut stage = Stage::set(2, 1, &[]);
    let state = stage.dir.path().join("state-w00");
    let _disk = Disk::tmpfs(&state, WORKER_KIB)?;
    stage.dir.write("wood.bin", vec![7; INPUT_MIB << 20]);
    stage.start_worker(0);
    let jobs = [
        submit(&stage, &["wood.bin"], "wc -c < wood.bin > made{}", 3),
        submit(&stage, &[], &format!("head -c {} /dev/zero > made{{}}", OUTPUT_MIB << 20), 3),
    ];
    let mut refusals = Vec::new();
    for id in &jobs {
        until("the full worker says that it cannot", || {
            let job = stage.job(id);
            assert_eq!(number(&job, "units_failed"), 0, "{job}");
            // What all units need, or what each makes.
            let waits = job["note"].as_str().filter(|note| note.contains("whose disk has room"));
            let why = job["refused_by"][0]["why"].as_str().or(waits).map(str::to_owned);
            why.into_iter().map(|why| refusals.push(why)).count() > 0
        });
    }
    stage.start_worker(1);
    for (id, bytes) in jobs.iter().zip(["25165824\n".len() as u64, OUTPUT_MIB << 20]) {
        stage.cli(&["job", "wait", id, "--timeout", "120"]).exits(0);
        let folder = stage.dir.path().join(id);
        assert_eq!(files(&stage, id, id), 3);
        let length = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
        assert!((0..3).all(|unit| length(&format!("made{unit}")) == bytes), "the files of job {id}");
    }
    Ok(refusals)
}

/// Submits a job of so many units, each of which makes a file.
fn submit(stage: &Stage, inputs: &[&str], script: &str, units: u64) -> String {
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"{script}\"]\ninputs = {inputs:?}\noutputs = [\"made{{}}\"]\n"
    );
    let path = stage.dir.write("files.toml", text);
    stage.submit(&[&path.to_string_lossy()])
}

/// Writes the files of a job into a folder of that name; how many there are.
fn files(stage: &Stage, id: &str, name: &str) -> u64 {
    let folder = stage.dir.path().join(name);
    stage.cli(&["results", id, "--dir", &folder.to_string_lossy()]).exits(0);
    count(&folder)
}

fn count(folder: &Path) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}
