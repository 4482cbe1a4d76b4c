//! What jobs and nodes use, as people see it: measured by an agent on each node, whatever is killed meanwhile.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use starfarm_e2e::{Farm, Signal, alive, each_done_once, running_with, send, until, until_some};

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
    send(Signal::KILL, before[0]);
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

/// Posts of a kind: their numbers, nodes, parents and processes.
fn posts(tree: &Value, kind: &str) -> Vec<(u64, String, u64, u32)> {
    let posts = tree["posts"].as_array().unwrap().iter().filter(|post| post["kind"] == kind);
    let number = |post: &Value, key: &str| post[key].as_u64().unwrap_or(u64::MAX);
    let of = |post: &Value| {
        let node = post["node"].as_str().unwrap_or_default().to_owned();
        (number(post, "post"), node, number(post, "parent"), number(post, "pid") as u32)
    };
    posts.map(of).collect()
}

/// The tree, once all posts are linked as they should be, `seen` of the job's units among them.
fn until_live(farm: &Farm, id: &str, seen: u64) -> Value {
    until_some("the tree is live", || {
        let usage = farm.job(id)["usage"].clone();
        let all = [&usage["from"], &usage["of"], &usage["units"]].iter().all(|count| **count == seen);
        Some(farm.ask(&["tree"])).filter(|tree| all && tree["tree"]["state"] == "live")
    })
}

/// A farm of six nodes, each with a unit that runs until the gate opens, and a tree of two levels of CPs.
fn deep() -> (Farm, String) {
    let mut farm = Farm::start();
    for n in 0..6 {
        farm.add_worker(&format!("w{n}"), &["--slots", "1"]);
    }
    farm.until_nodes_up(6);
    let script = farm.gated(&farm.temp().path().join("ran"), 0);
    let id = farm.submit(&["--range", "0..6", "--", "sh", "-c", &script]);
    let tree = until_live(&farm, &id, 6);
    assert_eq!((posts(&tree, "be").len(), posts(&tree, "ibe").len()), (6, 0));
    let plan = farm.ask(&["tree", "plan", "--fanout", "2", "--strategy", "fuzzy"]);
    assert_eq!((&plan["hosts"][0]["be"], &plan["hosts"][0]["cp"]), (&6.into(), &5.into()), "{plan}");
    assert!(plan["hosts"][0]["score"].is_number(), "{plan}");
    farm.cli(&["tree", "form", "--fanout", "2", "--strategy", "fuzzy"]).exits(0);
    let tree = until_live(&farm, &id, 6);
    assert_eq!((posts(&tree, "ibe").len(), posts(&tree, "cp").len()), (3, 2), "{tree}");
    assert!(posts(&tree, "cp").iter().all(|(_, _, parent, _)| *parent == 0), "{tree}");
    (farm, id)
}

/// The job ends as if nobody had looked at it.
fn ends_well(farm: &Farm, id: &str) {
    farm.open_gate();
    farm.wait(id).exits(0);
    let job = farm.job(id);
    each_done_once(&job, &farm.results(id), 6);
    assert_eq!(job["tasks_resent"], 0);
}

#[test]
fn a_communication_process_that_is_killed_costs_a_moment_of_the_picture() {
    let (farm, id) = deep();
    for kind in ["ibe", "cp"] {
        let before = farm.ask(&["tree"]);
        let (post, _, _, pid) = posts(&before, kind)[0].clone();
        send(Signal::KILL, pid);
        until("another process holds the post", || {
            let tree = farm.ask(&["tree"]);
            posts(&tree, kind).iter().any(|(id, _, _, other)| *id == post && *other != pid && alive(*other))
        });
        let tree = until_live(&farm, &id, 6);
        let places = |tree: &Value| -> Vec<_> {
            ["be", "ibe", "cp"]
                .iter()
                .flat_map(|kind| posts(tree, kind))
                .map(|(id, _, up, _)| (id, up))
                .collect()
        };
        assert_eq!(places(&tree), places(&before), "each has its place again");
    }
    let tree = farm.ask(&["tree"]);
    let count = |key: &str| {
        tree["posts"].as_array().unwrap().iter().filter_map(|post| post[key].as_u64()).sum::<u64>()
    };
    assert_eq!((count("dropped"), count("gaps")), (0, 0), "{tree}");
    ends_well(&farm, &id);
}

#[test]
fn a_node_that_is_lost_takes_its_posts_along_and_others_come() {
    let (mut farm, id) = deep();
    let tree = farm.ask(&["tree"]);
    let (lost, node, _, _) = posts(&tree, "ibe")[0].clone();
    let n = node.trim_start_matches('w').parse::<usize>().unwrap();
    farm.workers[n].kill();
    // Whoever was below it hangs elsewhere at once; its own unit runs again on another node, when one is free.
    until("five are measured", || farm.job(&id)["usage"]["from"] == 5);
    until("the posts of the lost node have gone", || {
        let tree = farm.ask(&["tree"]);
        let ibes = posts(&tree, "ibe");
        ibes.len() == 3 && ibes.iter().all(|(post, of, ..)| *post != lost && *of != node)
    });
    farm.open_gate();
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 6);
}

#[test]
fn a_revoked_node_is_heard_no_more_though_its_agents_go_on() {
    let (mut farm, id) = deep();
    let tree = farm.ask(&["tree"]);
    let node = posts(&tree, "ibe")[0].1.clone();
    let of_node = |tree: &Value| {
        let all = ["be", "ibe", "cp"].iter().flat_map(|kind| posts(tree, kind));
        all.filter(|(_, of, ..)| *of == node).map(|(.., pid)| pid).collect::<Vec<_>>()
    };
    let (pids, n) = (of_node(&tree), node.trim_start_matches('w').parse::<usize>().unwrap());
    // The worker cannot end them, nor hear that it is revoked.
    farm.workers[n].signal(Signal::STOP);
    farm.cli(&["key", "revoke", &node]).exits(0);
    until("its posts are nobody's", || of_node(&farm.ask(&["tree"])).is_empty());
    until("the others are measured", || {
        let usage = farm.job(&id)["usage"].clone();
        usage["from"] == 5 && usage["of"] == 5
    });
    assert!(pids.iter().all(|pid| alive(*pid)), "its agents go on");
    farm.workers[n].signal(Signal::CONT);
    until("its agents end with it", || !pids.iter().any(|pid| alive(*pid)));
    farm.open_gate();
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 6);
}

/// How often figures of something are new, in waves a second: of two seconds.
fn waves(farm: &Farm, what: &[&str]) -> f64 {
    let ask = [&["--output", "json", "monitor", "show"], what].concat();
    let mut seen = std::collections::BTreeSet::new();
    let start = std::time::Instant::now();
    while start.elapsed().as_secs() < 2 {
        let now = start.elapsed().as_secs_f64();
        let series: Value = serde_json::from_str(&farm.cli(&ask).exits(0).stdout).unwrap();
        let of = series["series"].as_array().unwrap().iter().find(|series| series["metric"] == "cpu");
        // When it was measured, in steps that waves of a tenth of a second do not share.
        of.map(|of| seen.insert(((now - of["age_seconds"].as_f64().unwrap()) * 20.0).round() as i64));
    }
    let mut last = i64::MIN;
    let apart = seen.into_iter().filter(|at| {
        *at > last + 1 && {
            last = *at;
            true
        }
    });
    apart.count() as f64 / 2.0
}

#[test]
fn what_is_measured_and_how_often_is_said_while_it_runs() {
    let (farm, id) = deep();
    let other = farm.submit(&["--range", "0..1", "--", "true"]);
    assert!(waves(&farm, &["--job", &id]) < 2.5);
    farm.cli(&["monitor", "set", "--job", &id, "--period", "0.1", "--metrics", "cpu"]).exits(0);
    let start = std::time::Instant::now();
    until("its waves come ten times a second", || waves(&farm, &["--job", &id]) > 3.0);
    assert!(start.elapsed().as_secs() < 10);
    assert_eq!(farm.job(&id)["usage"]["memory_bytes"], Value::Null, "nobody asked for it");
    assert_eq!(farm.job(&id)["usage"]["from"], 6, "{}", farm.job(&id)["usage"]);
    assert!(waves(&farm, &["--node", "w1"]) < 2.5, "nothing else is measured more often");
    farm.cli(&["monitor", "set", "--job", &id, "--off"]).exits(0);
    until("nothing is measured of it", || farm.job(&id)["usage"].is_null());
    farm.cli(&["monitor", "set", "--job", &id, "--default"]).exits(0);
    until("all is as it was", || {
        farm.job(&id)["usage"]["from"] == 6 && farm.job(&id)["usage"]["memory_bytes"].is_object()
    });
    farm.cli(&["monitor", "set", "--node", "w1", "--metrics", "memory"]).exits(0);
    until("of a node what was asked for", || {
        let usage = node(&farm, "w1")["usage"].clone();
        usage["cpu_cores"].is_null() && usage["memory_bytes"].is_number()
    });
    assert!(node(&farm, "w2")["usage"]["cpu_cores"].is_number());
    let text = farm.cli(&["monitor", "metrics"]).exits(0).stdout.clone();
    for line in [
        &format!("starfarm_job_memory_bytes{{job=\"{id}\",stat=\"max\"}} "),
        "starfarm_node_memory_bytes{node=\"w2\"} ",
        "# EOF",
    ] {
        assert!(text.contains(line), "`{line}` is not in {text}");
    }
    for (wrong, code) in [
        (&["--job", "999", "--off"][..], 4),
        (&["--node", "nobody", "--off"], 4),
        (&["--all", "--period=0.01"], 2),
    ] {
        farm.cli(&[&["monitor", "set"][..], wrong].concat()).exits(code);
    }
    farm.cli(&["job", "cancel", &other]).exits(0);
    farm.cli(&["monitor", "set", "--job", &other, "--off"]).exits(4);
    ends_well(&farm, &id);
}

#[test]
fn nodes_without_slots_carry_all_communication_processes_and_compute_nothing() {
    let mut farm = Farm::start();
    farm.add_worker("carrier", &["--slots", "0"]);
    for n in 0..4 {
        farm.add_worker(&format!("w{n}"), &["--slots", "1", "--no-peers"]);
    }
    farm.until_nodes_up(5);
    let script = farm.gated(&farm.temp().path().join("ran"), 0);
    let id = farm.submit(&["--range", "0..5", "--", "sh", "-c", &script]);
    until_live(&farm, &id, 4);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let tree = until_live(&farm, &id, 4);
    let cps: Vec<_> = ["ibe", "cp"].iter().flat_map(|kind| posts(&tree, kind)).collect();
    assert!(cps.len() == 5 && cps.iter().all(|(_, node, ..)| node == "carrier"), "{tree}");
    assert_eq!(posts(&tree, "be").len(), 5, "it is measured itself");
    let carrier = node(&farm, "carrier");
    assert_eq!((&carrier["slots"], &carrier["tasks"]), (&0.into(), &0.into()), "{carrier}");
    let why = farm.cli(&["node", "explain", "carrier"]);
    assert!(why.exits(0).stdout.contains("slot"), "{}", why.stdout);
    farm.open_gate();
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 5);
    assert_eq!(node(&farm, "carrier")["tasks_done"], 0);
}

#[test]
fn a_scheduler_that_starts_again_finds_the_tree_as_it_stands() {
    let (mut farm, id) = deep();
    let before = farm.ask(&["tree"]);
    farm.kill_scheduler();
    farm.restart_scheduler();
    // It forms anew only what is not there: but nobody told it the fan-out.
    let tree = until_live(&farm, &id, 6);
    assert_eq!(posts(&tree, "be"), posts(&before, "be"), "{tree}");
    assert_eq!(posts(&tree, "cp"), posts(&before, "cp"), "{tree}");
    ends_well(&farm, &id);
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

/// A figure of a job's own programs, over its units.
fn own(job: &Value, name: &str, of: &str) -> f64 {
    job["usage"]["named"][name][of].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn programs_tell_figures_of_their_own() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "3"]);
    farm.until_node("w1", "up");
    let say = "\
import os, socket, sys, time
metrics = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while os.path.exists(sys.argv[1]):
    try:
        metrics.sendto(b'temperature %d\\nno figure\\n' % (40 + int(sys.argv[2])), os.environ['STARFARM_METRICS'])
    except OSError:
        pass
    time.sleep(0.05)
";
    let gate = farm.temp().path().display().to_string();
    let id = farm.submit(&["--range", "0..2", "--", "python3", "-c", say, &gate, "{}"]);
    let other = farm.submit(&["--range", "7..8", "--", "python3", "-c", say, &gate, "{}"]);
    until("both units are heard", || {
        let job = farm.job(&id);
        own(&job, "job.temperature", "min") == 40.0 && own(&job, "job.temperature", "max") == 41.0
    });
    until("the other job has its own", || own(&farm.job(&other), "job.temperature", "min") == 47.0);
    assert_eq!(own(&farm.job(&id), "job.temperature", "max"), 41.0);
    let text = farm.cli(&["monitor", "metrics"]).exits(0).stdout.clone();
    assert!(text.contains("temperature"), "{text}");
    // Whoever hears them starts again.
    let before = agents(&farm);
    before.iter().for_each(|agent| send(Signal::KILL, *agent));
    until("another process hears them", || {
        let job = farm.job(&id);
        let is_new = job["usage"]["age_seconds"].as_f64().is_some_and(|age| age < 1.5);
        !before.iter().any(|agent| alive(*agent)) && is_new && own(&job, "job.temperature", "max") == 41.0
    });
    for id in [&id, &other] {
        farm.cli(&["job", "cancel", id]).exits(0);
    }
}
