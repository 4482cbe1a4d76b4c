//! Processes that die, hang and come back while a job runs.
#![allow(clippy::unwrap_used)]

use std::fs;

use starfarm_e2e::{Farm, Signal, each_done_once, units, until};

fn done(farm: &Farm, id: &str) -> u64 {
    farm.job(id)["units_done"].as_str().unwrap().parse().unwrap()
}

#[test]
fn what_a_killed_worker_held_is_done_by_another_and_counted_once() {
    let mut farm = Farm::with_workers(2, 1);
    let id = farm.submit(&["--range", "0..80", "--units-per-task", "4", "--", "sleep", "0.03"]);
    until("both work", || done(&farm, &id) >= 8);
    farm.workers[0].kill();
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 80);
    let nodes = farm.ask(&["nodes"])["nodes"].take();
    assert!(nodes.as_array().unwrap().iter().any(|node| node["name"] == "w2" && node["state"] == "up"));
}

#[test]
fn a_killed_worker_that_comes_back_goes_on_at_once() {
    let mut farm = Farm::with_workers(1, 2);
    let id = farm.submit(&["--range", "0..60", "--", "sleep", "0.03"]);
    until("it works", || done(&farm, &id) >= 4);
    farm.workers[0].kill();
    farm.add_worker("w1", &["--slots", "2"]);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 60);
}

/// It had not begun: each such death was the unit's fault, and after three of them it was poison.
#[test]
fn a_unit_whose_inputs_are_fetched_is_not_to_blame_for_its_workers_death() {
    let mut farm = Farm::start();
    let content: Vec<u8> = (0..60_000_000_u32).map(|n| (n / 7).wrapping_mul(n) as u8).collect();
    fs::write(farm.temp().path().join("input"), &content).unwrap();
    let id = farm.submit_text(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\n\
         program = [\"wc\", \"-c\", \"input\"]\ninputs = [\"input\"]\n",
    );
    for round in 0..5 {
        let inputs = farm.worker_state("w1").join("inputs");
        let bytes = || -> u64 {
            let files = fs::read_dir(&inputs).into_iter().flatten();
            files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
        };
        let before = bytes();
        farm.add_worker("w1", &["--slots", "1"]);
        until("it fetches", || bytes() > before);
        farm.workers.last_mut().unwrap().kill();
        assert_eq!(done(&farm, &id), 0, "the input of round {round} was too short");
    }
    farm.add_worker("w1", &["--slots", "1"]);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 1);
}

#[test]
fn a_unit_that_kills_its_worker_is_poison_and_the_others_are_done() {
    let mut farm = Farm::with_workers(1, 1);
    let script = "test {} != 3 || kill -KILL $PPID; echo done";
    let id = farm.submit(&["--range", "0..8", "--", "sh", "-c", script]);
    let ended = |farm: &Farm| farm.job(&id)["state"] == "failed";
    let mut deaths = 0;
    until("the job has ended", || {
        if farm.workers.last_mut().unwrap().poll().is_some() {
            deaths += 1;
            farm.add_worker("w1", &["--slots", "1"]);
        }
        ended(&farm)
    });
    assert_eq!(deaths, 3, "three deaths make a unit poison");
    farm.wait(&id).exits(1);
    let (job, results) = (farm.job(&id), farm.results(&id));
    assert_eq!((&job["units_done"], &job["units_failed"]), (&"7".into(), &"1".into()));
    assert_eq!(units(&results["failed"]), [3]);
    let failed = &results["failed"][0];
    assert_eq!((&failed["reason"], &failed["exit_code"]), (&"poison".into(), &serde_json::Value::Null));
    assert_eq!(units(&results["outputs"]).len(), 7);
}

/// A person who knows that a machine is gone for good need not wait for the farm to believe it.
#[test]
fn a_key_that_is_revoked_before_its_node_was_heard_again_gives_back_what_the_node_had() {
    let mut farm = Farm::with_workers(2, 1);
    let script = farm.forever();
    let id = farm.submit(&["--range", "0..6", "--units-per-task", "1", "--", "sh", "-c", &script]);
    until("both have work", || {
        let nodes = farm.status()["nodes"].as_array().cloned().unwrap_or_default();
        nodes.len() == 2 && nodes.iter().all(|node| node["tasks"].as_u64() > Some(0))
    });
    let settings = "suspect_seconds = 500\nlost_seconds = 3000\n";
    std::fs::write(farm.state().join("config.toml"), settings).expect("the state directory is ours");
    farm.workers[1].kill();
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    farm.cli(&["key", "revoke", "w2"]).exits(0);
    until("all of it is with the other, or waits", || {
        let text = farm.cli(&["job", "explain", &id]).exits(0).stdout.clone();
        !text.contains("may be at nodes that have not reported yet")
    });
    farm.until_node("w2", "lost");
}

#[test]
fn a_scheduler_that_was_killed_keeps_its_jobs_and_its_workers_go_on() {
    let mut farm = Farm::with_workers(2, 1);
    let log = farm.temp().path().join("ran");
    // Behind the first task of each all wait: else they may have run all that they hold before anybody looks.
    let script = farm.gated(&log, 8);
    let ran = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let id = farm.submit(&["--range", "0..400", "--units-per-task", "4", "--", "sh", "-c", &script]);
    until("it works", || done(&farm, &id) >= 8);
    assert_eq!(farm.status()["epoch"], 1);
    let pids: Vec<_> = farm.workers.iter().map(|worker| worker.pid()).collect();
    farm.kill_scheduler();
    farm.cli(&["status"]).exits(3);
    let before = ran();
    farm.open_gate();
    until("the workers go on without it", || ran() >= before + 6);
    farm.restart_scheduler();
    assert_eq!(farm.status()["epoch"], 2);
    assert!(done(&farm, &id) >= 8);
    farm.until_nodes_up(2);
    for (worker, pid) in farm.workers.iter_mut().zip(pids) {
        assert!(worker.poll().is_none() && worker.pid() == pid, "the same process: {}", worker.log());
    }
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 400);
    assert_eq!(ran(), 400, "what the workers held is adopted, what they did meanwhile comes in");
}

#[test]
fn a_worker_that_hangs_is_suspect_and_welcome_when_it_goes_on() {
    let mut farm = Farm::with_workers(2, 1);
    let id = farm.submit(&["--range", "0..20", "--units-per-task", "1", "--", "sleep", "0.02"]);
    farm.workers[0].signal(Signal::STOP);
    farm.until_node("w1", "suspect");
    farm.workers[0].signal(Signal::CONT);
    farm.until_node("w1", "up");
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 20);
    let next = farm.submit(&["--range", "0..40", "--units-per-task", "1", "--", "sleep", "0.02"]);
    farm.wait(&next).exits(0);
    let results = farm.results(&next);
    assert!(results["outputs"].as_array().unwrap().iter().any(|output| output["node"] == "w1"));
}
