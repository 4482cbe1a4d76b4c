//! Which unit each slot runs at this moment: on a board that heartbeats read, and in the file `running`
//! that outlives the process, so that a unit which kills its worker can be blamed, and by which the node's monitoring agent
//! knows whose processes and threads are whose. Not synced: it is about dead processes, not about dead machines, of which it
//! says nothing. What the file's bytes mean is in the protocol.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::running::{self, RECORD_BYTES, Slot, Tally};
use starfarm_protocol::wire::NOTHING_RAN;

use crate::WorkerError;

type Unit = Option<(JobId, u128)>;

pub(crate) struct Board {
    farm: FarmId,
    slots: Vec<Mutex<OfSlot>>,
    file: File,
}

#[derive(Default)]
struct OfSlot {
    unit: Unit,
    tally: Tally,
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
        // One whose checksum does not fit says nothing, so that no unit is blamed by a damaged file, or by another farm's.
        let records =
            before.as_chunks().0.iter().filter_map(|record| running::read(farm, record).ok()??.unit());
        let (starts, mut died): (Vec<_>, Vec<_>) = records.partition(|(job, _)| *job == running::START);
        if died.is_empty() && starts.iter().any(|(_, of)| Some(*of) == start) {
            died.push(NOTHING_RAN);
        }
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
        let file = file.map_err(|e| WorkerError::file("cannot write", path, &e))?;
        let slots = (0..slots).map(|_| Mutex::default()).collect();
        let board = Self { farm, slots, file };
        start.into_iter().for_each(|start| board.write(0, &Slot::of_start(start)));
        Ok((board, died))
    }

    /// The slot has begun with a unit: what it needs may still have to be fetched.
    pub(crate) fn begin(&self, slot: u16, job: JobId, unit: u128) {
        self.slot(slot).unit = Some((job, unit));
    }

    /// The slot computes the unit that it has begun with, until this is dropped: should the process die meanwhile, that
    /// unit may be to blame. It is not while its inputs are fetched or its outputs are stored.
    pub(crate) fn computes(&self, slot: u16) -> Computing<'_> {
        self.note(slot, |of| {
            if let Some((job, unit)) = of.unit {
                of.tally.computes(job, unit);
            }
        });
        Computing { board: self, slot, thread_us: None, used: Duration::ZERO }
    }

    pub(crate) fn end(&self, slot: u16) {
        self.slot(slot).unit = None;
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (u16, JobId, u128)> {
        let slots = 0..self.slots.len() as u16;
        slots.filter_map(|slot| self.slot(slot).unit.map(|(job, unit)| (slot, job, unit)))
    }

    fn slot(&self, slot: u16) -> MutexGuard<'_, OfSlot> {
        self.slots[usize::from(slot)].lock().expect("a panic ends the process")
    }

    /// Changes what is known of a slot, and writes its record.
    fn note(&self, slot: u16, change: impl FnOnce(&mut OfSlot)) {
        let mut of = self.slot(slot);
        change(&mut of);
        of.tally.slot().into_iter().for_each(|record| self.write(u64::from(slot) + 1, &record));
    }

    fn write(&self, at: u64, record: &Slot) {
        // A disk that takes no 64 bytes will be noticed elsewhere; here it costs no more than the blame.
        let _ = self.file.write_at(&running::write(self.farm, record), at * RECORD_BYTES as u64);
    }
}

/// A unit that may kill this process.
pub(crate) struct Computing<'a> {
    board: &'a Board,
    slot: u16,
    /// CPU time of this thread when it began, where the unit is computed in it.
    thread_us: Option<u64>,
    /// CPU time of the unit, where its program has told.
    used: Duration,
}

impl Computing<'_> {
    /// The unit is computed in this thread.
    #[must_use]
    pub(crate) fn in_thread(mut self) -> Self {
        let used_us = thread_us();
        self.thread_us = Some(used_us);
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        self.board.note(self.slot, |of| of.tally.in_thread(thread, used_us));
        self
    }

    /// The unit's program has this process.
    pub(crate) fn in_process(&self, process: u32) {
        self.board.note(self.slot, |of| of.tally.in_process(process));
    }

    /// The unit's program has ended, and used so much.
    pub(crate) fn ended(mut self, used: Duration) {
        self.used = used;
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        let of_program = self.used.as_micros() as u64;
        let used_us = self.thread_us.map_or(of_program, |before_us| thread_us().saturating_sub(before_us));
        self.board.note(self.slot, |of| of.tally.ended(used_us));
    }
}

/// CPU time of this thread, in microseconds.
fn thread_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
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
        // Behind the record of the start, of which there is none here.
        let whole = std::fs::read(&path).unwrap()[RECORD_BYTES..].to_vec();
        let (_, of_other) = Board::open(&path, FarmId([2; 16]), 2, None).unwrap();
        assert_eq!(of_other, []);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, damaged).unwrap();
            let other = if bit < RECORD_BYTES * 8 { 6 } else { 5 };
            assert_eq!(Board::open(&path, FARM, 2, None).unwrap().1, [(JobId(1), other)], "bit {bit}");
        }
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(
                Board::open(&path, FARM, 2, None).unwrap().1.len(),
                length / RECORD_BYTES,
                "cut at {length}"
            );
        }
    }
}
