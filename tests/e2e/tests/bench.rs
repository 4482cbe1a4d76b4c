//! `starfarm bench dispatch`, as scripts use it.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{TempDir, program, run, running_with, until};

#[test]
fn the_figures_have_the_contracts_keys_and_fit_together() {
    let dir = TempDir::new();
    let mut command = program("starfarm", dir.path());
    command.env("TMPDIR", dir.path());
    command.args(["bench", "dispatch", "--tasks", "20000", "--nodes", "2", "--output", "json"]);
    let report = run(command).exits(0).json();
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    let mut contract = [
        "schema",
        "tasks",
        "nodes",
        "seconds",
        "tasks_per_s",
        "scheduler_cpu_us_per_task",
        "log_events_dropped",
    ];
    contract.sort_unstable();
    assert_eq!(keys, contract);
    assert_eq!((&report["tasks"], &report["nodes"]), (&20_000.into(), &2.into()));
    let number = |key: &str| report[key].as_f64().unwrap();
    let tasks = number("tasks_per_s") * number("seconds");
    assert!((tasks / 20_000.0 - 1.0).abs() < 0.01, "{report}");
    let cpu = number("scheduler_cpu_us_per_task");
    assert!(cpu > 0.0 && cpu < 1_000.0, "{report}");
    let marker = dir.path().to_string_lossy().into_owned();
    until("all that was started has gone", || running_with(&marker).is_empty());
}

#[test]
fn a_plan_is_the_scaling_law_with_what_was_measured_here() {
    let dir = TempDir::new();
    let mut command = program("starfarm", dir.path());
    command.env("TMPDIR", dir.path());
    command.args(["plan", "--slots", "4", "--target-seconds", "60", "--tasks", "20000", "--output", "json"]);
    let plan = run(command).exits(0).json();
    assert_eq!(plan["schema"], "starfarm/plan/1");
    let number = |key: &str| plan[key].as_f64().unwrap();
    let law = number("target_seconds") / (number("slots") * number("dispatch_us") / 1e6);
    assert_eq!(number("nodes_max"), law.floor(), "{plan}");
    assert_eq!((number("slots"), number("target_seconds")), (4.0, 60.0));
}
