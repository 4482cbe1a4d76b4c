//! What somebody must know: a disk that fills is an alarm, known within seconds by two ways, and a program runs once for it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;
use starfarm_e2e::machines::Machines;
use starfarm_e2e::power::Disk;
use starfarm_e2e::{Farm, Signal, running_with, send, skip, until, until_some};

/// A program that notes for what it was run.
struct Pager {
    program: PathBuf,
    notes: PathBuf,
}

impl Pager {
    fn of(farm: &Farm) -> Self {
        let notes = farm.temp().path().join("notes");
        let line = "$STARFARM_ALARM_NODE $STARFARM_ALARM_SENSOR $STARFARM_ALARM_LEVEL";
        let program =
            farm.temp().write("pager.sh", format!("#!/bin/sh\necho {line} >> {}\n", notes.display()));
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Self { program, notes }
    }

    fn program(&self) -> &str {
        self.program.to_str().unwrap()
    }

    /// For what it was run, that is about this.
    fn ran_for(&self, what: &str) -> usize {
        let notes = fs::read_to_string(&self.notes).unwrap_or_default();
        notes.lines().filter(|line| line.contains(what)).count()
    }
}

/// Fills a disk of 24 MiB.
fn fill(disk: &Path) {
    fs::write(disk.join("much"), vec![7; (24 << 20) - (160 << 10)]).unwrap();
}

/// The alarm about a disk, if one stands.
fn disk_alarm(farm: &Farm) -> Option<Value> {
    let alarms = farm.ask(&["monitor", "alarms"]);
    alarms["alarms"].as_array().unwrap().iter().find(|alarm| alarm["sensor"] == "disk").cloned()
}

fn agents(of: &Path) -> Vec<i32> {
    let is_agent = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"starfarm-agent"))
    };
    let all = running_with(&of.display().to_string());
    all.into_iter().filter(is_agent).map(u32::cast_signed).collect()
}

/// A farm, and the small disk that its worker `small` is to have.
fn with_small_disk(test: &str) -> Option<(Farm, Disk)> {
    let farm = Farm::start();
    match Disk::tmpfs(&farm.worker_state("small"), 24 << 10) {
        Ok(disk) => Some((farm, disk)),
        Err(lack) => {
            skip("mount", test, &lack.0);
            None
        }
    }
}

#[test]
fn a_disk_that_fills_is_an_alarm_a_program_runs_once_and_the_node_is_drained() {
    let test = "a_disk_that_fills_is_an_alarm_a_program_runs_once_and_the_node_is_drained";
    let Some((mut farm, disk)) = with_small_disk(test) else { return };
    let pager = Pager::of(&farm);
    let follows = farm.follow("follow", &["--stream", "alarm", "--node", "small"]);
    farm.add_worker("small", &["--slots", "1", "--drain-on-alarm"]);
    farm.add_worker("pager", &["--slots", "0", "--on-alarm", pager.program()]);
    farm.until_nodes_up(2);
    until("a node has a program", || farm.ask(&["monitor", "alarms"])["reacts"] == "pager");
    assert_eq!(farm.ask(&["monitor", "alarms"])["path"], "single", "all is on one machine");
    fill(disk.path());
    let alarm =
        until_some("the program was run", || disk_alarm(&farm).filter(|alarm| alarm["reacted"] == true));
    assert_eq!((&alarm["node"], &alarm["level"]), (&"small".into(), &"critical".into()), "{alarm}");
    assert!(alarm["text"].as_str().unwrap().contains("MiB are free on the disk of"), "{alarm}");
    assert_eq!(farm.status()["alarms"][0]["id"], alarm["id"]);
    farm.until_node("small", "draining");
    assert_eq!(farm.ask(&["nodes"])["nodes"][1]["alarm"], "critical");
    let why = farm.cli(&["node", "explain", "small"]).exits(0).stdout.clone();
    assert!(why.contains("disk, critical: "), "{why}");
    // Whoever told of it ends, and tells of it again; so does whoever ran the program.
    for agent in agents(farm.temp().path()) {
        send(Signal::KILL, agent as u32);
    }
    until("another process tells of it", || {
        disk_alarm(&farm).is_some_and(|again| again["id"] != alarm["id"] && again["reacted"] == true)
    });
    assert_eq!(pager.ran_for("small disk critical"), 1);
    fs::remove_file(disk.path().join("much")).unwrap();
    until("it is over", || disk_alarm(&farm).is_none());
    let shown = farm.cli(&["monitor", "alarms"]).exits(0).stdout.clone();
    assert!(shown.contains("no alarm stands") && shown.contains("the program of pager runs"), "{shown}");
    // Whoever follows, and the log, have it as one: it may have been a warning first.
    let of_disk = |lines: Vec<Value>| -> Vec<Value> {
        lines.into_iter().filter(|line| line["sensor"] == "disk").collect()
    };
    let is_whole = |lines: &[Value]| lines.last().is_some_and(|line| line["change"] == "over");
    until("it is over for who follows", || is_whole(&of_disk(follows.lines())));
    let export = || of_disk(farm.logged("alarm"));
    until("it is over in the log", || is_whole(&export()));
    for lines in [of_disk(follows.lines()), export()] {
        assert!((2..=3).contains(&lines.len()), "{lines:?}");
        assert_eq!((&lines[0]["change"], &lines[0]["node"]), (&"begun".into(), &"small".into()), "{lines:?}");
        assert!(lines.iter().all(|line| line["id"] == lines[0]["id"]), "{lines:?}");
        assert_eq!(lines.last().unwrap()["level"], "critical", "{lines:?}");
    }
    drop(farm);
}

#[test]
fn an_alarm_that_stands_is_the_same_one_to_whoever_starts_again() {
    let test = "an_alarm_that_stands_is_the_same_one_to_whoever_starts_again";
    let Some((mut farm, disk)) = with_small_disk(test) else { return };
    let pager = Pager::of(&farm);
    farm.add_worker("small", &["--slots", "1"]);
    farm.add_worker("pager", &["--slots", "0", "--on-alarm", pager.program()]);
    farm.until_nodes_up(2);
    until("a node has a program", || farm.ask(&["monitor", "alarms"])["reacts"] == "pager");
    fill(disk.path());
    let reacted = |farm: &Farm| disk_alarm(farm).is_some_and(|alarm| alarm["reacted"] == true);
    until("the program was run", || reacted(&farm));
    // The post that runs the program begins anew, and is taken in although there is an alarm to tell.
    let runs_programs = |farm: &Farm| {
        let tree = farm.ask(&["tree"]);
        let posts = tree["posts"].as_array().unwrap();
        posts
            .iter()
            .find(|post| post["kind"] == "ap" && post["state"] == "joined")
            .map(|post| post["pid"].clone())
    };
    let first = until_some("there is one", || runs_programs(&farm));
    agents(&farm.worker_state("pager")).iter().for_each(|agent| send(Signal::KILL, agent.unsigned_abs()));
    until("another one is there", || runs_programs(&farm).is_some_and(|pid| pid != first));
    assert!(reacted(&farm));
    // Whoever tells of the disk begins anew while there is no front.
    let of_small = farm.worker_state("small");
    let before = agents(&of_small);
    farm.kill_scheduler();
    before.iter().for_each(|agent| send(Signal::KILL, agent.unsigned_abs()));
    until("another agent is there", || agents(&of_small).iter().any(|agent| !before.contains(agent)));
    farm.restart_scheduler();
    until("the new front hears that somebody has reacted", || reacted(&farm));
    until("it has the post that runs the program", || runs_programs(&farm).is_some());
    assert_eq!(pager.ran_for("small disk critical"), 1);
}

#[test]
fn an_alarm_has_a_way_that_does_without_the_scheduler() {
    let machines = match Machines::lay(3) {
        Ok(machines) => machines,
        Err(why) => return skip("netns", "an_alarm_has_a_way_that_does_without_the_scheduler", &why),
    };
    let mut farm = Farm::start_in(Some(machines.name(0)), machines.address(0, 7117));
    let disk = match Disk::tmpfs(&farm.worker_state("small"), 24 << 10) {
        Ok(disk) => disk,
        Err(lack) => {
            return skip("mount", "an_alarm_has_a_way_that_does_without_the_scheduler", &lack.0);
        }
    };
    let (pager, join) = (Pager::of(&farm), farm.state().join("worker.join"));
    // So there is one machine alone for the second root.
    farm.add_worker_in(Some(machines.name(1)), "small", &join, &["--slots", "1", "--no-peers"]);
    let args = ["--slots", "0", "--on-alarm", pager.program()];
    farm.add_worker_in(Some(machines.name(2)), "pager", &join, &args);
    farm.until_nodes_up(2);
    until("there are two ways", || farm.ask(&["monitor", "alarms"])["path"] == "double");
    let start = Instant::now();
    fill(disk.path());
    until("the program is run", || pager.ran_for("small disk critical") == 1);
    println!("the program ran {:?} after the disk was full", start.elapsed());
    until("it comes by both, and the program was run", || {
        let all_is_told =
            disk_alarm(&farm).is_some_and(|alarm| alarm["paths"] == 2 && alarm["reacted"] == true);
        all_is_told && pager.ran_for("small disk critical") == 1
    });
    fs::remove_file(disk.path().join("much")).unwrap();
    until("it is over", || disk_alarm(&farm).is_none());
    farm.kill_scheduler();
    let start = Instant::now();
    fill(disk.path());
    until("the program runs without the scheduler", || pager.ran_for("small disk critical") == 2);
    println!("the same without the scheduler: {:?}", start.elapsed());
    until("it is an alarm that the scheduler is lost", || pager.ran_for("front critical") == 1);
    farm.restart_scheduler();
    until("the next scheduler knows that it was done", || {
        disk_alarm(&farm).is_some_and(|alarm| alarm["reacted"] == true)
    });
    assert_eq!(pager.ran_for("small disk critical"), 2);
    until("there are two ways", || farm.ask(&["monitor", "alarms"])["path"] == "double");
    // The other root is lost with its machine.
    machines.cable(2, false);
    until("it is an alarm that the second root is lost", || {
        let alarms = farm.ask(&["monitor", "alarms"]);
        alarms["alarms"].as_array().unwrap().iter().any(|alarm| alarm["sensor"] == "second-root")
    });
    machines.cable(2, true);
    until("there are two ways again", || farm.ask(&["monitor", "alarms"])["path"] == "double");
    drop(farm);
}

/// The process of the second root, which stands on a node.
fn second_root(farm: &Farm) -> Option<i32> {
    let tree = farm.ask(&["tree"]);
    let posts = tree["posts"].as_array().unwrap();
    let second = posts.iter().find(|post| post["kind"] == "fe" && !post["node"].is_null())?;
    second["pid"].as_i64().map(|pid| i32::try_from(pid).unwrap())
}

#[test]
fn a_program_runs_once_whatever_becomes_of_the_second_root() {
    let test = "a_program_runs_once_whatever_becomes_of_the_second_root";
    let machines = match Machines::lay(4) {
        Ok(machines) => machines,
        Err(why) => return skip("netns", test, &why),
    };
    let mut farm = Farm::start_in(Some(machines.name(0)), machines.address(0, 7117));
    let disk = match Disk::tmpfs(&farm.worker_state("small"), 24 << 10) {
        Ok(disk) => disk,
        Err(lack) => return skip("mount", test, &lack.0),
    };
    let (pager, join) = (Pager::of(&farm), farm.state().join("worker.join"));
    // Whoever has no disk to fill and runs no program has the second root.
    farm.add_worker_in(Some(machines.name(1)), "small", &join, &["--slots", "1", "--no-peers"]);
    let args = ["--slots", "0", "--no-peers", "--on-alarm", pager.program()];
    farm.add_worker_in(Some(machines.name(2)), "pager", &join, &args);
    farm.add_worker_in(Some(machines.name(3)), "root", &join, &["--slots", "0"]);
    farm.until_nodes_up(3);
    let until_double = || {
        until("there are two ways", || farm.ask(&["monitor", "alarms"])["path"] == "double");
        until_some("the second root runs", || second_root(&farm))
    };
    let kill = |pid: i32| {
        send(Signal::KILL, pid as u32);
        until("another process has its place", || second_root(&farm).is_some_and(|other| other != pid));
    };
    for episode in 1..=3 {
        let pid = until_double();
        let start = Instant::now();
        fill(disk.path());
        if episode == 2 {
            // It is lost before it has heard of the alarm, or just then.
            kill(pid);
        }
        until("the program was run", || pager.ran_for("small disk critical") == episode);
        println!("episode {episode}: the program ran {:?} after the disk was full", start.elapsed());
        if episode != 2 {
            // It is lost while the alarm stands: the next process hears of it from who raised it.
            kill(pid);
        }
        until("it comes by both ways", || disk_alarm(&farm).is_some_and(|alarm| alarm["paths"] == 2));
        assert_eq!(pager.ran_for("small disk critical"), episode);
        fs::remove_file(disk.path().join("much")).unwrap();
        until("it is over", || disk_alarm(&farm).is_none());
    }
    assert_eq!(pager.ran_for("small disk critical"), 3);
    drop(farm);
}
