//! What a node's own file adds to its agent: stages, programs beside it, processors; and what cannot be had.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use starfarm_e2e::{
    Farm, Reply, Signal, alive, program, resident_kib, run, running_with, send, until, until_some,
    worker_args,
};

/// Writes a file below the farm's folder.
fn write(farm: &Farm, name: &str, text: &str) -> PathBuf {
    let path = farm.temp().path().join(name);
    std::fs::write(&path, text).unwrap();
    if name.ends_with(".sh") {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

/// A farm with one worker, whose agent has this file.
fn with_agent(file: &str, scripts: &[(&str, &str)]) -> Farm {
    let mut farm = Farm::start();
    for (name, text) in scripts {
        write(&farm, name, &format!("#!/bin/sh\n{text}\n"));
    }
    let path = write(&farm, "agent.toml", file);
    farm.add_worker("w1", &["--slots", "1", "--agent", path.to_str().unwrap()]);
    farm.until_node("w1", "up");
    farm
}

/// What a worker says that does not start.
fn refused(farm: &Farm, args: &[&str]) -> Reply {
    let mut worker = program("starfarm-worker", farm.temp().path());
    let (join, state) = (farm.state().join("worker.join"), farm.worker_state("refused"));
    worker.args(worker_args("refused", &join, &state)).args(args);
    run(worker)
}

/// The figure of that name that a service of `w1` gives.
fn figure(farm: &Farm, name: &str) -> Option<f64> {
    let shown = farm.ask(&["monitor", "show", "--node", "w1"]);
    let series = shown["series"].as_array()?;
    series.iter().find(|of| of["metric"] == name)?["sum"].as_f64()
}

/// Processes that run this script of the farm's folder.
fn runs(farm: &Farm, script: &str) -> Vec<u32> {
    let path = farm.temp().path().join(script).display().to_string();
    let of_farm = running_with(&farm.temp().path().display().to_string());
    let runs = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').take(2).any(|word| word == path)
    };
    of_farm.into_iter().filter(runs).collect()
}

fn agent(farm: &Farm) -> Option<u32> {
    let of_farm = running_with(&farm.temp().path().display().to_string());
    let is_agent = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"starfarm-agent"))
    };
    of_farm.into_iter().find(is_agent)
}

const SERVICE: &str = "[[service]]\nname = \"switch\"\nprogram = [\"./switch.sh\"]\n";

#[test]
fn the_lines_of_a_service_are_figures_of_its_node() {
    let script = "while :; do echo temperature -3.5; echo fan.1 1200; sleep 0.2; done";
    let farm = with_agent(SERVICE, &[("switch.sh", script)]);
    until("its figures are known", || figure(&farm, "switch.temperature") == Some(-3.5));
    assert_eq!(figure(&farm, "switch.fan.1"), Some(1200.0));
    assert!(figure(&farm, "memory").is_some(), "beside those of the machine");
    let metrics = farm.cli(&["monitor", "metrics"]);
    let line = "starfarm_node_figure{node=\"w1\",name=\"switch.temperature\"} -3.5";
    assert!(metrics.exits(0).stdout.contains(line), "{}", metrics.stdout);
    let shown = farm.cli(&["node", "show", "w1"]);
    assert!(shown.exits(0).stdout.contains("switch.temperature -3.5"), "{}", shown.stdout);
}

#[test]
fn a_service_that_ends_is_started_again_and_what_it_said_is_forgotten() {
    let script = "echo \"runs $(cat \"$0.runs\" 2>/dev/null | wc -l)\"; echo >> \"$0.runs\"; sleep 0.5; \
                  test $(wc -l < \"$0.runs\") -ge 2 && sleep 1000; exit 3";
    let farm = with_agent(SERVICE, &[("switch.sh", script)]);
    until("it runs for the second time", || figure(&farm, "switch.runs") == Some(1.0));
    // Somebody kills it.
    let again = until_some("it is there", || runs(&farm, "switch.sh").first().copied());
    send(Signal::KILL, again);
    until("it runs again", || figure(&farm, "switch.runs") == Some(2.0));
}

#[test]
fn whatever_a_service_prints_the_agent_goes_on() {
    let file = ["flood", "names", "binary", "hangs", "dies", "good"]
        .map(|name| format!("[[service]]\nname = \"{name}\"\nprogram = [\"./{name}.sh\"]\n"))
        .concat();
    let scripts = [
        ("flood.sh", "exec yes flood 1"),
        ("names.sh", "i=0; while :; do i=$((i+1)); echo name$i $i; done"),
        (
            "binary.sh",
            "head -c 3000000 /dev/urandom; echo; head -c 2000000 /dev/zero | tr '\\0' x; echo ' 1'; echo a 1; sleep 1000",
        ),
        ("hangs.sh", "printf 'no end'; exec sleep 1000"),
        ("dies.sh", "echo x 1; kill -9 $$"),
        ("good.sh", "while :; do echo value 7; sleep 0.2; done"),
    ];
    let farm = with_agent(&file, &scripts);
    until("the good one is heard", || figure(&farm, "good.value") == Some(7.0));
    let before = agent(&farm).unwrap();
    until("the flood is heard", || figure(&farm, "flood.flood") == Some(1.0));
    until("some of many names are", || figure(&farm, "names.name1") == Some(1.0));
    until("what comes behind bytes that are no lines is", || figure(&farm, "binary.a") == Some(1.0));
    let kib = resident_kib(before);
    assert!(kib < 64 << 10, "the agent has {kib} KiB");
    let shown = farm.ask(&["monitor", "show", "--node", "w1"]);
    let named = shown["series"].as_array().unwrap();
    let of_names = named.iter().filter(|of| of["metric"].as_str().unwrap().starts_with("names.")).count();
    assert!((100..=256).contains(&of_names), "{of_names} names");
    assert_eq!(agent(&farm), Some(before), "the same agent");
    assert_eq!(figure(&farm, "good.value"), Some(7.0));
}

#[test]
fn services_end_with_their_agent_and_their_worker() {
    let script = "trap '' TERM HUP PIPE; (trap '' TERM HUP PIPE; while :; do sleep 1; done) & \
                  while :; do echo value 7; sleep 1; done";
    let mut farm = with_agent(SERVICE, &[("switch.sh", script)]);
    until("it is heard", || figure(&farm, "switch.value") == Some(7.0));
    let before = runs(&farm, "switch.sh");
    assert!(before.len() >= 2, "{before:?}");
    let agent = agent(&farm).unwrap();
    send(Signal::KILL, agent);
    until("they end with the agent", || !before.iter().any(|pid| alive(*pid)));
    until("the next agent has its own", || runs(&farm, "switch.sh").len() >= 2);
    farm.workers[0].kill();
    until("they end with the worker", || runs(&farm, "switch.sh").is_empty());
}

#[test]
fn an_agent_runs_on_the_processors_that_are_named() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1", "--agent-cpus", "0"]);
    let pid = until_some("the agent is there", || agent(&farm));
    until("it runs on one", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().any(|line| line.split_whitespace().eq(["Cpus_allowed_list:", "0"]))
    });
    let reply = refused(&farm, &["--agent-cpus", "0,1023"]);
    reply.exits(2);
    assert!(
        reply.stderr.contains("--agent-cpus: this process cannot run on processor 1023"),
        "{}",
        reply.stderr
    );
}

#[test]
fn a_file_that_no_agent_can_do_is_refused_with_its_place() {
    let farm = Farm::start();
    let cases = [
        (
            "[[stage]]\nname = \"a\"\ntype = \"colour\"\n",
            "agent.toml:3:8: there is no type of stages `colour`",
        ),
        ("[[stage]\n", "agent.toml:1:"),
        ("[[edge]]\nfrom = \"cpuload.out\"\nto = \"nobody.in\"\n", "agent.toml:3:6: no edge leads from"),
        (
            "[[edge]]\nfrom = \"cpuload.left\"\nto = \"system.in\"\n",
            "`cpuload` has one output, `out`, not `left`",
        ),
        ("[[timer]]\nname = \"t\"\nevery = 0\n", "agent.toml:3:9: a period is 0.01 seconds at least"),
        ("[[timer]]\nname = \"t\"\n", "agent.toml:1:1: [[timer]] needs `every`, `after` or `at`"),
        ("[[timer]]\nname = \"t\"\nevery = 1\nafter = 1\n", "agent.toml:1:1: a timer has one of `every`"),
        ("[[timer]]\nname = \"t\"\nafter = -1\n", "agent.toml:3:9: `after` is a number of seconds"),
        (
            "[[timer]]\nname = \"t\"\nat = 2026-12-01T06:00:00\n",
            "agent.toml:3:6: `at` is a date and time with",
        ),
        ("[[timer]]\nname = \"t\"\nat = \"tomorrow\"\n", "agent.toml:3:6: `at` is a date and time with"),
        (
            "start = \"coffee\"\n",
            "agent.toml:1:9: there is no start stage `coffee`: it is `config` or `orders`",
        ),
        (
            "start = \"orders\"\n[[timer]]\nname = \"t\"\nevery = 1\n",
            "with `start = \"orders\"` the farm says what is beside",
        ),
        ("[[timer]]\nname = \"period\"\nevery = 1\n", "agent.toml:2:8: agents give such names themselves"),
        ("[[service]]\nname = \"s\"\nprogram = [\"./nowhere\"]\n", "agent.toml:3:12: there is no program"),
        (
            "[[stage]]\nname = \"r\"\ntype = \"run\"\nset = { program = \"./nowhere\" }\n",
            "agent.toml:4:19: there is no program",
        ),
        (
            "[[stage]]\nname = \"a\"\ntype = \"rate\"\n[[stage]]\nname = \"b\"\ntype = \"rate\"\n\
             [[edge]]\nfrom = \"a.out\"\nto = \"b.in\"\n[[edge]]\nfrom = \"b.out\"\nto = \"a.in\"\n",
            "agent.toml:11:8: no edge leads from `b.out` to `a.in`: the edge would close a ring",
        ),
        ("modules = [\"colour\"]\n", "agent.toml:1:12: there is no module `colour`"),
        ("colour = 1\n", "agent.toml:1:1: unknown key `colour`"),
    ];
    for (text, why) in cases {
        let path = write(&farm, "agent.toml", text);
        let reply = refused(&farm, &["--agent", path.to_str().unwrap()]);
        reply.exits(2);
        assert!(reply.stderr.contains(why), "{text}: {}", reply.stderr);
    }
    let missing = farm.temp().path().join("nowhere.toml");
    let reply = refused(&farm, &["--agent", missing.to_str().unwrap()]);
    assert!(reply.exits(2).stderr.contains("nowhere.toml: cannot be read"), "{}", reply.stderr);
}

#[test]
fn an_agents_graph_is_shown_and_drawn() {
    let file = "[[stage]]\nname = \"slow\"\ntype = \"rate\"\nset = { every = 5 }\n\
                [[edge]]\nfrom = \"cpuload.out\"\nto = \"slow.in\"\n\
                [[timer]]\nname = \"often\"\nevery = 2.5\nsubscribers = [\"slow\"]\n";
    let farm = with_agent(file, &[]);
    until("its agent is up", || figure(&farm, "memory").is_some());
    let shown = farm.ask(&["monitor", "graph", "w1"]);
    let stages = shown["stages"].as_array().unwrap();
    let number = |name: &str| stages.iter().find(|stage| stage["name"] == name).unwrap()["number"].clone();
    let slow = stages.iter().find(|stage| stage["name"] == "slow").unwrap();
    assert_eq!(slow["type"], "rate");
    let edges = shown["edges"].as_array().unwrap();
    let leads = |edge: &&Value| edge["from"] == number("cpuload") && edge["to"] == number("slow");
    let edge = edges.iter().find(leads).unwrap();
    assert_eq!((&edge["output"], &edge["input"]), (&"out".into(), &"in".into()));
    let timers = shown["timers"].as_array().unwrap();
    let often = timers.iter().find(|timer| timer["name"] == "often").unwrap();
    assert_eq!(
        (&often["period_seconds"], &often["subscribers"]),
        (&2.5.into(), &vec![number("slow")].into())
    );
    let drawn = farm.cli(&["monitor", "graph", "w1", "--dot"]);
    let svg = svg_of(&drawn.exits(0).stdout);
    assert!(svg.contains("<svg") && svg.contains("slow"), "{svg}");
    let nobody = farm.cli(&["monitor", "graph", "w9"]);
    nobody.exits(4).says(&["no agent of a node `w9` is in the tree"]);
    // One that is stopped does not answer.
    let pid = agent(&farm).unwrap();
    send(Signal::STOP, pid);
    let silent = farm.cli(&["monitor", "graph", "w1"]);
    send(Signal::CONT, pid);
    silent.exits(6).says(&["the agent of w1 did not answer within 2 s"]);
}

/// What graphviz makes of a drawing.
fn svg_of(dot: &str) -> String {
    let mut graphviz = Command::new("dot");
    let graphviz = graphviz.arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut graphviz = graphviz.expect("graphviz is installed");
    graphviz.stdin.take().unwrap().write_all(dot.as_bytes()).unwrap();
    let output = graphviz.wait_with_output().unwrap();
    assert!(output.status.success(), "{dot}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn agents_below_communication_processes_are_asked_by_way_of_these() {
    let mut farm = Farm::start();
    for n in 1..=5 {
        farm.add_worker(&format!("w{n}"), &["--slots", "1"]);
    }
    farm.until_nodes_up(5);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let below = |tree: &Value| {
        let posts = tree["posts"].as_array().unwrap().iter();
        posts.filter(|post| post["kind"] == "be" && post["depth"].as_u64() > Some(1)).count()
    };
    until("all are below others", || {
        let tree = farm.ask(&["tree"]);
        below(&tree) == 5 && tree["posts"].as_array().unwrap().iter().all(|post| post["state"] == "joined")
    });
    for n in 1..=5 {
        let node = format!("w{n}");
        until("its agent answers", || {
            let shown = farm.cli(&["monitor", "graph", &node]);
            shown.code == 0 && shown.stdout.contains("cpuload.out")
        });
    }
}

/// Names of the stages of a node's agent.
fn stages(farm: &Farm, node: &str) -> Vec<String> {
    let shown = farm.cli(&["--output", "json", "monitor", "graph", node]);
    if shown.code != 0 {
        return Vec::new();
    }
    let name = |stage: &Value| stage["name"].as_str().unwrap_or_default().to_owned();
    shown.json()["stages"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn stages_of_the_whole_farm_are_loaded_whole_and_again_at_the_next_start() {
    let mut farm = Farm::start();
    for name in ["w1", "w2", "w3"] {
        farm.add_worker(name, &["--slots", "1"]);
    }
    farm.until_nodes_up(3);
    // Two of them are below a communication process.
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let all_have = |farm: &Farm, name: &str| {
        ["w1", "w2", "w3"].iter().all(|node| stages(farm, node).contains(&name.to_owned()))
    };
    until("agents answer", || all_have(&farm, "cpuload"));
    let slow =
        "[[stage]]\nname = \"slow\"\ntype = \"rate\"\n[[edge]]\nfrom = \"cpuload.out\"\nto = \"slow.in\"\n";
    let file = write(&farm, "monitor.toml", slow);
    let load =
        |farm: &Farm, args: &[&str]| farm.cli(&[&["monitor", "load", file.to_str().unwrap()], args].concat());
    load(&farm, &["--check"]).exits(0);
    load(&farm, &[]).exits(0);
    until("all have it", || all_have(&farm, "slow"));
    for (text, why) in [
        (
            format!("{slow}[[stage]]\nname = \"x\"\ntype = \"colour\"\n"),
            "monitor.toml:9:8: the type `colour`",
        ),
        (format!("{slow}[[service]]\nname = \"s\"\nprogram = [\"true\"]\n"), "names no program"),
        ("modules = [\"./x.so\"]".to_owned(), "names no file"),
    ] {
        std::fs::write(&file, text).unwrap();
        for args in [&["--check"][..], &[]] {
            load(&farm, args).exits(2).says(&[why]);
        }
    }
    assert!(all_have(&farm, "slow"), "nothing has changed");
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.add_worker("w4", &["--slots", "1"]);
    until("one that comes later has it", || stages(&farm, "w4").contains(&"slow".to_owned()));
    std::fs::write(&file, slow.replace("slow", "other")).unwrap();
    load(&farm, &[]).exits(0);
    until("another one is in its place", || {
        all_have(&farm, "other") && !stages(&farm, "w1").contains(&"slow".to_owned())
    });
}

/// A stage of a node's agent, as `monitor graph` shows it; null where there is none of that name.
fn stage(farm: &Farm, node: &str, name: &str) -> Value {
    let shown = farm.ask(&["monitor", "graph", node]);
    let all = shown["stages"].as_array().unwrap();
    all.iter().find(|stage| stage["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn an_agents_graph_changes_by_orders_from_afar_and_by_what_its_own_stages_see() {
    let mut farm = Farm::start();
    for name in ["w1", "w2", "w3"] {
        farm.add_worker(name, &["--slots", "1"]);
    }
    farm.until_nodes_up(3);
    // Two of them are below a communication process.
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    until("agents answer", || ["w1", "w2", "w3"].iter().all(|node| !stages(&farm, node).is_empty()));
    let control = |farm: &Farm, node: &str, order: &str| {
        let words: Vec<_> = order.split(' ').collect();
        farm.cli(&[&["monitor", "control", node], &words[..]].concat())
    };
    for node in ["w1", "w2", "w3"] {
        for order in ["create slow rate", "set slow every 10", "link cpuload.out slow.in"] {
            control(&farm, node, order).exits(0);
        }
        assert_eq!(stage(&farm, node, "slow")["settings"]["every"], "10");
    }
    // What is no order no farm is asked for; what the agent needs it keeps.
    control(&farm, "w1", "quicken period").exits(2).says(&["`quicken period` is no order: write create"]);
    control(&farm, "w9", "end slow").exits(4).says(&["no agent of a node `w9`"]);
    for (order, why) in [
        ("end cpuload", "the agent of w1 refuses it: the stage `cpuload` cannot be changed from afar"),
        ("timer period every 0.01", "what is named `period` cannot be changed"),
        ("create sh run", "a stage of a type other than `aggregate`"),
        ("link slow.out system.in", "what comes to `system.in` cannot be changed"),
        ("create units-7 rate", "what is named `units-7`"),
        ("set slow colour red", "`rate` has no setting `colour`"),
    ] {
        control(&farm, "w1", order).exits(5).says(&[why]);
    }
    control(&farm, "w1", "end slow").exits(0);
    assert!(stage(&farm, "w1", "slow").is_null() && !stage(&farm, "w2", "slow").is_null());
    // A machine uses more than a byte of memory: its agent looks ten times as often.
    let file = "[[stage]]\nname = \"full\"\ntype = \"threshold\"\nset = { metric = \"memory\", above = 1 }\n\
        [[stage]]\nname = \"look\"\ntype = \"control\"\n\
        set = { raised = \"timer often every 0.1; subscribe often left\", cleared = \"end-timer often\" }\n\
        [[stage]]\nname = \"left\"\ntype = \"memory\"\n\
        [[stage]]\nname = \"slow\"\ntype = \"blackhole\"\n\
        [[edge]]\nfrom = \"memory.out\"\nto = \"full.in\"\n[[edge]]\nfrom = \"full.out\"\nto = \"look.in\"\n";
    let path = write(&farm, "monitor.toml", file);
    farm.cli(&["monitor", "load", path.to_str().unwrap()]).exits(0);
    let looks_often = |node: &str| {
        let shown = farm.ask(&["monitor", "graph", node]);
        let timers = shown["timers"].as_array().unwrap().iter();
        let mut often = timers.filter(|timer| timer["name"] == "often" && timer["period_seconds"] == 0.1);
        often.any(|timer| !timer["subscribers"].as_array().unwrap().is_empty())
    };
    until("each has seen it", || ["w1", "w2", "w3"].iter().all(|node| looks_often(node)));
    assert_eq!(
        stage(&farm, "w2", "slow")["type"],
        "blackhole",
        "the file counts, and not what an order has made"
    );
    // The level is out of reach now: all is as before.
    control(&farm, "w2", "set full above 9000000000000000000").exits(0);
    until("it looks less often", || !looks_often("w2"));
    assert!(looks_often("w3"), "the others were told nothing");
    // Loaded again, the file counts alone.
    control(&farm, "w2", "end full").exits(0);
    control(&farm, "w2", "create mine rate").exits(0);
    farm.cli(&["monitor", "load", path.to_str().unwrap()]).exits(0);
    until("all is as the file says", || looks_often("w2") && stage(&farm, "w2", "mine").is_null());
    let figures = farm.ask(&["monitor", "show", "--node", "w2"]);
    assert!(!figures["series"].as_array().unwrap().is_empty(), "it measures as before");
}
