//! Merged results, read: each file that a merge left is there and what its hash says. What was merged into it is the
//! outputs' business, and `starfarm job merge` makes it again.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use starfarm_protocol::admin::{MergeOutcome, MergedFile, OutputLoss};
use starfarm_protocol::ids::{ContentHash, JobId};

use crate::report::LostMerged;

/// What is lost of the merged results of `job`, in the state directory `dir`.
pub(crate) fn check(dir: &Path, job: JobId) -> io::Result<Vec<LostMerged>> {
    let dir = dir.join("merged");
    let told = match fs::read(dir.join(format!("{}.json", job.0))) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        told => told?,
    };
    let Ok(outcome) = serde_json::from_slice::<MergeOutcome>(&told) else {
        return Ok(vec![LostMerged { job, name: String::new(), what: OutputLoss::Damaged }]);
    };
    let (output, files) = (dir.join(format!("{}.output", job.0)), dir.join(format!("{}.files", job.0)));
    let output = outcome.output.into_iter().map(|file| (output.clone(), file));
    let all = output.chain(outcome.files.into_iter().map(|file| (files.join(&file.name), file)));
    let mut lost = Vec::new();
    for (path, file) in all {
        lost.extend(loss(&path, &file)?.map(|what| LostMerged { job, name: file.name, what }));
    }
    Ok(lost)
}

fn loss(path: &Path, file: &MergedFile) -> io::Result<Option<OutputLoss>> {
    let there = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Some(OutputLoss::Missing)),
        there => there?,
    };
    let mut hasher = blake3::Hasher::new();
    let bytes = hasher.update_reader(&there)?.count();
    let is_whole = bytes == file.bytes && ContentHash(*hasher.finalize().as_bytes()) == file.hash;
    Ok((!is_whole).then_some(OutputLoss::Damaged))
}
