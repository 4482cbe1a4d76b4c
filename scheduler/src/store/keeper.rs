//! Processes of their own for what would leave memory behind. Checkpoints: sled keeps some hundred KiB of every
//! database that was ever opened. Old segments of the journal: each is read whole and rewritten, for which a process
//! takes tens of MiB that it does not give back. A process that was ended by a panic of sled harms nobody either.
//!
//! The process is this same program, so that nothing else need be installed. It gets what it is to do as arguments, a
//! state on standard input, and says on standard error why it could not: see `keeper_main`.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::descriptors::are_scarce;
use crate::error::SchedulerError;

/// First argument of a process that saves a checkpoint.
pub(super) const SAVE: &str = "save-checkpoint";
/// First argument of one that rewrites old segments of the journal.
pub(super) const RETIRE: &str = "retire-segments";
/// This program, even where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// Its exit code where the trouble is one that passes.
pub(super) const PASSING: u8 = 3;
/// Bytes of its words that are listened to.
const WORDS_BYTES_MAX: u64 = 4_096;

/// Why the disk, or sled and what it holds, cannot be used.
#[derive(PartialEq, Debug)]
pub(crate) struct Trouble {
    pub(crate) words: String,
    /// There is no room on the disk, or it is no fault of the disk: the next checkpoint may well be saved.
    pub(crate) passing: bool,
}

impl Trouble {
    pub(crate) fn passing(words: String) -> Self {
        Self { words, passing: true }
    }
}

impl From<sled::Error> for Trouble {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => error.into(),
            // Its own words have a place in sled's sources.
            sled::Error::Corruption { .. } => "it is damaged".into(),
            error => error.to_string().as_str().into(),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        let passing = error.kind() == io::ErrorKind::StorageFull || are_scarce(&error);
        Self { words: error.to_string(), passing }
    }
}

impl From<SchedulerError> for Trouble {
    fn from(error: SchedulerError) -> Self {
        error.to_string().as_str().into()
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self { words: words.to_owned(), passing: false }
    }
}

/// Does `work` in `dir` by a process of its own: it writes a database that holds the state `input`, durably, or rewrites the
/// segments that [`Retirer::retire`](super::journal::Retirer::retire) would.
pub(super) fn by_process(
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
        Some(code) => Err(Trouble { words: words.into_owned(), passing: code == i32::from(PASSING) }),
        None => Err(Trouble::passing(format!("the process for it was ended, {status}: {words}"))),
    }
}
