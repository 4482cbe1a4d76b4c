//! Checkpoints are written by a process of their own, which ends with each: sled keeps memory of every database that
//! was ever opened, a few hundred KiB of it. A process that was ended by a panic of sled harms nobody either.
//!
//! The process is this same program, so that nothing else need be installed. It gets the directory and the sequence
//! as arguments and the state on standard input, and says on standard error why it could not.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::checkpoint::{self, Trouble};

/// First argument of such a process.
const ARGUMENT: &str = "save-checkpoint";
/// This program, even where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// Its exit code where the disk has no room.
const FULL: u8 = 2;
/// Bytes of its words that are listened to.
const WORDS_BYTES_MAX: u64 = 4_096;

/// For the first line of a `main` whose scheduler has
/// [`checkpoint_process`](crate::Options::checkpoint_process): where this process was started to save one checkpoint,
/// saves it and says with what code to end.
pub fn save_checkpoint_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let (parent, sequence): (u64, u64) = (number()?, number()?);
    let dir = arguments.next()?;
    Some(match save(parent, sequence, Path::new(&dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble { words, full, .. }) => {
            starfarm_net::say(&words);
            if full { FULL.into() } else { ExitCode::FAILURE }
        }
    })
}

/// In the process.
fn save(parent: u64, sequence: u64, dir: &Path) -> Result<(), Trouble> {
    // A scheduler that was killed and started again must not meet us.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    if getppid().map(|pid| pid.as_raw_nonzero().get() as u64) != Some(parent) {
        return Err("the scheduler is gone".into());
    }
    checkpoint::abort_on_panic();
    let mut state = Vec::new();
    std::io::stdin().lock().read_to_end(&mut state)?;
    checkpoint::write_guarded(dir, sequence, &state)
}

/// Writes a database that holds `state` in the new directory `dir`, durably, by a process of its own.
///
/// # Errors
/// The disk does not take it, or, `passing`, no process could be had for it this time.
pub(crate) fn write(dir: &Path, sequence: u64, state: &[u8]) -> Result<(), Trouble> {
    let started = Command::new(PROGRAM)
        .arg(ARGUMENT)
        .args([u64::from(std::process::id()), sequence].map(|number| number.to_string()))
        .arg(dir)
        // Ctrl-C is for the scheduler: what it has begun to save it saves.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        started.map_err(|e| Trouble::passing(format!("no process can be started for it: {e}")))?;
    // One that has ended says why.
    let _ = child.stdin.take().expect("it was asked for").write_all(state);
    let mut words = Vec::new();
    let stderr = child.stderr.take().expect("it was asked for");
    let _ = stderr.take(WORDS_BYTES_MAX).read_to_end(&mut words);
    let (status, words) = (child.wait()?, String::from_utf8_lossy(&words));
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Trouble { full: code == i32::from(FULL), ..words.as_ref().into() }),
        None => Err(Trouble::passing(format!("the process that saves it was ended, {status}: {words}"))),
    }
}
