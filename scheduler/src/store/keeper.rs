//! Processes of their own for what would leave memory behind. Checkpoints: sled keeps some hundred KiB of every
//! database that was ever opened. Old segments of the journal: each is read whole and rewritten, for which a process
//! takes tens of MiB that it does not give back. A process that was ended by a panic of sled harms nobody either.
//!
//! The process is this same program, so that nothing else need be installed. It gets what it is to do as arguments, a
//! state on standard input, and says on standard error why it could not: see `keeper_main`.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use starfarm_protocol::ids::FarmId;

use crate::store::trouble::Trouble;

/// First argument of a process that saves a checkpoint.
pub(super) const SAVE: &str = "save-checkpoint";
/// First argument of one that rewrites old segments of the journal.
pub(super) const RETIRE: &str = "retire-segments";
/// This program, even where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// Its exit code where the disk has no room.
pub(super) const FULL: u8 = 2;
/// Its exit code where it is no fault of the disk.
pub(super) const PASSING: u8 = 3;
/// Bytes of its words that are listened to.
const WORDS_BYTES_MAX: u64 = 4_096;

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
