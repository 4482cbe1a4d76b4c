//! Outputs that are damaged on the scheduler's disk while it runs: which they are is told, the rest is given, and the
//! units run again, once each.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use starfarm_e2e::{Farm, each_done_once, stdouts, until};

/// Flips a bit of the first byte of `what` in a file.
fn flip(path: &Path, what: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(what.len()).position(|there| there == what.as_bytes()).unwrap();
    bytes[at] ^= 4;
    // In place: the scheduler has it open.
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
}

/// What each unit writes: every fifth one much.
fn expected(units: u128) -> BTreeMap<u128, String> {
    let line = |unit: u128| match unit % 5 {
        0 => format!("long {unit:04}\n").repeat(100),
        _ => format!("short {unit:04}\n"),
    };
    (0..units).map(|unit| (unit, line(unit))).collect()
}

#[test]
fn damaged_outputs_are_told_by_unit_and_run_again() {
    let farm = Farm::with_workers(1, 2);
    let script = "n=$(printf %04d {}); if [ $(({} % 5)) -eq 0 ]; then for i in $(seq 100); do echo long $n; done; \
                  else echo short $n; fi";
    let id = farm.submit(&["--range", "0..30", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    assert_eq!(stdouts(&farm.results(&id)), expected(30));
    let state = farm.state();
    let audit = |code| {
        let reply = farm.cli(&["audit", "--outputs", "--output", "json", state.to_str().unwrap()]);
        reply.exits(code);
        serde_json::from_str::<Value>(&reply.stdout).unwrap()
    };
    assert_eq!(audit(0)["outputs"]["lost"], Value::Array(vec![]));

    flip(&state.join(format!("outputs/{id}.outputs")), "short 0007");
    flip(&state.join("blobs"), "long 0010");
    let lost = serde_json::json!([
        { "lo": "7", "hi": "8", "what": "damaged" },
        { "lo": "10", "hi": "11", "what": "damaged" }
    ]);
    let reply = farm.cli(&["results", &id, "--output", "json"]);
    reply.exits(6);
    let results: Value = serde_json::from_str(&reply.stdout).unwrap();
    assert_eq!(results["outputs_lost"], lost);
    let mut rest = stdouts(&results);
    rest.remove(&10);
    let mut whole = expected(30);
    [7, 10].iter().for_each(|unit| drop(whole.remove(unit)));
    assert_eq!(rest, whole, "the others are given");
    assert!(reply.stderr.contains("units 7, 10"), "{}", reply.stderr);
    // Until a checkpoint the journal has them too, and a start would write them again.
    until("the damage is no more mended by a start", || {
        audit(1)["outputs"]["lost"].as_array().unwrap().len() == 2
    });

    let again = farm.cli(&["job", "retry", "--missing-outputs", &id]);
    again.exits(0);
    assert!(again.stderr.contains("2 units run again"), "{}", again.stderr);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    assert_eq!(stdouts(&results), expected(30));
    each_done_once(&farm.job(&id), &results, 30);
    farm.cli(&["job", "retry", "--missing-outputs", &id]).exits(6);
    let audited = audit(0);
    assert_eq!(audited["outputs"]["lost"], Value::Array(vec![]));
    assert_eq!(audited["jobs"][0]["certificate"]["units_again"], "2");
    assert_eq!(audited["jobs"][0]["certificate"]["units_done"], "30");
}
