//! What units of commands wrote: one packed, append-only file per job with an index of places in memory,
//! never one file per unit. The checkpoint thread writes, the command thread reads pages.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::CommandUnit;
use starfarm_scheduler_core::NodeId;

/// One unit's outcome, as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) unit: u128,
    pub(crate) attempt: Attempt,
    pub(crate) node: NodeId,
    pub(crate) outcome: CommandUnit,
}

#[derive(Debug)]
struct JobFile {
    file: File,
    /// Where each record ends; it begins where the one before ends.
    ends: Vec<u64>,
}

/// Outputs of all jobs.
#[derive(Debug)]
pub(crate) struct OutputStore {
    dir: PathBuf,
    jobs: HashMap<JobId, JobFile>,
    scratch: Vec<u8>,
}

impl OutputStore {
    /// An empty store in directory `dir`; what an earlier start left there is dropped.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => fs::create_dir_all(dir)?,
        }
        Ok(Self { dir: dir.to_owned(), jobs: HashMap::new(), scratch: Vec::new() })
    }

    /// Appends what units of `job` wrote.
    pub(crate) fn append(
        &mut self,
        job: JobId,
        attempt: Attempt,
        node: NodeId,
        units: &[(u128, CommandUnit)],
    ) -> io::Result<()> {
        let entry = match self.jobs.entry(job) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let path = self.dir.join(format!("{}.outputs", job.0));
                let file = OpenOptions::new()
                    .create(true)
                    .truncate(true)
                    .read(true)
                    .write(true)
                    .mode(0o600)
                    .open(path)?;
                entry.insert(JobFile { file, ends: Vec::new() })
            }
        };
        let start = entry.ends.last().copied().unwrap_or(0);
        self.scratch.clear();
        let known = entry.ends.len();
        for (unit, outcome) in units {
            self.scratch.extend_from_slice(&unit.to_le_bytes());
            self.scratch.extend_from_slice(&attempt.0.to_le_bytes());
            self.scratch.extend_from_slice(&node.0.to_le_bytes());
            outcome.write(&mut self.scratch);
            entry.ends.push(start + self.scratch.len() as u64);
        }
        let written = entry.file.write_all_at(&self.scratch, start);
        if written.is_err() {
            entry.ends.truncate(known);
        }
        written
    }

    /// Up to `take` outputs of `job` from the `skip`th on, and whether more follow.
    pub(crate) fn page(&self, job: JobId, skip: u64, take: u64) -> io::Result<(Vec<Output>, bool)> {
        let Some(entry) = self.jobs.get(&job) else { return Ok((Vec::new(), false)) };
        let first = usize::try_from(skip).unwrap_or(usize::MAX).min(entry.ends.len());
        let last = first.saturating_add(usize::try_from(take).unwrap_or(usize::MAX)).min(entry.ends.len());
        let mut outputs = Vec::with_capacity(last - first);
        for at in first..last {
            let start = if at == 0 { 0 } else { entry.ends[at - 1] };
            let mut bytes = vec![0; (entry.ends[at] - start) as usize];
            entry.file.read_exact_at(&mut bytes, start)?;
            outputs.push(read(&bytes).ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok((outputs, last < entry.ends.len()))
    }

    /// Drops the outputs of a job.
    pub(crate) fn delete(&mut self, job: JobId) -> io::Result<()> {
        match self.jobs.remove(&job) {
            Some(_) => fs::remove_file(self.dir.join(format!("{}.outputs", job.0))),
            None => Ok(()),
        }
    }
}

fn read(bytes: &[u8]) -> Option<Output> {
    let (unit, bytes) = bytes.split_first_chunk()?;
    let (attempt, bytes) = bytes.split_first_chunk()?;
    let (node, bytes) = bytes.split_first_chunk()?;
    Some(Output {
        unit: u128::from_le_bytes(*unit),
        attempt: Attempt(u64::from_le_bytes(*attempt)),
        node: NodeId(u32::from_le_bytes(*node)),
        outcome: CommandUnit::read_all(bytes).ok()?.pop()?,
    })
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::wire::{Outputs, Stream};

    use super::*;

    #[test]
    fn pages_hold_every_output_once() {
        let dir = std::env::temp_dir().join(format!("starfarm-outputs-{}", std::process::id()));
        let mut store = OutputStore::create(&dir).unwrap();
        let unit = |text: &str| CommandUnit {
            failed: None,
            code: 0,
            duration_us: 1,
            outputs: Outputs { stdout: Stream::Inline(text.into()), stderr: Stream::Inline(vec![]) },
        };
        let units: Vec<_> = (0..10_u128).map(|i| (i, unit(&"x".repeat(i as usize)))).collect();
        store.append(JobId(1), Attempt(7), NodeId(3), &units[..4]).unwrap();
        store.append(JobId(1), Attempt(8), NodeId(3), &units[4..]).unwrap();
        let (first, more) = store.page(JobId(1), 0, 6).unwrap();
        let (rest, end) = store.page(JobId(1), 6, 6).unwrap();
        assert!(more && !end);
        let all: Vec<_> = first.into_iter().chain(rest).map(|o| (o.unit, o.outcome)).collect();
        assert_eq!(all, units);
        store.delete(JobId(1)).unwrap();
        assert_eq!(store.page(JobId(1), 0, 9).unwrap(), (vec![], false));
        fs::remove_dir_all(dir).unwrap();
    }
}
