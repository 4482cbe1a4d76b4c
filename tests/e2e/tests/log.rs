//! The XML log of real farms: what stands in it, and what reads it.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use starfarm_e2e::{Farm, Signal, until};

/// The entries of the farm's log, as JSON.
fn entries(farm: &Farm) -> Vec<Value> {
    let log = farm.state().join("log");
    let reply = farm.cli(&["log", "export", &log.to_string_lossy(), "--format", "jsonl"]);
    reply.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["event"] == kind).collect()
}

#[test]
fn the_certificate_in_the_log_has_the_hashes_that_the_audit_derives() {
    let mut farm = Farm::with_workers(2, 2);
    let script = "sleep 0.05; test $(( {} % 7 )) != 0";
    let failing = farm.submit(&["--range", "0..40", "--max-failures", "never", "--", "sh", "-c", script]);
    // Its scheduler dies in the midst of it, so the end is told by another.
    until("units are done", || farm.job(&failing)["units_done"] != "0");
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.wait(&failing).exits(1);
    let keys = farm.submit_text(
        "name = \"keys\"\n[space]\nkind = \"chars\"\nmask = \"?l?l?l\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         stop = \"never\"\ntargets = [\"900150983cd24fb0d6963f7d28e17f72\", \"d16fb36f0911f878998c136191af705e\"]\n",
    );
    farm.wait(&keys).exits(0);
    let ended = farm.submit(&["--range", "0..1000", "--", "sleep", "0.2"]);
    farm.until_job(&ended, "state", "running");
    farm.cli(&["job", "cancel", &ended]).exits(0);

    let state = farm.state();
    let audit = farm.ask(&["audit", &state.to_string_lossy()]);
    let audited = audit["jobs"].as_array().unwrap();
    assert_eq!(audited.len(), 3);
    until("the log has all three", || of_kind(&entries(&farm), "certificate").len() == 3);
    let entries = entries(&farm);
    for certificate in of_kind(&entries, "certificate") {
        let job = audited.iter().find(|job| job["certificate"]["job"] == certificate["job"]).unwrap();
        let derived = &job["certificate"];
        for key in ["verdict", "state", "spec", "intervals_hash", "hits_hash"] {
            assert_eq!(certificate[key], derived[key], "{key} of job {}", certificate["job"]);
        }
        for (ours, theirs) in
            [("done", "units_done"), ("failed", "units_failed"), ("abandoned", "units_abandoned")]
        {
            assert_eq!(certificate[ours], derived[theirs], "{ours} of job {}", certificate["job"]);
        }
    }
    let back = of_kind(&entries, "node_back").len();
    assert!(back >= 2, "the second scheduler heard of both workers: {back}");
    let facts = &of_kind(&entries, "node_facts")[0];
    assert!(
        facts["cores"].as_u64().unwrap() > 0 && facts["memory_bytes"].as_u64().unwrap() > 1 << 20,
        "{facts}"
    );
}

#[test]
fn each_result_is_in_the_log_once_with_its_time() {
    let mut farm = Farm::with_workers(1, 2);
    let id = farm.submit(&["--range", "0..6", "--units-per-task", "1", "--", "sleep", "0.3"]);
    farm.wait(&id).exits(0);
    farm.scheduler.signal(Signal::TERM);
    assert_eq!(farm.scheduler.wait(), 0);
    let entries = entries(&farm);
    let mut units: Vec<u64> = Vec::new();
    for run in of_kind(&entries, "tasks") {
        let number = |key: &str| run[key].as_u64().unwrap();
        let unit = |key: &str| run[key].as_str().unwrap().parse::<u64>().unwrap();
        // A busy machine acknowledges late, and a worker tells it once more.
        if run["outcome"] == "duplicate" {
            continue;
        }
        assert_eq!(run["outcome"], "counted", "{run}");
        units.extend(unit("lo")..unit("hi"));
        assert_eq!(number("results"), unit("hi") - unit("lo"), "one unit a task: {run}");
        assert!(number("busy_us") >= 300_000 * number("results"), "{run}");
        assert!(number("given_us") <= number("begun_us") && number("begun_us") < number("ended_us"), "{run}");
        assert!(number("ended_us") <= number("at"), "{run}");
    }
    units.sort_unstable();
    assert_eq!(units, [0, 1, 2, 3, 4, 5]);
    // Also where no period was over.
    let progress = of_kind(&entries, "job_progress");
    assert_eq!(
        progress.last().map(|last| &last["done"]),
        Some(&Value::from("6")),
        "a stop tells the last of it"
    );
    let closed = std::fs::read_dir(farm.state().join("log")).unwrap().map(|file| file.unwrap().file_name());
    assert!(
        closed.into_iter().all(|name| name.to_string_lossy().ends_with(".xml")),
        "the last segment is closed"
    );
}

#[test]
fn what_people_did_and_each_checkpoint_is_in_the_log() {
    let mut farm = Farm::with_workers(2, 1);
    let joined = farm.ask(&["key", "list"]);
    let joined = joined["keys"].as_array().unwrap();
    let key = &joined.iter().find(|key| key["name"] == "w1").unwrap()["id"];
    farm.cli(&["key", "add", "--role", "observer"]).exits(0);
    let [.., last] = [1, 2, 3].map(|_| farm.submit(&["--range", "0..10000", "--", "sleep", "1"]));
    farm.cli(&["job", "front", &last]).exits(0);
    // A worker that leaves says so, and its node can be forgotten.
    farm.workers[1].signal(Signal::TERM);
    farm.until_node("w2", "lost");
    farm.cli(&["node", "forget", "w2"]).exits(0);
    farm.cli(&["key", "revoke", "w1"]).exits(0);
    until("a checkpoint is in the log", || !of_kind(&entries(&farm), "checkpointed").is_empty());
    until("the last of it is in the log", || !of_kind(&entries(&farm), "key_revoked").is_empty());
    let entries = entries(&farm);
    let added = of_kind(&entries, "key_added");
    let of = |kind: &str, role: &str| {
        added.iter().filter(|key| key["key_kind"] == kind && key["role"] == role).count()
    };
    assert_eq!((of("join", "observer"), of("enrolled", "worker")), (1, 2), "{added:?}");
    assert!(added.iter().any(|added| added["key"] == *key && added["name"] == "w1"), "{added:?}");
    assert_eq!(of_kind(&entries, "key_revoked")[0]["key"], "w1");
    let moved = of_kind(&entries, "job_moved");
    assert_eq!(moved.len(), 1, "{moved:?}");
    // Behind the one that runs.
    assert_eq!((moved[0]["job"].to_string(), &moved[0]["place"]), (last, &Value::from(2)));
    assert_eq!(of_kind(&entries, "node_forgotten")[0]["node"], "w2");
    let checkpoint = of_kind(&entries, "checkpointed")[0];
    assert!(checkpoint["record"].as_u64().unwrap() > 0 && checkpoint["bytes"].as_u64().unwrap() > 0);
}
