//! What came of merging a job's results: printed byte for byte, its files written into a folder.

use starfarm_protocol::admin::{JobInfo, MergeInfo, MergeState, MergedFile, Request, Response};
use starfarm_protocol::ids::{ContentHash, JobId};

use super::files::Folder;
use crate::client::{Client, ask};
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::{Printer, say};

/// Prints the merged result of a job; with `folder` its files go there.
pub(crate) fn print(
    client: &mut Client,
    job: &JobInfo,
    folder: Option<&Folder>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let id = job.id;
    let merge = job.merge.as_ref().ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("job {} has no [merge]: leave --merged out", id.0))
    })?;
    let why = match merge.state {
        MergeState::Done => None,
        MergeState::Waiting if !job.state.ended() => {
            Some("has not ended: its results are merged then".to_owned())
        }
        MergeState::Waiting | MergeState::Running => {
            Some("has ended, and its results are being merged".to_owned())
        }
        MergeState::Skipped => Some(skipped(Some(id))),
        MergeState::Failed => Some(failed(merge, Some(id))),
    };
    if let Some(why) = why {
        return Err(Failure::new(Exit::Conflict, format!("job {} {why}", id.0)));
    }
    if let Some(output) = &merge.output {
        each(client, id, None, output, |piece| printer.bytes(piece))?;
    }
    match folder {
        Some(folder) => write_files(client, job, folder)?,
        None if !merge.files.is_empty() => {
            let command = format!("starfarm results {} --merged --dir DIR", id.0);
            say(&human::made(merge.files.len() as u64, &command));
        }
        None => {}
    }
    Ok(())
}

/// Writes the files that came of merging the results of a job, if there are any.
pub(crate) fn write_files(client: &mut Client, job: &JobInfo, folder: &Folder) -> Result<(), Failure> {
    let merged = job.merge.iter().filter(|merge| merge.state == MergeState::Done);
    for file in merged.flat_map(|merge| &merge.files) {
        let mut write = folder.file(&file.name)?;
        each(client, job.id, Some(&file.name), file, |piece| write.piece(piece))?;
        write.end()?;
    }
    Ok(())
}

/// Some units failed, and what to do; as of [`failed`].
pub(crate) fn skipped(id: Option<JobId>) -> String {
    let advice = id.map_or_else(
        || "run it again to try again what failed".to_owned(),
        |id| format!("`starfarm job merge {}` merges what is there", id.0),
    );
    format!("has not all of its results, so they were not merged: {advice}")
}

/// Why it failed, and what to do. `id` is none where no farm stays that could be told to merge again.
pub(crate) fn failed(merge: &MergeInfo, id: Option<JobId>) -> String {
    let why = human::printable(&merge.why);
    let advice = match id {
        Some(id) => format!("`starfarm job merge {}` tries it again", id.0),
        None => "run it again to try it again: no unit is computed again".to_owned(),
    };
    format!("has all of its results, and merging them failed: {why}; {advice}")
}

/// Shows `piece` a file of the scheduler's, which is checked at its end.
fn each(
    client: &mut Client,
    id: JobId,
    name: Option<&str>,
    of: &MergedFile,
    mut piece: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut hasher, mut offset) = (blake3::Hasher::new(), 0);
    while offset < of.bytes {
        let request = Request::Merged { id, file: name.map(str::to_owned), offset };
        let bytes = ask!(client, &request, Response::Bytes { content, .. } => content)?;
        if bytes.is_empty() {
            break;
        }
        hasher.update(&bytes);
        offset += bytes.len() as u64;
        piece(&bytes)?;
    }
    match ContentHash(*hasher.finalize().as_bytes()) == of.hash {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Conflict,
            format!(
                "the merged result of job {} is damaged on the scheduler's disk: `starfarm job merge {}` makes it again",
                id.0, id.0
            ),
        )),
    }
}
