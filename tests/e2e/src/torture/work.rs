//! The job of a run, and what must have come out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use md5::{Digest, Md5};
use serde_json::Value;

use super::plan::{Kind, Plan};
use super::stage::Stage;
use crate::reply::units;

/// So many targets are planted.
const PLANTED: u64 = 1_000;

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

    /// So many runs of programs there were, if that is what the job is made of.
    pub(crate) fn runs(&self) -> Option<u64> {
        (self.kind != Kind::Search).then(|| self.ran().1)
    }

    /// Nothing may be called done that has not run. `done` was told before this is called.
    pub(crate) fn check_meanwhile(&self, done: u64) {
        if self.kind != Kind::Search {
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
            Kind::Command | Kind::Sleep => self.check_outputs(&results["outputs"]),
        }
    }

    /// Each unit has one output, of a run that there was.
    fn check_outputs(&self, outputs: &Value) {
        let attempts = outputs.as_array().into_iter().flatten().map(|output| output["attempt"].as_u64());
        let listed: Vec<_> = units(outputs).into_iter().zip(attempts).collect();
        let counted: BTreeMap<u128, Option<u64>> = listed.iter().copied().collect();
        assert_eq!(listed.len(), counted.len(), "a unit is counted twice");
        assert!(counted.keys().copied().eq(0..u128::from(self.units)), "an output for each unit");
        let (ran, _) = self.ran();
        for (unit, attempt) in counted {
            let attempt = attempt.unwrap_or_else(|| panic!("unit {unit} has no attempt"));
            assert!(ran.contains(&(unit as u64, attempt)), "unit {unit} counts, attempt {attempt} never ran");
        }
    }
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
