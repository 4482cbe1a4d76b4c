//! What units give back takes room on the scheduler's disk: it goes with its job, and nothing that another job shares.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::MetadataExt;

use serde_json::Value;
use starfarm_e2e::{Farm, each_done_once, stdouts, until};

/// Bytes on the disk that contents take.
fn room(farm: &Farm) -> u64 {
    std::fs::metadata(farm.state().join("blobs")).unwrap().blocks() * 512
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// A job whose units write 100 KB each, the same in each job.
fn submit_long(farm: &Farm, units: u32) -> String {
    submit_more(farm, units, &[])
}

fn submit_more(farm: &Farm, units: u32, flags: &[&str]) -> String {
    let range = format!("0..{units}");
    let of_it = ["--range", &range, "--", "sh", "-c", "yes the same of {} each time | head -c 100000"];
    farm.submit(&[flags, &of_it].concat())
}

#[test]
fn what_two_jobs_share_goes_with_the_last_of_them() {
    let mut farm = Farm::with_workers(1, 2);
    // Whatever this one will write, nobody knows what it names.
    let waits = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    let first = submit_long(&farm, 20);
    farm.wait(&first).exits(0);
    let before = room(&farm);
    assert!(before >= 2_000_000, "{before}");
    let second = submit_long(&farm, 20);
    farm.wait(&second).exits(0);
    assert!(room(&farm) < before + 100_000, "equal contents are kept once");
    let written = stdouts(&farm.results(&second));

    farm.cli(&["job", "delete", &first]).exits(0);
    assert_eq!(stdouts(&farm.results(&second)), written);
    assert!(room(&farm) >= 2_000_000);
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    assert_eq!(stdouts(&farm.results(&second)), written);
    // What earlier starts wrote is read beside everything else.
    farm.cli(&["job", "delete", &second]).exits(0);
    until("the room comes back", || room(&farm) < 100_000);
    let third = submit_long(&farm, 20);
    farm.wait(&third).exits(0);
    assert_eq!(stdouts(&farm.results(&third)), written);
    farm.cli(&["job", "delete", &third]).exits(0);
    assert!(room(&farm) < 100_000, "at once: {}", room(&farm));
    farm.cli(&["job", "cancel", &waits]).exits(0);
}

#[test]
fn a_job_over_its_storage_limit_is_paused_and_goes_on_when_a_person_says_so() {
    let mut farm = Farm::with_workers(1, 2);
    let id = submit_more(&farm, 45, &["--storage-limit", "1M", "--units-per-task", "1"]);
    farm.wait(&id).exits(8);
    let job = farm.job(&id);
    let note = job["note"].as_str().unwrap();
    assert!(note.starts_with("its outputs take ") && note.ends_with("storage_limit is 1048576"), "{note}");
    until("what ran has ended", || farm.job(&id)["units_out"] == "0");
    let job = farm.job(&id);
    let (done, stored) = (number(&job["units_done"]), job["stored_bytes"].as_u64().unwrap());
    assert!((11..20).contains(&done), "it stopped: {done}");
    assert!((done * 100_000..done * 102_000).contains(&stored), "{done} units, {stored} bytes");
    assert_eq!(job["units_failed"], "0");
    let explained = farm.cli(&["job", "explain", &id]);
    let told = &explained.exits(0).stdout;
    assert!(told.contains("storage_limit") && told.contains("job resume"), "{told}");
    // A kill forgets neither the limit nor what is stored.
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    until("it is counted again", || farm.job(&id)["stored_bytes"] == stored);
    assert_eq!(farm.job(&id)["state"], "paused");
    farm.cli(&["job", "resume", &id]).exits(0);
    farm.wait(&id).exits(8);
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    // How far it gets in one go depends on how much was on its way.
    until("it has ended", || {
        farm.cli(&["job", "resume", &id]);
        farm.wait(&id).code == 0
    });
    let results = farm.results(&id);
    each_done_once(&farm.job(&id), &results, 45);
    assert_eq!(stdouts(&results).len(), 45);
}

#[test]
fn a_person_changes_what_a_job_may_store_while_it_runs_and_while_it_is_paused() {
    let mut farm = Farm::with_workers(1, 2);
    let id = submit_more(&farm, 30, &["--storage-limit", "1M", "--units-per-task", "1"]);
    let set = |farm: &Farm, what: &[&str]| farm.cli(&[&["job", "set"], what].concat());
    farm.wait(&id).exits(8);
    // It has stored more than that, too.
    set(&farm, &[&id, "--storage-limit", "1000000"]).exits(0);
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    let job = farm.job(&id);
    assert_eq!((&job["state"], &job["storage_limit"]), (&"paused".into(), &1_000_000.into()), "{job}");
    assert!(job["note"].as_str().unwrap().ends_with("storage_limit is 1000000"), "{job}");
    set(&farm, &[&id, "--storage-limit", "2M", "--max-nodes", "3"]).exits(0);
    farm.wait(&id).exits(8);
    let job = farm.job(&id);
    assert!(job["stored_bytes"].as_u64().unwrap() >= 2 << 20, "it went on by itself: {job}");
    assert_eq!((&job["max_nodes"], &job["storage_limit"]), (&3.into(), &(2 << 20).into()), "{job}");
    for (what, code, words) in [
        (["99", "--storage-limit", "2M"], 4, "no job 99"),
        ([&id, "--storage-limit", "much"], 2, "write a size as 20G"),
        ([&id, "--storage-limit", "0"], 2, "write 1 byte or more, or none"),
    ] {
        let refused = set(&farm, &what);
        assert!(refused.code == code && refused.stderr.contains(words), "{what:?}: {}", refused.stderr);
    }
    set(&farm, &[&id, "--storage-limit", "none"]).exits(0);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    each_done_once(&farm.job(&id), &results, 30);
    assert_eq!(stdouts(&results).len(), 30);
    let ended = set(&farm, &[&id, "--storage-limit", "5M"]);
    assert!(ended.code == 6 && ended.stderr.contains("has ended"), "{}", ended.stderr);
    let log = farm.state().join("log");
    until("the log says what was changed", || {
        let segments = std::fs::read_dir(&log).unwrap().map(|segment| segment.unwrap().path());
        let texts: String = segments.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
        texts.contains("<job_limited ") && texts.contains(r#"max_nodes="3" storage_limit="2097152""#)
    });
    farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]).exits(0);
}

#[test]
fn a_farm_at_its_storage_limit_waits_for_room_and_loses_nothing() {
    let mut farm = Farm::start_with(&["--storage-limit", "2M"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let old = submit_more(&farm, 12, &[]);
    farm.wait(&old).exits(0);
    let text = "yes another of {} each time | head -c 100000";
    let id = farm.submit(&["--range", "0..15", "--units-per-task", "1", "--", "sh", "-c", text]);
    until("it is said that there is no room", || {
        let notes = farm.status()["notes"].take();
        notes.as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("--storage-limit"))
    });
    let refused = farm.cli(&["submit", "--range", "0..3", "--", "true"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("--storage-limit") && refused.stderr.contains("job delete"),
        "{}",
        refused.stderr
    );
    let status = farm.status();
    assert!(status["stored_bytes"].as_u64().unwrap() >= 2 << 20, "{status}");
    assert_eq!(status["storage_limit"], 2 << 20);
    let job = farm.job(&id);
    assert_eq!((&job["state"], &job["units_failed"]), (&"running".into(), &"0".into()), "{job}");
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    let done = number(&farm.job(&id)["units_done"]);
    assert_eq!(stdouts(&farm.results(&id)).len() as u64, done, "what counts has its output");
    assert!(done < 15, "it waits for room");
    farm.cli(&["job", "delete", &old]).exits(0);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    each_done_once(&farm.job(&id), &results, 15);
    assert_eq!(stdouts(&results).len(), 15);
}

#[test]
fn ended_jobs_are_deleted_by_age_and_by_size_where_a_person_wants_that() {
    let mut farm = Farm::start_with(&["--keep-jobs-for", "3s"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let waits = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    let old = submit_long(&farm, 3);
    farm.wait(&old);
    until("the old job goes", || farm.cli(&["job", "show", &old]).code == 4);
    farm.cli(&["job", "show", &waits]).exits(0);
    until("its room comes back", || room(&farm) < 100_000);
    let log = farm.state().join("log");
    until("the log says why", || {
        let segments = std::fs::read_dir(&log).unwrap().map(|segment| segment.unwrap().path());
        let mut texts = segments.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        texts.any(|text| text.contains("longer than --keep-jobs-for says"))
    });

    let farm = {
        let mut farm = Farm::start_with(&["--keep-jobs-below", "2M"]);
        farm.add_worker("w1", &["--slots", "2"]);
        farm.until_nodes_up(1);
        farm
    };
    let submit = |text: &str| {
        let script = format!("yes {text} of {{}} | head -c 100000");
        let id = farm.submit(&["--range", "0..8", "--", "sh", "-c", &script]);
        farm.wait(&id).exits(0);
        id
    };
    let [first, second, third] = ["one", "two", "three"].map(submit);
    until("the oldest goes", || farm.cli(&["job", "show", &first]).code == 4);
    until("its room comes back", || room(&farm) < 1_900_000);
    for id in [second, third] {
        farm.cli(&["job", "show", &id]).exits(0);
    }
}
