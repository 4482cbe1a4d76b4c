//! Units that a user's program names while the job runs.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use starfarm_e2e::{Farm, alive, program, run, until};

/// A decomposer in Python that names so many units, one batch after another; it leaves its process's number.
fn decomposer(dir: &Path, name: &str, body: &str) -> PathBuf {
    let path = dir.join(name);
    let pids = dir.join(format!("{name}.pids"));
    let text = format!(
        "#!/usr/bin/env python3\nimport json, os, sys, time\nwith open({:?}, 'a') as pids:\n    pids.write(str(os.getpid()) + '\\n')\n\
         def say(**line):\n    print(json.dumps(line), flush='unit' not in line)\n\
         for line in sys.stdin:\n    asked = json.loads(line)\n    at = asked['state'] or 0\n{}\n",
        pids.display().to_string(),
        body.lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Names the units 0 to `count`, at most `batch` at a time.
fn counting(count: u32, batch: u32) -> String {
    format!(
        "for n in range(min(asked['next'], {batch}, {count} - at)):\n    say(unit='v%d' % at)\n    at += 1\n\
         say(end=True) if at == {count} else say(state=at)"
    )
}

fn job(program: &Path, task: &str) -> String {
    format!(
        "[space]\nkind = \"program\"\nprogram = [\"{}\"]\n[task]\nexecutor = \"command\"\n{task}\n",
        program.display()
    )
}

const ECHO: &str = "program = [\"echo\", \"{index}\", \"{}\"]";

/// What each unit wrote.
fn written(farm: &Farm, id: &str) -> BTreeMap<u64, String> {
    let outputs = farm.results(id)["outputs"].take();
    let of = |output: &serde_json::Value| {
        let unit: u64 = output["unit"].as_str().unwrap().parse().unwrap();
        (unit, output["stdout"]["text"].as_str().unwrap().trim().to_owned())
    };
    let all: Vec<_> = outputs.as_array().unwrap().iter().map(of).collect();
    let map: BTreeMap<u64, String> = all.iter().cloned().collect();
    assert_eq!(map.len(), all.len(), "each unit once");
    map
}

fn expected(count: u64) -> BTreeMap<u64, String> {
    (0..count).map(|unit| (unit, format!("{unit} v{unit}"))).collect()
}

fn pids(dir: &Path, name: &str) -> Vec<u32> {
    let text = fs::read_to_string(dir.join(format!("{name}.pids"))).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn units_come_from_a_program_and_a_job_ends_with_its_last() {
    let farm = Farm::with_workers(2, 2);
    let dir = farm.temp().path();
    let gate = dir.join("gate");
    let body = format!(
        "while at == 300 and not os.path.exists({:?}):\n    time.sleep(0.02)\n{}",
        gate.display().to_string(),
        counting(500, 300)
    );
    let program = decomposer(dir, "cases.py", &body);
    let id = farm.submit_text(&job(&program, ECHO));
    farm.until_job(&id, "units_done", "300");
    let open = farm.job(&id);
    assert_eq!(
        (&open["state"], &open["grows"], &open["units_total"]),
        (&"running".into(), &true.into(), &"300".into())
    );
    assert!(farm.cli(&["jobs"]).stdout.contains("300+"));
    until("it waits for its decomposer", || {
        farm.cli(&["job", "explain", &id]).stdout.contains("waits for its decomposer")
    });
    fs::write(&gate, "").unwrap();
    farm.wait(&id).exits(0);
    let ended = farm.job(&id);
    assert_eq!((&ended["grows"], &ended["units_total"]), (&serde_json::Value::Null, &"500".into()));
    assert_eq!(written(&farm, &id), expected(500));
    until("it has ended", || pids(dir, "cases.py").iter().all(|pid| !alive(*pid)));
}

/// The scheduler and the program are killed again and again, whatever they are doing.
#[test]
fn no_unit_is_lost_or_doubled_whoever_is_killed() {
    let mut farm = Farm::with_workers(2, 2);
    let dir = farm.temp().path().to_owned();
    let program = decomposer(&dir, "cases.py", &format!("time.sleep(0.05)\n{}", counting(1_500, 37)));
    let id = farm.submit_text(&job(&program, ECHO));
    for round in 0..12_u64 {
        std::thread::sleep(Duration::from_millis(90 + 37 * round));
        if round % 3 == 0 {
            farm.kill_scheduler();
            farm.restart_scheduler();
        } else if let Some(pid) = pids(&dir, "cases.py").last().filter(|pid| alive(**pid)) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
    farm.wait(&id).exits(0);
    assert_eq!(written(&farm, &id), expected(1_500));
    let starts = pids(&dir, "cases.py");
    // One that is killed before it has started its program starts none.
    assert!(starts.len() > 2, "it was started anew: {starts:?}");
    until("none is left", || starts.iter().all(|pid| !alive(*pid)));
    farm.kill_scheduler();
    let audit = farm.cli(&["audit", farm.state().to_str().unwrap(), "--outputs"]);
    audit.exits(0);
    let at_rest = farm.cli(&["--output", "json", "results", &id]);
    assert_eq!(at_rest.exits(0).json()["outputs"].as_array().unwrap().len(), 1_500);
}

#[test]
fn a_program_that_does_wrong_pauses_its_job_in_words_and_the_farm_goes_on() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path();
    let mended = dir.join("mended");
    for (name, wrong, why) in [
        ("garbage.py", "print('hello', flush=True)", "line 1 of its answer cannot be read"),
        ("dies.py", "sys.exit('no such file: cases.csv')", "no such file: cases.csv (the last of 5 starts)"),
        ("hangs.py", "time.sleep(60)", "did not name a batch of up to"),
        ("endless.py", "while True: say(unit=1)", "is one unit more than the"),
    ] {
        let body = format!(
            "if at == 20 and not os.path.exists({:?}):\n    {wrong}\n{}",
            mended.display().to_string(),
            counting(40, 20)
        );
        let program = decomposer(dir, name, &body);
        let text = job(&program, ECHO).replace("[task]", "timeout_seconds = 2\n[task]");
        let id = farm.submit_text(&text);
        farm.until_job(&id, "state", "paused");
        let note = farm.job(&id)["note"].as_str().unwrap().to_owned();
        assert!(note.starts_with("its decomposer `") && note.contains(why), "{name}: {note}");
        let other = farm.submit(&["--range", "0..10", "--", "true"]);
        farm.wait(&other).exits(0);
        fs::write(&mended, "").unwrap();
        farm.cli(&["job", "resume", &id]).exits(0);
        farm.wait(&id).exits(0);
        assert_eq!(written(&farm, &id), expected(40), "{name}");
        fs::remove_file(&mended).unwrap();
    }
}

/// What it says of costs, and that it says the same values again, changes how long tasks are and nothing else.
#[test]
fn a_program_that_lies_about_costs_and_repeats_itself_has_each_of_its_units_computed() {
    let farm = Farm::with_workers(2, 2);
    let body = "for n in range(min(asked['next'], 50, 600 - at)):\n    \
                say(unit='v%d' % (at % 7), cost=[1e300, -5, 0, 1e-300, 7][at // 50 % 5])\n    at += 1\n\
                say(end=True) if at == 600 else say(state=at)";
    let program = decomposer(farm.temp().path(), "lies.py", body);
    let id = farm.submit_text(&job(&program, ECHO));
    farm.wait(&id).exits(0);
    assert_eq!(written(&farm, &id), (0..600).map(|unit| (unit, format!("{unit} v{}", unit % 7))).collect());
}

#[test]
fn an_operators_key_runs_no_program_on_the_schedulers_host() {
    let farm = Farm::start();
    let dir = farm.temp().path();
    let program = decomposer(dir, "cases.py", &counting(5, 5));
    let file = farm.temp().write("own.toml", job(&program, ECHO));
    let key = farm.cli(&["key", "add", "--role", "operator"]);
    let join = farm.temp().write("operator.join", &key.exits(0).stdout);
    fs::set_permissions(&join, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = farm.cli_by(&join, &["submit", file.to_str().unwrap()]);
    assert!(
        refused.code != 0 && refused.stderr.contains("run on the scheduler's host"),
        "{}",
        refused.stderr
    );
}

/// As many jobs as there are places for programs would else keep all others from getting units.
#[test]
fn a_program_that_thinks_for_long_ends_with_its_job() {
    let farm = Farm::with_workers(1, 1);
    let dir = farm.temp().path();
    for (command, state) in [("pause", "paused"), ("cancel", "cancelled")] {
        let name = format!("{command}.py");
        let program = decomposer(dir, &name, "time.sleep(3_000)");
        let text = job(&program, ECHO).replace("[task]", "timeout_seconds = 3_000\n[task]");
        let id = farm.submit_text(&text);
        until("it is asked", || !pids(dir, &name).is_empty());
        farm.cli(&["job", command, &id]).exits(0);
        until("it has ended", || pids(dir, &name).iter().all(|pid| !alive(*pid)));
        assert_eq!(farm.job(&id)["state"], state);
    }
}

#[test]
fn a_dry_run_shows_the_first_units_and_run_computes_them_all() {
    let farm = Farm::start();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cases.toml");
    let dry = farm.cli(&["submit", "--dry-run", example.to_str().unwrap()]);
    dry.exits(0);
    assert!(dry.stdout.contains("as many as the program names"), "{}", dry.stdout);
    assert!(dry.stdout.contains("unit 0: 1 1: sh -c echo 1 x 1 is"), "{}", dry.stdout);
    let mut command = program("starfarm", farm.temp().path());
    command.args(["--output", "json", "run", "--fresh"]).arg(&example).current_dir(farm.temp().path());
    let reply = run(command);
    let outputs = reply.exits(0).json()["outputs"].take();
    let serial = Command::new("sh")
        .args([
            "-c",
            "echo '{\"next\":100000,\"state\":null,\"units_so_far\":0}' | ./cases.py 1000 | grep -c unit",
        ])
        .current_dir(example.parent().unwrap())
        .output()
        .unwrap();
    // The same in Rust, as `docs/own-decomposer.md` shows it: what it names, batch by batch.
    let said = |command: &str| {
        let asked = [json!(null), json!([7, 9]), json!([1000, 1])]
            .map(|state| json!({ "next": 1_000, "state": state, "units_so_far": 0 }).to_string());
        let mut child = Command::new(command)
            .arg("1000")
            .current_dir(example.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command}: {e}"));
        child.stdin.take().unwrap().write_all((asked.join("\n") + "\n").as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success());
        let lines = String::from_utf8(said.stdout).unwrap();
        let lines = lines.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            // The one names the values of a unit, the other gives them in their order.
            if line["unit"].is_object() {
                line["unit"] = json!([line["unit"]["width"], line["unit"]["height"]]);
            }
            line.to_string()
        });
        lines.collect::<Vec<_>>()
    };
    let in_rust = starfarm_e2e::binary("examples/cases");
    let (in_python, in_rust) = (said("./cases.py"), said(in_rust.to_str().unwrap()));
    assert!(
        in_rust.len() == 2_004 && in_rust == in_python,
        "{} lines and {}",
        in_rust.len(),
        in_python.len()
    );
    let count: usize = String::from_utf8(serial.stdout).unwrap().trim().parse().unwrap();
    assert_eq!((outputs.as_array().unwrap().len(), count), (7_069, 7_069));
    assert_eq!(outputs[1]["stdout"]["text"], "1 x 2 is 2\n");
}
