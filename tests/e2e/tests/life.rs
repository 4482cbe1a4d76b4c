//! Life with jobs: chains of them, their labels, how many nodes they may have, and what is seen of them meanwhile.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use starfarm_e2e::{Daemon, Farm, Reply, program, until};

fn state(farm: &Farm, id: &str) -> String {
    farm.job(id)["state"].as_str().unwrap().to_owned()
}

/// A job of one unit that ends when the gate is open.
fn gated(farm: &Farm, name: &str) -> String {
    let script = format!("{}; echo {name}", farm.gated(&farm.temp().path().join("log"), 0));
    farm.submit(&["--name", name, "--range", "0..1", "--", "sh", "-c", &script])
}

fn echo(farm: &Farm, flags: &[&str]) -> String {
    farm.submit(&[flags, &["--range", "0..3", "--", "echo", "{}"]].concat())
}

/// The scheduler is killed while all wait for the first.
#[test]
fn a_chain_of_jobs_runs_in_order_also_over_a_crash() {
    let mut farm = Farm::with_workers(1, 2);
    let first = gated(&farm, "first");
    let second = echo(&farm, &["--after", &first, "--label", "project=x"]);
    let text = format!(
        "after = {second}\nafter_any = [{first}]\nlabels = {{ project = \"x\", stage = \"last\" }}\n\
         [space]\nkind = \"range\"\nfrom = 0\nto = 3\n[task]\nexecutor = \"command\"\nprogram = [\"echo\", \"{{}}\"]\n\
         max_nodes = 1\n"
    );
    let third = farm.submit_text(&text);
    farm.until_job(&first, "state", "running");
    let waits = |farm: &Farm| {
        let [second, third] = [&second, &third].map(|id| farm.job(id));
        assert_eq!((&second["state"], &third["state"]), (&"waiting".into(), &"waiting".into()));
        assert_eq!(second["waits_for"], serde_json::json!([first.parse::<u64>().unwrap()]));
        assert_eq!(third["labels"]["stage"], "last");
        assert_eq!(third["max_nodes"], 1);
    };
    waits(&farm);
    let why = farm.cli(&["job", "explain", &second]).exits(0).stdout.clone();
    assert!(why.contains(&format!("Job {second} waits for job {first}.")), "{why}");
    let shown = farm.cli(&["job", "show", &third]).exits(0).stdout.clone();
    assert!(
        shown.contains("label") && shown.contains(&format!("waits for jobs {first}, {second}")),
        "{shown}"
    );
    farm.kill_scheduler();
    farm.restart_scheduler();
    waits(&farm);
    farm.open_gate();
    farm.wait(&third).exits(0);
    let times = [&first, &second, &third].map(|id| {
        let job = farm.job(id);
        assert_eq!(job["state"], "finished");
        (job["started_us"].as_u64().unwrap(), job["ended_us"].as_u64().unwrap())
    });
    assert!(times[0].1 <= times[1].0 && times[1].1 <= times[2].0, "{times:?}");
    farm.cli(&["audit"]).exits(0);
}

#[test]
fn who_waits_for_a_job_that_fails_is_cancelled_in_words() {
    let farm = Farm::with_workers(1, 1);
    let script = format!("{}; exit 3", farm.gated(&farm.temp().path().join("log"), 0));
    let first = farm.submit(&["--range", "0..1", "--", "sh", "-c", &script]);
    let second = echo(&farm, &["--after", &first]);
    let third = echo(&farm, &["--after", &second]);
    let other = echo(&farm, &["--after-any", &first]);
    farm.open_gate();
    let reply = farm.wait(&third);
    reply.exits(1);
    farm.wait(&other).exits(0);
    assert_eq!([&first, &second, &third].map(|id| state(&farm, id)), ["failed", "cancelled", "cancelled"]);
    let why = farm.job(&second)["note"].as_str().unwrap().to_owned();
    assert_eq!(why, format!("job {first} has ended (failed)"));
    let refused = farm.cli(&["submit", "--after", &first, "--", "true"]);
    refused.exits(6).says(&["is failed, and the job was to start after it has ended well"]);
    farm.cli(&["submit", "--after", "99", "--", "true"])
        .exits(4)
        .says(&["there is no job 99 to start after"]);
}

/// The scheduler is killed while it merges.
#[test]
fn a_job_waits_for_the_merge_of_another() {
    let mut farm = Farm::with_workers(1, 1);
    let gate = farm.temp().path().join("gate");
    let merge = format!("while ! test -e {}; do sleep 0.01; done; cat", gate.display());
    let text = |script: &str| {
        format!(
            "[space]\nkind = \"range\"\nfrom = 0\nto = 2\n[task]\nexecutor = \"command\"\n\
             program = [\"echo\", \"{{}}\"]\n[merge]\nprogram = [\"sh\", \"-c\", \"{script}\"]\n"
        )
    };
    let first = farm.submit_text(&text(&merge));
    let bad = farm.submit_text(&text("exit 9"));
    let second = echo(&farm, &["--after", &first]);
    let any = echo(&farm, &["--after-any", &first, "--after-any", &bad]);
    until("the first is being merged", || farm.job(&first)["merge"]["state"] == "running");
    assert_eq!(state(&farm, &second), "waiting");
    farm.kill_scheduler();
    farm.restart_scheduler();
    assert_eq!([&first, &second, &any].map(|id| state(&farm, id)), ["finished", "waiting", "waiting"]);
    farm.cli(&["job", "delete", &first]).exits(6).says(&["are still to be merged"]);
    farm.open_gate();
    farm.wait(&second).exits(0);
    farm.wait(&any).exits(0);
    farm.cli(&["submit", "--after", &bad, "--", "true"]).exits(6).says(&["cannot be merged"]);
}

#[test]
fn jobs_are_selected_by_their_labels() {
    let farm = Farm::start();
    let [a, b, c] = ["x", "x", "y"].map(|project| {
        echo(&farm, &["--label", &format!("project={project}"), "--label", &format!("stage={project}1")])
    });
    let ids = |args: &[&str]| -> Vec<String> {
        let words = [&["--output", "quiet", "jobs"], args].concat();
        farm.cli(&words).exits(0).stdout.lines().map(str::to_owned).collect()
    };
    assert_eq!(ids(&["--label", "project=x"]), [&*a, &*b]);
    assert_eq!(ids(&["--label", "project=x", "--label", "stage=y1"]), [""; 0]);
    farm.cli(&["job", "pause", "--label", "project=x"]).exits(0);
    assert_eq!([&a, &b, &c].map(|id| state(&farm, id)), ["paused", "paused", "queued"]);
    farm.cli(&["job", "resume", &a, &b]).exits(0);
    farm.cli(&["job", "cancel", &a]).exits(0);
    // Of those with the label one has ended.
    farm.cli(&["job", "cancel", "--label", "project=x"]).exits(0);
    assert_eq!([&a, &b, &c].map(|id| state(&farm, id)), ["cancelled", "cancelled", "queued"]);
    farm.cli(&["job", "delete", "--label", "project=x"]).exits(0);
    assert_eq!(ids(&[]), [&*c]);
    farm.cli(&["job", "cancel", "--label", "project=z"]).exits(4).says(&["no job has these labels"]);
    // Where one of several fails, the others have their turn.
    let reply = farm.cli(&["job", "cancel", "77", &c]);
    reply.exits(4).says(&["no job 77"]);
    assert_eq!(state(&farm, &c), "cancelled");
    for flags in [["--label", "=x"], ["--label", "project"], ["--max-nodes", "0"]] {
        let words = [&["submit"], &flags[..], &["--", "true"]].concat();
        farm.cli(&words).exits(2);
    }
    farm.cli(&["submit", "--env", "A=1", "--env", "A=2", "--", "true"])
        .exits(2)
        .says(&["--env A is given twice"]);
}

#[test]
fn one_node_at_a_time_works_for_a_job_that_says_so() {
    let mut farm = Farm::with_workers(2, 1);
    let script = format!("{}; echo {{}}", farm.gated(&farm.temp().path().join("log"), 2));
    let size = ["--units-per-task", "1", "--range", "0..6"];
    let id = farm.submit(&[&["--max-nodes", "1"], &size[..], &["--", "sh", "-c", &script]].concat());
    let idles = |name: &str| {
        let why = farm.cli(&["node", "explain", name]).stdout;
        why.contains("as many as `max_nodes` allows")
    };
    until("a node idles, and says why", || idles("w1") || idles("w2"));
    let other = if idles("w1") { "w1" } else { "w2" };
    let nodes = |farm: &Farm| -> Vec<String> {
        let results = farm.results(&id);
        let nodes = results["outputs"].as_array().unwrap().iter();
        nodes.map(|output| output["node"].as_str().unwrap().to_owned()).collect()
    };
    until("the job is at the gate", || nodes(&farm).len() == 2);
    assert!(!nodes(&farm).contains(&other.to_owned()), "{:?}", nodes(&farm));
    // The place of the one that is killed is free once it is lost.
    farm.workers[usize::from(other == "w1")].kill();
    farm.open_gate();
    farm.wait(&id).exits(0);
    assert_eq!(nodes(&farm).iter().filter(|node| *node == other).count(), 4, "{:?}", nodes(&farm));
}

#[test]
fn logs_come_as_units_end() {
    let farm = Farm::with_workers(1, 1);
    let script =
        format!("{}; echo said {{}}; echo err {{}} >&2", farm.gated(&farm.temp().path().join("log"), 1));
    let id = farm.submit(&["--range", "0..3", "--units-per-task", "1", "--", "sh", "-c", &script]);
    let follow = |name: &str, words: &[&str]| {
        let mut command = program("starfarm", farm.temp().path());
        command.arg("--farm").arg(farm.state()).args(["job", "logs", &id, "--follow"]).args(words);
        Daemon::start(name, command, farm.temp().path())
    };
    let mut followed = follow("all", &[]);
    followed.until_says("said 0");
    let mut left = follow("left", &["--stderr"]);
    left.until_says("err 0");
    left.signal(Signal::INT);
    assert_eq!(left.wait(), 130);
    farm.cli(&["job", "logs", &id, "2"]).exits(0).says(&["no such unit has ended yet"]);
    assert!(!followed.log().contains("said 1"), "{}", followed.log());
    farm.open_gate();
    assert_eq!(followed.wait(), 0);
    assert!(followed.log().contains("said 1\nsaid 2\n"), "{}", followed.log());
    let out = |words: &[&str]| farm.cli(&[&["job", "logs", &id], words].concat()).exits(0).stdout.clone();
    assert_eq!(out(&[]), "said 0\nsaid 1\nsaid 2\n");
    assert_eq!(out(&["1", "--stderr"]), "err 1\n");
    farm.cli(&["job", "logs", &id, "3"]).exits(2).says(&["has units 0 to 2"]);
}

#[test]
fn results_of_some_units_and_streams_in_files() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().join("project");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("names"), "a\nb\n../c\n").unwrap();
    let names = dir.join("names");
    let list = |script: &str| {
        farm.submit(&["--lines", names.to_str().unwrap(), "--", "sh", "-c", script, "-", "{}"])
    };
    let id = list("echo out $1; echo err $1 >&2");
    farm.wait(&id).exits(0);
    let units = |which: &str| -> Vec<String> {
        let results = farm.ask(&["results", &id, "--unit", which]);
        results["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["unit"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(units("2,0"), ["0", "2"]);
    assert_eq!(units("0..2"), ["0", "1"]);
    assert_eq!(farm.cli(&["--output", "quiet", "results", &id, "--unit", "1"]).exits(0).stdout, "out b\n");
    farm.cli(&["results", &id, "--unit", "3"]).exits(2).says(&["has units 0 to 2, and not unit 3"]);
    farm.cli(&["results", &id, "--unit", "2..2"]).exits(2);

    let out = dir.join("out");
    let into = |words: &[&str]| -> Reply {
        farm.cli(&[&["results", &id, "--dir", out.to_str().unwrap()], words].concat())
    };
    let read = |path: &str| fs::read_to_string(out.join(path)).unwrap();
    let streams = ["--unit", "0,1", "--stdout", "{}.txt", "--stderr", "err/{index}"];
    assert_eq!(into(&streams).exits(0).stdout, "");
    assert_eq!([read("a.txt"), read("b.txt"), read("err/1")], ["out a\n", "out b\n", "err b\n"]);
    into(&streams).exits(0);
    into(&["--stdout", "same.txt"]).exits(0);
    assert_eq!(read("2/same.txt"), "out ../c\n");
    // The third value leads out of the folder; a link there does so too.
    into(&["--stdout", "{}.txt"]).exits(6).says(&["names no file inside of the folder"]);
    assert!(!dir.join("c.txt").exists());
    fs::create_dir(dir.join("outside")).unwrap();
    symlink("../outside", out.join("link")).unwrap();
    into(&["--stdout", "link/{index}"]).exits(6).says(&["leads through a link"]);
    assert_eq!(fs::read_dir(dir.join("outside")).unwrap().count(), 0);
    farm.cli(&["results", &id, "--stdout", "x"]).exits(2).says(&["--dir"]);
    let nope = "`{nope}` in {nope}.txt is no placeholder of this job: there are `{}`, `{index}`";
    into(&["--stdout", "{nope}.txt"]).exits(2).says(&[nope]);
    farm.cli(&["results", &id, "--dir", out.join("a.txt").to_str().unwrap()])
        .exits(2)
        .says(&["is a file: name a folder"]);
}
