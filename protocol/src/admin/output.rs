//! What programs wrote, as results tell it.

use serde::{Deserialize, Serialize};

use crate::ids::ContentHash;
use crate::units::Units;
use crate::wire::FailReason;
use crate::word::words;

words! {
    /// What is wrong with an output on the scheduler's disk.
    OutputLoss {
        /// It is not there.
        Missing => "missing",
        /// It is not what was written.
        Damaged => "damaged",
    }
}

/// What a program wrote.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OutputInfo {
    /// Which unit's program; of one that computed several together, the first of them.
    pub unit: Units,
    /// How many units it computed; left out where it is one.
    #[serde(skip_serializing_if = "Units::is_one", default = "Units::one")]
    pub units: Units,
    /// The dispatch that counted, as `STARFARM_ATTEMPT` said: a number of its own among all of the farm.
    pub attempt: u64,
    /// Which run of the unit this was, from 1 on: runs that failed came before it. One that died with its worker or was
    /// given back does not count. 0: the scheduler is too old to say.
    #[serde(default)]
    pub run: u64,
    /// The node that ran it; none where it was forgotten long ago.
    pub node: Option<String>,
    /// Why the unit failed for good in this run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<FailReason>,
    /// A run before the one that counts: the unit failed in it, and was tried again by a person's command.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub superseded: bool,
    /// Exit code; none where a signal ended it.
    pub exit_code: Option<i32>,
    /// That signal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<i32>,
    /// Wall time.
    pub seconds: f64,
    /// Standard output.
    pub stdout: StreamInfo,
    /// Standard error.
    pub stderr: StreamInfo,
    /// The files that it made, in one archive; none where the job asks for none.
    pub files: Vec<ArchiveInfo>,
}

/// Files that a unit made: a tar archive, which is fetched by its hash.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArchiveInfo {
    /// BLAKE3 of the archive.
    pub hash: ContentHash,
    /// Its bytes.
    pub bytes: u64,
    /// Files in it.
    pub count: u32,
    /// What is wrong with it on the scheduler's disk, if it was to be fetched and cannot be had.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<OutputLoss>,
}

/// What was written to one stream. Short output is in place, long output is fetched by its hash, and where that fails
/// `lost` says why: the text is empty then.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StreamInfo {
    /// The text; U+FFFD stands for what is not UTF-8. Empty where `hash` is set.
    pub text: String,
    /// The bytes, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hex: Option<String>,
    /// BLAKE3 of what was kept, where it is not in place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hash: Option<ContentHash>,
    /// What is wrong with it on the scheduler's disk, if it was to be fetched and cannot be had.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<OutputLoss>,
    /// Bytes kept.
    pub kept: u64,
    /// Bytes written.
    pub total: u64,
    /// Where bytes were left out, if any were: behind so many bytes of what was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cut_at: Option<u64>,
}
