//! What is true of every job whatever its kind: its state, how its tasks are sized, what it is told to do
//! when units fail. Shared by the scheduler, its journal and whoever reads that.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{ContentHash, JobId, NodeId};
pub use crate::spec::{Body, Per, WorkFacts};
use crate::wire::FailReason;
use crate::word::words;

words! {
    /// State of a job.
    #[derive(Default)]
    JobState {
        /// Waits in jq; no task was ever given out, or it was switched away from.
        #[default]
        Queued = 0 => "queued",
        /// Tasks of it are given out.
        Running = 1 => "running",
        /// Gives out nothing until it is resumed.
        Paused = 2 => "paused",
        /// Ended, no unit failed; what was not wanted any more is abandoned.
        Finished = 3 => "finished",
        /// Ended, and units failed.
        Failed = 4 => "failed",
        /// Ended by command, or since a job failed that it was to start after.
        Cancelled = 5 => "cancelled",
        /// Waits for other jobs to end before it may start.
        Waiting = 6 => "waiting",
    }
}

impl JobState {
    /// The job is over.
    pub fn ended(self) -> bool {
        matches!(self, JobState::Finished | JobState::Failed | JobState::Cancelled)
    }
}

/// How large a job's tasks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "SizingField", into = "SizingField")]
pub enum Sizing {
    /// As large as takes this long on the slot, in microseconds: [`TARGET_SECONDS`].
    TargetUs(u64),
    /// This many units, 1 or more, whatever it takes.
    Units(u64),
}

/// Computing time that one task should take where the user does not say.
pub const TARGET_US: u64 = 8_000_000;
/// Computing time that a task may be made for, in seconds.
pub const TARGET_SECONDS: RangeInclusive<f64> = 0.001..=86_400.0;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SizingField {
    TargetSeconds(f64),
    UnitsPerTask(u64),
}

impl Sizing {
    /// Tasks that take so long.
    ///
    /// # Errors
    /// It is not among [`TARGET_SECONDS`].
    pub fn target(seconds: f64) -> Result<Self, String> {
        match TARGET_SECONDS.contains(&seconds) {
            true => Ok(Self::TargetUs((seconds * 1e6).round() as u64)),
            false => Err(format!(
                "target_seconds is {} to {}, not {seconds}",
                TARGET_SECONDS.start(),
                TARGET_SECONDS.end()
            )),
        }
    }

    /// Tasks of so many units.
    ///
    /// # Errors
    /// There are none.
    pub fn units(units: u64) -> Result<Self, String> {
        match units {
            0 => Err("units_per_task is 1 or more".to_owned()),
            units => Ok(Self::Units(units)),
        }
    }

    /// The computing time of a task, in seconds; none with a fixed number of units.
    pub fn target_seconds(self) -> Option<f64> {
        match self {
            Self::TargetUs(target_us) => Some(target_us as f64 / 1e6),
            Self::Units(_) => None,
        }
    }
}

impl Default for Sizing {
    fn default() -> Self {
        Self::TargetUs(TARGET_US)
    }
}

impl TryFrom<SizingField> for Sizing {
    type Error = String;

    fn try_from(field: SizingField) -> Result<Self, String> {
        match field {
            SizingField::TargetSeconds(seconds) => Self::target(seconds),
            SizingField::UnitsPerTask(units) => Self::units(units),
        }
    }
}

impl From<Sizing> for SizingField {
    fn from(sizing: Sizing) -> Self {
        match sizing {
            Sizing::TargetUs(target_us) => Self::TargetSeconds(target_us as f64 / 1e6),
            Sizing::Units(units) => Self::UnitsPerTask(units),
        }
    }
}

/// How many failed units a job bears before it pauses and waits for a person. In JSON that is "never", the number, or null.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "max_failures is a number of failed units from 1 to 18446744073709551615, or \"never\"")]
pub enum MaxFailures {
    /// It never pauses.
    #[serde(rename = "never")]
    Never,
    /// It pauses at so many, 1 or more.
    #[serde(untagged, deserialize_with = "one_or_more")]
    Units(u64),
    /// It pauses when all of its first 20 decided units, or more than half of 100 or more, failed.
    #[default]
    #[serde(untagged)]
    Usual,
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    NonZeroU64::deserialize(deserializer).map(NonZeroU64::get)
}

impl FromStr for MaxFailures {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(units @ 1..) => Ok(Self::Units(units)),
            _ if text == "never" => Ok(Self::Never),
            _ => Err("max_failures is a number of failed units from 1 to 18446744073709551615, or \"never\""),
        }
    }
}

/// A job as it was submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct JobFacts {
    /// Its number.
    pub job: JobId,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Its units, 1 or more.
    pub units: u128,
    /// What the work is.
    pub work: WorkFacts,
    /// How large its tasks are.
    pub sizing: Sizing,
    /// What it bears.
    pub max_failures: MaxFailures,
    /// Near its end idle nodes get copies of what others still compute.
    pub speculative: bool,
    /// When, on the farm's clock: microseconds since 1970 by the clock of the scheduler's start.
    pub at_us: u64,
}

/// Why a unit failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedUnit {
    /// Reason.
    pub reason: FailReason,
    /// Exit code or signal number, where there is one.
    pub code: Option<i32>,
    /// The node that ran it last; none for poison.
    pub node: Option<NodeId>,
}

/// What is said of a name that a job may not have.
pub const JOB_NAME: &str =
    "a job's name is one line of text, not empty, of at most 200 characters: change it";

/// Whether a job may be called so.
pub fn is_job_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains(char::is_control) && name.chars().count() <= 200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_time_in_seconds_or_a_number_of_units() {
        for (sizing, json) in [
            (Sizing::TargetUs(2_500_000), r#"{"target_seconds":2.5}"#),
            (Sizing::Units(9), r#"{"units_per_task":9}"#),
        ] {
            assert_eq!(serde_json::to_string(&sizing).unwrap(), json);
            assert_eq!(serde_json::from_str::<Sizing>(json).unwrap(), sizing);
        }
        let wrong = |json| serde_json::from_str::<Sizing>(json).unwrap_err().to_string();
        assert!(wrong(r#"{"target_seconds":0}"#).contains("target_seconds is 0.001 to 86400, not 0"));
        assert!(wrong(r#"{"units_per_task":0}"#).contains("units_per_task is 1 or more"));
    }

    #[test]
    fn how_many_failures_a_job_bears_is_a_number_a_word_or_null() {
        for (bears, json) in
            [(MaxFailures::Usual, "null"), (MaxFailures::Units(3), "3"), (MaxFailures::Never, "\"never\"")]
        {
            assert_eq!(serde_json::to_string(&bears).unwrap(), json);
            assert_eq!(serde_json::from_str::<MaxFailures>(json).unwrap(), bears);
        }
        for wrong in ["0", "-1", "1.5", "\"often\"", "[1]"] {
            let why = serde_json::from_str::<MaxFailures>(wrong).unwrap_err().to_string();
            assert!(why.contains("from 1 to 18446744073709551615, or \"never\""), "{wrong}: {why}");
        }
        assert_eq!("7".parse(), Ok(MaxFailures::Units(7)));
        assert_eq!("never".parse(), Ok(MaxFailures::Never));
        assert!("0".parse::<MaxFailures>().is_err() && "often".parse::<MaxFailures>().is_err());
    }
}
