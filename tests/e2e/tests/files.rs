//! Files that a job brings along and files that its units make, without a file system that machines share.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use starfarm_e2e::{Daemon, Farm, Reply, TempDir, each_done_once, program, run, until};

/// A project of a script and two inputs, one of them of more than one part.
fn project(farm: &Farm, script: &str, keys: &str) -> PathBuf {
    let dir = farm.temp().path().join("project");
    fs::create_dir_all(dir.join("textures/wood")).unwrap();
    fs::write(dir.join("scene.txt"), "a scene\n").unwrap();
    fs::write(dir.join("textures/wood/oak.bin"), oak()).unwrap();
    fs::write(dir.join("render.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(dir.join("render.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "name = \"render\"\n[space]\nkind = \"frames\"\nfirst = 1\nlast = 12\n[task]\nexecutor = \"command\"\n\
         program = [\"./render.sh\", \"{{}}\"]\n\
         inputs = [\"render.sh\", \"scene.txt\", \"textures/**\"]\n{keys}"
    );
    fs::write(dir.join("job.toml"), text).unwrap();
    dir
}

/// More than two parts.
fn oak() -> Vec<u8> {
    (0..9_000_000_u32).map(|i| (i / 3) as u8).collect()
}

fn submitted(farm: &Farm, dir: &Path) -> String {
    farm.submit(&[dir.join("job.toml").to_str().unwrap()])
}

/// All files beneath `dir`.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path()).into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Writes a frame from all inputs.
const RENDER: &str = "cat scene.txt textures/wood/oak.bin > frame$1.bin; echo $1 >> frame$1.bin";

fn frames() -> BTreeMap<String, Vec<u8>> {
    let frame = |n: u32| [b"a scene\n".as_slice(), &oak(), format!("{n}\n").as_bytes()].concat();
    (1..=12).map(|n| (format!("frame{n}.bin"), frame(n))).collect()
}

#[test]
fn inputs_come_along_and_files_come_back_also_through_restarts() {
    let mut farm = Farm::with_workers(2, 2);
    let dir = project(&farm, RENDER, "outputs = [\"frame{}.bin\"]\n");
    let id = submitted(&farm, &dir);
    // What is submitted is what is computed.
    fs::write(dir.join("scene.txt"), "another scene\n").unwrap();
    fs::remove_dir_all(dir.join("textures")).unwrap();
    until("a frame is there", || farm.job(&id)["units_done"] != "0");
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.wait(&id).exits(0);
    let out = farm.temp().path().join("out");
    let write = |farm: &Farm| farm.cli(&["results", &id, "--dir", out.to_str().unwrap()]);
    write(&farm).exits(0);
    assert!(files(&out) == frames(), "{:?}", files(&out).keys());
    each_done_once(&farm.job(&id), &farm.results(&id), 12);
    // Again, after another start: what is there already stays; what is something else is not overwritten.
    farm.kill_scheduler();
    farm.restart_scheduler();
    fs::remove_file(out.join("frame3.bin")).unwrap();
    write(&farm).exits(0);
    assert!(files(&out) == frames());
    fs::write(out.join("frame5.bin"), "mine").unwrap();
    let refused = write(&farm);
    refused.exits(6);
    assert!(refused.stderr.contains("frame5.bin is there and has other bytes"), "{}", refused.stderr);
    assert_eq!(fs::read(out.join("frame5.bin")).unwrap(), b"mine");
    farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]).exits(0);
}

/// Runs a command in the folder `dir`.
fn in_folder(farm: &Farm, dir: &Path, words: &[&str]) -> Reply {
    let mut command = program("starfarm", dir);
    command.current_dir(dir).arg("--farm").arg(farm.state()).args(words);
    run(command)
}

/// Of a folder a unit finds its own file and no other, by a job file, by flags, and by a line of GNU parallel's.
#[test]
fn units_have_inputs_of_their_own() {
    let farm = Farm::with_workers(2, 2);
    let dir = farm.temp().path().join("folder");
    fs::create_dir_all(dir.join("in")).unwrap();
    for name in ["a", "b[1]", "c c"] {
        fs::write(dir.join("in").join(format!("{name}.txt")), format!("of {name}\n")).unwrap();
    }
    fs::write(dir.join("all.txt"), "of all\n").unwrap();
    fs::write(dir.join("names"), "a\nb[1]\nc c\n").unwrap();
    let script = "ls . in | tr '\\n' ' '; cat all.txt \"./in/$1.txt\"";
    let task = |keys: &str| {
        format!(
            "[space]\nkind = \"list\"\nfile = \"names\"\n[task]\nexecutor = \"command\"\n\
             inputs = [\"./in//{{}}.txt\", \"all.txt\"]\nretries = 0\n{keys}"
        )
    };
    let script = serde_json::to_string(script).unwrap();
    fs::write(
        dir.join("job.toml"),
        task(&format!("program = [\"sh\", \"-c\", {script}, \"sh\", \"{{}}\"]\n")),
    )
    .unwrap();
    let id = submitted(&farm, &dir);
    farm.wait(&id).exits(0);
    let wrote = |id: &str| -> BTreeSet<String> {
        let results = farm.results(id);
        let outputs = results["outputs"].as_array().unwrap();
        outputs.iter().map(|output| output["stdout"]["text"].as_str().unwrap().to_owned()).collect()
    };
    let of = |name: &str| format!(".: all.txt in  in: {name}.txt of all\nof {name}\n");
    assert_eq!(wrote(&id), ["a", "b[1]", "c c"].map(of).into());
    // Another job has the folder's files by then; a run over a whole task finds those of its units.
    fs::write(
        dir.join("job.toml"),
        task("per = \"task\"\nunits_per_task = 2\nprogram = [\"sh\", \"-c\", \"echo in/*; cat {file}\"]\n"),
    )
    .unwrap();
    let id = submitted(&farm, &dir);
    farm.wait(&id).exits(0);
    let of_two = "in/a.txt in/b[1].txt\na\nb[1]\n".to_owned();
    assert_eq!(wrote(&id), [of_two, "in/c c.txt\nc c\n".to_owned()].into());
    let line = "--wait --inputs {} --outputs {.}.out --dir out --parallel";
    let words = ["submit"].into_iter().chain(line.split(' ')).chain([
        "tr a-z A-Z < {} > {.}.out",
        ":::",
        "in/a.txt",
        "in/c c.txt",
    ]);
    in_folder(&farm, &dir, &words.collect::<Vec<_>>()).exits(0);
    let out = files(&dir.join("out"));
    assert_eq!(
        out,
        [("in/a.out", "OF A\n"), ("in/c c.out", "OF C C\n")].map(|(n, b)| (n.to_owned(), b.into())).into()
    );
}

#[test]
fn inputs_that_units_lack_are_refused_by_name() {
    let farm = Farm::start();
    let dir = farm.temp().path().join("folder");
    fs::create_dir_all(dir.join("in")).unwrap();
    fs::write(dir.join("in/a.txt"), "").unwrap();
    let cli_in = |words: &[&str]| in_folder(&farm, &dir, words);
    for (names, inputs, words) in [
        ("a\nd\n", "in/{}.txt", "unit 1: the input `in/d.txt` is not a file in"),
        ("a\n../x\n", "in/{}.txt", "unit 1: the input `in/../x.txt` does not lie beneath"),
        ("in\n", "{}", "unit 0: the input `in` is a directory"),
    ] {
        fs::write(dir.join("names"), names).unwrap();
        let words_of = ["submit", "--lines", "names", "--inputs", inputs, "--", "true"];
        cli_in(&words_of).exits(2).says(&[words]);
    }
    fs::write(dir.join("names"), dir.join("in/a.txt").to_str().unwrap()).unwrap();
    let absolute = ["submit", "--lines", "names", "--inputs", "{}", "--", "true"];
    cli_in(&absolute).exits(2).says(&["is an absolute path, and units find inputs by their paths from"]);
    let own = "[space]\nkind = \"program\"\nprogram = [\"cat\"]\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";
    fs::write(dir.join("own.toml"), format!("{own}inputs = [\"in/{{}}.txt\"]\n")).unwrap();
    cli_in(&["submit", "own.toml"])
        .exits(2)
        .says(&["a program names them while the job runs: bring files along"]);
    let range = ["submit", "--range", "0..100001", "--inputs", "in/{}.txt", "--", "true"];
    cli_in(&range).exits(2).says(&["at most 100000 may have files of their own"]);
}

#[test]
fn a_unit_that_does_not_make_its_files_fails_in_words() {
    let farm = Farm::with_workers(1, 1);
    for (script, words) in [
        ("true", "the unit made no file `f1`"),
        ("mkdir f$1", "the unit made a directory `f1`"),
        ("ln -s /etc/passwd f$1", "the unit made `f1` by a link"),
        ("mkfifo f$1", "the unit made `f1`, which is no regular file"),
        ("head -c 2000 /dev/zero > f$1", "the unit made files of 2000 bytes, more than files_limit, 1000"),
        ("truncate -s 10G f$1", "the unit made files of 10737418240 bytes, more than files_limit, 1000"),
    ] {
        let dir =
            project(&farm, script, "outputs = [\"f{}\"]\nfiles_limit = 1000\nmax_failures = \"never\"\n");
        let id = submitted(&farm, &dir);
        farm.wait(&id).exits(1);
        let results = farm.results(&id);
        let first = &results["outputs"][0];
        assert_eq!(
            (first["failed"].as_str(), first["files"].as_array().unwrap().len()),
            (Some("files"), 0),
            "{first}"
        );
        assert!(first["stderr"]["text"].as_str().unwrap().contains(words), "{words}: {first}");
        assert_eq!(results["failed"].as_array().unwrap().len(), 12);
    }
}

#[test]
fn files_of_one_name_lie_in_a_folder_for_each_unit() {
    let farm = Farm::with_workers(1, 2);
    let dir = project(
        &farm,
        "mkdir d; echo $1 > d/result; cp scene.txt all",
        "outputs = [\"d/result\", \"all\"]\n",
    );
    let id = submitted(&farm, &dir);
    farm.wait(&id).exits(0);
    let out = farm.temp().path().join("out");
    farm.cli(&["results", &id, "--dir", out.to_str().unwrap()]).exits(0);
    let expected: BTreeMap<_, _> = (0..12_u32)
        .flat_map(|unit| {
            let result = (format!("{unit}/d/result"), format!("{}\n", unit + 1).into_bytes());
            [result, (format!("{unit}/all"), b"a scene\n".to_vec())]
        })
        .collect();
    assert_eq!(files(&out), expected);
}

/// Makes a small frame; that of number `last` waits until the gate is open.
fn gated(farm: &Farm, last: u32) -> String {
    let dir = farm.temp().path().display();
    format!(
        "if [ $1 = {last} ]; then while test -d {dir} && ! test -e {dir}/gate; do sleep 0.01; done; fi; \
         (cat scene.txt; seq 20000; echo $1) > frame$1.bin"
    )
}

/// `starfarm` with these words that writes into the folder `out`; it runs meanwhile.
fn writer(farm: &Farm, words: &[&str], out: &Path) -> Daemon {
    let mut command = program("starfarm", farm.temp().path());
    command.args(words).arg("--dir").arg(out);
    if words[0] != "run" {
        command.arg("--farm").arg(farm.state());
    }
    Daemon::start("writer", command, farm.temp().path())
}

/// The numbers of the small frames that are there: whole ones, whenever somebody looks, and nothing else.
fn frames_there(out: &Path) -> Vec<u32> {
    let lines: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    let number = |(name, bytes): (String, Vec<u8>)| {
        let frame: u32 = name.trim_start_matches("frame").trim_end_matches(".bin").parse().unwrap();
        let whole = format!("a scene\n{lines}{frame}\n");
        assert!(bytes == whole.as_bytes(), "{name} with {} bytes", bytes.len());
        frame
    };
    let mut numbers: Vec<u32> = files(out).into_iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn files_are_there_while_the_job_runs_and_whoever_is_killed_goes_on() {
    let mut farm = Farm::with_workers(1, 2);
    let dir = project(&farm, &gated(&farm, 12), "outputs = [\"frame{}.bin\"]\n");
    let [out, state] = ["out", "state"].map(|name| farm.temp().path().join(name));
    let job = dir.join("job.toml");
    let mut waits = writer(&farm, &["submit", "--wait", job.to_str().unwrap()], &out);
    until("all but the last frame are there", || out.exists() && frames_there(&out).len() == 11);
    let id = farm.ask(&["jobs"])["jobs"][0]["id"].to_string();
    assert_eq!(farm.job(&id)["state"], "running");
    waits.kill();
    // Who follows goes on where that one was killed, and over a restart of the scheduler begins anew.
    fs::remove_file(out.join("frame3.bin")).unwrap();
    let mut follows = writer(&farm, &["results", &id, "--follow"], &out);
    until("the frame that was lost is back", || frames_there(&out).len() == 11);
    follows.kill();
    // Who waits for the job waits for the scheduler as well.
    let mut waits = writer(&farm, &["submit", "--wait", "--resume", job.to_str().unwrap()], &out);
    waits.until_says("it goes on");
    fs::remove_file(out.join("frame5.bin")).unwrap();
    farm.kill_scheduler();
    waits.until_says("went away");
    farm.restart_scheduler();
    waits.until_says("is back");
    until("all files are seen to again", || frames_there(&out).len() == 11);
    let mut follows = writer(&farm, &["results", &id, "--follow", "--output", "jsonl"], &out);
    follows.until_says("\"unit\":\"10\"");
    farm.open_gate();
    assert_eq!([follows.wait(), waits.wait()], [0, 0]);
    assert_eq!(follows.log().matches("starfarm/output/1").count(), 12, "{}", follows.log());
    assert_eq!(frames_there(&out), (1..=12).collect::<Vec<_>>());
    // A run of its own that is killed halfway, and run again.
    let ran = farm.temp().path().join("ran");
    fs::remove_file(farm.temp().path().join("gate")).unwrap();
    let words = ["run", "--slots", "2", "--state", state.to_str().unwrap(), job.to_str().unwrap()];
    let mut runs = writer(&farm, &words, &ran);
    until("some frames are there", || ran.exists() && frames_there(&ran).len() >= 6);
    runs.kill();
    farm.open_gate();
    assert_eq!(writer(&farm, &words, &ran).wait(), 0);
    assert_eq!(frames_there(&ran), (1..=12).collect::<Vec<_>>());
}

#[test]
fn files_come_in_the_order_of_the_units_where_that_is_asked_for() {
    let farm = Farm::with_workers(1, 2);
    let dir = project(&farm, &gated(&farm, 3), "outputs = [\"frame{}.bin\"]\n");
    let id = submitted(&farm, &dir);
    let [out, any] = ["out", "any"].map(|name| farm.temp().path().join(name));
    let ordered = ["results", &id, "--follow", "--keep-order", "--stdout", "{}.txt"];
    let mut follows = writer(&farm, &ordered[..4], &out);
    let mut other = writer(&farm, &["results", &id, "--follow"], &any);
    until("the other one has all but one", || any.exists() && frames_there(&any).len() == 11);
    until("the first two are there", || frames_there(&out) == [1, 2]);
    farm.open_gate();
    until("all are there", || {
        let there = frames_there(&out);
        assert_eq!(there, (1..=there.len() as u32).collect::<Vec<_>>());
        there.len() == 12
    });
    assert_eq!([follows.wait(), other.wait()], [0, 0]);
    farm.cli(&["results", &id, "--follow", "--output", "json"]).exits(2).says(&["goes with --output jsonl"]);
    // Streams as well, and nothing is printed.
    let mut streams = writer(&farm, &ordered, &any);
    assert_eq!(streams.wait(), 0);
    assert!(any.join("12.txt").exists() && files(&any).len() == 24, "{:?}", files(&any).keys());
    assert!(streams.log().contains("12 files of what units wrote"), "{}", streams.log());
}

#[test]
fn who_waits_has_the_files_at_the_end_and_so_has_who_runs() {
    let farm = Farm::with_workers(1, 2);
    let dir = project(&farm, "echo $1 > n$1", "outputs = [\"n{}\"]\n");
    let job = dir.join("job.toml");
    let expected: BTreeMap<_, _> =
        (1..=12).map(|n| (format!("n{n}"), format!("{n}\n").into_bytes())).collect();
    let [waited, ran, state] = ["waited", "ran", "state"].map(|name| farm.temp().path().join(name));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    farm.cli(&["submit", "--wait", "--dir", &path(&waited), &path(&job)]).exits(0);
    assert_eq!(files(&waited), expected);
    let mut command = program("starfarm", farm.temp().path());
    command.args(["run", "--slots", "2", "--state", &path(&state), "--dir", &path(&ran), &path(&job)]);
    run(command).exits(0);
    assert_eq!(files(&ran), expected);
    // No job is submitted whose files could not be written.
    let refused = farm.cli(&["submit", "--wait", "--dir", "/dev/null/x", &path(&job)]);
    refused.exits(6);
    assert!(refused.stderr.contains("cannot write /dev/null/x"), "{}", refused.stderr);
    assert_eq!(farm.ask(&["jobs"])["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn what_failed_units_left_is_kept_where_a_person_wants_it() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1", "--keep-failed", "2"]);
    let script = "echo {} > $STARFARM_SCRATCH/trace; test {} -gt 3 || exit 1";
    let job = ["--range", "1..8", "--retries", "0", "--max-failures", "never", "--", "sh", "-c", script];
    let id = farm.submit(&job);
    farm.wait(&id).exits(1);
    let traces = |name: &str| -> Vec<String> {
        let kept = files(&farm.worker_state(name).join("failed"));
        kept.into_values().map(|trace| String::from_utf8(trace).unwrap()).collect()
    };
    assert_eq!(traces("w1"), ["2\n", "3\n"], "the newest of three, and none of those that passed");
    let dir = farm.worker_state("w1").join("failed");
    let said = farm.workers[0].log();
    assert_eq!(said.matches(dir.to_str().unwrap()).count(), 1, "{said}");
    assert!(files(&farm.worker_state("w1").join("scratch")).is_empty());
}

/// Root may do all that another user may not: where the worker was none, a folder of mode 555 in a scratch directory, and a
/// file that nobody may read, made its node refuse the whole job.
#[test]
fn what_units_close_to_their_own_user_stands_in_the_way_of_no_other() {
    const NOBODY: u32 = 65_534;
    let dir = TempDir::new();
    let copy = dir.path().join("starfarm");
    let mut command = Command::new(&copy);
    let built = program("starfarm", dir.path());
    fs::copy(built.get_program(), &copy).unwrap();
    built.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(command.env(name, value)),
        None => drop(command.env_remove(name)),
    });
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let script = "mkdir -p d/e && echo x > d/e/f && chmod 555 d/e d && echo {} > out/{} && \
                  if [ {} = 2 ]; then chmod 000 out/{}; fi";
    command.current_dir(dir.path()).args(["run", "--slots", "1", "--dir", "res", "--range", "0..6"]);
    command.args(["--outputs", "out/{}", "--", "sh", "-c", script]);
    let reply = run(command);
    reply.exits(1).says(&["5 of 6 units done"]);
    let made: Vec<String> = files(&dir.path().join("res")).into_keys().collect();
    assert_eq!(made, ["out/0", "out/1", "out/3", "out/4", "out/5"]);
    let left =
        Command::new("find").arg(dir.path()).args(["-name", "e", "-o", "-name", "d"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn two_files_of_a_unit_never_go_by_one_name() {
    let farm = Farm::with_workers(1, 1);
    let program = "echo one > r.txt; echo two > {index}/r.txt";
    let outputs = ["--outputs", "r.txt", "--outputs", "{index}/r.txt"];
    let id = farm.submit(&[&["--range", "0..2"], &outputs[..], &["--", "sh", "-c", program]].concat());
    farm.wait(&id).exits(1);
    let said = farm.cli(&["job", "logs", &id, "--stderr"]).exits(0).stdout.clone();
    assert!(said.contains("both are called `0/r.txt`: rename one"), "{said}");
    // The same one twice is one.
    let one = ["--outputs", "{}.txt", "--outputs", "{index}.txt"];
    let id = farm.submit(&[&["--range", "0..2"], &one[..], &["--", "sh", "-c", "echo {} > {}.txt"]].concat());
    farm.wait(&id).exits(0);
}
