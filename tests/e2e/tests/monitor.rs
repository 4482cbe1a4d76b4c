//! What jobs and nodes use, as people see it: measured by an agent on each node, whatever is killed meanwhile.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use starfarm_e2e::{Farm, Signal, alive, each_done_once, running_with, until, until_some};

/// Keeps a core busy until the test is over.
fn busy(farm: &Farm) -> String {
    format!("while test -d {}; do :; done", farm.temp().path().display())
}

/// The farm's agents.
fn agents(farm: &Farm) -> Vec<u32> {
    let of_farm = running_with(&farm.temp().path().display().to_string());
    let is_agent = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"starfarm-agent"))
    };
    of_farm.into_iter().filter(is_agent).collect()
}

fn cores(job: &Value) -> f64 {
    job["usage"]["cpu_cores"]["sum"].as_f64().unwrap_or_default()
}

fn node(farm: &Farm, name: &str) -> Value {
    let nodes = farm.ask(&["nodes"]);
    nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap().clone()
}

#[test]
fn each_job_has_what_its_own_programs_use() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "3"]);
    farm.until_node("w1", "up");
    let idle = farm.submit(&["--range", "0..2", "--", "sh", "-c", &farm.forever()]);
    let busy = farm.submit(&["--range", "0..1", "--", "sh", "-c", &busy(&farm)]);
    let job = until_some("the busy job uses a core", || {
        Some(farm.job(&busy)).filter(|job| cores(job) > 0.4 && job["usage"]["units"] == 1)
    });
    let usage = &job["usage"];
    assert!(cores(&job) < 1.3, "one unit is one core: {usage}");
    assert_eq!((&usage["from"], &usage["of"]), (&1.into(), &1.into()), "{usage}");
    assert!(usage["memory_bytes"]["min"].as_f64().unwrap() > 100_000.0, "{usage}");
    assert_eq!(usage["gpu"], Value::Null, "what is not known is no number");
    let other = farm.job(&idle);
    assert_eq!(other["usage"]["units"], 2, "{}", other["usage"]);
    assert!(cores(&other) < 0.5, "{}", other["usage"]);
    let node = node(&farm, "w1");
    assert!(node["usage"]["cpu_cores"].as_f64().unwrap() > 0.3, "{}", node["usage"]);
    assert!(node["usage"]["memory_bytes"].as_f64().unwrap() > 1e6, "{}", node["usage"]);
    let shown = farm.cli(&["job", "show", &busy]);
    for words in ["cpu cores in use", "by unit", "1 of 1 node, 1 unit"] {
        assert!(shown.exits(0).stdout.contains(words), "`{words}` is not in: {}", shown.stdout);
    }
    for id in [&busy, &idle] {
        farm.cli(&["job", "cancel", id]).exits(0);
    }
    until("an ended job uses nothing", || farm.job(&busy)["usage"].is_null());
}

#[test]
fn units_shorter_than_a_wave_count_in_sum() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    // Each takes some milliseconds of CPU and ends long before anybody looks at it.
    let id = farm.submit(&["--range", "0..400", "--", "sh", "-c", "for i in 1 2 3; do /bin/true; done"]);
    until("they use CPU", || cores(&farm.job(&id)) > 0.1);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 400);
}

#[test]
fn a_search_is_measured_in_its_threads() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    let id = farm.submit_text(
        "name = \"s\"\n[space]\nkind = \"chars\"\nmask = \"?l?l?l?l?l?l?l?l\"\n[task]\nexecutor = \"search\"\n\
         algorithm = \"md5\"\ntargets = [\"00000000000000000000000000000000\"]\n",
    );
    until("it uses a core", || cores(&farm.job(&id)) > 0.4);
    assert_eq!(farm.job(&id)["usage"]["memory_bytes"], Value::Null, "a thread's memory is not known");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

#[test]
fn an_agent_that_is_killed_comes_back_and_no_task_notices() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "2"]);
    let script = farm.gated(&farm.temp().path().join("ran"), 3);
    let id = farm.submit(&["--range", "0..6", "--", "sh", "-c", &script]);
    until("the job is seen", || farm.job(&id)["usage"]["from"] == 1);
    let before = agents(&farm);
    assert_eq!(before.len(), 1, "one agent a node");
    let pid = rustix::process::Pid::from_raw(before[0] as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    until("another agent is there", || {
        agents(&farm).first().is_some_and(|agent| *agent != before[0]) && !alive(before[0])
    });
    until("the job is seen again", || {
        let usage = farm.job(&id)["usage"].clone();
        usage["from"] == 1 && usage["age_seconds"].as_f64().is_some_and(|age| age < 2.0)
    });
    farm.open_gate();
    farm.wait(&id).exits(0);
    let job = farm.job(&id);
    each_done_once(&job, &farm.results(&id), 6);
    assert_eq!(job["tasks_resent"], 0);
}

#[test]
fn a_scheduler_that_starts_again_takes_over_the_agents_that_live() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    until("the job is seen", || farm.job(&id)["usage"]["from"] == 1);
    let before = agents(&farm);
    farm.kill_scheduler();
    farm.restart_scheduler();
    until("the job is seen again", || farm.job(&id)["usage"]["from"] == 1);
    assert_eq!(agents(&farm), before, "the same agent");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

#[test]
fn an_agent_ends_with_its_worker_however_that_ends() {
    let mut farm = Farm::start();
    for name in ["w1", "w2"] {
        farm.add_worker(name, &["--slots", "1"]);
    }
    until("both are measured", || {
        ["w1", "w2"].iter().all(|name| {
            let nodes = farm.ask(&["nodes"]);
            let nodes = nodes["nodes"].as_array().unwrap();
            nodes.iter().any(|node| node["name"] == *name && !node["usage"].is_null())
        })
    });
    assert_eq!(agents(&farm).len(), 2);
    farm.workers[0].kill();
    farm.workers[1].signal(Signal::TERM);
    until("no agent is left", || agents(&farm).is_empty());
}

#[test]
fn without_the_monitor_there_is_no_agent() {
    let mut farm = Farm::start();
    farm.add_worker("seen", &["--slots", "1"]);
    farm.add_worker("unseen", &["--slots", "1", "--no-monitor"]);
    farm.until_nodes_up(2);
    until("one is measured", || !node(&farm, "seen")["usage"].is_null());
    assert_eq!(node(&farm, "unseen")["usage"], Value::Null);
    assert_eq!(agents(&farm).len(), 1);

    let mut farm = Farm::start_with(&["--no-monitor"]);
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    let id = farm.submit(&["--range", "0..20", "--", "sleep", "0.05"]);
    farm.wait(&id).exits(0);
    assert_eq!(agents(&farm), [] as [u32; 0]);
    assert_eq!(farm.job(&id)["usage"], Value::Null);
}
