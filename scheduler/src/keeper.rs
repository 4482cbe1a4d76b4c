//! Processes of their own for what would leave memory behind. Checkpoints: sled keeps some hundred KiB of every
//! database that was ever opened. Old segments of the journal: each is read whole and rewritten, for which a process
//! takes tens of MiB that it does not give back. A process that was ended by a panic of sled harms nobody either.
//!
//! The process is this same program, so that nothing else need be installed. It gets what it is to do as arguments, a
//! state on standard input, and says on standard error why it could not.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use starfarm_protocol::ids::FarmId;

use crate::checkpoint::{self, Trouble};
use crate::journal::Retirer;

/// First argument of a process that saves a checkpoint.
const SAVE: &str = "save-checkpoint";
/// First argument of one that rewrites old segments of the journal.
const RETIRE: &str = "retire-segments";
/// This program, even where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// Its exit code where the disk has no room.
const FULL: u8 = 2;
/// Its exit code where it is no fault of the disk.
const PASSING: u8 = 3;
/// Bytes of its words that are listened to.
const WORDS_BYTES_MAX: u64 = 4_096;

/// For the first line of a `main` whose scheduler has [`keeper_process`](crate::Options::keeper_process): where this
/// process was started to save a checkpoint or to rewrite old segments, does so and says with what code to end.
pub fn keep_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let work = arguments.next().filter(|work| work == SAVE || work == RETIRE)?;
    let arguments: Vec<OsString> = arguments.collect();
    Some(match keep(&work, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble { words, full, passing }) => {
            starfarm_net::say(&words);
            match (full, passing) {
                (true, _) => FULL.into(),
                (_, true) => PASSING.into(),
                _ => ExitCode::FAILURE,
            }
        }
    })
}

/// In the process.
fn keep(work: &OsStr, arguments: &[OsString]) -> Result<(), Trouble> {
    let [parent, sequence, dir, rest @ ..] = arguments else { return Err("arguments are missing".into()) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse().ok());
    let (Some(parent), Some(sequence)) = (number(parent), number(sequence)) else {
        return Err("an argument is no number".into());
    };
    // A scheduler that was killed and started again must not meet us.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    if getppid().map(|pid| pid.as_raw_nonzero().get() as u64) != Some(parent) {
        return Err("the scheduler is gone".into());
    }
    checkpoint::abort_on_panic();
    if work == RETIRE {
        let farm = rest.first().and_then(|farm| farm.to_str()).ok_or("the farm is missing")?;
        let farm: FarmId = farm.parse().map_err(|e: String| Trouble::from(e.as_str()))?;
        return Retirer::new(dir.into(), farm).retire(sequence);
    }
    let mut state = Vec::new();
    io::stdin().lock().read_to_end(&mut state)?;
    checkpoint::write_guarded(Path::new(dir), sequence, &state)
}

/// Writes a database that holds `state` in the new directory `dir`, durably, by a process of its own.
///
/// # Errors
/// The disk does not take it, or, `passing`, no process could be had for it this time.
pub(crate) fn save(dir: &Path, sequence: u64, state: &[u8]) -> Result<(), Trouble> {
    by_process(SAVE, sequence, dir, None, state)
}

/// Rewrites the segments in `dir` that [`Retirer::retire`] would, by a process of its own.
///
/// # Errors
/// A segment is damaged, the disk does not take it, or, `passing`, no process could be had for it this time.
pub(crate) fn retire(dir: &Path, sequence: u64, farm: FarmId) -> Result<(), Trouble> {
    by_process(RETIRE, sequence, dir, Some(farm.to_string()), &[])
}

fn by_process(
    work: &str,
    sequence: u64,
    dir: &Path,
    more: Option<String>,
    input: &[u8],
) -> Result<(), Trouble> {
    let started = Command::new(PROGRAM)
        .arg(work)
        .args([u64::from(std::process::id()), sequence].map(|number| number.to_string()))
        .arg(dir)
        .args(more)
        // Ctrl-C is for the scheduler: what it has begun to keep it keeps.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        started.map_err(|e| Trouble::passing(format!("no process can be started for it: {e}")))?;
    // One that has ended says why.
    let _ = child.stdin.take().expect("it was asked for").write_all(input);
    let mut words = Vec::new();
    let stderr = child.stderr.take().expect("it was asked for");
    let _ = stderr.take(WORDS_BYTES_MAX).read_to_end(&mut words);
    let (status, words) = (child.wait()?, String::from_utf8_lossy(&words));
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Trouble {
            full: code == i32::from(FULL),
            passing: code == i32::from(PASSING),
            ..words.as_ref().into()
        }),
        None => Err(Trouble::passing(format!("the process for it was ended, {status}: {words}"))),
    }
}
