//! What an executor is to a job file: its word, its keys, how they are read and what `starfarm job-file` says of
//! them. The executors have a file each.

use std::path::Path;

use crate::jobfile::error::JobFileError;
use crate::jobfile::job::JobFile;
use crate::jobfile::table::{Kind, Section};

/// An executor as a job file names it.
#[derive(Clone, Copy)]
pub(super) struct Executor {
    pub(super) kind: Kind,
    /// Reads its keys of the section into the job, whose space is known. Paths are relative to the folder.
    pub(super) read: fn(&Section<'_>, &mut JobFile, &Path) -> Result<(), JobFileError>,
    /// What a user reads on a terminal; each key is in it.
    pub(super) help: &'static str,
}

/// The longest time that can be asked for, about 31 years: what is longer is a slip.
pub(crate) const SECONDS_MAX: f64 = 1e9;

/// Whole milliseconds, at least 1: 0 would end every unit at once.
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().max(1.0) as u64
}
