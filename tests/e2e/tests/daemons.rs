//! Scheduler and worker as daemons: how they start, stop, and what they say of an odd start.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use starfarm_e2e::{Daemon, Farm, Signal, TempDir, alive, program, run, until, until_some, worker_args};

#[test]
fn the_command_line_has_the_same_daemons_and_takes_the_farm_from_the_environment() {
    let dir = TempDir::new();
    let state = dir.path().join("farm");
    let mut scheduler = program("starfarm", dir.path());
    scheduler.args(["scheduler", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
    let mut scheduler = Daemon::start("scheduler", scheduler, dir.path());
    let join = state.join("worker.join");
    until("the join file is there", || join.exists());
    let mut worker = program("starfarm", dir.path());
    worker.arg("worker").args(worker_args("w1", &join, &dir.path().join("w1")));
    let mut worker = Daemon::start("worker", worker, dir.path());

    let ask = |args: &[&str]| {
        let mut command = program("starfarm", dir.path());
        command.env("STARFARM_FARM", &state).env("STARFARM_OUTPUT", "quiet").args(args);
        run(command)
    };
    until("the node is there", || ask(&["nodes"]).stdout == "w1\n");
    let args = ["submit", "--wait", "--range", "0..3", "--", "echo", "{}"];
    let id = ask(&args).exits(0).stdout.trim().to_owned();
    let reply = ask(&["results", &id]);
    let mut lines: Vec<&str> = reply.exits(0).stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "1", "2"], "outputs as they are, for a pipe");

    worker.signal(Signal::INT);
    assert_eq!(worker.wait(), 0, "{}", worker.log());
    scheduler.signal(Signal::INT);
    assert_eq!(scheduler.wait(), 0, "{}", scheduler.log());
    ask(&["status"]).exits(3);
    // What lies there can still be looked at.
    assert_eq!(ask(&["jobs"]).exits(0).stdout, format!("{id}\n"));
}

#[test]
fn a_first_signal_drains_a_worker_and_a_second_one_ends_its_programs() {
    let mut farm = Farm::with_workers(1, 1);
    let file = farm.temp().path().join("pid");
    let script = format!("echo $$ > {}; {}", file.display(), farm.forever());
    farm.submit(&["--range", "0..1", "--", "sh", "-c", &script]);
    let pid = until_some("the program runs", || std::fs::read_to_string(&file).ok()?.trim().parse().ok());
    let worker = &mut farm.workers[0];
    worker.signal(Signal::TERM);
    worker.until_says("draining");
    assert!(alive(pid) && worker.poll().is_none(), "what runs may end");
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait(), 130, "{}", worker.log());
    assert!(!alive(pid));
}

#[test]
fn what_a_worker_could_not_deliver_is_delivered_by_its_next_life() {
    let mut farm = Farm::with_workers(1, 1);
    let log = farm.temp().path().join("ran");
    let script = farm.gated(&log, 5);
    let id = farm.submit(&["--range", "0..30", "--units-per-task", "30", "--", "sh", "-c", &script]);
    let ran = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("it runs", || ran() > 5);
    // A scheduler that hangs hears nothing; the worker is told to stop and keeps its results.
    farm.scheduler.signal(Signal::STOP);
    farm.open_gate();
    until("it has run on", || ran() > 8);
    farm.workers[0].signal(Signal::TERM);
    assert_eq!(farm.workers[0].wait(), 0, "{}", farm.workers[0].log());
    farm.scheduler.signal(Signal::CONT);
    farm.add_worker("w1", &["--slots", "1"]).until_says("results of the last run");
    farm.wait(&id).exits(0);
    starfarm_e2e::each_done_once(&farm.job(&id), &farm.results(&id), 30);
    assert_eq!(ran(), 30, "nothing was computed twice");
}

#[test]
fn a_clock_that_went_back_is_noted_and_harms_nothing() {
    let mut farm = Farm::with_workers(1, 1);
    farm.kill_scheduler();
    let path = farm.state().join("farm.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    file["started_unix"] = (file["started_unix"].as_u64().unwrap() + 86_400).into();
    // As a release before wrote it, without a checksum.
    file["version"] = 2.into();
    std::fs::write(&path, file.to_string()).unwrap();
    farm.restart_scheduler();
    let notes = farm.status()["notes"].to_string();
    assert!(notes.contains("the clock is") && notes.contains("set the clock"), "{notes}");
    farm.until_nodes_up(1);
    let id = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&id).exits(0);
}
