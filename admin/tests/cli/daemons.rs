//! `starfarm scheduler` and `starfarm worker` over some time: their memory, and a standard error that takes nothing.

use std::fs::OpenOptions;
use std::io::pipe;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::embedded::wait_until;
use crate::program::Folder;

/// A daemon; killed where it is dropped.
struct Daemon(Child);

impl Daemon {
    fn start(folder: &Folder, arguments: &str, stderr: Stdio) -> Self {
        let mut command = folder.command(arguments);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap())
    }

    /// Its exit code after a SIGINT.
    fn interrupted(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        self.0.wait().unwrap().code()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A new file in `folder`, and the way to it.
fn to(folder: &Folder, name: &str) -> (PathBuf, std::fs::File) {
    let path = folder.path().join(name);
    let file = std::fs::File::create(&path).unwrap();
    (path, file)
}

const SCHEDULER: &str = "scheduler --state FARM/farm --listen 127.0.0.1:0";
const WORKER: &str = "worker --join FARM/farm/worker.join --state FARM/w1 --name w1 --slots 1";

/// A scheduler with these further flags and a worker, which say everything to `stderr`.
fn farm(folder: &Folder, flags: &str, stderr: impl Fn() -> Stdio) -> (Daemon, Daemon) {
    let scheduler = Daemon::start(folder, format!("{SCHEDULER} {flags}").trim_end(), stderr());
    let join = folder.path().join("farm/worker.join");
    wait_until("the scheduler is there", || join.exists());
    let worker = Daemon::start(folder, WORKER, stderr());
    wait_until("the worker is there", || {
        folder.run("--farm FARM/farm nodes --output quiet").with(0) == "w1\n"
    });
    (scheduler, worker)
}

#[test]
fn memory_does_not_grow_with_checkpoints() {
    let folder = Folder::new();
    let words = folder.path().join("words");
    let open = || OpenOptions::new().create(true).append(true).open(&words).unwrap().into();
    let (scheduler, _worker) = farm(&folder, "--checkpoint-records 1", open);
    folder.run("--farm FARM/farm submit --range 0..1000000 -- sleep 0.01").with(0);

    let status = format!("/proc/{}/status", scheduler.0.id());
    let resident_kib = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    let dir: PathBuf = folder.path().join("farm/checkpoint");
    // Their numbers count them.
    let saved = || {
        let names = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(0_u64)
    };
    wait_until("the first checkpoints are saved", || saved() >= 20);
    let (first, before) = (saved(), resident_kib());
    wait_until("many more are saved", || saved() >= first + 150);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB more after 150 checkpoints");
    assert_eq!(scheduler.interrupted(), Some(0));
    let words = std::fs::read_to_string(words).unwrap();
    assert!(!words.contains("cannot be saved"), "{words}");
}

#[test]
fn old_segments_are_rewritten_beside_the_farm() {
    let folder = Folder::new();
    let words = folder.path().join("words");
    let open = || OpenOptions::new().create(true).append(true).open(&words).unwrap().into();
    let (scheduler, _worker) = farm(&folder, "--checkpoint-records 100 --journal-segment-kib 64", open);
    folder.run("--farm FARM/farm submit --wait --range 0..1500 -- seq 100").with(0);
    // Four segments are full by then, of which the newest two stay as they are.
    let ledger = folder.path().join("farm/ledger");
    let rewritten = || ledger.join("00000002.led").exists();
    folder.run("--farm FARM/farm submit --range 0..1000000 -- sleep 0.01").with(0);
    wait_until("the first two are rewritten", rewritten);
    assert!(!folder.path().join("farm/journal/00000002.seg").exists());
    assert_eq!(scheduler.interrupted(), Some(0));
    folder.run("audit FARM/farm").with(0);
    let words = std::fs::read_to_string(words).unwrap();
    assert!(!words.contains("rewritten"), "{words}");
}

#[track_caller]
fn works_without_a_word(stderr: impl Fn() -> Stdio) {
    let folder = Folder::new();
    let (mut scheduler, mut worker) = farm(&folder, "", stderr);
    folder.run("--farm FARM/farm submit --wait --range 0..3 -- test {} -ne 1").with(1);
    let status: Value =
        serde_json::from_str(&folder.run("--farm FARM/farm status --output json").with(0)).unwrap();
    assert!(status["stderr_lines_dropped"].as_u64().unwrap() > 3, "{status}");
    assert!(scheduler.runs() && worker.runs());
    assert_eq!((worker.interrupted(), scheduler.interrupted()), (Some(0), Some(0)));
}

#[test]
fn a_full_disk_under_their_log_does_not_end_daemons() {
    works_without_a_word(|| OpenOptions::new().write(true).open("/dev/full").unwrap().into());
}

#[test]
fn a_reader_of_their_log_that_has_gone_does_not_end_daemons() {
    works_without_a_word(|| {
        let (_, writer) = pipe().unwrap();
        writer.into()
    });
}

#[test]
fn a_state_directory_that_is_moved_away_under_a_scheduler_is_noticed() {
    loses("farm", "the state directory");
}

#[test]
fn a_journal_that_is_moved_away_under_a_scheduler_is_noticed() {
    loses("farm/journal", "the journal in");
}

/// While it runs a job, so that it may well find that nothing can be written.
#[track_caller]
fn loses(what: &str, named: &str) {
    let folder = Folder::new();
    let words = folder.path().join("words");
    let open = || OpenOptions::new().create(true).append(true).open(&words).unwrap().into();
    let (mut scheduler, _worker) = farm(&folder, "", open);
    folder.run("--farm FARM/farm submit --range 0..100000 -- sleep 0.01").with(0);
    std::fs::rename(folder.path().join(what), folder.path().join("elsewhere")).unwrap();
    wait_until("the scheduler ends", || !scheduler.runs());
    assert_eq!(scheduler.0.wait().unwrap().code(), Some(7));
    let words = std::fs::read_to_string(words).unwrap();
    assert!(words.contains(named) && words.contains("was deleted or moved away"), "{words}");
    assert!(!words.contains("Nothing that was acknowledged is lost"), "{words}");
}

#[test]
fn settings_come_from_flags_over_the_file_and_status_shows_those_in_force() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("farm")).unwrap();
    let file = folder.path().join("farm/config.toml");
    std::fs::write(&file, "heartbeat_seconds = 0.5\nspeed_step = 100\n").unwrap();
    let why = folder.run(SCHEDULER).failed_with(2);
    assert!(why.contains("config.toml: speed_step = 100: it is a whole number from 1 to 64 tasks"), "{why}");
    std::fs::write(&file, "heartbeat_seconds = 0.5\nspeed_step = 6\n").unwrap();
    let refused = folder.run(&format!("{SCHEDULER} --idle-seconds 0.5"));
    assert!(refused.stderr.contains("idle_seconds = 0.5: it is 1 to 3600 seconds"), "{refused:?}");
    assert_eq!(refused.code, Some(2));
    let (scheduler, worker) = farm(&folder, "--no-log --speed-step 3 --lost-seconds 9", Stdio::null);
    let status = folder.run("--farm FARM/farm status --output json").with(0);
    let status: Value = serde_json::from_str(&status).unwrap();
    let settings = &status["settings"];
    for (key, value) in
        [("heartbeat_seconds", 0.5), ("speed_step", 3.0), ("lost_seconds", 9.0), ("retry_targets", 10.0)]
    {
        assert_eq!(settings[key], value, "{key}");
    }
    let table = folder.run("--farm FARM/farm status").with(0);
    assert!(table.contains("speed_step            3\nheartbeat_seconds     0.5\n"), "{table}");
    drop((scheduler, worker));
}

#[test]
fn what_happens_is_followed_through_a_start_of_the_scheduler() {
    let folder = Folder::new();
    let ((words, stderr), (lines, stdout)) = (to(&folder, "words"), to(&folder, "lines"));
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    let (scheduler, _worker) = farm(&folder, "--no-log", Stdio::null);
    let mut follow = folder.command("--farm FARM/farm events --follow --output quiet");
    let _follow = Daemon(follow.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap());
    wait_until("the node's joining is printed", || read(&lines).contains("node w1 joined"));
    drop(scheduler);
    wait_until("it says that it lost the scheduler", || read(&words).contains("trying again"));
    let _scheduler = Daemon::start(&folder, &format!("{SCHEDULER} --no-log"), Stdio::null());
    wait_until("it says that there is another", || read(&words).contains("started again, epoch 2"));
    folder.run("--farm FARM/farm submit --range 0..1 -- true").with(0);
    wait_until("what happens then is printed", || read(&lines).contains("job 1 submitted"));
}

#[test]
fn what_happens_is_printed_as_it_comes_and_a_worker_tells_of_itself() {
    let folder = Folder::new();
    let ((words, stderr), (lines, stdout)) = (to(&folder, "words"), to(&folder, "lines"));
    let daemons = farm(&folder, "--no-log --period-seconds 1", Stdio::null);
    let worker = "worker --join FARM/farm/worker.join --state FARM/w2 --name w2 --slots 3 --verbose";
    let worker = Daemon::start(&folder, worker, stderr.into());
    let mut follow = folder.command("--farm FARM/farm events --follow --tasks --output jsonl");
    let follow = Daemon(follow.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap());
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    wait_until("the node's joining is printed", || read(&lines).contains("node w2 joined"));
    folder.run("submit --farm FARM/farm --wait --units-per-task 1 --range 0..4 -- true").with(0);
    wait_until("the tasks are printed", || {
        let text = read(&lines);
        ["task_sent", "task_back"].iter().all(|kind| text.matches(kind).count() >= 4)
    });
    let lines: Vec<Value> = read(&lines).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_tasks = |line: &&Value| line["kind"].as_str().unwrap().starts_with("task_");
    let (tasks, events): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(of_tasks);
    let numbers =
        |lines: &[&Value]| lines.iter().map(|line| line["number"].as_u64().unwrap()).collect::<Vec<u64>>();
    assert!(numbers(&events).is_sorted_by(|a, b| a < b), "each once, in order: {events:?}");
    assert!(numbers(&tasks).iter().all(|&number| number == 0), "none can be gone back to: {tasks:?}");
    // What was printed last is where the next call goes on.
    let last = events.last().unwrap()["number"].as_u64().unwrap();
    let rest = folder.run(&format!("--farm FARM/farm events --output quiet --after {}", last - 1)).with(0);
    assert_eq!(rest.lines().count(), 1, "{rest}");
    // Once a period, which is the farm's.
    let told = || read(&words).matches("tasks wait, ").count();
    wait_until("the worker has told of itself a few times", || told() >= 4);
    assert!(
        read(&words).contains(" cores, ") && read(&words).contains("load of slots in %: 0 0 0; idle for")
    );
    drop((daemons, worker, follow));
}
