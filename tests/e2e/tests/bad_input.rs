//! What a person gets wrong: each slip has an exit code and words that say what to do.
#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, UdpSocket};

use starfarm_e2e::{Farm, Reply, TempDir, program, run};

/// Runs `starfarm` without a farm.
fn starfarm(dir: &TempDir, args: &[&str]) -> Reply {
    let mut command = program("starfarm", dir.path());
    command.current_dir(dir.path()).args(args);
    run(command)
}

/// What is said of a job file with this text.
fn refused(dir: &TempDir, text: &str) -> Reply {
    dir.write("job.toml", text);
    let dry = starfarm(dir, &["submit", "--dry-run", "job.toml"]);
    let run = starfarm(dir, &["run", "job.toml"]);
    assert_eq!((dry.code, &dry.stderr), (2, &run.stderr), "`run` says the same");
    assert!(dry.stdout.is_empty());
    dry
}

const COMMAND: &str = "\n[task]\nexecutor = \"command\"\nprogram = [\"true\", \"{}\"]\n";
const SEARCH: &str = "\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n";
const RANGE: &str = "[space]\nkind = \"range\"\nfrom = 0\nto = 9";
const MASK: &str = "[space]\nkind = \"chars\"\nmask = \"?l?l\"";

#[test]
fn slips_in_a_job_file_are_told_with_line_and_column() {
    let dir = TempDir::new();
    dir.write("empty.txt", "");
    let cases: &[(String, &[&str])] = &[
        (format!("{RANGE}\nform = 1{COMMAND}"), &["job.toml:5:1", "`form`"]),
        (format!("colour = 1\n{RANGE}{COMMAND}"), &["job.toml:1:1", "`colour`"]),
        (format!("{RANGE}{COMMAND}").replace("true", "./no-such"), &["job.toml:7:", "no-such"]),
        (format!("{MASK}{SEARCH}targets_file = \"gone.txt\""), &["job.toml:7:", "gone.txt"]),
        (format!("{MASK}{SEARCH}targets = [\"abcd\"]"), &["job.toml:7:", "32"]),
        (format!("{MASK}{SEARCH}targets = []"), &["job.toml:7:", "target"]),
        (
            format!("{MASK}{SEARCH}targets = [\"{}\"]", "0".repeat(32)).replace("?l?l", ""),
            &["job.toml:3:", "mask"],
        ),
        (
            format!("{MASK}{SEARCH}targets = [\"{}\"]", "0".repeat(32)).replace("?l?l", &"?a".repeat(20)),
            &["job.toml:3:", "2^128"],
        ),
        (format!("[space]\nkind = \"list\"\nfile = \"empty.txt\"{COMMAND}"), &["job.toml:3:", "empty"]),
        (format!("[space]\nkind = \"list\"\nglob = \"*.none\"{COMMAND}"), &["job.toml:3:", "none"]),
        (format!("{RANGE}{COMMAND}").replace("to = 9", "to = 0"), &["job.toml:4:"]),
        (format!("{RANGE}{SEARCH}targets = [\"{}\"]", "0".repeat(32)), &["job.toml:6:", "chars"]),
        ("[space\n".to_owned(), &["job.toml:1:", "TOML"]),
    ];
    for (text, words) in cases {
        refused(&dir, text).exits(2).says(words);
    }
}

/// The workers may have what the machine that submits lacks; `run` has no other machine.
#[test]
fn a_program_that_is_not_here_is_a_note_at_submit_and_an_error_of_run() {
    let dir = TempDir::new();
    dir.write("job.toml", format!("{RANGE}{COMMAND}").replace("true", "no-such-program"));
    let words = ["job.toml:7:12", "`no-such-program`"];
    starfarm(&dir, &["submit", "--dry-run", "job.toml"]).exits(0).says(&words).says(&["each node needs it"]);
    starfarm(&dir, &["run", "job.toml"]).exits(2).says(&words).says(&["only node"]);
    let absolute = ["submit", "--dry-run", "--", "/no/such/program"];
    starfarm(&dir, &absolute).exits(0).says(&["note: ", "/no/such/program"]);
}

#[test]
fn slips_on_the_command_line_are_usage() {
    let dir = TempDir::new();
    starfarm(&dir, &["submit"]).exits(2);
    starfarm(&dir, &["submit", "gone.toml"]).exits(2).says(&["gone.toml", "check the path"]);
    starfarm(&dir, &["submit", "--range", "5..5", "--", "true"]).exits(2).says(&["--range"]);
    starfarm(&dir, &["submit", "--range", "0..x", "--", "true"]).exits(2).says(&["--range"]);
    starfarm(&dir, &["submit", "--lines", "gone.txt", "--", "true"]).exits(2).says(&["gone.txt"]);
    starfarm(&dir, &["submit", "--grid", "a", "--", "true"]).exits(2).says(&["--grid"]);
    starfarm(&dir, &["submit", "--range", "0..2", "--", "./no-such"]).exits(2).says(&["no-such"]);
    starfarm(&dir, &["job", "show", "seven"]).exits(2).says(&["starfarm jobs"]);
    starfarm(&dir, &["frobnicate"]).exits(2);
    starfarm(&dir, &["jobs"]).exits(2).says(&["--farm", "STARFARM_FARM"]);
}

#[test]
fn a_dry_run_shows_the_job_and_asks_no_farm() {
    let dir = TempDir::new();
    let args = ["--output", "json", "submit", "--dry-run", "--range", "3..1003", "--", "echo", "{}"];
    let job = starfarm(&dir, &args).exits(0).json();
    assert_eq!(job["schema"], "starfarm/dry-run/1");
    assert_eq!(job["units_total"], "1000");
    assert_eq!((&job["first"]["value"], &job["last"]["value"]), (&"3".into(), &"1002".into()));
}

#[test]
fn a_scheduler_that_is_not_there_is_told_with_what_to_do() {
    let dir = TempDir::new();
    let path = dir.path().to_string_lossy().into_owned();
    for command in [&["jobs"][..], &["submit", "--range", "0..2", "--", "true"], &["results", "1"]] {
        let args = [&["--farm", path.as_str()], command].concat();
        starfarm(&dir, &args).exits(3).says(&["scheduler"]);
    }
    starfarm(&dir, &["--farm", "/nowhere/at/all", "jobs"]).exits(3).says(&["/nowhere/at/all"]);
    // A join file whose scheduler has gone.
    let mut farm = Farm::start();
    let join = farm.state().join("admin.join");
    farm.kill_scheduler();
    farm.cli_by(&join, &["jobs"]).exits(3).says(&[&farm.address().to_string()]);
}

#[test]
fn what_is_not_there_is_not_found() {
    let farm = Farm::start();
    for args in [&["job", "show", "7"][..], &["job", "pause", "7"], &["job", "wait", "7"], &["results", "7"]]
    {
        farm.cli(args).exits(4).says(&["no job 7", "starfarm jobs"]);
    }
    farm.cli(&["node", "show", "nobody"]).exits(4).says(&["nobody"]);
    farm.cli(&["key", "revoke", "nobody"]).exits(4).says(&["nobody"]);
}

/// Tries to start a scheduler that cannot start.
fn scheduler(dir: &TempDir, state: &str, listen: &str) -> Reply {
    let mut command = program("starfarm-scheduler", dir.path());
    command.arg("--state").arg(dir.path().join(state)).args(["--listen", listen]);
    run(command)
}

#[test]
fn a_port_in_use_is_named() {
    let dir = TempDir::new();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = udp.local_addr().unwrap().to_string();
    scheduler(&dir, "a", &taken).exits(2).says(&[&taken, "--listen"]);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    scheduler(&dir, "b", &taken).exits(2).says(&[&taken, "--listen"]);
    scheduler(&dir, "c", "nonsense").exits(2);
}

#[test]
fn a_state_directory_in_use_is_a_conflict() {
    let farm = Farm::with_workers(1, 1);
    let state = farm.state().to_string_lossy().into_owned();
    scheduler(farm.temp(), &state, "127.0.0.1:0").exits(6).says(&["another scheduler", "--state"]);
    let state = farm.worker_state("w1").to_string_lossy().into_owned();
    let join = farm.state().join("worker.join");
    let mut command = program("starfarm-worker", farm.temp().path());
    command.args(["--name", "other", "--state", &state, "--join"]).arg(join);
    run(command).exits(6).says(&["another worker", "--state"]);
}

#[test]
fn a_worker_without_a_good_join_file_says_what_to_copy() {
    let dir = TempDir::new();
    let worker = |join: &str| {
        let mut command = program("starfarm-worker", dir.path());
        command.args(["--state", "state", "--join", join]).current_dir(dir.path());
        run(command)
    };
    worker("gone.join").exits(2).says(&["gone.join", "worker.join"]);
    dir.write("half.join", "{\"about\":");
    worker("half.join").exits(2).says(&["half.join", "copy it again"]);
    dir.write("empty.join", "");
    worker("empty.join").exits(2).says(&["empty"]);
}

#[test]
fn a_worker_that_cannot_reach_the_scheduler_says_so_and_goes_on_trying() {
    let mut farm = Farm::start();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let join = farm.join_file_at("worker.join", silent.local_addr().unwrap());
    let address = silent.local_addr().unwrap().to_string();
    let worker = farm.add_worker_by("lonely", &join, &[]);
    worker.until_says("still trying");
    assert!(worker.log().contains(&address) && worker.poll().is_none());
}
