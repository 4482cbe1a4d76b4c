//! Why the farm holds back a job or a node, with the numbers that decided. Records and events carry the line of words
//! that each of these is displayed as; nothing is decided by the words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::units::Units;
use crate::word::words;

/// Why the farm holds up a job: but for the last one it paused it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum HoldReason {
    /// So many units failed, and it bears `max` at most, as it was submitted.
    MaxFailures { failed: Units, max: u64 },
    /// All of so many first units failed.
    FirstFailed(Units),
    /// More than half of its units failed: so many of those that were decided.
    MostFailed { failed: Units, decided: Units },
    /// Its outputs take so many bytes, and from where a person last let it go on it may store `limit`.
    Storage { stored: u64, limit: u64 },
    /// The program that names its units did what it must not, or does not come to a batch; in words that go on a sentence
    /// about it.
    Decomposer(String),
    /// In the words of a record that another version wrote.
    Words(String),
    /// It is not paused: its programs wait until the scheduler's disk has room for what they write.
    NoDisk,
    /// Nor is it here: none of the nodes that take tasks has what a run of it needs.
    FitsNowhere,
}

/// How the words of that reason begin.
const DECOMPOSER: &str = "its decomposer ";

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxFailures { failed, max } => {
                write!(f, "{} units failed, and max_failures is {max}", failed.0)
            }
            Self::FirstFailed(units) => write!(f, "all of the first {} units failed", units.0),
            Self::MostFailed { failed, decided } => write!(f, "{} of {} units failed", failed.0, decided.0),
            Self::Storage { stored, limit } => {
                write!(f, "its outputs take {stored} bytes, and storage_limit is {limit}")
            }
            Self::Decomposer(why) => write!(f, "{DECOMPOSER}{why}"),
            Self::Words(words) => f.write_str(words),
            Self::NoDisk => f.write_str("waits for room on the scheduler's disk"),
            Self::FitsNowhere => {
                f.write_str("waits for a node that has what it needs: `starfarm job explain` says what")
            }
        }
    }
}

impl From<String> for HoldReason {
    /// The reason that a record's words stand for.
    fn from(words: String) -> Self {
        if let Some(why) = words.strip_prefix(DECOMPOSER) {
            return Self::Decomposer(why.to_owned());
        }
        let numbers = words.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
        let mut numbers = numbers.chain([0, 0]).map(Units);
        let known = numbers.next().zip(numbers.next()).and_then(|(failed, second)| {
            let max = u64::try_from(second.0).unwrap_or(u64::MAX);
            [
                Self::MaxFailures { failed, max },
                Self::FirstFailed(failed),
                Self::MostFailed { failed, decided: second },
                Self::Storage { stored: u64::try_from(failed.0).unwrap_or(u64::MAX), limit: max },
            ]
            .into_iter()
            .find(|reason| reason.to_string() == words)
        });
        known.unwrap_or(Self::Words(words))
    }
}

/// Why a node is quarantined, unless it only let tasks vanish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineReason {
    /// It fails what others pass.
    Fails(Fault),
    /// Its results cannot count.
    Worthless(Worthless),
    /// It gave back so many tasks that nobody took from it, and did few.
    GivesBack {
        /// How many.
        tasks: u32,
    },
    /// It lists so many tasks that it was asked to give back, again and again, and does not say that it runs them.
    Keeps {
        /// How many.
        tasks: u32,
    },
    /// Its results are not trusted: it gets nothing until a person says so.
    #[serde(untagged)]
    Distrusted(Distrust),
}

words! {
    /// Why the results of a node are not trusted.
    Distrust {
        /// They differ from those of others, and nobody can tell who is right.
        Differs => "differs",
        /// It reported a hit that is none.
        FalseHit => "false_hit",
        /// It reported units as done without a hit that is among them.
        MissedHit => "missed_hit",
    }
}

impl Distrust {
    /// As the end of a sentence that begins with the node.
    pub fn words(self) -> &'static str {
        match self {
            Self::Differs => "its results differ from those of others",
            Self::FalseHit => "it reported a hit that is none",
            Self::MissedHit => "it reported units as done without a hit that is among them",
        }
    }
}

/// Results of a node that cannot count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worthless {
    /// The job of the last one.
    pub job: JobId,
    /// So many, those that counted since taken off.
    pub results: u32,
    /// What is wrong with the last one.
    pub last: Flaw,
}

/// Why a result cannot count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a flaw's own line says what its numbers are")]
pub enum Flaw {
    /// Its body of so many bytes does not fit so many units.
    Body { bytes: u16, units: u64 },
    /// It is about units that the node was not given.
    NotGiven,
    /// It names an output that was not stored.
    NoOutput,
    /// It would leave one more piece with gaps around it than so many.
    Pieces(u32),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body { bytes, units } => {
                let of = |number: u64, what| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
                write!(f, "a body of {} for {}", of(u64::from(*bytes), "byte"), of(*units, "unit"))
            }
            Self::NotGiven => f.write_str("units that it was not given"),
            Self::NoOutput => f.write_str("an output that it did not store"),
            Self::Pieces(most) => {
                write!(f, "a piece more than the {most} that it may leave with gaps between them")
            }
        }
    }
}

/// What a node fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Units of this job.
    pub job: JobId,
    /// So many of them.
    pub units: u32,
    /// They were the last that it ran, in several places; else others passed the very same units.
    pub in_a_row: bool,
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(Fault { job, units, in_a_row: true }) => {
                write!(f, "failed the last {units} units of job {} that it ran, and others pass", job.0)
            }
            Self::Fails(Fault { job, units, in_a_row: false }) => {
                write!(f, "failed {units} units of job {} that others pass", job.0)
            }
            Self::Worthless(Worthless { job, results, last }) => {
                write!(f, "sent {results} results of job {} that cannot count, the last with {last}", job.0)
            }
            Self::Distrusted(why) => f.write_str(why.words()),
            Self::GivesBack { tasks } => write!(f, "gave back {tasks} tasks that nobody took from it"),
            Self::Keeps { tasks } => {
                let s = if *tasks == 1 { "" } else { "s" };
                write!(f, "kept {tasks} task{s} that it was asked to give back")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_record_are_the_reason_again() {
        let reasons = [
            HoldReason::MaxFailures { failed: Units(12), max: 10 },
            HoldReason::FirstFailed(Units(20)),
            HoldReason::MostFailed { failed: Units(u128::MAX), decided: Units(u128::MAX) },
            HoldReason::Storage { stored: u64::MAX, limit: 10 },
            HoldReason::Decomposer("`cases` is wrong: line 12".into()),
        ];
        for reason in reasons {
            assert_eq!(HoldReason::from(reason.to_string()), reason);
        }
        for words in ["", "its disk is full", "12 units failed, and max_failures is 36893488147419103232"] {
            assert_eq!(HoldReason::from(words.to_owned()), HoldReason::Words(words.to_owned()));
        }
    }
}
