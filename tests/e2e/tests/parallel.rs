//! Lines of GNU parallel: what `starfarm run --parallel` and `starfarm submit --parallel` make of them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use starfarm_e2e::{Daemon, Farm, Reply, TempDir, program, run, until};

/// `starfarm run` with these flags, in `dir`, on two slots.
fn line(dir: &TempDir, words: &[&str]) -> Command {
    let mut command = program("starfarm", dir.path());
    command.current_dir(dir.path()).args(["run", "--slots", "2"]).args(words);
    command
}

fn ran(dir: &TempDir, words: &[&str]) -> Reply {
    run(line(dir, words))
}

/// The first column and the exit values of a job log.
fn rows(log: &Path) -> Vec<(u32, i32)> {
    let text = fs::read_to_string(log).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand")
    );
    let number = |line: &str, column| line.split('\t').nth(column).unwrap().parse::<i32>().unwrap();
    lines.map(|line| (number(line, 0) as u32, number(line, 6))).collect()
}

fn sorted<T: Ord>(mut of: Vec<T>) -> Vec<T> {
    of.sort();
    of
}

/// The expected text is what GNU parallel 20221122 prints.
#[test]
fn a_line_prints_what_gnu_parallel_prints() {
    let dir = TempDir::new();
    let values = ["a b.c", "dir.d/file", "it's.x", "$(id)", ""];
    let words = ["--parallel", "-k", "echo [{}]", "[{.}] [{/}] [{//}] $PARALLEL_SEQ", ":::"];
    let reply = ran(&dir, &[&words[..], &values].concat());
    reply.exits(0);
    assert_eq!(
        reply.stdout,
        "[a b.c] [a b] [a b.c] [.] 1\n[dir.d/file] [dir.d/file] [file] [dir.d] 2\n[it's.x] [it's] [it's.x] [.] 3\n\
         [$(id)] [$(id)] [$(id)] [.] 4\n[] [] [] [.] 5\n"
    );
    assert_eq!(reply.stderr, "");
    let reply = ran(&dir, &["--parallel", "-k", "echo", ":::", "a b", "c", ":::", "x  y", "z"]);
    assert_eq!(reply.stdout, "a b x  y\na b z\nc x  y\nc z\n");
}

#[test]
fn outputs_come_as_units_end_or_in_order() {
    let dir = TempDir::new();
    let script =
        "if [ {} = a ]; then until [ -e gate ]; do sleep 0.01; done; fi; echo said {}; echo err {} >&2";
    let words = ["--parallel", script, ":::", "a", "b"];
    let mut daemon = Daemon::start("run", line(&dir, &words), dir.path());
    // It is printed while the other one still runs.
    daemon.until_says("said b");
    assert!(!daemon.log().contains("said a"), "{}", daemon.log());
    dir.write("gate", "");
    daemon.until_says("said a");
    assert_eq!(daemon.wait(), 0);
    assert!(daemon.log().contains("err a") && daemon.log().contains("err b"), "{}", daemon.log());
    fs::remove_file(dir.path().join("gate")).unwrap();
    let script = "if [ {} = a ]; then until [ -e gate ]; do sleep 0.01; done; else : > gate; fi; echo {}";
    let reply = ran(&dir, &["--parallel", "-k", script, ":::", "a", "b"]);
    assert_eq!(reply.exits(0).stdout, "a\nb\n");
}

#[test]
fn a_job_log_is_written_and_what_it_leaves_is_run() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let words = |flags: &[&'static str]| {
        let line = ["--parallel", "--joblog", "log", "echo {#}; test -e {}.ok", ":::", "a", "b", "c", "d"];
        [flags, &line[..]].concat()
    };
    dir.write("b.ok", "");
    let first = ran(&dir, &words(&[]));
    first.exits(1);
    assert_eq!(sorted(rows(&log)), [(1, 1), (2, 0), (3, 1), (4, 1)]);
    dir.write("c.ok", "");
    let again = ran(&dir, &words(&["--resume-failed"]));
    again.exits(1);
    let said = sorted(again.stdout.lines().collect());
    assert_eq!(said, ["1", "3", "4"], "the numbers are those of the whole");
    assert_eq!(sorted(rows(&log)[4..].to_vec()), [(1, 1), (3, 0), (4, 1)], "behind what was there");
    let none = ran(&dir, &words(&["--resume"]));
    none.exits(0).says(&["nothing is left to be done"]);
    assert_eq!(rows(&log).len(), 7);
}

/// It was told of units by their numbers among what was left, computed others and passed; and of a run only the first unit
/// was in the log.
#[test]
fn a_program_over_whole_tasks_is_told_of_the_units_that_the_job_log_leaves() {
    let dir = TempDir::new();
    let script = "echo {lo} {hi} {last} $(cat {file}); [ {lo} -gt 106 ] || [ {last} -lt 103 ] || test -e ok";
    let words = |flags: &[&'static str]| {
        let line = [
            "--joblog",
            "log",
            "--per",
            "task",
            "--units-per-task",
            "4",
            "--range",
            "100..112",
            "--",
            "sh",
            "-c",
        ];
        [flags, &line[..], &[script]].concat()
    };
    ran(&dir, &words(&[])).exits(1);
    let log = dir.path().join("log");
    let all: Vec<u32> = (1..=12).collect();
    assert_eq!(sorted(rows(&log).iter().map(|row| row.0).collect()), all, "a row for each unit");
    let passed = rows(&log).into_iter().filter(|row| row.1 == 0);
    assert_eq!(sorted(passed.map(|row| row.0).collect()), [1, 2, 3, 8, 9, 10, 11, 12]);
    dir.write("ok", "");
    // Two that are left lie apart.
    let text = fs::read_to_string(&log).unwrap();
    let but_tenth: String = text.split_inclusive('\n').filter(|line| !line.starts_with("10\t")).collect();
    fs::write(&log, but_tenth).unwrap();
    let again = ran(&dir, &words(&["--output", "quiet", "--resume-failed"]));
    let said: Vec<&str> = again.exits(0).stdout.lines().filter(|line| line.contains(' ')).collect();
    let said: String = said.join("\n");
    for told in ["103 107 106 103 104 105 106", "109 110 109 109"] {
        assert!(said.contains(told), "{said}");
    }
}

/// Whoever cleans up what is done had to keep all inputs to run the rest.
#[test]
fn a_unit_that_the_job_log_leaves_out_needs_its_inputs_no_more() {
    let dir = TempDir::new();
    let words = |flags: &[&'static str]| {
        let line =
            ["--joblog", "log", "--inputs", "{}.in", "--parallel", "grep x {}.in", ":::", "a", "b", "c"];
        [flags, &line[..]].concat()
    };
    for (unit, text) in [("a", "x"), ("b", "y"), ("c", "x")] {
        dir.write(&format!("{unit}.in"), text);
    }
    ran(&dir, &words(&[])).exits(1);
    let log = dir.path().join("log");
    assert_eq!(sorted(rows(&log)), [(1, 0), (2, 1), (3, 0)]);
    for name in ["a.in", "c.in"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    dir.write("b.in", "x2");
    ran(&dir, &words(&[])).exits(2).says(&["unit 0: the input `a.in` is not a file in"]);
    assert_eq!(ran(&dir, &words(&["--resume-failed"])).exits(0).stdout, "x2\n");
    assert_eq!(rows(&log)[3..], [(2, 0)]);
}

/// What `-k` holds back is not in the log: whoever goes on by that would leave it out.
#[test]
fn a_job_log_has_no_unit_whose_output_is_still_held_back() {
    let dir = TempDir::new();
    let script =
        "if [ {} = a ]; then until [ -e gate ]; do sleep 0.01; done; else echo {} >> ran; fi; echo {}";
    let words = ["--parallel", "-k", "--joblog", "log", "--resume", script, ":::", "a", "b", "c", "d"];
    let mut daemon = Daemon::start("run", line(&dir, &words), dir.path());
    let ran_there = || fs::read_to_string(dir.path().join("ran")).is_ok_and(|text| text.lines().count() == 3);
    until("the others have run", ran_there);
    // So long that they would be in the log.
    std::thread::sleep(std::time::Duration::from_secs(1));
    daemon.kill();
    dir.write("gate", "");
    assert_eq!(ran(&dir, &words).exits(0).stdout, "a\nb\nc\nd\n");
    assert_eq!(sorted(rows(&dir.path().join("log"))), [(1, 0), (2, 0), (3, 0), (4, 0)]);
}

/// Without the end that is asked for, the last units would sleep for ever.
#[test]
fn a_failed_unit_ends_the_others_where_that_is_asked_for() {
    let dir = TempDir::new();
    let script = "if [ {} = bad ]; then exit 3; fi; [ {} = good ] || sleep 1000000";
    let halted = |halt: &str| {
        let flags = ["--parallel", "--fresh", "--joblog", "log", "--halt", halt, script];
        ran(&dir, &[&flags[..], &[":::", "good", "bad", "c", "d"]].concat())
    };
    halted("now,fail=1").exits(1).says(&["--halt: 1 unit failed"]);
    assert!(rows(&dir.path().join("log")).contains(&(2, 3)));
    halted("now,success=1").exits(0);
}

#[test]
fn units_that_run_may_end_after_a_failed_one_where_that_is_asked_for() {
    let dir = TempDir::new();
    let script = "if [ {} = 1 ]; then exit 3; fi; until [ -e gate ]; do sleep 0.01; done";
    let flags = ["--parallel", "--joblog", "log", "--halt", "soon,fail=1", script, "::::", "list"];
    dir.write("list", (1..=50).map(|unit| format!("{unit}\n")).collect::<String>());
    let mut daemon = Daemon::start("run", line(&dir, &flags), dir.path());
    daemon.until_says("--halt: 1 unit failed, those that run may end");
    dir.write("gate", "");
    assert_eq!(daemon.wait(), 1);
    let rows = rows(&dir.path().join("log"));
    let passed = rows.iter().filter(|row| row.1 == 0).count();
    assert!(rows.contains(&(1, 3)) && (1..10).contains(&passed) && rows.len() == passed + 1, "{rows:?}");
}

#[test]
fn a_farm_takes_a_line_with_files_and_a_list_from_standard_input() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().join("project");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("data.txt"), "a\nb\na\n").unwrap();
    let starfarm = |script: &str| {
        let command = program("starfarm", farm.temp().path());
        let name = command.get_program().to_owned();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg("sh").arg(name).arg(farm.state()).current_dir(&dir);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(shell)
    };
    starfarm(
        "printf 'a\\nb\\n' | \"$1\" --farm \"$2\" submit --wait --parallel --inputs data.txt --outputs '{}.count' \
         --stdin data.txt --joblog log --results res --dir out 'grep -c {} | tee {}.count'",
    )
    .exits(0);
    let read = |path: &str| fs::read_to_string(dir.join(path)).unwrap();
    assert_eq!([read("out/a.count"), read("out/b.count")], ["2\n", "1\n"]);
    assert_eq!([read("res/1/a/stdout"), read("res/1/b/stdout"), read("res/1/b/seq")], ["2\n", "1\n", "2"]);
    assert_eq!(sorted(rows(&dir.join("log"))), [(1, 0), (2, 0)]);
    let counted = starfarm(
        "seq 2 | \"$1\" --farm \"$2\" --output quiet submit --wait --parallel -k --results seen echo :::: - ::: a b",
    );
    counted.exits(0);
    for (first, second) in [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")] {
        assert_eq!(read(&format!("seen/1/{first}/2/{second}/stdout")), format!("{first} {second}\n"));
    }
    starfarm("\"$1\" --farm \"$2\" submit --wait --parallel --halt now,fail=1 'test {} != b || exit 1; sleep 1000' ::: a b")
        .exits(1)
        .says(&["--halt: 1 unit failed, the others are ended"]);
    // Without --parallel there is no shell.
    let reply = starfarm("seq 3 | \"$1\" --farm \"$2\" --output quiet submit --lines - -- echo '{}' '$HOME'");
    let id = reply.exits(0).stdout.trim().to_owned();
    farm.wait(&id).exits(0);
    until("the outputs are there", || farm.results(&id)["outputs"].as_array().unwrap().len() == 3);
    assert_eq!(farm.results(&id)["outputs"][2]["stdout"]["text"], "3 $HOME\n");
    starfarm("\"$1\" --farm \"$2\" submit --parallel --joblog log true ::: a").exits(2).says(&["add --wait"]);
    starfarm("\"$1\" --farm \"$2\" submit --parallel -k true ::: a").exits(2).says(&["add --wait"]);
    // What the farm still runs, its waiting command having been killed, does not run twice.
    starfarm("\"$1\" --farm \"$2\" submit --parallel 'sleep 1000; echo {}' ::: a b").exits(0);
    starfarm(
        "\"$1\" --farm \"$2\" submit --wait --parallel --joblog new --resume 'sleep 1000; echo {}' ::: a b",
    )
    .exits(6)
    .says(&["is the same and has not ended", "job cancel"]);
}

/// The job went on, and nobody was told.
#[test]
fn a_file_that_differs_ends_the_command_and_it_says_what_becomes_of_the_job() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("out")).unwrap();
    fs::write(path("out/a.out"), "another\n").unwrap();
    let script =
        format!("echo {{}} > {{}}.out; [ {{}} = a ] || until [ -e {} ]; do sleep 0.01; done", path("gate"));
    let words = ["--outputs", "{}.out", "--dir", &path("out"), "--parallel", &script, ":::", "a", "b"];
    let reply = farm.cli(&[&["submit", "--wait"][..], &words].concat());
    reply.exits(6).says(&[
        "a.out is there and has other bytes",
        "Job 1 goes on",
        "results 1 --follow --dir OTHER",
    ]);
    let reply = run(line(dir, &words));
    reply.exits(6).says(&["a.out is there and has other bytes", "The run ends here", "another --dir"]);
    fs::write(path("gate"), "").unwrap();
    farm.cli(&["results", "1", "--follow", "--dir", &path("other")]).exits(0);
    assert_eq!(fs::read_to_string(path("other/b.out")).unwrap(), "b\n");
    let other = words.map(|word| if word == path("out") { path("another") } else { word.to_owned() });
    run(line(dir, &other.each_ref().map(String::as_str))).exits(0).says(&["going on with job 1"]);
    assert_eq!(fs::read_to_string(path("another/a.out")).unwrap(), "a\n");
}
