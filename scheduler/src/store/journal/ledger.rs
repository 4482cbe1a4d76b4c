//! The ledger: what old segments say, in short. A segment that lies wholly before the last checkpoint is
//! rewritten: done intervals of a node are joined, what commands wrote is left out (it lies in the outputs),
//! of leases only the highest mark stays. Who computed what stays for ever. The ledger's segment is durable before
//! the journal's is deleted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use starfarm_net::private_folder;
use starfarm_protocol::ids::{FarmId, JobId, NodeId};
use starfarm_protocol::job::FailedUnit;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{Frame, Place, SEAL};
use starfarm_protocol::journal::segment::{Head, Part};

use super::{Each, Segments, create, sync_folder, walk};
use crate::error::SchedulerError;
use crate::store::keeper::{self, Trouble};

/// Closed segments that stay as they are, so that a person finds the last hours record by record.
const KEPT: usize = 2;

/// Rewrites old segments. It touches only segments that are sealed, so it may work beside the writer.
pub(crate) struct Retirer {
    pub(super) segments: Segments,
    /// Rewrite by a process of its own: see [`keep_if_asked`](crate::keep_if_asked).
    pub(crate) process: bool,
}

impl Retirer {
    pub(crate) fn new(dir: PathBuf, farm: FarmId) -> Self {
        Self { segments: Segments { dir, farm }, process: false }
    }

    /// Rewrites the closed segments whose records all lie at or before `sequence`, but for the newest ones. Nothing is
    /// deleted where the disk does not take it, or a segment is damaged.
    pub(crate) fn retire(&self, sequence: u64) -> Result<(), Trouble> {
        let all = self.segments.numbers(Part::Journal)?;
        let closed = &all[..all.len().saturating_sub(1 + KEPT)];
        for &number in closed {
            let next = self.segments.head(Part::Journal, number + 1)?;
            if next.first > sequence + 1 {
                break;
            }
            if self.process {
                // One for all of them.
                let Segments { dir, farm } = &self.segments;
                return keeper::by_process(keeper::RETIRE, sequence, dir, Some(farm.to_string()), &[]);
            }
            self.rewrite(number, next.first - 1, next.chain)?;
        }
        Ok(())
    }

    fn rewrite(&self, number: u64, last: u64, seal: u32) -> Result<(), Trouble> {
        let (path, old, bytes) = self.segments.read(Part::Journal, number)?;
        let mut short = Short::default();
        let start = Place { sequence: old.first - 1, chain: old.chain };
        let end = walk(&path, &bytes, start, &mut |frame| {
            let record = Record::decode(frame.kind, frame.body);
            short.add(frame.epoch, record.map_err(|_| format!("record {} is damaged", frame.sequence))?);
            Ok(())
        })?;
        if !end.sealed || (end.place.sequence, end.place.chain) != (last, seal) {
            return Err(format!("{} is damaged", path.display()).as_str().into());
        }
        drop(bytes);
        // The seal's CRC of the ledger segment before.
        let chain = match number - 1 {
            0 => 0,
            before => read_whole(&self.segments, before, None, &mut |_| Ok(()))?,
        };
        let (part, farm, first) = (Part::Ledger, self.segments.farm, old.first);
        let head = Head { part, farm, number, first, last, chain, seal };
        let mut bytes = head.to_bytes();
        let (mut place, mut body) = (Place { sequence: 0, chain }, Vec::new());
        for (epoch, record) in short.finish() {
            body.clear();
            record.encode(&mut body);
            let (sequence, kind) = (place.sequence + 1, record.kind());
            Frame { sequence, commit: 1, epoch, kind, body: &body }.write(&mut place, &mut bytes);
        }
        let (sequence, epoch) = (place.sequence, end.epoch);
        Frame { sequence, commit: 1, epoch, kind: SEAL, body: &last.to_le_bytes() }
            .write(&mut place, &mut bytes);
        let ledger = self.segments.path(Part::Ledger, number);
        let folder = ledger.parent().expect("a segment lies in a folder");
        private_folder(folder)?;
        sync_folder(folder)?;
        let mut file = create(&ledger)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        sync_folder(&ledger)?;
        fs::remove_file(&path)?;
        Ok(sync_folder(&path)?)
    }
}

/// Reads a ledger segment, which must be whole and follow the one whose seal has the CRC `chain`; its seal's CRC
/// comes back.
pub(super) fn read_whole(
    segments: &Segments,
    number: u64,
    chain: Option<u32>,
    each: &mut Each<'_>,
) -> Result<u32, SchedulerError> {
    let (path, head, bytes) = segments.read(Part::Ledger, number)?;
    let start = Place { sequence: 0, chain: head.chain };
    let whole = walk(&path, &bytes, start, &mut |_| Ok(()))?;
    if chain.is_some_and(|chain| chain != head.chain) || !whole.sealed {
        return Err(SchedulerError::State(format!(
            "{}: {}, at byte {}. Restore the state directory from a copy",
            path.display(),
            whole.broken.unwrap_or("this segment is not whole, or does not follow the one before"),
            whole.at
        )));
    }
    walk(&path, &bytes, start, each)?;
    Ok(whole.place.chain)
}

/// Records in short, in an order that gives the same farm and the same proof.
#[derive(Default)]
pub(super) struct Short {
    records: Vec<(u64, Record)>,
    jobs: BTreeMap<JobId, Gathered>,
}

/// What was gathered of a job since its last other record.
#[derive(Default)]
struct Gathered {
    epoch: u64,
    mark: Option<u128>,
    done: BTreeMap<NodeId, Vec<(u128, u128)>>,
    hits: BTreeMap<NodeId, Vec<(u128, u32)>>,
    failed: Vec<(u128, FailedUnit)>,
}

impl Short {
    pub(super) fn add(&mut self, epoch: u64, record: Record) {
        let Some(job) = record.job() else {
            // A node, an epoch: what it means to a job may depend on what came before.
            self.flush_all();
            return self.records.push((epoch, record));
        };
        let gathered = self.jobs.entry(job).or_default();
        gathered.epoch = epoch;
        match record {
            Record::Leased { mark, .. } => gathered.mark = gathered.mark.max(Some(mark)),
            Record::Done { node, pieces, hits, .. } => {
                gathered.done.entry(node).or_default().extend(pieces);
                gathered.hits.entry(node).or_default().extend(hits);
            }
            Record::Ran { node, units, .. } => {
                for (unit, outcome) in units {
                    let end = unit.saturating_add(outcome.units.into());
                    match outcome.failed {
                        None => gathered.done.entry(node).or_default().push((unit, end)),
                        Some(reason) => {
                            let failed = FailedUnit { reason, code: Some(outcome.code), node: Some(node) };
                            gathered.failed.extend((unit..end).map(|unit| (unit, failed)));
                        }
                    }
                }
            }
            other => {
                self.flush(job);
                self.records.push((epoch, other));
            }
        }
    }

    fn flush(&mut self, job: JobId) {
        let Some(Gathered { epoch, mark, done, mut hits, failed }) = self.jobs.remove(&job) else { return };
        if let Some(mark) = mark {
            self.records.push((epoch, Record::Leased { job, mark }));
        }
        for (node, pieces) in done {
            let (pieces, hits) = (joined(pieces), hits.remove(&node).unwrap_or_default());
            if !pieces.is_empty() || !hits.is_empty() {
                self.records.push((epoch, Record::Done { job, node, pieces, hits }));
            }
        }
        let failed = failed.into_iter().map(|(unit, failed)| (epoch, Record::Failed { job, unit, failed }));
        self.records.extend(failed);
    }

    pub(super) fn finish(mut self) -> Vec<(u64, Record)> {
        self.flush_all();
        self.records
    }

    fn flush_all(&mut self) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.flush(job));
    }
}

/// Intervals in order, neighbours joined. They never overlap: each unit is decided once.
fn joined(mut pieces: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    pieces.sort_unstable();
    pieces.dedup_by(|next, before| {
        let touch = before.1 == next.0;
        if touch {
            before.1 = next.1;
        }
        touch
    });
    pieces
}
