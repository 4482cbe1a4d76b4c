//! `starfarm run`: a farm of one's own for one job, that leaves nothing behind.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use md5::{Digest, Md5};
use starfarm_e2e::{Daemon, Reply, Signal, TempDir, program, run, running_with, until};

/// Runs a job file with this text, its state below `dir`.
fn run_text(dir: &TempDir, text: &str) -> Reply {
    let job = dir.write("job.toml", text);
    let mut command = program("starfarm", dir.path());
    command.args(["--output", "json", "run", "--slots", "2", "--state"]).arg(dir.path().join("s")).arg(job);
    run(command)
}

fn require_nothing_left(dir: &Path) {
    let marker = dir.to_string_lossy();
    until("all that was started has gone", || running_with(&marker).is_empty());
}

/// Starts a run of programs that take `seconds` each; waits until the first has begun.
fn start_programs(dir: &TempDir, seconds: &str) -> Daemon {
    let begun = dir.path().join("begun");
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1000\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"echo {{}} >> {}; sleep {seconds}\"]\nunits_per_task = 5\n",
        begun.display()
    );
    let job = dir.write("job.toml", text);
    let mut command = program("starfarm", dir.path());
    command.args(["run", "--slots", "2", "--state"]).arg(dir.path().join("s")).arg(job);
    let daemon = Daemon::start("run", command, dir.path());
    until("a program has begun", || begun.exists());
    daemon
}

/// A small search for two words, of which both exist.
fn search() -> String {
    format!(
        "[space]\nkind = \"chars\"\nmask = \"?l?l?l?d\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = [\"{}\", \"{}\"]\nstop = \"never\"\ntarget_seconds = 0.2\n",
        digest("cat7"),
        digest("dog0")
    )
}

fn digest(word: &str) -> String {
    format!("{:x}", Md5::digest(word))
}

#[test]
fn a_small_search_prints_its_hits_and_leaves_nothing_behind() {
    let dir = TempDir::new();
    for _ in 0..2 {
        let reply = run_text(&dir, &search());
        let results = reply.exits(0).json();
        assert_eq!(results["schema"], "starfarm/results/1");
        let hits = results["hits"].as_array().unwrap();
        let hits: Vec<_> =
            hits.iter().map(|hit| ["value", "target"].map(|key| hit[key].as_str().unwrap())).collect();
        assert_eq!(hits, [["cat7", &digest("cat7")], ["dog0", &digest("dog0")]]);
        assert!(results["hits"][0]["unit"].is_string());
        require_nothing_left(dir.path());
    }
}

#[test]
fn the_state_lies_in_the_users_state_folder_by_default() {
    let dir = TempDir::new();
    let job = dir.write("job.toml", search());
    let mut command = program("starfarm", dir.path());
    command.args(["--output", "quiet", "run"]).arg(job);
    run(command).exits(0);
    let runs: Vec<_> = std::fs::read_dir(dir.path().join("xdg-state/starfarm/runs")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    require_nothing_left(dir.path());
}

#[test]
fn a_run_with_failed_units_exits_with_1() {
    let dir = TempDir::new();
    let text = "[space]\nkind = \"range\"\nfrom = 0\nto = 3\n[task]\nexecutor = \"command\"\n\
        program = [\"sh\", \"-c\", \"exit {}\"]\n";
    let results = run_text(&dir, text).exits(1).json();
    assert_eq!(results["failed"].as_array().unwrap().len(), 2);
    require_nothing_left(dir.path());
}

#[test]
fn ctrl_c_drains_and_a_second_one_stops_at_once() {
    let dir = TempDir::new();
    let mut run = start_programs(&dir, "0.05");
    run.signal(Signal::INT);
    assert_eq!(run.wait(), 130);
    require_nothing_left(dir.path());

    let dir = TempDir::new();
    let mut run = start_programs(&dir, "50");
    run.signal(Signal::INT);
    run.until_says("Ctrl-C again");
    run.signal(Signal::INT);
    assert_eq!(run.wait(), 130);
    require_nothing_left(dir.path());
}

#[test]
fn a_run_that_is_killed_takes_its_worker_with_it() {
    let dir = TempDir::new();
    let mut run = start_programs(&dir, "0.05");
    run.kill();
    require_nothing_left(dir.path());
}

/// The worker waited for itself to leave, or was refused by a farm of its own.
#[test]
fn a_run_goes_on_with_a_new_key_where_that_of_its_worker_is_lost_or_damaged() {
    let dir = TempDir::new();
    let key = dir.path().join("s/worker/key");
    let damages: [fn(&Path); 3] =
        [|_| {}, |key| std::fs::write(key, "no key").unwrap(), |key| std::fs::remove_file(key).unwrap()];
    for damage in damages {
        damage(&key);
        let _ = std::fs::remove_file(dir.path().join("begun"));
        let mut run = start_programs(&dir, "0.05");
        run.signal(Signal::INT);
        assert_eq!(run.wait(), 130);
    }
    assert_eq!(std::fs::read(key.with_extension("damaged")).unwrap(), b"no key");
}

#[test]
fn two_runs_in_one_state_directory_are_one_too_many() {
    let dir = TempDir::new();
    let mut first = start_programs(&dir, "0.05");
    run_text(&dir, &search()).exits(6).says(&["--state"]);
    first.signal(Signal::INT);
    assert_eq!(first.wait(), 130);
}

/// A renderer's lines went by for each frame, and the files were not counted.
#[test]
fn with_a_folder_for_the_files_a_person_sees_what_failed_units_wrote_alone() {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let starfarm = |words: &[&str]| {
        let mut command = program("starfarm", dir.path());
        command.args(words);
        run(command)
    };
    let script = "echo said {}; test {} != 1 || exit 3; echo {} > {}.out";
    let line = ["--outputs", "{}.out", "--range", "0..3", "--", "sh", "-c", script];
    let begin = ["run", "--slots", "2", "--state", &path("s"), "--dir", &path("out")];
    let reply = starfarm(&[&begin[..], &line].concat());
    reply.exits(1).says(&["2 files in"]);
    let is_brief =
        |text: &str| text.contains("said 1") && !text.contains("said 0") && !text.contains("said 2");
    assert!(is_brief(&reply.stdout), "{}", reply.stdout);
    let results = |words: &[&str]| starfarm(&[&["--farm", &path("s"), "results", "1"][..], words].concat());
    let reply = results(&["--dir", &path("again")]);
    reply.exits(0).says(&["2 files in", "`starfarm results 1` prints what units wrote"]);
    assert!(is_brief(&reply.stdout), "{}", reply.stdout);
    for whole in [
        &["--dir", &path("again"), "--unit", "0..3"][..],
        &["--dir", &path("again"), "--output", "quiet"],
        &[],
    ] {
        let reply = results(whole);
        let said = ["said 0", "said 2"].map(|words| reply.stdout.contains(words));
        assert_eq!(said, [true, true], "{whole:?}: {}", reply.stdout);
    }
}

/// It was told to stop a scheduler that it had not started.
#[test]
fn the_same_line_twice_at_once_is_told_that_it_runs_already() {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let script = format!("echo > {}; until [ -e {} ]; do sleep 0.01; done", path("begun"), path("gate"));
    let line = |flags: &[&str]| {
        let mut command = program("starfarm", dir.path());
        command.args(["run", "--slots", "2"]).args(flags).args(["--", "sh", "-c", &script]);
        command
    };
    let mut first = Daemon::start("run", line(&[]), dir.path());
    until("a program has begun", || dir.path().join("begun").exists());
    run(line(&[])).exits(6).says(&["this same line is running already", "run it apart", "--state"]);
    dir.write("gate", "");
    assert_eq!(first.wait(), 0);
    run(line(&["--state", &path("apart")])).exits(0);
    require_nothing_left(dir.path());
}
