//! Processes that a test starts, and ends by the numbers that they were given.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, test_kill_process, waitid};

use crate::patience::{GUARD, until_some};
use crate::reply::Reply;

/// A daemon has this long to end after TERM, and once more after a second one; then it is killed.
const TERM: Duration = Duration::from_millis(1_500);
/// Lines of a daemon's standard error that a failed test shows.
const LINES: usize = 60;

/// A process that runs beside the test and ends with it.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
}

impl Daemon {
    /// Starts `command`; what it writes goes to a file in `dir`, behind what a namesake wrote there.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: &str, command: Command, dir: &Path) -> Self {
        Self::start_with(name, command, dir, Stdio::null(), None)
    }

    /// As [`Daemon::start`], with another standard input, and standard output where it is not the file.
    pub(crate) fn start_with(
        name: &str,
        mut command: Command,
        dir: &Path,
        stdin: Stdio,
        stdout: Option<Stdio>,
    ) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let out = file.try_clone().expect("a file that was just opened can be cloned");
        let child = command
            .stdin(stdin)
            .stdout(stdout.unwrap_or_else(|| out.into()))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { name: name.to_owned(), child, log, status: None }
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What it has written so far, as far as these are lines of JSON.
    pub fn lines(&self) -> Vec<serde_json::Value> {
        self.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until it has written `words`.
    ///
    /// # Panics
    /// It never does.
    pub fn until_says(&self, words: &str) {
        crate::until(&format!("{} says `{words}`", self.name), || self.log().contains(words));
    }

    /// Sends a signal, if it still runs. After a STOP it has stopped: none of its threads does anything more.
    pub fn signal(&mut self, signal: Signal) {
        if self.poll().is_some() || kill_process(self.pid(), signal).is_err() {
            return;
        }
        if signal == Signal::STOP {
            // A thread that runs on another core goes on for a while. How it stands is left for `poll` to find.
            let ends = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(self.pid()), ends);
        }
    }

    /// How it ended; `None` while it runs. A signal counts as 128 and its number, as in a shell.
    pub fn poll(&mut self) -> Option<i32> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.map(code)
    }

    /// Waits for its end and returns its exit code.
    ///
    /// # Panics
    /// It does not end.
    pub fn wait(&mut self) -> i32 {
        let what = format!("{} ends", self.name);
        until_some(&what, || self.poll())
    }

    /// Kills it at once, as a power cut would, and waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Asks it to end, twice if need be, and kills it if that does not help.
    pub(crate) fn finish(&mut self) {
        for _ in 0..2 {
            self.signal(Signal::TERM);
            let start = Instant::now();
            while self.poll().is_none() && start.elapsed() < TERM {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.kill();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.finish();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LINES)..];
            eprintln!("--- {} (its last {} lines):\n{}", self.name, shown.len(), shown.join("\n"));
        }
    }
}

/// Asks all of them at once to end, so that they do it side by side, and waits for each.
pub fn end(daemons: &mut Vec<Daemon>) {
    daemons.iter_mut().for_each(|daemon| daemon.signal(Signal::TERM));
    daemons.clear();
}

/// Whether a process with this number runs; a zombie does not.
pub fn alive(pid: u32) -> bool {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if test_kill_process(process).is_err() {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Sends a signal to a process that is there.
#[track_caller]
pub fn send(signal: Signal, pid: u32) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("that is a process's number");
    kill_process(process, signal).expect("the process is there");
}

/// Memory of a process that is in the machine's, in KiB.
#[track_caller]
pub fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has some");
    resident.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

/// Processes whose command line holds `text`, such as a directory of the test's own; not the test itself.
pub fn running_with(text: &str) -> Vec<u32> {
    let own = std::process::id();
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mentions = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    numbers.filter(|&pid| pid != own).filter(mentions).filter(|&pid| alive(pid)).collect()
}

/// Runs a command to its end.
///
/// # Panics
/// It cannot be started, or does not end.
pub fn run(command: Command) -> Reply {
    run_within(command, GUARD)
}

/// As [`run`], for a command that may take long.
///
/// # Panics
/// As [`run`].
pub fn run_within(mut command: Command, guard: Duration) -> Reply {
    let line = format!("{command:?}");
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
    let pid = Pid::from_child(&child);
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = done.send(child.wait_with_output());
    });
    let Ok(output) = ended.recv_timeout(guard) else {
        // Nobody has waited for it yet, so that the number is still its own.
        let _ = kill_process(pid, Signal::KILL);
        panic!("{line} has not ended after {} s", guard.as_secs());
    };
    let output = output.unwrap_or_else(|error| panic!("cannot read what {line} wrote: {error}"));
    Reply::new(line, code(output.status), &output.stdout, &output.stderr)
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
