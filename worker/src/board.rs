//! Which unit each slot runs at this moment: on a board that heartbeats read, and in the file `running`
//! that outlives the process, so that a unit which kills its worker can be blamed. Not synced: it is about
//! dead processes, not about dead machines, of which it says nothing.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use starfarm_protocol::bytes::Reader;
use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::wire::NOTHING_RAN;

use crate::WorkerError;

/// Bytes of a slot's record: checksum u64, job u64, unit u128. All zeros: it runs nothing. One whose checksum does not
/// fit says nothing, so that no unit is blamed by a damaged file, or by another farm's. The first record of the file is of
/// no slot: it has the start of the machine in the place of a unit.
const RECORD_BYTES: usize = 32;
/// The job in that record.
const START: JobId = JobId(u64::MAX);

type Unit = Option<(JobId, u128)>;

pub(crate) struct Board {
    farm: FarmId,
    slots: Vec<Mutex<Unit>>,
    file: File,
}

impl Board {
    /// Opens the file, and says which units were running when the previous process died, or that none was, where that is
    /// known: since this `start` of the machine, whatever that process wrote is there.
    pub(crate) fn open(
        path: &Path,
        farm: FarmId,
        slots: u16,
        start: Option<u128>,
    ) -> Result<(Self, Vec<(JobId, u128)>), WorkerError> {
        let before = std::fs::read(path).unwrap_or_default();
        let records = before.as_chunks().0.iter().filter_map(|bytes| read(farm, bytes));
        let (starts, mut died): (Vec<_>, Vec<_>) = records.partition(|(job, _)| *job == START);
        if died.is_empty() && starts.iter().any(|(_, of)| Some(*of) == start) {
            died.push(NOTHING_RAN);
        }
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
        let file = file.map_err(|e| WorkerError::file("cannot write", path, &e))?;
        let slots = (0..slots).map(|_| Mutex::new(None)).collect();
        let board = Self { farm, slots, file };
        board.write(0, start.map(|start| (START, start)));
        Ok((board, died))
    }

    /// The slot has begun with a unit: what it needs may still have to be fetched.
    pub(crate) fn begin(&self, slot: u16, job: JobId, unit: u128) {
        *self.unit(slot) = Some((job, unit));
    }

    /// The slot computes the unit that it has begun with, until this is dropped: should the process die meanwhile, that
    /// unit may be to blame. It is not while its inputs are fetched or its outputs are stored.
    pub(crate) fn computes(&self, slot: u16) -> Computing<'_> {
        let unit = *self.unit(slot);
        self.record(slot, unit);
        Computing(self, slot)
    }

    pub(crate) fn end(&self, slot: u16) {
        *self.unit(slot) = None;
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (u16, JobId, u128)> {
        let units = self.slots.iter().zip(0..);
        units.filter_map(|(unit, slot)| {
            unit.lock().expect("a panic ends the process").map(|(job, unit)| (slot, job, unit))
        })
    }

    fn unit(&self, slot: u16) -> MutexGuard<'_, Unit> {
        self.slots[usize::from(slot)].lock().expect("a panic ends the process")
    }

    fn record(&self, slot: u16, unit: Unit) {
        self.write(u64::from(slot) + 1, unit);
    }

    fn write(&self, at: u64, unit: Unit) {
        // A disk that takes no 32 bytes will be noticed elsewhere; here it costs no more than the blame.
        let _ = self.file.write_at(&record(self.farm, unit), at * RECORD_BYTES as u64);
    }
}

/// A unit that may kill this process.
pub(crate) struct Computing<'a>(&'a Board, u16);

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.0.record(self.1, None);
    }
}

fn record(farm: FarmId, unit: Unit) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    if let Some((job, unit)) = unit {
        record[8..16].copy_from_slice(&job.0.to_le_bytes());
        record[16..].copy_from_slice(&unit.to_le_bytes());
        let of = [&farm.0[..], &record[8..]].concat();
        record[..8].copy_from_slice(&ContentHash::of(&of).0[..8]);
    }
    record
}

fn read(farm: FarmId, bytes: &[u8; RECORD_BYTES]) -> Unit {
    let mut fields = Reader(&bytes[8..]);
    let unit = Some((JobId(fields.u64().ok()?), fields.u128().ok()?));
    unit.filter(|_| record(farm, unit) == *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    const FARM: FarmId = FarmId([1; 16]);

    #[test]
    fn a_dead_workers_running_units_are_known_to_the_next_one_only() {
        let dir = TempDir::new();
        let path = dir.0.join("running");
        let (board, died) = Board::open(&path, FARM, 3, Some(7)).unwrap();
        assert_eq!(died, []);
        for (slot, job, unit) in [(0, 1, 5), (2, 9, u128::MAX), (0, 1, 6)] {
            board.begin(slot, JobId(job), unit);
            std::mem::forget(board.computes(slot));
        }
        // One that has ended, and one whose inputs are fetched or whose outputs are stored.
        board.begin(1, JobId(4), 4);
        drop(board.computes(1));
        assert_eq!(board.running().map(|(slot, ..)| slot).collect::<Vec<_>>(), [0, 1, 2]);
        board.end(1);
        board.begin(1, JobId(4), 5);
        assert_eq!(
            board.running().collect::<Vec<_>>(),
            [(0, JobId(1), 6), (1, JobId(4), 5), (2, JobId(9), u128::MAX)]
        );
        drop(board);
        let (_, died) = Board::open(&path, FARM, 1, Some(7)).unwrap();
        assert_eq!(died, [(JobId(1), 6), (JobId(9), u128::MAX)]);
        let (_, died) = Board::open(&path, FARM, 1, Some(7)).unwrap();
        assert_eq!(died, [NOTHING_RAN]);
        // The machine started anew: what was written last before that may be lost.
        let (_, died) = Board::open(&path, FARM, 1, Some(8)).unwrap();
        assert_eq!(died, []);
        let (_, died) = Board::open(&path, FarmId([2; 16]), 1, Some(8)).unwrap();
        assert_eq!(died, []);
        let (_, died) = Board::open(&path, FARM, 1, None).unwrap();
        assert_eq!(died, []);
        let (_, died) = Board::open(&path, FARM, 1, None).unwrap();
        assert_eq!(died, []);
    }

    #[test]
    fn a_damaged_file_or_another_farms_blames_no_unit() {
        let dir = TempDir::new();
        let path = dir.0.join("running");
        let (board, _) = Board::open(&path, FARM, 2, None).unwrap();
        for (slot, unit) in [(0, 5), (1, 6)] {
            board.begin(slot, JobId(1), unit);
            std::mem::forget(board.computes(slot));
        }
        let (_, of_other) = Board::open(&path, FarmId([2; 16]), 2, None).unwrap();
        assert_eq!(of_other, []);
        // Behind the record of the start.
        let whole: Vec<u8> = [5, 6].iter().flat_map(|unit| record(FARM, Some((JobId(1), *unit)))).collect();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, damaged).unwrap();
            let other = if bit < 256 { 6 } else { 5 };
            assert_eq!(Board::open(&path, FARM, 2, None).unwrap().1, [(JobId(1), other)], "bit {bit}");
        }
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(Board::open(&path, FARM, 2, None).unwrap().1.len(), length / 32, "cut at {length}");
        }
    }
}
