//! Modules in C, and stages at which values leave the farm, in the file of a node's own agent.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use starfarm_e2e::{Farm, Signal, program, run, until, worker_args};

/// Builds a module in the farm's folder.
fn build(farm: &Farm, library: &str, source: &Path) {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/modules");
    let library = farm.temp().path().join(library);
    let mut cc = Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-I"]).arg(header).arg("-o").args([&library, source]).status();
    assert!(built.unwrap().success(), "a linker is there, or this test would not be");
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/modules/power.c")
}

/// The figure of that name that a stage of `w1` gives.
fn figure(farm: &Farm, name: &str) -> Option<f64> {
    let shown = farm.ask(&["monitor", "show", "--node", "w1"]);
    let series = shown["series"].as_array()?;
    series.iter().find(|of| of["metric"] == name)?["sum"].as_f64()
}

const POWER: &str = r#"
modules = ["memory", "./libpower.so"]
[[stage]]
name = "meter"
type = "power"
set = { file = "METER", name = "rack.watts", counter = false, scale = 0.5 }
[[edge]]
from = "meter.out"
to = "wave.meter"
[[timer]]
name = "look"
every = 1.0
subscribers = ["meter"]
"#;

#[test]
fn the_figure_of_a_module_in_c_is_one_of_its_node() {
    let mut farm = Farm::start();
    build(&farm, "libpower.so", &example());
    let meter = farm.temp().write("meter", "84\n");
    let file = farm.temp().write("agent.toml", POWER.replace("METER", meter.to_str().unwrap()));
    farm.add_worker("w1", &["--slots", "1", "--agent", file.to_str().unwrap()]);
    farm.until_node("w1", "up");
    until("its figure is known", || figure(&farm, "rack.watts") == Some(42.0));
    until("those of the machine are as well", || figure(&farm, "memory").is_some());
    farm.temp().write("meter", "-3\n");
    until("the next one is", || figure(&farm, "rack.watts") == Some(-1.5));
    assert!(figure(&farm, "memory").is_some(), "neither takes the place of the others");
    let shown = farm.cli(&["node", "show", "w1"]);
    assert!(shown.exits(0).stdout.contains("rack.watts -1.5"), "{}", shown.stdout);
    // Those of the whole farm load none.
    let path = farm.temp().write("monitor.toml", "modules = [\"./libpower.so\"]\n");
    farm.cli(&["monitor", "load", path.to_str().unwrap()]).exits(2).says(&["names no file"]);
}

/// One that does what no module should, once the file `crash` is there.
const CRASH: &str = r#"
#include <stdlib.h>
#include <unistd.h>
#include "starfarm_module.h"
static const struct starfarm_host *agent;
static void *create(const struct starfarm_host *host) { return (void *)(agent = host); }
static int set(void *stage, const char *key, const char *value, char *why, size_t why_bytes)
{
    (void)stage, (void)key, (void)why, (void)why_bytes;
    if (!strcmp(value, "abort"))
        abort();
    if (!strcmp(value, "exit"))
        exit(0);
    if (!strcmp(value, "hang"))
        for (;;)
            pause();
    return 0;
}
static void fired(void *stage, const char *const *timers, size_t count)
{
    unsigned char bytes[64];
    struct starfarm_message message = { bytes, 0, sizeof bytes };
    (void)stage, (void)timers, (void)count;
    if (!access("CRASH", F_OK))
        *(volatile int *)0 = 1;
    while (!access("CRASH.hang", F_OK))
        pause();
    starfarm_put_named(&message, "frail.figure", 7);
    agent->emit(0, bytes, message.used);
    agent->say("I am here");
}
static const struct starfarm_type types[] = { { .name = "frail", .create = create, .set = set, .fired = fired } };
const struct starfarm_table *starfarm_module(void)
{
    static const struct starfarm_table table = { STARFARM_MODULE_VERSION, 1, "frail", types };
    return &table;
}
"#;

const FRAIL: &str = r#"
modules = ["./frail.so"]
[[stage]]
name = "frail"
type = "frail"
set = { how = "well" }
[[edge]]
from = "frail.out"
to = "wave.frail"
[[timer]]
name = "look"
every = 0.5
subscribers = ["frail"]
"#;

fn frail(farm: &Farm) -> (PathBuf, PathBuf) {
    let crash = farm.temp().path().join("crash");
    let source = farm.temp().write("frail.c", CRASH.replace("CRASH", crash.to_str().unwrap()));
    build(farm, "frail.so", &source);
    (crash, farm.temp().write("agent.toml", FRAIL))
}

#[test]
fn a_module_that_crashes_takes_only_its_agent_down() {
    let mut farm = Farm::start();
    let (crash, file) = frail(&farm);
    farm.add_worker("w1", &["--slots", "2", "--agent", file.to_str().unwrap()]);
    farm.until_node("w1", "up");
    until("its figure is known", || figure(&farm, "frail.figure") == Some(7.0));
    assert!(farm.workers[0].log().contains("starfarm-agent: a module says: I am here"));
    let id = farm.submit(&["--range", "0..6", "--retries", "0", "--", "sh", "-c", "sleep 1; echo {}"]);
    std::fs::write(&crash, "").unwrap();
    let path = farm.temp().path().join("./frail.so");
    let words = format!("has ended: signal 11; {} has it run {}", file.display(), path.display());
    let count = |farm: &Farm| farm.workers[0].log().matches(&words).count();
    until("it has crashed a few times", || count(&farm) >= 3);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    let attempts = results["outputs"].as_array().unwrap().iter().map(|of| of["attempt"].as_u64());
    // Attempts of a job are counted on.
    assert_eq!(attempts.max(), Some(Some(6)), "no unit was begun anew: {results}");
    assert_eq!(results["outputs"].as_array().map(Vec::len), Some(6));
    assert_eq!((farm.node_state("w1").as_str(), farm.workers[0].poll()), ("up", None));
    std::fs::remove_file(&crash).unwrap();
    let before = count(&farm);
    until("its figure is known again", || figure(&farm, "frail.figure") == Some(7.0));
    // Each pause is twice the one before: a tenth of a second, and so on.
    assert!(before < 12, "{before} starts");
    let log = farm.workers[0].log();
    farm.workers[0].signal(Signal::TERM);
    assert_eq!(farm.workers[0].wait(), 0);
    let more = farm.workers[0].log();
    assert!(
        !more.strip_prefix(&log).unwrap().contains("has ended"),
        "an agent that is not wanted is no news: {more}"
    );
}

#[test]
fn an_agent_that_hangs_in_a_module_is_ended_and_another_comes() {
    let mut farm = Farm::start();
    let (crash, file) = frail(&farm);
    farm.add_worker("w1", &["--slots", "1", "--agent", file.to_str().unwrap()]);
    farm.until_node("w1", "up");
    until("its figure is known", || figure(&farm, "frail.figure") == Some(7.0));
    let hang = crash.with_extension("hang");
    std::fs::write(&hang, "").unwrap();
    until("its figure is old", || figure(&farm, "frail.figure").is_none());
    let id = farm.submit(&["--range", "0..6", "--", "echo", "{}"]);
    farm.wait(&id).exits(0);
    until("it is ended", || farm.workers[0].log().contains("has ended: it said no more, and was killed"));
    std::fs::remove_file(&hang).unwrap();
    until("another agent tells it", || figure(&farm, "frail.figure") == Some(7.0));
}

#[test]
fn a_module_that_crashes_when_it_is_checked_is_said() {
    let farm = Farm::start();
    let (_, file) = frail(&farm);
    let (join, state) = (farm.state().join("worker.join"), farm.worker_state("refused"));
    let hangs = "it said no more, and was killed";
    for (how, why) in [("abort", "signal 6"), ("exit", "it has ended"), ("hang", hangs)] {
        std::fs::write(&file, FRAIL.replace("well", how)).unwrap();
        let mut worker = program("starfarm-worker", farm.temp().path());
        worker.args(worker_args("refused", &join, &state)).args(["--agent", file.to_str().unwrap()]);
        let reply = run(worker);
        reply.exits(2);
        let said = format!("the process that was to check it has not said what came of it: {why}; ");
        assert!(reply.stderr.contains(&said), "{}", reply.stderr);
    }
    std::fs::write(&file, "modules = [\"./nowhere.so\"]\n").unwrap();
    let mut worker = program("starfarm-worker", farm.temp().path());
    worker.args(worker_args("refused", &join, &state)).args(["--agent", file.to_str().unwrap()]);
    let reply = run(worker);
    assert!(reply.exits(2).stderr.contains("agent.toml:1:12: there is no file"), "{}", reply.stderr);
}

#[test]
fn values_leave_for_a_person_a_database_and_a_program() {
    let mut farm = Farm::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let notes = farm.temp().path().join("notes");
    let script = farm.temp().write("note.sh", format!("#!/bin/sh\ncat >> {}\n", notes.display()));
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let stage = |name: &str, of: &str, set: &str| {
        format!(
            "[[stage]]\nname = \"{name}\"\ntype = \"{of}\"\nset = {{ {set} }}\n\
             [[edge]]\nfrom = \"memory.out\"\nto = \"{name}.in\"\n"
        )
    };
    let to = format!("to = \"tcp://{}\"", listener.local_addr().unwrap());
    let all = [
        stage("shown", "print", "label = \"seen\""),
        stage("database", "line", &to),
        stage("noted", "run", "program = \"./note.sh\""),
    ];
    let file = farm.temp().write("agent.toml", all.concat());
    farm.add_worker("w1", &["--slots", "1", "--agent", file.to_str().unwrap()]);
    farm.until_node("w1", "up");
    let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
    let line =
        lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("memory,"))).unwrap().unwrap();
    let rest = line.strip_prefix("memory,node=w1 value=").unwrap_or_else(|| panic!("{line}"));
    let (value, at_ns) = rest.split_once(' ').unwrap();
    assert!(value.parse::<u64>().unwrap() > 1 << 20, "{line}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!(now.abs_diff(at_ns.parse().unwrap()) < 600_000_000_000, "{line}");
    until("it is printed", || farm.workers[0].log().contains("starfarm-agent: seen: memory "));
    until("the program has read it", || {
        std::fs::read_to_string(&notes)
            .is_ok_and(|notes| notes.lines().any(|line| line.starts_with("memory ")))
    });
    // Nothing of that can be had from afar.
    for of in ["print", "line", "run"] {
        let path = farm.temp().write("monitor.toml", format!("[[stage]]\nname = \"x\"\ntype = \"{of}\"\n"));
        let reply = farm.cli(&["monitor", "load", path.to_str().unwrap()]);
        reply.exits(2).says(&[&format!("monitor.toml:3:8: the type `{of}` cannot be had from afar")]);
    }
}
