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
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
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
        "executor = \"command\"\nprogram = [\"sleep\", \"1000\"]",
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
    assert!(second.contains("directory of its own"), "{second}");
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
    folder.run(&format!("--farm FARM/s key revoke {name}")).with(0);
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
