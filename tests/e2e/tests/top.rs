//! `starfarm top` on a terminal: what it shows, what its keys do, and how it leaves the terminal.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use starfarm_e2e::{Farm, Pty, Signal, program, run, until};

/// `starfarm top` on a terminal of its own.
fn top(farm: &Farm, args: &[&str], columns: u16, lines: u16) -> Pty {
    top_by(farm, &farm.state(), args, columns, lines)
}

/// The same by another way: a join file.
fn top_by(farm: &Farm, way: &Path, args: &[&str], columns: u16, lines: u16) -> Pty {
    let mut command = program("starfarm", farm.temp().path());
    command.arg("--farm").arg(way).arg("top").args(["--interval", "0.2"]).args(args);
    command.env("TERM", "xterm-256color");
    Pty::start(&command, farm.temp().path(), columns, lines)
}

/// A job that lasts until the test is over.
fn endless(farm: &Farm, name: &str) -> String {
    let script = farm.forever();
    farm.submit(&["--name", name, "--range", "0..100", "--units-per-task", "1", "--", "sh", "-c", &script])
}

#[test]
fn a_person_watches_a_farm_pauses_and_cancels_a_job_and_leaves() {
    let farm = Farm::with_workers(2, 1);
    let (first, second) = (endless(&farm, "alpha"), endless(&farm, "beta"));
    let mut top = top(&farm, &[], 80, 24);
    top.until_shows("alpha");
    assert!(top.is_taken());
    for words in
        ["starfarm ", "epoch 1", "nodes 2/2", "slots 2", "jobs 2", "JOBS 2", "NODES 2", "w1", "? help"]
    {
        top.until_shows(words);
    }

    top.press("p");
    top.until_shows(&format!("pause job {first} (alpha)? y/n"));
    top.press("n");
    top.until_shows("left as it is");
    assert_eq!(farm.job(&first)["state"], "running");
    top.press("py");
    farm.until_job(&first, "state", "paused");
    top.until("the screen says so", |text| {
        text.lines().any(|line| line.contains("alpha") && line.contains("paused"))
    });

    // The one that was selected still is, wherever its row has gone.
    top.press("\r");
    top.until_shows("specification");
    let is_alpha = |line: &str| line.starts_with("name ") && line.ends_with("alpha");
    top.until("the job is shown whole", |text| text.lines().any(is_alpha));
    top.press("\x1b");
    top.until_shows("JOBS 2");
    top.press("/beta\r");
    top.until_shows("JOBS 1 of 2  /beta");
    top.press("c");
    top.until_shows(&format!("cancel job {second} (beta) for good? type y"));
    top.press("y");
    farm.until_job(&second, "state", "cancelled");

    top.resize(120, 40);
    top.until_shows("silent");
    top.until_shows("faster");
    top.resize(60, 15);
    // Drawn anew, down to its last line: what is typed while a size changes may wait for the next key.
    top.until("the window is small again", |text| !text.contains("faster") && text.contains("? help"));

    top.press("\t");
    top.press("d");
    top.until_shows("drain node w1? y/n");
    top.press("y");
    farm.until_node("w1", "draining");
    top.until_shows("draining");

    top.press("q");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
    until("the terminal is as it was", || top.is_restored());
}

#[test]
fn a_scheduler_that_goes_away_is_waited_for_and_seen_again() {
    let mut farm = Farm::with_workers(1, 1);
    endless(&farm, "alpha");
    let mut top = top(&farm, &[], 80, 24);
    top.until_shows("w1 ");
    farm.kill_scheduler();
    top.until_shows("no answer for ");
    top.until_shows("alpha");
    farm.restart_scheduler();
    top.until("the banner is gone", |text| !text.contains("no answer for "));
    top.until_shows("epoch 2");
    top.press("\x03");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
    until("the terminal is as it was", || top.is_restored());
}

#[test]
fn a_scheduler_that_hangs_is_given_no_command_for_later() {
    let mut farm = Farm::with_workers(1, 1);
    endless(&farm, "alpha");
    let mut top = top(&farm, &[], 80, 24);
    top.until_shows("w1 ");
    farm.scheduler.signal(Signal::STOP);
    // Before the silence has been noticed: the command waits behind a look.
    top.press("py");
    top.until_shows("the command was dropped, nothing was sent");
    top.press("\td");
    top.until("a second one is refused at once", |text| {
        text.lines().last().is_some_and(|line| line.ends_with(" s: nothing was sent"))
    });
    top.press("y");
    farm.scheduler.signal(Signal::CONT);
    top.until("the banner is gone", |text| !text.contains("no answer for "));
    // Whatever was on its way has arrived by the time that a later command has been carried out.
    top.press("d");
    top.until_shows("drain node w1? y/n");
    assert_eq!(farm.job("1")["state"], "running");
    assert_eq!(farm.node_state("w1"), "up");
    top.press("y");
    farm.until_node("w1", "draining");
    assert_eq!(farm.job("1")["state"], "running");
    top.press("q");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
}

#[test]
fn a_lost_node_that_is_drained_says_so_and_is_resumed() {
    let mut farm = Farm::with_workers(1, 1);
    farm.cli(&["node", "drain", "w1"]).exits(0);
    farm.workers[0].kill();
    farm.until_node("w1", "lost");
    let shown = farm.cli(&["node", "show", "w1"]).exits(0).stdout.clone();
    assert!(shown.contains("lost, drained"), "{shown}");
    let mut top = top(&farm, &[], 80, 24);
    top.until_shows("w1 ");
    top.press("\t");
    top.until_shows("d resume");
    top.press("d");
    top.until_shows("resume node w1? y/n");
    top.press("y");
    top.until_shows("d drain");
    top.press("q");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
}

/// A shell with job control, and a screen in it.
#[test]
fn it_is_left_for_the_shell_and_taken_again() {
    let farm = Farm::with_workers(1, 1);
    endless(&farm, "alpha");
    let mut command = std::process::Command::new("bash");
    command.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").env("TERM", "xterm-256color");
    command.env("STARFARM", starfarm_e2e::binary("starfarm")).env("STARFARM_FARM", farm.state());
    command.env("HOME", farm.temp().path()).env("HISTFILE", "");
    let mut shell = Pty::start(&command, farm.temp().path(), 80, 24);
    // What it has to say goes to the terminal too, not to the file of a test.
    shell.program.until_says("ready>");
    shell.press("exec 2>&1\n");
    shell.until_shows("ready>");
    shell.press("\"$STARFARM\" top --interval 0.2\n");
    shell.until_shows("alpha");
    assert!(shell.is_taken());
    shell.press("\x1a");
    shell.until_shows("Stopped");
    assert!(!shell.is_taken(), "the shell has the first screen");
    // The window has another size when it comes back.
    shell.resize(120, 40);
    shell.press("fg\n");
    shell.until_shows("faster");
    assert!(shell.is_taken());
    shell.press("\x0c/alp\r");
    shell.until_shows("JOBS 1  /alp");
    shell.press("q");
    until("the shell has the terminal again", || !shell.is_taken());
    shell.press("echo all is $((40 + 2))\n");
    shell.until_shows("all is 42");
    shell.press("exit\n");
    assert_eq!(shell.program.wait(), 0, "{}", shell.program.log());
    until("the terminal is as it was", || shell.is_restored());
}

#[test]
fn a_storm_of_sizes_ends_with_the_last_one() {
    let farm = Farm::with_workers(1, 1);
    endless(&farm, "alpha");
    let mut top = top(&farm, &[], 80, 24);
    top.until_shows("alpha");
    for step in 0..200_u16 {
        top.resize(1 + step * 7 % 150, 1 + step * 5 % 50);
    }
    top.resize(120, 40);
    top.until("the last size is drawn", |text| {
        text.lines().last().is_some_and(|line| line.starts_with("? help")) && text.contains("faster")
    });
    top.press("q");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
}

#[test]
fn an_onlooker_changes_nothing() {
    let farm = Farm::with_workers(1, 1);
    let id = endless(&farm, "alpha");
    let mut top = top(&farm, &["--read-only"], 80, 24);
    top.until_shows("alpha");
    top.press("p");
    top.until_shows("nothing is changed from here");
    top.press("yc");
    top.until_shows("nothing is changed from here");
    top.press("y");
    assert_eq!(farm.job(&id)["state"], "running");
    top.program.signal(Signal::TERM);
    assert_eq!(top.program.wait(), 130, "{}", top.program.log());
    until("the terminal is as it was", || top.is_restored());
}

#[test]
fn an_observer_sees_everything_and_may_do_nothing() {
    let farm = Farm::with_workers(1, 1);
    let id = endless(&farm, "alpha");
    let join = farm.temp().path().join("observer.join");
    farm.cli(&["key", "add", "--role", "observer", "--out", &join.to_string_lossy()]).exits(0);
    let mut top = top_by(&farm, &join, &[], 100, 40);
    top.until_shows("node w1 joined");
    top.press("\r");
    top.until_shows("Size of the next task");
    top.press("py");
    top.until_shows("the role observer may not do that");
    assert_eq!(farm.job(&id)["state"], "running");
    top.press("q");
    assert_eq!(top.program.wait(), 0, "{}", top.program.log());
}

#[test]
fn without_a_terminal_it_names_the_command_to_use() {
    let farm = Farm::start();
    farm.cli(&["top"]).exits(2).says(&["needs a terminal", "`starfarm status`", "--output json"]);
    let mut command = program("starfarm", farm.temp().path());
    command.arg("--farm").arg(farm.state()).arg("top").env("TERM", "dumb");
    let mut dumb = Pty::start(&command, farm.temp().path(), 80, 24);
    assert_eq!(dumb.program.wait(), 2);
    assert!(dumb.program.log().contains("needs a terminal"), "{}", dumb.program.log());
    let mut command = program("starfarm", farm.temp().path());
    command.args(["--farm", "/nonexistent", "top"]);
    run(command).exits(2);
}
