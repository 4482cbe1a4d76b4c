//! Jobs that run programs: what they are given, what comes back, how they fail.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;
use starfarm_e2e::{Farm, each_done_once, stdouts, units};

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Submits, waits for success, and returns what each unit wrote, in the order of the units.
fn written(farm: &Farm, args: &[&str]) -> Vec<String> {
    let id = farm.submit(args);
    farm.wait(&id).exits(0);
    stdouts(&farm.results(&id)).into_values().collect()
}

#[test]
fn a_program_runs_for_each_unit_and_only_its_own_braces_are_filled() {
    let farm = Farm::with_workers(1, 2);
    let lines =
        written(&farm, &["--range", "-2..18", "--", "echo", "{}", "{index}", "{other}", "{{}}", "$HOME"]);
    let expected: Vec<String> =
        (0..20).map(|i| format!("{} {i} {{other}} {{{}}} $HOME\n", i - 2, i - 2)).collect();
    assert_eq!(lines, expected);

    let grid = ["--grid", "size=1,2,3", "--grid", "mode=a,b", "--", "echo", "{size}-{mode}"];
    assert_eq!(written(&farm, &grid), ["1-a\n", "1-b\n", "2-a\n", "2-b\n", "3-a\n", "3-b\n"]);

    let odd = ["plain", "two words", "it's $(not) `a` \"shell\"", "{}", "größe"];
    let list = farm.temp().write("odd.txt", odd.join("\n"));
    let lines = written(&farm, &["--lines", &list.to_string_lossy(), "--", "printf", "%s", "{}"]);
    assert_eq!(lines, odd);
}

#[test]
fn frames_carry_a_clock_and_the_environment_tells_who_runs() {
    let farm = Farm::with_workers(1, 1);
    let id = farm.submit_text(
        r#"
name = "film"
[space]
kind = "frames"
first = 10
last = 14
[task]
executor = "command"
program = ["sh", "-c", "echo {} {clock} $SCENE $STARFARM_JOB $STARFARM_UNIT_INDEX $((STARFARM_ATTEMPT > 0))"]
env = { SCENE = "s{}" }
"#,
    );
    farm.wait(&id).exits(0);
    let lines: Vec<String> = stdouts(&farm.results(&id)).into_values().collect();
    let expected: Vec<String> =
        (0..5).map(|i| format!("{0} {1} s{0} {id} {i} 1\n", 10 + i, f64::from(i) / 4.0)).collect();
    assert_eq!(lines, expected);
    assert_eq!(farm.job(&id)["name"], "film");
}

#[test]
fn failed_units_are_told_apart_and_the_others_are_done() {
    let farm = Farm::with_workers(1, 2);
    let hang = farm.forever();
    let script = format!("case {{}} in 0) exit 0;; 1) exit 7;; 2) kill -SEGV $$;; 3) {hang};; esac");
    let id = farm.submit(&["--range", "0..5", "--timeout-seconds", "0.5", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(1);
    let job = farm.job(&id);
    assert_eq!(
        (&job["state"], &job["units_done"], &job["units_failed"]),
        (&"failed".into(), &"2".into(), &"3".into())
    );
    let results = farm.results(&id);
    let failed = results["failed"].as_array().unwrap();
    assert_eq!(units(&results["failed"]), [1, 2, 3]);
    let said: Vec<_> =
        failed.iter().map(|unit| (unit["reason"].as_str().unwrap(), &unit["exit_code"])).collect();
    assert_eq!(said, [("exit", &7.into()), ("signal", &Value::Null), ("timeout", &Value::Null)]);
}

#[test]
fn results_have_the_keys_and_types_of_the_contract() {
    let farm = Farm::with_workers(1, 1);
    let id = farm.submit(&["--range", "0..2", "--", "sh", "-c", "echo out; echo err >&2; exit {}"]);
    farm.wait(&id).exits(1);
    let results = farm.results(&id);
    assert_eq!(results["schema"], "starfarm/results/1");
    let output = &results["outputs"][0];
    let contract = ["unit", "attempt", "stdout", "stderr", "files"];
    assert!(contract.iter().all(|key| keys(output).contains(key)), "{output}");
    assert!(
        output["unit"].is_string() && output["attempt"].is_u64() && output["files"] == Value::Array(vec![])
    );
    assert_eq!((&output["stdout"]["text"], &output["stderr"]["text"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!(keys(&results["failed"][0]), BTreeSet::from(["unit", "reason", "exit_code", "node"]));

    let jobs = farm.ask(&["jobs"]);
    let job = &jobs["jobs"][0];
    assert_eq!(jobs["schema"], "starfarm/jobs/1");
    assert_eq!(job["id"].to_string(), id);
    assert!(
        ["name", "state", "units_total", "units_done", "units_failed"].iter().all(|key| job[key].is_string())
    );

    let node = farm.ask(&["nodes"])["nodes"][0].take();
    assert!(node["name"] == "w1" && node["state"] == "up" && node["slots"] == 1 && node["power"].is_number());
    let status = farm.status();
    assert!(["gq", "dq", "jq", "resent", "epoch"].iter().all(|key| status[key].is_u64()), "{status}");
    let lines = farm.cli(&["--output", "jsonl", "results", &id]);
    let schemas: Vec<Value> = lines
        .exits(0)
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["schema"].take())
        .collect();
    assert_eq!(schemas, ["starfarm/failed/1", "starfarm/output/1", "starfarm/output/1"]);
}

#[test]
fn short_output_rides_inline_and_long_output_by_the_bulk_channel() {
    let farm = Farm::with_workers(1, 2);
    let lengths = [0, 1, 511, 512, 513, 70_000, 300_000];
    let script = r#"awk -v n={} 'BEGIN { for (i = 0; i < n; i++) printf "%c", 97 + (i * 7 + n) % 26 }'"#;
    let list = farm.temp().write("lengths.txt", lengths.map(|n| n.to_string()).join("\n"));
    let id = farm.submit(&["--lines", &list.to_string_lossy(), "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    for (unit, text) in stdouts(&results) {
        let length = lengths[unit as usize];
        let expected: String = (0..length).map(|i| char::from(97 + ((i * 7 + length) % 26) as u8)).collect();
        assert_eq!(text.len(), length);
        assert!(text == expected, "unit {unit} came back changed");
    }
    for output in results["outputs"].as_array().unwrap() {
        let length = lengths[output["unit"].as_str().unwrap().parse::<usize>().unwrap()];
        assert_eq!(output["stdout"]["total"], length);
        assert_eq!(output["stdout"]["hash"].is_string(), length > 512, "{length} B");
    }
}

#[test]
fn output_that_is_no_text_comes_back_byte_for_byte() {
    let farm = Farm::with_workers(1, 1);
    let id = farm.submit(&["--range", "0..1", "--", "printf", r"\377\000a"]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.results(&id)["outputs"][0]["stdout"]["hex"], "ff0061");
}

#[test]
fn a_failed_unit_is_tried_again_as_often_as_asked() {
    let farm = Farm::with_workers(1, 2);
    // Succeeds at the third try: a line of its file for each.
    let tries = farm.temp().path().join("tries-{}");
    let script = format!("echo $STARFARM_ATTEMPT >> {0}; test $(wc -l < {0}) -ge 3", tries.display());
    let id = farm.submit(&["--range", "0..4", "--retries", "2", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.job(&id)["units_done"], "4");
    let attempts = std::fs::read_to_string(farm.temp().path().join("tries-1")).unwrap();
    let different: BTreeSet<&str> = attempts.lines().collect();
    assert_eq!(different.len(), 3, "each try sees a number of its own: {attempts}");

    let id = farm.submit(&["--range", "10..12", "--retries", "1", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(1);
    assert_eq!(farm.job(&id)["units_failed"], "2");
    let lines = std::fs::read_to_string(farm.temp().path().join("tries-10")).unwrap();
    assert_eq!(lines.lines().count(), 2, "one retry means two tries");
}

/// A part of a task longer than a moment leaves before the task's end, so a retry can come between.
#[test]
fn slow_units_that_fail_are_tried_again_at_once() {
    let farm = Farm::with_workers(2, 2);
    let id = farm.submit(&["--range", "0..4", "--retries", "2", "--", "sh", "-c", "sleep 0.3; exit 7"]);
    farm.wait(&id).exits(1);
    assert_eq!(farm.job(&id)["units_failed"], "4");
    assert!(farm.node_state("w1") == "up" && farm.node_state("w2") == "up", "no node is to blame");
}

/// Every idle slot gets a task before any node gets work ahead.
#[test]
fn few_units_are_spread_over_all_slots() {
    let farm = Farm::with_workers(2, 2);
    // None ends before all four run: where they do not, this never ends.
    let begun = farm.temp().path().join("begun");
    let script = format!(
        "echo {{}} >> {0}; while test -e {0} && test $(wc -l < {0}) -lt 4; do sleep 0.02; done",
        begun.display()
    );
    let id = farm.submit(&["--range", "0..4", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    let on = |node: &str| {
        let outputs = results["outputs"].as_array().unwrap();
        outputs.iter().filter(|output| output["node"] == node).count()
    };
    assert_eq!((on("w1"), on("w2")), (2, 2));
}

#[test]
fn job_wait_tells_by_its_exit_code() {
    let farm = Farm::with_workers(1, 1);
    let hanging = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    let reply = farm.cli(&["job", "wait", &hanging, "--timeout", "0.2"]);
    reply.exits(124).says(&["has not ended"]);
    farm.cli(&["job", "cancel", &hanging]).exits(0);
    farm.wait(&hanging).exits(1);
    farm.cli(&["job", "wait", "999"]).exits(4);
    farm.cli(&["submit", "--wait", "--range", "0..3", "--", "true"]).exits(0);
    farm.cli(&["submit", "--wait", "--range", "0..3", "--", "false"]).exits(1);
    let forever = farm.forever();
    let args = ["submit", "--wait", "--timeout", "0.2", "--range", "0..1", "--", "sh", "-c", &forever];
    farm.cli(&args).exits(124);
}

/// It waits for a person, who may be the one that waits here, or a script, which can do nothing for it.
#[test]
fn whoever_waits_for_a_job_that_the_farm_pauses_is_told_so() {
    let farm = Farm::with_workers(1, 1);
    let submit = ["submit", "--wait", "--max-failures", "2", "--units-per-task", "1", "--range", "0..40"];
    let failing = [&submit[..], &["--", "false"]].concat();
    farm.cli(&failing).exits(8).says(&["is paused", "max_failures is 2", "starfarm results"]);
    farm.cli(&["job", "wait", "1"]).exits(8);
    farm.cli(&["job", "wait", "--wait-paused", "--timeout", "0.5", "1"]).exits(124);
}

#[test]
fn several_workers_share_a_job_and_each_unit_is_counted_once() {
    let farm = Farm::with_workers(3, 1);
    let id = farm.submit(&["--range", "0..300", "--units-per-task", "2", "--", "sleep", "0.005"]);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    each_done_once(&farm.job(&id), &results, 300);
    let outputs = results["outputs"].as_array().unwrap();
    let nodes: BTreeSet<&str> = outputs.iter().map(|output| output["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, BTreeSet::from(["w1", "w2", "w3"]));
}

/// The node says so and waits with it; no unit fails, and whoever waits hears why nothing gets on.
#[test]
fn a_program_that_goes_missing_is_refused_in_words_until_it_is_back() {
    let farm = Farm::start();
    let program = farm.temp().write("prog", "#!/bin/sh\n");
    let executable: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable.clone()).unwrap();
    let id = farm.submit(&["--range", "0..30", "--", &program.to_string_lossy()]);
    let moved = farm.temp().path().join("moved");
    std::fs::rename(&program, &moved).unwrap();
    let mut farm = farm;
    farm.add_worker("w1", &[]);
    let waits = farm.cli(&["job", "wait", &id, "--timeout", "12"]);
    waits.exits(124).says(&["waits: node w1 cannot run it", "does not exist on this node"]);
    assert_eq!(farm.job(&id)["units_failed"], "0");
    std::fs::rename(&moved, &program).unwrap();
    farm.cli(&["job", "resume", &id]).exits(0);
    farm.wait(&id).exits(0);
}
