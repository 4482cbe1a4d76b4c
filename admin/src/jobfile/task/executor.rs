//! What an executor is to a job file: its word, its keys, how they are read and what `starfarm job-file` says of
//! them. The executors have a file each.

use std::path::Path;

use starfarm_protocol::spec::{Space, Work};

use crate::jobfile::error::JobFileError;
use crate::jobfile::table::{Kind, Section};

/// An executor as a job file names it.
#[derive(Clone, Copy)]
pub(super) struct Executor {
    pub(super) kind: Kind,
    /// Reads its keys of the section.
    pub(super) read: fn(&Section<'_>, &Surroundings<'_>) -> Result<Read, JobFileError>,
    /// What a user reads on a terminal; each key is in it.
    pub(super) help: &'static str,
}

/// What stands around the section.
pub(super) struct Surroundings<'a> {
    pub(super) space: &'a Space,
    /// The space's own names, which a program may be given.
    pub(super) names: &'a [String],
    /// The folder that paths are relative to.
    pub(super) base: &'a Path,
}

/// What was read.
pub(super) struct Read {
    pub(super) work: Work,
    /// See [`JobFile`](crate::jobfile::JobFile).
    pub(super) not_here: Option<JobFileError>,
    pub(super) repeated_targets: usize,
}

impl From<Work> for Read {
    fn from(work: Work) -> Self {
        Self { work, not_here: None, repeated_targets: 0 }
    }
}

/// The longest time that can be asked for, about 31 years: what is longer is a slip.
pub(super) const SECONDS_MAX: f64 = 1e9;

/// Whole milliseconds, at least 1: 0 would end every unit at once.
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().max(1.0) as u64
}
