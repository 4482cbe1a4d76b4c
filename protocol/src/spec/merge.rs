//! What becomes of the results of a job's units, in the order of the units: one result, made once, on the scheduler's host.

use serde::{Deserialize, Serialize};

use crate::word::words;

/// How results become one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Merge {
    /// By one of the ways that a scheduler knows.
    Fold(Fold),
    /// By a program, which gets them on its standard input.
    Program(Box<MergeProgram>),
}

words! {
    /// What a scheduler can make of what units wrote to standard output.
    Fold {
        /// All of it, as it is.
        Concat = 0 => "concat",
        /// The sum of the numbers, one on each line.
        Sum = 1 => "sum",
        /// The least of them.
        Min = 2 => "min",
        /// The greatest.
        Max = 3 => "max",
        /// How many lines there are.
        Count = 4 => "count",
        /// What the runs of a kernel tell of hits and counters: the hits of all, and each counter as the job says.
        Report = 5 => "report",
    }
}

/// A program that merges. It runs in a directory of its own, in which the files are that units made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeProgram {
    /// The program, then its arguments; never a shell.
    pub program: Vec<String>,
    /// It is ended if it runs longer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Files that it makes there, by their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}
