//! Child processes of this same program: a scheduler or a worker that we start, and that must never
//! outlive us. Its standard input is a pipe whose end tells it to stop, so that it stops even if we are
//! killed. It has a process group of its own: Ctrl-C reaches us alone, and we say when it ends.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Exit, Failure};

/// How often a child that should end is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A child that is told to stop at once, twice, has this long before it is killed.
const MERCY: Duration = Duration::from_secs(2);
/// Lines of its log that a failure shows.
const LAST_LINES: usize = 5;

/// A running child. Dropping it ends it.
pub(crate) struct Daemon {
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Daemon {
    /// Starts this program with `arguments`. What it says is added to the file `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(arguments: &[S], log: &Path) -> Result<Self, Failure> {
        let start = || {
            let words = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
            Command::new(std::env::current_exe()?)
                .args(arguments)
                .arg("--parent-pipe")
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(words.try_clone()?)
                .stderr(words)
                .spawn()
        };
        let mut child = start().map_err(|error| {
            let name = arguments.first().map(|name| name.as_ref().to_string_lossy()).unwrap_or_default();
            let message = format!("cannot start a {name} with its log in {}: {error}", log.display());
            Failure::new(Exit::Conflict, message)
        })?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        // Only a child that is not ours could give an error here.
        self.child.try_wait().ok().flatten()
    }

    /// Lets it finish what it must, and end.
    pub(crate) fn ask_to_end(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has ended, as long as `patience` is true; whether it has.
    pub(crate) fn wait_while(&mut self, mut patience: impl FnMut() -> bool) -> bool {
        while self.ended().is_none() {
            if !patience() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Makes it end now. A worker ends its programs then, which it could not do if it were killed: so the
    /// signal that means "at once" comes first, and twice, since the first may only mean "stop".
    pub(crate) fn end_now(&mut self) {
        self.ask_to_end();
        for _ in 0..2 {
            if self.ended().is_some() {
                return;
            }
            // The child is not reaped yet, so its number cannot be another's.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            std::thread::sleep(LOOK);
        }
        let deadline = Instant::now() + MERCY;
        if !self.wait_while(|| Instant::now() < deadline) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// The end of its log, for a message.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        crate::human::printable_lines(&tail)
    }
}

/// What starts the worker `name` of the farm in `farm`, whose own state is in `own`.
pub(crate) fn worker_arguments(
    farm: &Path,
    own: &Path,
    name: &str,
    (slots, devices): (Option<u16>, Option<&str>),
) -> Vec<OsString> {
    let join = farm.join("worker.join");
    let mut arguments: Vec<OsString> = vec!["worker".into(), "--join".into(), join.into(), "--state".into()];
    arguments.extend([own.into(), "--name".into(), name.into()]);
    if let Some(slots) = slots {
        arguments.extend(["--slots".into(), slots.to_string().into()]);
    }
    if let Some(devices) = devices {
        arguments.extend(["--devices".into(), devices.into()]);
    }
    arguments
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end_now();
    }
}
