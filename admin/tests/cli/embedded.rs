//! Commands that start processes of their own, with a real scheduler and real workers: `run`, `bench
//! dispatch`, `plan`, and a farm that is called by its join files.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Ended, Folder};
use crate::schemas::Schemas;

/// Longer than anything here takes; a test that waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let step = Duration::from_millis(20);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(step);
    }
    panic!("still waiting until {what}");
}

fn write_job(folder: &Folder, space: &str, task: &str) {
    std::fs::write(folder.path().join("job.toml"), format!("[space]\n{space}\n[task]\n{task}\n")).unwrap();
}

/// A job that does not end by itself.
fn write_endless_job(folder: &Folder) {
    write_job(
        folder,
        "kind = \"range\"\nfrom = 0\nto = 1000",
        "executor = \"command\"\nprogram = [\"sleep\", \"1000{}\"]",
    );
}

/// Whether some process holds the lock of the worker's state folder.
fn worker_lives(state: &Path) -> bool {
    let Ok(lock) = File::open(state.join("worker/lock")) else { return false };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[test]
fn an_embedded_farm_searches() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    let zz9 = "e0df37ad690a0effed4b5accbe85f047";
    let task = format!("executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\"{zz9}\"]");
    write_job(&folder, "kind = \"chars\"\nmask = \"?l?l?d\"", &task);
    let text = folder.run("run FARM/job.toml --slots 1 --output json").with(0);
    schemas.check("results", &text);
    let results: Value = serde_json::from_str(&text).unwrap();
    let hit = &results["hits"][0];
    assert_eq!((&hit["unit"], &hit["value"], &hit["target"]), (&"6759".into(), &"zz9".into(), &zz9.into()));
    let runs = std::fs::read_dir(folder.path().join("state/starfarm/runs")).unwrap();
    let names: Vec<_> = runs.map(|run| run.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.len() == 1 && names[0].len() == 16, "{names:?}");
}

/// What a directory holds: names, sizes and times of change.
fn listing(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            format!("{} {} {:?}", entry.path().display(), metadata.len(), metadata.modified().unwrap())
        })
        .collect();
    all.sort();
    all
}

/// Nobody starts a scheduler just to read again what a finished run found.
#[test]
fn results_of_a_run_that_is_over_are_read_where_they_lie() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    let program = "executor = \"command\"\nretries = 1\nprogram = [\"sh\", \"-c\", \"mkdir FARM/tried{} 2>/dev/null && \
                   test {} = 2 && exit 3; seq 1 300; test {} -lt 3\"]";
    let program = program.replace("FARM", folder.path().to_str().unwrap());
    write_job(&folder, "kind = \"range\"\nfrom = 0\nto = 4", &program);
    let ran = folder.run("run FARM/job.toml --state FARM/state --slots 1 --output json");
    assert!(ran.stderr.contains("state results 1` prints its results again"), "{}", ran.stderr);
    let printed = ran.with(1);
    let before = listing(&folder.path().join("state"));
    let again = folder.run("--farm FARM/state --output json results 1");
    assert!(again.stderr.contains("no scheduler runs in"), "{}", again.stderr);
    let again = again.with(0);
    assert_eq!(again, printed);
    let results: Value = serde_json::from_str(&again).unwrap();
    let runs: Vec<_> =
        results["outputs"].as_array().unwrap().iter().map(|output| output["run"].clone()).collect();
    assert_eq!(runs, [1, 1, 2, 2].map(Value::from), "units 2 and 3 failed once");
    let text = folder.run("--farm FARM/state results 1").with(0);
    assert!(
        text.contains("== unit 1: exit code 0") && text.contains("== unit 2, run 2: exit code 0"),
        "{text}"
    );
    let jobs = folder.run("--farm FARM/state --output json jobs").with(0);
    schemas.check("jobs", &jobs);
    let shown = folder.run("--farm FARM/state job show 1").with(0);
    assert!(shown.contains("unit 3 failed: exit 1 on local"), "{shown}");
    assert_eq!(folder.run("--farm FARM/state job show 9").with(4), "");
    assert!(
        folder.run("--farm FARM/state job cancel 1").failed_with(3).contains("starfarm scheduler --state")
    );
    assert_eq!(listing(&folder.path().join("state")), before, "who looks changes nothing");
    // A journal whose end cannot be read is not shown as if that were all.
    let journal = folder.path().join("state/journal/00000001.seg");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let damaged = folder.run("--farm FARM/state jobs");
    assert!(damaged.stderr.contains("of the journal cannot be read"), "{damaged:?}");
    assert_eq!(damaged.with(6), "");
    std::fs::remove_dir_all(folder.path().join("state/journal")).unwrap();
    let gone = folder.run("--farm FARM/state jobs");
    assert!(gone.stderr.contains("there is no journal"), "{gone:?}");
    assert_eq!(gone.with(6), "");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(folder.run("--farm FARM/empty jobs").failed_with(3).contains("no scheduler runs in"));
    assert_eq!(listing(&folder.path().join("empty")).len(), 1);
}

#[test]
fn an_embedded_farm_tells_failed_units_by_its_exit_code() {
    let folder = Folder::new();
    let program = "executor = \"command\"\nprogram = [\"test\", \"{}\", \"-ne\", \"2\"]";
    write_job(&folder, "kind = \"range\"\nfrom = 0\nto = 4", program);
    let text = folder.run("run FARM/job.toml --state FARM/farm --output json").with(1);
    let results: Value = serde_json::from_str(&text).unwrap();
    let failed = serde_json::json!([{ "unit": "2", "reason": "exit", "exit_code": 1, "node": "local" }]);
    assert_eq!(results["failed"], failed);
    assert!(!worker_lives(&folder.path().join("farm")));
}

/// A program that runs meanwhile. Dropping it kills it, or a test that fails would leave it behind.
struct Running(Option<Child>);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill_process(Pid::from_raw(id as i32).unwrap(), signal).unwrap();
    }

    fn end(mut self) -> Ended {
        Ended::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn an_interrupted_farm_leaves_no_worker_behind() {
    let folder = Folder::new();
    write_endless_job(&folder);
    let run = Running::start(folder.command("run FARM/job.toml --state FARM/farm --slots 1"));
    let figure = |line: &str, pointer: &str| {
        let text = folder.run(&format!("--farm FARM/farm --output json {line}")).stdout;
        let json = serde_json::from_str::<Value>(&text).unwrap_or_default();
        json.pointer(pointer).cloned().unwrap_or_default()
    };
    wait_until("the job runs", || figure("status", "/dq").as_u64() > Some(0));
    let second = folder.run("run FARM/job.toml --state FARM/farm").failed_with(6);
    assert!(second.contains("name another directory"), "{second}");
    // The first signal lets the unit finish, which it never does; the second ends it.
    run.signal(Signal::INT);
    wait_until("the worker drains", || figure("nodes", "/nodes/0/state") == "draining");
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(!worker_lives(&folder.path().join("farm")));
}

#[test]
fn a_killed_farm_leaves_no_worker_behind() {
    let folder = Folder::new();
    write_job(
        &folder,
        "kind = \"range\"\nfrom = 0\nto = 1000",
        "executor = \"command\"\nprogram = [\"sleep\", \"0.2\"]",
    );
    let state = folder.path().join("farm");
    let run = Running::start(folder.command("run FARM/job.toml --state FARM/farm --slots 1"));
    wait_until("the worker lives", || worker_lives(&state));
    run.signal(Signal::KILL);
    run.end();
    wait_until("the worker has gone", || !worker_lives(&state));
}

#[test]
fn a_probe_keeps_to_its_schema_with_and_without_devices() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    schemas.check("probe", &folder.run("worker --probe json --devices all").with(0));
    let mut without = folder.command("worker --probe json");
    without.env("OCL_ICD_VENDORS", folder.path());
    let text = String::from_utf8(without.output().unwrap().stdout).unwrap();
    schemas.check("probe", &text);
    assert!(text.contains("no_devices"), "{text}");
}

#[test]
fn measurements_keep_to_their_schemas() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    let text = folder.run("bench dispatch --tasks 1000 --nodes 2 --output json").with(0);
    schemas.check("bench-dispatch", &text);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["tasks"], &report["nodes"]), (&1000.into(), &2.into()));
    let text = folder.run("plan --slots 6 --target-seconds 8 --tasks 1000 --output json").with(0);
    schemas.check("plan", &text);
    let law: Value = serde_json::from_str(&text).unwrap();
    let figure = |key: &str| law[key].as_f64().unwrap();
    let expected = 8.0 / (6.0 * figure("dispatch_us") / 1e6);
    assert!((figure("nodes_max") - expected).abs() <= 1.0, "{law}");
}

#[test]
fn a_planned_tree_keeps_to_its_schema_and_a_table_that_is_wrong_is_told_its_line() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    let table = folder.path().join("hosts");
    let lines = (0..100).map(|n| format!("n{n} {} 0.5 8 10\n", n % 9)).collect::<String>();
    std::fs::write(&table, format!("host cores idle memory link\n{lines}")).unwrap();
    for strategy in ["average", "fuzzy"] {
        let plan = format!("tree plan --hosts FARM/hosts --strategy {strategy} --fanout 8");
        let text = folder.run(&format!("{plan} --output json")).with(0);
        schemas.check("tree-plan", &text);
        let json: Value = serde_json::from_str(&text).unwrap();
        let cps: u64 =
            json["hosts"].as_array().unwrap().iter().map(|host| host["cp"].as_u64().unwrap()).sum();
        assert_eq!((cps, &json["cp_levels"]), (13 + 2, &2.into()), "{text}");
        assert_eq!(json["topology"], folder.run(&format!("{plan} --topology")).with(0));
    }
    std::fs::write(&table, "host cores\nn1 many\n").unwrap();
    let why = folder.run("tree plan --hosts FARM/hosts").failed_with(2);
    assert!(why.contains("line 2: `many` is no number"), "{why}");
}

/// A command that waits for a file of the folder's for its last units, and appends to another one what it ran.
fn write_gated_job(folder: &Folder, to: u32) {
    let dir = folder.path().display();
    let script =
        format!("echo {{}} >> {dir}/ran; test {{}} -lt 5 || while ! test -e {dir}/gate; do sleep 0.02; done");
    let task =
        format!("executor = \"command\"\nunits_per_task = 1\nprogram = [\"sh\", \"-c\", \"{script}\"]");
    write_job(folder, &format!("kind = \"range\"\nfrom = 0\nto = {to}"), &task);
}

fn ran(folder: &Folder) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.path().join("ran")).unwrap_or_default();
    let mut ran: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    ran
}

#[test]
fn a_killed_run_goes_on_where_it_was_and_the_audit_holds() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    write_gated_job(&folder, 8);
    let line = "run FARM/job.toml --state FARM/farm --slots 1 --output json";
    let run = Running::start(folder.command(line));
    let done = || {
        let text = folder.run("--farm FARM/farm --output json jobs").stdout;
        let json = serde_json::from_str::<Value>(&text).unwrap_or_default();
        json.pointer("/jobs/0/units_done").cloned().unwrap_or_default()
    };
    wait_until("five units are done", || done() == "5");
    let audit = folder.run("audit FARM/farm --output json").with(0);
    schemas.check("audit", &audit);
    let audit: Value = serde_json::from_str(&audit).unwrap();
    assert_eq!((&audit["scheduler_runs"], &audit["jobs"][0]["verdict"]), (&true.into(), &"not_ended".into()));
    run.signal(Signal::KILL);
    run.end();
    wait_until("the worker has gone", || !worker_lives(&folder.path().join("farm")));

    std::fs::write(folder.path().join("gate"), "").unwrap();
    let again = folder.run(line);
    assert!(again.stderr.contains("going on with job 1: 5 of 8 units are done"), "{again:?}");
    let results: Value = serde_json::from_str(&again.with(0)).unwrap();
    assert_eq!(results["outputs"].as_array().unwrap().len(), 8);
    // What was done is not run again; what ran when the farm died is.
    let ran = ran(&folder);
    assert!(
        ran.starts_with(&[0, 1, 2, 3, 4, 5]) && ran.iter().filter(|unit| **unit < 5).count() == 5,
        "{ran:?}"
    );
    let audit: Value = serde_json::from_str(&folder.run("audit FARM/farm --output json").with(0)).unwrap();
    let certificate = &audit["jobs"][0]["certificate"];
    assert_eq!(
        (&certificate["verdict"], &certificate["epochs"]),
        (&"complete".into(), &serde_json::json!([1, 2]))
    );

    let anew = folder.run(line);
    assert!(
        anew.stderr.contains("job 1 of an earlier run has ended (finished): this run starts anew"),
        "{anew:?}"
    );
    let audit: Value = serde_json::from_str(&folder.run("audit FARM/farm --output json").with(0)).unwrap();
    assert_eq!(audit["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn changed_inputs_are_another_job() {
    let folder = Folder::new();
    write_gated_job(&folder, 8);
    let run = Running::start(folder.command("run FARM/job.toml --slots 1"));
    wait_until("a unit waits", || ran(&folder).contains(&5));
    run.signal(Signal::KILL);
    run.end();
    let runs = folder.path().join("state/starfarm/runs");
    let first = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    wait_until("the worker has gone", || !worker_lives(&first));
    // Of the default folders each input has its own; the old one is named.
    write_gated_job(&folder, 3);
    let other = folder.run("run FARM/job.toml --slots 1");
    assert!(
        other.stderr.contains("inputs have changed") && other.stderr.contains(first.to_str().unwrap()),
        "{other:?}"
    );
    other.with(0);
    // In one folder for both the old job waits.
    let same = folder.run(&format!("run FARM/job.toml --slots 1 --state {}", first.display()));
    assert!(same.stderr.contains("job 1 of an earlier run here is another one"), "{same:?}");
    same.with(0);
    std::fs::write(folder.path().join("gate"), "").unwrap();
    write_gated_job(&folder, 8);
    let back = folder.run("run FARM/job.toml --slots 1");
    assert!(back.stderr.contains("going on with job 1"), "{back:?}");
    back.with(0);
    assert!(!folder.run("run FARM/job.toml --slots 1").with(0).is_empty());
}

#[test]
fn failed_units_are_tried_again_by_command_and_by_a_second_run() {
    let folder = Folder::new();
    let gate = folder.path().join("gate");
    let task = format!(
        "executor = \"command\"\nprogram = [\"sh\", \"-c\", \"test {{}} -ne 2 || test -e {}\"]",
        gate.display()
    );
    write_job(&folder, "kind = \"range\"\nfrom = 0\nto = 4", &task);
    let line = "run FARM/job.toml --state FARM/farm --output quiet";
    folder.run(line).with(1);
    std::fs::write(&gate, "").unwrap();
    let again = folder.run(line);
    assert!(again.stderr.contains("failed units: 1; they are tried again"), "{again:?}");
    again.with(0);
    let audit: Value = serde_json::from_str(&folder.run("audit FARM/farm --output json").with(0)).unwrap();
    assert_eq!((&audit["jobs"][0]["verdict"], &audit["jobs"][1]), (&"complete".into(), &Value::Null));
    std::fs::remove_file(&gate).unwrap();
    folder.run(&format!("{line} --fresh")).with(1);

    let _scheduler = Scheduler::start(&folder, "farm");
    let text = folder.run("--farm FARM/farm job show 2").with(0);
    assert!(text.contains("unit 2 failed: exit 1 on local"), "{text}");
    folder.run("--farm FARM/farm job retry --failed 2").with(0);
    let json: Value =
        serde_json::from_str(&folder.run("--farm FARM/farm --output json job show 2").with(0)).unwrap();
    assert_eq!(
        (&json["jobs"][0]["state"], &json["jobs"][0]["units_failed"]),
        (&"queued".into(), &"0".into())
    );
    folder.run("--farm FARM/farm job retry --failed 1").failed_with(6);
}

#[test]
fn the_same_job_is_submitted_once_if_the_user_says_so() {
    let folder = Folder::new();
    let _scheduler = Scheduler::start(&folder, "s");
    let submit = |more: &str| {
        let line = format!("--farm FARM/s --output quiet submit --range 0..9 {more} -- true");
        folder.run(&line).with(0).trim().to_owned()
    };
    assert_eq!((submit("--name n --resume").as_str(), submit("--name n").as_str()), ("1", "2"));
    folder.run("--farm FARM/s job pause 1").with(0);
    assert_eq!(submit("--name n --resume --max-failures 3"), "1");
    let state = |id: u32| {
        let text = folder.run(&format!("--farm FARM/s --output json job show {id}")).with(0);
        serde_json::from_str::<Value>(&text).unwrap()["jobs"][0]["state"].clone()
    };
    assert_eq!(state(1), "queued");
    folder.run("--farm FARM/s job cancel 1").with(0);
    folder.run("--farm FARM/s job cancel 2").with(0);
    assert_eq!(submit("--name n --resume"), "3");
    assert_eq!(submit("--resume --name other"), "4");
}

/// A scheduler that stops when it is dropped: its standard input ends then.
struct Scheduler(Child);

impl Scheduler {
    fn start(folder: &Folder, state: &str) -> Self {
        let line = format!("scheduler --state FARM/{state} --listen 127.0.0.1:0 --parent-pipe");
        let mut command = folder.command(&line);
        let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let status = format!("--farm FARM/{state} --output quiet status");
        wait_until("the scheduler answers", || folder.run(&status).code == Some(0));
        Self(child)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_scheduler_stops_with_who_started_it() {
    let folder = Folder::new();
    let mut scheduler = Scheduler::start(&folder, "s");
    drop(scheduler.0.stdin.take());
    assert_eq!(scheduler.0.wait().unwrap().code(), Some(0));
    folder.run("--farm FARM/s status").failed_with(3);
}

#[test]
fn a_farm_elsewhere_is_called_by_its_join_file() {
    let folder = Folder::new();
    let _scheduler = Scheduler::start(&folder, "s");
    let here = folder.run("--farm FARM/s --output json nodes").with(0);
    assert_eq!(folder.run("--farm FARM/s/admin.join --output json nodes").with(0), here);
    assert_eq!(folder.run("--farm FARM/s/admin.join submit --output quiet -- true").with(0), "1\n");
    let keys = folder.run("--farm FARM/s/admin.join key list --output jsonl").with(0);
    assert!(keys.lines().any(|key| key.contains("enrolled") && key.contains("admin")), "{keys}");

    let worker = folder.run("--farm FARM/s/worker.join jobs").failed_with(5);
    assert!(worker.contains("admin.join"), "{worker}");
}

#[test]
fn roles_and_revocation_hold() {
    let folder = Folder::new();
    let _scheduler = Scheduler::start(&folder, "s");
    folder.run("--farm FARM/s key add --role observer --out FARM/o.join").with(0);
    folder.run("--farm FARM/o.join jobs").with(0);
    folder.run("--farm FARM/o.join submit -- true").failed_with(5);
    folder.run("--farm FARM/o.join key list").failed_with(5);
    let keys = folder.run("--farm FARM/s key list --output jsonl").with(0);
    let is_observer = |key: &Value| key["kind"] == "enrolled" && key["role"] == "observer";
    let mut keys = keys.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let name = keys.find(is_observer).unwrap()["name"].as_str().unwrap().to_owned();
    let revoked = folder.run(&format!("--farm FARM/s key revoke {name}")).with(0);
    assert!(revoked.contains(&name) && revoked.contains("revoked"), "{revoked}");
    folder.run("--farm FARM/o.join jobs").failed_with(5);
    folder.run("--farm FARM/s key revoke nobody").failed_with(4);
}

#[test]
fn a_join_file_of_another_farm_opens_nothing() {
    let folder = Folder::new();
    let (_one, _other) = (Scheduler::start(&folder, "one"), Scheduler::start(&folder, "other"));
    let read = |state: &str| -> Value {
        let path = folder.path().join(state).join("admin.join");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let mut mixed = read("one");
    mixed["addresses"] = read("other")["addresses"].clone();
    std::fs::write(folder.path().join("mixed.join"), mixed.to_string()).unwrap();
    let words = folder.run("--farm FARM/mixed.join jobs").stderr;
    assert!(words.contains("is not the scheduler of this join file"), "{words}");
    mixed["addresses"] = serde_json::json!(["127.0.0.1:1"]);
    std::fs::write(folder.path().join("mixed.join"), mixed.to_string()).unwrap();
    let nobody = folder.run("--farm FARM/mixed.join jobs");
    assert_eq!(nobody.code, Some(3));
    assert!(nobody.stderr.contains("127.0.0.1:1"), "{nobody:?}");
    assert!(nobody.stderr.contains("chmod 600"), "it is readable by others: {nobody:?}");
}
