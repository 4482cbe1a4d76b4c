//! The job of a run, and what must have come out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use md5::{Digest, Md5};
use serde_json::Value;

use super::plan::{Kind, Plan};
use super::stage::Stage;
use crate::reply::units;

/// So many targets are planted.
const PLANTED: u64 = 1_000;
/// Bytes of the file that comes along; what a unit makes of it is longer by the unit's number.
const WOOD_BYTES: u32 = 1 << 20;

/// A job that was submitted.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: String,
    kind: Kind,
    units: u64,
    /// Where programs append what they are.
    log: PathBuf,
}

impl Work {
    pub(crate) fn submit(stage: &Stage, plan: &Plan) -> Self {
        let log = stage.dir.path().join("ran");
        let id = match plan.kind {
            Kind::Search => {
                let path = stage.dir.write("torture.toml", search(plan));
                stage.submit(&[&path.to_string_lossy()])
            }
            Kind::Command | Kind::Sleep => {
                let sleep = if plan.kind == Kind::Sleep { "; sleep 1" } else { "" };
                let script = format!("echo {{}} $STARFARM_ATTEMPT >> {}{sleep}", log.display());
                let (range, size) = (format!("0..{}", plan.units), plan.units_per_task.to_string());
                let args = ["--name", "torture", "--range", &range, "--units-per-task", &size];
                stage.submit(&[&args[..], &["--", "sh", "-c", &script]].concat())
            }
            Kind::Files => {
                stage.dir.write("wood.bin", wood());
                let path = stage.dir.write("torture.toml", files(plan));
                stage.submit(&[&path.to_string_lossy()])
            }
        };
        Self { id, kind: plan.kind, units: plan.units, log }
    }

    /// What has run, as (unit, attempt), by the programs' own account, and in how many runs.
    fn ran(&self) -> (BTreeSet<(u64, u64)>, u64) {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        let run = |line: &str| {
            let mut words = line.split(' ');
            number(words.next()).zip(number(words.next())).unwrap_or_else(|| panic!("a torn line: {line}"))
        };
        let runs = text.lines().map(run);
        (runs.clone().collect(), runs.count() as u64)
    }

    /// Its programs leave word of each run.
    fn tells_runs(&self) -> bool {
        matches!(self.kind, Kind::Command | Kind::Sleep)
    }

    /// So many runs of programs there were, if that is what the job is made of.
    pub(crate) fn runs(&self) -> Option<u64> {
        self.tells_runs().then(|| self.ran().1)
    }

    /// Nothing may be called done that has not run. `done` was told before this is called.
    pub(crate) fn check_meanwhile(&self, done: u64) {
        if self.tells_runs() {
            let (ran, _) = self.ran();
            let units: BTreeSet<u64> = ran.into_iter().map(|(unit, _)| unit).collect();
            assert!(done <= units.len() as u64, "{done} units are called done, {} have run", units.len());
        }
    }

    /// Everything that must be so at the end. `job` is the job as the farm shows it.
    pub(crate) fn check(&self, stage: &Stage, job: &Value) {
        assert_eq!(job["state"], "finished", "{job}");
        let zero = ["units_failed", "units_abandoned", "units_out", "units_pending"];
        for (key, value) in zero.map(|key| (key, 0)).into_iter().chain([("units_done", self.units)]) {
            assert_eq!(job[key], value.to_string(), "{key} of {job}");
        }
        let results = stage.ask(&["results", &self.id]);
        match self.kind {
            Kind::Search => {
                let found = units(&results["hits"]);
                let planted: Vec<u128> = planted(self.units).map(u128::from).collect();
                assert_eq!(found, planted, "each planted hit is there once");
            }
            Kind::Command | Kind::Sleep => self.check_runs(&self.outputs(&results)),
            Kind::Files => {
                self.outputs(&results);
                self.check_files(stage);
            }
        }
    }

    /// The attempts that count: each unit has one output.
    fn outputs(&self, results: &Value) -> BTreeMap<u128, Option<u64>> {
        let outputs = &results["outputs"];
        let attempts = outputs.as_array().into_iter().flatten().map(|output| output["attempt"].as_u64());
        let listed: Vec<_> = units(outputs).into_iter().zip(attempts).collect();
        let counted: BTreeMap<u128, Option<u64>> = listed.iter().copied().collect();
        assert_eq!(listed.len(), counted.len(), "a unit is counted twice");
        assert!(counted.keys().copied().eq(0..u128::from(self.units)), "an output for each unit");
        counted
    }

    /// What counts is of runs that there were.
    fn check_runs(&self, counted: &BTreeMap<u128, Option<u64>>) {
        let (ran, _) = self.ran();
        for (&unit, &attempt) in counted {
            let attempt = attempt.unwrap_or_else(|| panic!("unit {unit} has no attempt"));
            assert!(ran.contains(&(unit as u64, attempt)), "unit {unit} counts, attempt {attempt} never ran");
        }
    }

    /// Each unit has its file, whole and right.
    fn check_files(&self, stage: &Stage) {
        let folder = stage.dir.path().join("made");
        stage.cli(&["results", &self.id, "--dir", &folder.to_string_lossy()]).exits(0);
        assert_eq!(fs::read_dir(&folder).expect("it was made").count() as u64, self.units);
        let wood = wood();
        for unit in 0..self.units {
            let made = fs::read(folder.join(format!("made{unit}.bin"))).expect("a file for each unit");
            assert!(made == [format!("{unit}\n").as_bytes(), &wood].concat(), "the file of unit {unit}");
        }
    }
}

/// The file that comes along.
fn wood() -> Vec<u8> {
    (0..WOOD_BYTES).map(|at| (at / 3) as u8).collect()
}

/// A job whose units make a file each of the one that comes along.
fn files(plan: &Plan) -> String {
    format!(
        "name = \"torture\"\n[space]\nkind = \"range\"\nfrom = 0\nto = {}\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"sleep 0.2; {{ echo {{}}; cat wood.bin; }} > made{{}}.bin\"]\n\
         inputs = [\"wood.bin\"]\noutputs = [\"made{{}}.bin\"]\nunits_per_task = {}\n",
        plan.units, plan.units_per_task
    )
}

fn planted(units: u64) -> impl Iterator<Item = u64> {
    // Neither the first units of tasks nor the last ones only: the step fits no size of a task.
    let step = (units / PLANTED.min(units)).max(2) - 1;
    (0..units).step_by(step as usize)
}

/// A search through all numbers of as many digits as the units need.
fn search(plan: &Plan) -> String {
    let digits = plan.units.ilog10() as usize;
    assert_eq!(plan.units, 10_u64.pow(digits as u32), "the units of a search are a power of ten");
    let targets: Vec<_> =
        planted(plan.units).map(|unit| format!("{:x}", Md5::digest(format!("{unit:0digits$}")))).collect();
    format!(
        "name = \"torture\"\n[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = {targets:?}\nstop = \"never\"\nunits_per_task = {}\n",
        "?d".repeat(digits),
        plan.units_per_task
    )
}
