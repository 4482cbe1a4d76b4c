//! A user's program that merges: it is started, fed, watched and ended.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use starfarm_protocol::spec::MergeProgram;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// From TERM to KILL.
const TERM_TO_KILL: Duration = Duration::from_secs(5);
/// Bytes of its standard error that are told where it fails.
const TOLD_BYTES: u64 = 2_000;

/// Whether it is to be ended: the scheduler stops, or nobody wants the result any more.
pub(crate) type Stopped<'a> = &'a (dyn Fn() -> bool + Sync);

/// Runs the program in `work`, fed by `stdin`; its standard output goes into the file `output`.
///
/// # Errors
/// It cannot be started, fails or takes too long, in words.
pub(super) fn run(
    of: &MergeProgram,
    work: &Path,
    output: &Path,
    stdin: impl FnOnce(&mut dyn Write) -> Result<(), String> + Send,
    stopped: Stopped<'_>,
) -> Result<(), String> {
    let (name, args) = of.program.split_first().ok_or("[merge] names no program")?;
    let stderr = work.with_extension("stderr");
    let file =
        |path: &Path| File::create(path).map_err(|e| format!("{} cannot be written: {e}", path.display()));
    let mut command = Command::new(name);
    command.args(args).current_dir(work).process_group(0);
    command.stdin(Stdio::piped()).stdout(file(output)?).stderr(file(&stderr)?);
    let mut child =
        command.spawn().map_err(|e| format!("`{name}` was not started on the scheduler's host: {e}"))?;
    let note = work.with_extension("pid");
    note_process(&note, child.id()).map_err(|e| format!("{} cannot be written: {e}", note.display()))?;
    let mut to = child.stdin.take().expect("it was asked for");
    let outcome = std::thread::scope(|scope| {
        let fed = scope.spawn(move || stdin(&mut to));
        let ended = until_end(&mut child, of.timeout_ms.map(Duration::from_millis), stopped);
        // What it has left behind could hold the pipe open, and so whoever feeds it.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let fed = fed.join().expect("a panic ends the process");
        (ended, fed)
    });
    let said = tail(&stderr);
    let _ = fs::remove_file(&stderr);
    let _ = fs::remove_file(&note);
    let because = if said.is_empty() { String::new() } else { format!(": {said}") };
    match outcome {
        (Err(why), _) => Err(format!("`{name}` {why}{because}")),
        (Ok(status), _) if !status.success() => Err(format!("`{name}` failed, {status}{because}")),
        (Ok(_), fed) => fed,
    }
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
pub(super) fn end_left(dir: &Path) {
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

/// How it ended; or why it had to be ended.
fn until_end(
    child: &mut Child,
    timeout: Option<Duration>,
    stopped: Stopped<'_>,
) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    let mut asked: Option<(Instant, String)> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(|e| format!("cannot be waited for: {e}"))? {
            return asked.map_or(Ok(status), |(_, why)| Err(why));
        }
        let group = Pid::from_child(child);
        match &asked {
            Some((at, _)) if at.elapsed() > TERM_TO_KILL => drop(kill_process_group(group, Signal::KILL)),
            Some(_) => {}
            None => {
                let late = timeout.filter(|timeout| begun.elapsed() > *timeout);
                let why = match late {
                    Some(timeout) => Some(format!("ran longer than {} s", timeout.as_secs_f64())),
                    None => stopped().then(|| "was ended with the scheduler".to_owned()),
                };
                if let Some(why) = why {
                    let _ = kill_process_group(group, Signal::TERM);
                    asked = Some((Instant::now(), why));
                }
            }
        }
        std::thread::sleep(LOOK);
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
