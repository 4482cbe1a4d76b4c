//! What jobs have used, as it is seen afterwards: in the log, in `job show`, and what befell the tree meanwhile.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;
use starfarm_e2e::{Daemon, Farm, Signal, alive, send, until, until_some};

fn is_measured(farm: &Farm, name: &str) -> bool {
    let nodes = farm.ask(&["nodes"]);
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes.iter().any(|node| node["name"] == name && !node["usage"].is_null())
}

/// A unit that takes three seconds of processor time, and how often it does so.
const THREE_SECONDS: &str = "(ulimit -t 3; while :; do :; done); true";

#[test]
fn an_ended_job_says_what_it_has_used_and_so_does_the_log() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    until("the node is measured", || is_measured(&farm, "w1"));
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", THREE_SECONDS]);
    farm.wait(&id).exits(0);
    let job: u64 = id.parse().unwrap();
    let life = until_some("the log has the whole life of the job", || {
        let mut of_job = farm.logged("job_usage").into_iter();
        of_job.find(|entry| entry["over"] == "life" && entry["job"] == job)
    });
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key} of {of}"));
    let total = farm.job(&id)["usage_total"].clone();
    let used = number(&total, "cpu_seconds");
    assert!((2.4..3.6).contains(&used), "three seconds were used: {total}");
    let cores = &total["cpu_cores"];
    assert!(number(cores, "max") < 1.3 && number(cores, "avg") <= number(cores, "max"), "{total}");
    assert!(number(&total["memory_bytes"], "min") > 100_000.0, "{total}");
    assert!(number(&total, "memory_bytes_max") >= number(&total["memory_bytes"], "max"), "{total}");
    assert_eq!((&total["units"], &total["from"], &total["of"]), (&1.into(), &1.into(), &1.into()), "{total}");
    assert_eq!(total["gpu"], Value::Null, "what is not known is no number");
    // The log says the same of it, and has no figure that nobody knows.
    let logged = number(&life, "cpu_cores_sum") * number(&life, "for_us") / 1e6;
    assert!((logged - used).abs() < 0.01, "{life} {total}");
    assert!(life.get("gpu_avg").is_none() && life["memory_bytes_avg"].is_number(), "{life}");
    let shown = farm.cli(&["job", "show", &id]);
    for words in ["cpu time used", "memory at most", "1 of 1 node, 1 unit at once"] {
        assert!(shown.exits(0).stdout.contains(words), "`{words}` is not in: {}", shown.stdout);
    }
    farm.scheduler.signal(Signal::TERM);
    assert_eq!(farm.scheduler.wait(), 0);
    assert_eq!(farm.logged("job_usage").len(), 1, "a life is told once");
    let state = farm.state();
    farm.cli(&["audit", &state.to_string_lossy()]).exits(0);
}

#[test]
fn what_befalls_the_tree_is_in_the_log() {
    let mut farm = Farm::start();
    for n in 0..4 {
        farm.add_worker(&format!("w{n}"), &["--slots", "0"]);
    }
    farm.until_nodes_up(4);
    until("all are linked", || farm.ask(&["tree"])["posts"].as_array().unwrap().len() == 5);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let ibe = until_some("there are CPs and all are linked", || {
        let tree = farm.ask(&["tree"]);
        let posts = tree["posts"].as_array().unwrap();
        let ibe = posts.iter().find(|post| post["kind"] == "ibe" && post["children"] == 2).cloned();
        ibe.filter(|_| tree["tree"]["state"] == "live")
    });
    let pid = ibe["pid"].as_u64().unwrap() as u32;
    send(Signal::KILL, pid);
    until("its process is gone", || !alive(pid));
    let is_it = |entry: &Value| entry["post"] == ibe["post"];
    until("the log has its loss and its return", || {
        let lost = farm.logged("tree_lost");
        let came = farm.logged("tree_post");
        lost.iter()
            .any(|entry| is_it(entry) && entry["why"] == "process_ended" && entry["post_kind"] == "ibe")
            && came.iter().filter(|entry| is_it(entry)).count() == 2
    });
    let came = farm.logged("tree_post");
    let back_ends = came.iter().filter(|entry| entry["post_kind"] == "be");
    assert_eq!(back_ends.count(), 4, "{came:?}");
    let moved = farm.logged("tree_adopted");
    assert!(moved.iter().any(|entry| entry["parent"] == ibe["post"]), "back ends went below it: {moved:?}");
}

#[test]
fn who_follows_figures_hears_each_wave_once_of_jobs_or_of_machines() {
    let mut farm = Farm::start();
    for node in ["w1", "w2"] {
        farm.add_worker(node, &["--slots", "1"]);
    }
    farm.until_nodes_up(2);
    let id = farm.submit(&["--range", "0..2", "--units-per-task", "1", "--", "sh", "-c", &farm.forever()]);
    until("both units are measured", || farm.job(&id)["usage"]["units"] == 2);
    let of_job = farm.follow("of-job", &["--stream", "job"]);
    let of_system = farm.follow("of-system", &["--stream", "system"]);
    let of_node = farm.follow("of-node", &["--node", "w2"]);
    let cpu = |of: &Daemon| of.lines().iter().filter(|line| line["metric"] == "cpu").count();
    until("all have heard some waves", || cpu(&of_job) >= 3 && cpu(&of_system) >= 6 && cpu(&of_node) >= 3);
    let job: u64 = id.parse().unwrap();
    for line in of_job.lines() {
        assert_eq!((&line["job"], &line["node"]), (&job.into(), &Value::Null), "{line}");
        let parts = ["min", "avg", "max", "sum"].map(|part| line[part].as_f64().unwrap());
        assert!(parts.is_sorted(), "{line}");
        assert!(line["of"] == 2 && line["from"].as_u64().unwrap() <= 2, "{line}");
    }
    let nodes = |of: &Daemon| -> BTreeSet<String> {
        let node = |line: &Value| line["node"].as_str().unwrap_or_default().to_owned();
        of.lines().iter().map(node).collect()
    };
    assert_eq!(nodes(&of_system), BTreeSet::from(["w1".to_owned(), "w2".to_owned()]));
    assert_eq!(nodes(&of_node), BTreeSet::from(["w2".to_owned()]));
    // A machine tells once a second, and nobody hears the same twice.
    let (before, start) = (cpu(&of_node), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_secs(5));
    let (heard, seconds) = (cpu(&of_node) - before, start.elapsed().as_secs_f64());
    assert!(heard >= 2 && heard as f64 <= seconds + 2.0, "{heard} waves in {seconds} s");
    farm.cli(&["job", "cancel", &id]).exits(0);
}
