//! Outputs that are damaged on the scheduler's disk while it runs: which they are is told, the rest is given, and the
//! units run again, once each.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use starfarm_e2e::{Farm, Signal, each_done_once, stdouts, until};

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
    let farm = with_short_journal();
    let script = "n=$(printf %04d {}); if [ $(({} % 5)) -eq 0 ]; then for i in $(seq 100); do echo long $n; done; \
                  else echo short $n; fi";
    let id = farm.submit(&["--range", "0..30", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    assert_eq!(stdouts(&farm.results(&id)), expected(30));
    let state = farm.state();
    let audit = |code| {
        let audit = || farm.cli(&["audit", "--outputs", "--output", "json", state.to_str().unwrap()]);
        let mut reply = audit();
        // The last segments of many are just being rewritten.
        until("the audit finds no segment going away", || {
            let goes_away = reply.stderr.contains("go away while they are read: try again");
            if goes_away {
                reply = audit();
            }
            !goes_away
        });
        reply.exits(code);
        serde_json::from_str::<Value>(&reply.stdout).unwrap()
    };
    assert_eq!(audit(0)["outputs"]["lost"], Value::Array(vec![]));
    only_in_files(&farm);

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
    let told: Vec<_> = results["outputs"].as_array().unwrap().iter().map(|of| &of["stdout"]).collect();
    let told: Vec<_> = told.into_iter().filter(|stdout| stdout["text"] == "").map(|of| &of["lost"]).collect();
    assert_eq!(told, ["damaged"], "an output that is lost is no empty one");
    let mut rest = stdouts(&results);
    rest.remove(&10);
    let mut whole = expected(30);
    [7, 10].iter().for_each(|unit| drop(whole.remove(unit)));
    assert_eq!(rest, whole, "the others are given");
    assert!(reply.stderr.contains("units 7, 10"), "{}", reply.stderr);
    assert_eq!(audit(1)["outputs"]["lost"].as_array().unwrap().len(), 2);

    let again = farm.cli(&["job", "retry", "--missing-outputs", &id]);
    again.exits(0);
    assert!(again.stderr.contains("2 units run again"), "{}", again.stderr);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    assert_eq!(stdouts(&results), expected(30));
    each_done_once(&farm.job(&id), &results, 30);
    // The first run of unit 10 has its content again: the second one wrote the same.
    let reply = farm.cli(&["results", &id, "--all", "--output", "json"]);
    let earlier = serde_json::json!([{ "lo": "7", "hi": "8", "what": "damaged", "superseded": true }]);
    assert_eq!(reply.exits(6).json()["outputs_lost"], earlier);
    reply.says(&["1 output of runs of job 1 that do not count is missing or damaged"]);
    farm.cli(&["job", "retry", "--missing-outputs", &id]).exits(6);
    let audited = audit(0);
    assert_eq!(audited["outputs"]["lost"], Value::Array(vec![]));
    assert_eq!(audited["jobs"][0]["certificate"]["units_again"], "2");
    assert_eq!(audited["jobs"][0]["certificate"]["units_done"], "30");
}

/// What the files do not have yet is in the journal, and only by its hash where it is long.
#[test]
fn damage_to_long_outputs_of_a_scheduler_that_was_just_stopped_is_told_by_the_audit() {
    // No checkpoint comes between.
    let mut farm = Farm::start_with(&["--checkpoint-seconds", "86400"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let script = "yes long{} | head -n 400";
    let id = farm.submit(&["--range", "0..3", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    stop(&mut farm);

    let state = farm.state();
    audit(&farm, 0);
    told_wherever_it_is(&farm);
    farm.cli(&["results", &id]).exits(0);
    // As a power cut before the first write leaves it.
    std::fs::remove_file(state.join(format!("outputs/{id}.outputs"))).unwrap();
    let told = audit(&farm, 0);
    assert!(told.contains("note: 3 outputs are whole in the journal only"), "{told}");
    told_wherever_it_is(&farm);
    farm.cli(&["results", &id]).exits(0);
    std::fs::remove_dir_all(state.join("outputs")).unwrap();
    let told = audit(&farm, 0);
    assert!(told.contains("note: 3 outputs are whole in the journal only"), "{told}");
    farm.restart_scheduler();
    audit(&farm, 0);
    farm.cli(&["results", &id]).exits(0);
    stop(&mut farm);
    std::fs::write(state.join("blobs"), "").unwrap();
    audit(&farm, 1);
    farm.cli(&["results", &id]).exits(6);
}

fn stop(farm: &mut Farm) {
    farm.scheduler.signal(Signal::TERM);
    farm.scheduler.wait();
}

#[track_caller]
fn audit(farm: &Farm, code: i32) -> String {
    farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]).exits(code).stdout.clone()
}

/// The journal has only hashes of what would be put there.
#[test]
fn contents_that_are_deleted_or_replaced_under_a_scheduler_stop_it() {
    for replaced in [false, true] {
        let mut farm = Farm::start_with(&["--checkpoint-seconds", "86400"]);
        let blobs = farm.state().join("blobs");
        let bytes = std::fs::read(&blobs).unwrap();
        std::fs::remove_file(&blobs).unwrap();
        if replaced {
            std::fs::write(&blobs, bytes).unwrap();
        }
        assert_eq!(farm.scheduler.wait(), 7, "{}", farm.scheduler.log());
        farm.scheduler.until_says("blobs was deleted or replaced");
    }
}

/// A retry of it was accepted, and the job that had finished could never end again.
#[test]
fn a_job_that_lost_its_specification_is_not_run_again_before_the_same_job_file_has_come() {
    let mut farm = with_short_journal();
    let job = ["--range", "0..3", "--", "echo"];
    let id = farm.submit(&job);
    farm.wait(&id).exits(0);
    only_in_files(&farm);
    stop(&mut farm);
    std::fs::write(farm.state().join("blobs"), "").unwrap();
    std::fs::remove_file(farm.state().join(format!("outputs/{id}.outputs"))).unwrap();
    assert!(audit(&farm, 1).contains("submitted again"));
    farm.restart_scheduler();
    assert!(farm.status()["notes"].to_string().contains("ended jobs that lost their specification (1): 1."));
    let retry = ["job", "retry", "--missing-outputs", &id];
    for told in [farm.cli(&retry), farm.cli(&["results", &id])] {
        assert!(told.exits(6).stderr.contains("submit the same job file again"), "{}", told.stderr);
    }
    farm.wait(&farm.submit(&job)).exits(0);
    farm.cli(&retry).exits(0);
    farm.wait(&id).exits(0);
    farm.cli(&["results", &id]).exits(0);
}

/// Records move on until those that are in the journal now are in the ledger alone, which has no outputs.
fn only_in_files(farm: &Farm) {
    let number = |path: &Path, at: usize| {
        let bytes = std::fs::read(path).ok()?;
        Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().unwrap()))
    };
    let journal = farm.state().join("journal");
    let now = number(&journal.join("synced"), 28).unwrap();
    until("what is in the journal now is there no more", || {
        let id = farm.submit(&["--name", &"n".repeat(200), "--range", "0..9", "--", "true"]);
        // It may be done already.
        farm.cli(&["job", "cancel", &id]);
        farm.cli(&["job", "delete", &id]).exits(0);
        let segments = std::fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path());
        let segments = segments.filter(|path| path.extension().is_some_and(|end| end == "seg"));
        // One that is just being made or removed says nothing.
        segments.map(|path| number(&path, 40).unwrap_or(0)).min() > Some(now)
    });
}

fn with_short_journal() -> Farm {
    let mut farm = Farm::start_with(&["--checkpoint-seconds", "1", "--journal-segment-kib", "1"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    farm
}

/// The scheduler went on with a file that nobody could find any more, and its next start lost it without a word.
#[test]
fn outputs_that_are_deleted_under_a_scheduler_are_told_and_come_back_from_the_journal_at_its_next_start() {
    let mut farm = Farm::start_with(&["--checkpoint-seconds", "1"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let id = farm.submit(&["--range", "0..6", "--", "echo"]);
    farm.wait(&id).exits(0);
    let path = farm.state().join(format!("outputs/{id}.outputs"));
    let results = stdouts(&farm.results(&id));
    // What is not synced yet stops the scheduler.
    farm.wait(&farm.submit(&["--range", "0..2", "--", "true"])).exits(0);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    std::fs::remove_file(&path).unwrap();
    farm.wait(&farm.submit(&["--range", "0..2", "--", "true"])).exits(0);
    farm.scheduler.until_says("1.outputs was deleted or replaced while the scheduler runs");
    farm.cli(&["results", &id]).exits(6).says(&["6 outputs of job 1 are missing"]);
    stop(&mut farm);
    let told = audit(&farm, 0);
    assert!(told.contains("note: 6 outputs are whole in the journal only"), "{told}");
    farm.restart_scheduler();
    assert!(!farm.status()["notes"].to_string().contains("deleted or emptied"), "{}", farm.status());
    assert_eq!(stdouts(&farm.results(&id)), results);
    audit(&farm, 0);
}

/// The ledger has no outputs.
#[test]
fn outputs_that_only_a_deleted_file_had_are_missing_before_a_start_and_after_it() {
    let mut farm = with_short_journal();
    let id = farm.submit(&["--range", "0..6", "--", "echo"]);
    farm.wait(&id).exits(0);
    only_in_files(&farm);
    stop(&mut farm);
    audit(&farm, 0);
    std::fs::remove_dir_all(farm.state().join("outputs")).unwrap();
    let told = audit(&farm, 1);
    assert!(told.contains("outputs: 6 checked, 6 missing or damaged"), "{told}");
    farm.restart_scheduler();
    let notes = farm.status()["notes"].to_string();
    assert!(notes.contains("deleted or emptied (1), with how many outputs are missing: 1 (6)."), "{notes}");
    audit(&farm, 1);
    farm.cli(&["results", &id]).exits(6);
    farm.cli(&["job", "retry", "--missing-outputs", &id]).exits(0);
    farm.wait(&id).exits(0);
    farm.cli(&["results", &id]).exits(0);
    audit(&farm, 0);
}

/// The first runs are still there, and must not be taken for the second ones.
#[test]
fn a_file_that_is_an_older_copy_of_itself_or_lost_its_end_is_recognised_after_units_ran_again() {
    let mut farm = with_short_journal();
    let second = farm.temp().path().join("second");
    let script =
        format!("if test -e {}; then echo second run; else echo first run; exit 1; fi", second.display());
    let id = farm.submit(&["--range", "0..3", "--", "sh", "-c", &script]);
    farm.wait(&id);
    let path = farm.state().join(format!("outputs/{id}.outputs"));
    let older = std::fs::read(&path).unwrap();
    std::fs::write(second, "").unwrap();
    farm.cli(&["job", "retry", "--failed", &id]).exits(0);
    farm.wait(&id).exits(0);

    let second_runs: BTreeMap<_, _> = (0..3).map(|unit| (unit, "second run\n".to_owned())).collect();
    let copy = |_: &[u8]| older.clone();
    let cut = |whole: &[u8]| whole[..older.len() + 20].to_vec();
    let wiped = |whole: &[u8]| [&older[..], &vec![0xFF; whole.len() - older.len()]].concat();
    for damage in [&copy as &dyn Fn(&[u8]) -> Vec<u8>, &cut, &wiped] {
        only_in_files(&farm);
        stop(&mut farm);
        audit(&farm, 0);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, damage(&whole)).unwrap();
        let missing = |farm: &Farm| {
            let told = audit(farm, 1);
            assert!(told.contains("outputs: 3 checked, 3 missing or damaged"), "{told}");
            assert!(told.contains("OUTPUT MISSING: job 1, unit 0 to 2"), "{told}");
        };
        for starts in [false, true] {
            if starts {
                farm.restart_scheduler();
            }
            missing(&farm);
            let reply = farm.cli(&["results", &id, "--output", "json"]);
            let results = reply.exits(6).json();
            let lost = serde_json::json!([{ "lo": "0", "hi": "3", "what": "missing" }]);
            assert_eq!((&results["outputs_lost"], stdouts(&results)), (&lost, BTreeMap::new()));
        }
        farm.cli(&["job", "retry", "--missing-outputs", &id]).exits(0);
        farm.wait(&id).exits(0);
        assert_eq!(stdouts(&farm.results(&id)), second_runs);
        audit(&farm, 0);
    }
}

/// Flips and cuts of every few bytes of the contents are told.
fn told_wherever_it_is(farm: &Farm) {
    let path = farm.state().join("blobs");
    let bytes = std::fs::read(&path).unwrap();
    let first = bytes.windows(6).position(|there| there == b"long0\n").unwrap();
    for at in (first..first + 2000).step_by(197) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let told = audit(farm, 1);
        assert!(told.contains("OUTPUT DAMAGED: job 1, unit 0\n"), "byte {at}: {told}");
        assert!(told.contains("outputs: 3 checked, 1 missing or damaged"), "byte {at}: {told}");
    }
    for end in (first..bytes.len()).step_by(797) {
        std::fs::write(&path, &bytes[..end]).unwrap();
        let told = audit(farm, 1);
        assert!(told.contains("OUTPUT MISSING: job 1, unit "), "cut at {end}: {told}");
    }
    std::fs::write(&path, &bytes).unwrap();
}
