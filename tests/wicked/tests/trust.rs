//! A worker that leaves out hits, on a real farm: trust checks name it, and nobody else, and no hit is lost.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use md5::{Digest, Md5};
use serde_json::{Value, json};
use starfarm_e2e::{Farm, units};
use starfarm_protocol::join::JoinFile;
use starfarm_wicked::{Attack, Wicked};

/// Every so many units there is a hit.
const EVERY: u128 = 9_973;

/// The job's end, what it shows of its trust checks, and what its certificate says of them.
fn searched(trust: &str) -> (Value, Value) {
    let mut farm = Farm::with_workers(1, 2);
    let text = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    let wicked = Wicked::join(&JoinFile::from_text(&text).unwrap(), "wick", Attack::LeavesOut).unwrap();
    let known: Vec<u128> = (0..3_000_000).step_by(EVERY as usize).collect();
    let digest =
        |unit: &u128| Md5::digest(format!("{unit:07}")).iter().map(|byte| format!("{byte:02x}")).collect();
    let targets: Vec<String> = known.iter().map(digest).collect();
    let id = farm.submit_text(&format!(
        "[space]\nkind = \"chars\"\nmask = \"?1?d?d?d?d?d?d\"\nalphabets = {{ 1 = \"012\" }}\n[task]\n\
         executor = \"search\"\nalgorithm = \"md5\"\ntargets = {targets:?}\nstop = \"never\"\nunits_per_task = 2000\n\
         [trust]\n{trust}\n"
    ));
    let report = wicked.run(Duration::from_secs(3));
    assert!(report.offers > 0, "{report}");
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"].take()), known);
    assert_eq!(farm.node_state("w1"), "up", "the honest one is not to blame");
    let told = farm.job(&id)["trust"].take();
    let untrue = &told["untrue"];
    assert_eq!(
        (&untrue[0]["node"], &untrue[0]["why"], &untrue[1]),
        (&json!("wick"), &json!("missed_hit"), &Value::Null)
    );
    farm.kill_scheduler();
    let mut command = starfarm_e2e::program("starfarm", farm.temp().path());
    command.args(["audit", "--output", "json"]).arg(farm.state());
    let audit: Value = serde_json::from_str(&starfarm_e2e::run(command).exits(0).stdout).unwrap();
    let certified = audit["jobs"][0]["certificate"]["trust"].clone();
    for key in ["units_checked", "planted", "planted_found"] {
        assert_eq!(certified[key], told[key], "{key}");
    }
    assert_eq!(certified["untrue"], 1);
    (told, certified)
}

#[test]
fn who_leaves_out_a_planted_answer_is_named() {
    let (told, certified) = searched("planted = 100");
    assert_eq!((&told["planted_found"], &told["check"]), (&json!(100), &json!(0.0)));
    assert_eq!((&certified["check_ppm"], &told["untrue"][0]["believed"]), (&json!(0), &Value::Null));
}

#[test]
fn who_leaves_out_what_another_finds_is_named() {
    let (told, certified) = searched("check = 0.2");
    assert_eq!((&told["planted"], &certified["check_ppm"]), (&json!(0), &json!(200_000)));
}
