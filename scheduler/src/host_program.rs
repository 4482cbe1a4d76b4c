//! A user's program on the scheduler's host: started in a process group of its own, watched, and ended with the scheduler.
//! What it is told and what it says is its caller's business.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How often it is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// From TERM to KILL.
const TERM_TO_KILL: Duration = Duration::from_secs(5);
/// Bytes of its standard error that are told where it fails.
const TOLD_BYTES: u64 = 2_000;
/// What is said of a program that is ended with the scheduler.
pub(crate) const WITH_SCHEDULER: &str = "was ended with the scheduler";

/// Why a program is to be ended, if it is, in words that go on from its name.
pub(crate) type Stopped<'a> = &'a (dyn Fn() -> Option<String> + Sync);

/// It ends with a scheduler that stops.
pub(crate) fn with_scheduler(is_stopping: bool) -> Option<String> {
    is_stopping.then(|| WITH_SCHEDULER.to_owned())
}

/// One that runs. When this is dropped, it and all that it has left behind is gone.
pub(crate) struct HostProgram {
    pub(crate) child: Child,
    name: String,
    note: PathBuf,
    stderr: PathBuf,
}

impl HostProgram {
    /// Starts `words`, a program and its arguments, in `dir`. What is noted of it lies beside `mark`, with endings of its own.
    ///
    /// # Errors
    /// It cannot be started, in words.
    pub(crate) fn start(
        words: &[String],
        dir: Option<&Path>,
        mark: &Path,
        stdout: Stdio,
        env: &[(&str, String)],
    ) -> Result<Self, String> {
        let (name, args) =
            words.split_first().ok_or("the job names no program to run here: submit it anew")?;
        let stderr = mark.with_extension("stderr");
        let mut command = Command::new(name);
        command.args(args).process_group(0).envs(env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(stdout).stderr(created(&stderr)?);
        let child =
            command.spawn().map_err(|e| format!("`{name}` was not started on the scheduler's host: {e}"))?;
        let (name, note) = (name.clone(), mark.with_extension("pid"));
        let program = Self { child, name, note, stderr };
        note_process(&program.note, program.child.id())
            .map_err(|e| format!("{} cannot be written: {e}", program.note.display()))?;
        Ok(program)
    }

    /// What it did, with the last of what it wrote to standard error.
    pub(crate) fn told(&self, what: &str) -> String {
        let said = tail(&self.stderr);
        let because = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("`{}` {what}{because}", self.name)
    }

    /// What it has left behind goes.
    pub(crate) fn kill(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// How it ended; or why it had to be ended.
    pub(crate) fn until_end(
        &mut self,
        timeout: Option<Duration>,
        stopped: Stopped<'_>,
    ) -> Result<ExitStatus, String> {
        let begun = Instant::now();
        let mut asked: Option<(Instant, String)> = None;
        loop {
            if let Some(status) = self.child.try_wait().map_err(|e| format!("cannot be waited for: {e}"))? {
                return asked.map_or(Ok(status), |(_, why)| Err(why));
            }
            match &asked {
                Some((at, _)) if at.elapsed() > TERM_TO_KILL => self.kill(),
                Some(_) => {}
                None => {
                    let late = timeout.filter(|timeout| begun.elapsed() > *timeout);
                    let why = match late {
                        Some(timeout) => Some(format!("ran longer than {} s", timeout.as_secs_f64())),
                        None => stopped(),
                    };
                    if let Some(why) = why {
                        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
                        asked = Some((Instant::now(), why));
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for HostProgram {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.stderr);
        let _ = fs::remove_file(&self.note);
    }
}

/// A new file for what a program writes.
pub(crate) fn created(path: &Path) -> Result<File, String> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// Notes which process it is, for a scheduler that comes after one that was killed.
fn note_process(note: &Path, pid: u32) -> io::Result<()> {
    fs::write(note, format!("{pid} {}", begun(pid).unwrap_or_default()))
}

/// When a process began, in the kernel's words: with its number that names it for good.
fn begun(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may be anything.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19).map(str::to_owned)
}

/// Ends what a scheduler that was killed has left running, by its notes in `dir`.
pub(crate) fn end_left(dir: &Path) {
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|of| of != "pid") {
            continue;
        }
        let note = fs::read_to_string(&path).unwrap_or_default();
        if let Some((pid, then)) = note.split_once(' ')
            && let Some(group) = pid.parse().ok().and_then(Pid::from_raw)
            && pid.parse().ok().and_then(begun).is_some_and(|begun| begun == then)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = fs::remove_file(path);
    }
}

/// The last of what it wrote to standard error.
fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path).ok()?;
        let bytes = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TOLD_BYTES))).ok()?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).ok()?;
        Some(String::from_utf8_lossy(&tail).trim().to_owned())
    };
    read().unwrap_or_default()
}
