//! How the merge of a job's results stands.

use serde::{Deserialize, Serialize};

use crate::ids::ContentHash;
use crate::word::words;

words! {
    /// How a merge stands.
    MergeState {
        /// For the job's end.
        Waiting = 0 => "waiting",
        /// The scheduler is at it.
        Running = 1 => "running",
        /// There is a result.
        Done = 2 => "done",
        /// There is none: see why.
        Failed = 3 => "failed",
        /// The job has ended without all of its results, so nobody has asked for it.
        Skipped = 4 => "skipped",
    }
}

/// What came of a merge: the result, or a file that a program made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MergedFile {
    /// Its path; of the result empty.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// BLAKE3 of these.
    pub hash: ContentHash,
}

/// What came of a merge: the file `merged/ID.json` in the state directory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MergeOutcome {
    /// When the job had ended, in microseconds since 1970.
    pub ended_us: u64,
    /// Why it failed; else empty.
    pub why: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The result, the file `merged/ID.output`, where there is one.
    pub output: Option<MergedFile>,
    /// Files that a program made, in the folder `merged/ID.files`.
    pub files: Vec<MergedFile>,
}

impl MergeOutcome {
    /// Bytes of the result and the files.
    pub fn bytes(&self) -> u64 {
        self.output.iter().chain(&self.files).map(|file| file.bytes).sum()
    }
}

/// How the merge of a job's results stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MergeInfo {
    /// How it stands.
    pub state: MergeState,
    /// Why it failed; else empty.
    pub why: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The result, where there is one.
    pub output: Option<MergedFile>,
    /// Files that a program made.
    pub files: Vec<MergedFile>,
}

impl MergeInfo {
    /// It will be done, or has failed, before anybody who waits for the job goes on.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, MergeState::Waiting | MergeState::Running)
    }

    /// It was tried, and did not come to its end.
    pub fn has_failed(&self) -> bool {
        self.state == MergeState::Failed
    }
}
