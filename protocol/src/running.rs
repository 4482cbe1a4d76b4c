//! The file `running` of a worker: what each slot computes at this moment, and what its units have used. The worker writes a
//! slot's record over in place, so it outlives the process: a unit that kills its worker can be blamed, and the node's
//! monitoring agent reads whose processes and threads are whose. It is never synced. Who opens it, and who measures what is
//! written, is elsewhere.
//!
//! The first record is of no slot: it has [`START`] in the place of a job, and the start of the machine in that of a unit.
//! That of slot n, from 0, stands at byte 64 (n + 1). All zeros: the slot has computed nothing yet. Numbers are little endian.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | checksum: the first bytes of the BLAKE3 of the farm's id and the 56 bytes behind this |
//! | 8 | 8 | job of the unit that it computes, or computed last |
//! | 16 | 16 | that unit; 0 where it computes none |
//! | 32 | 4 | bits 30 and 31: 0 it computes none, 1 nobody knows where, 2 in a process, 3 in a thread; below: its number, or 0 |
//! | 36 | 4 | CPU time of all units that have ended in this slot: ms, modulo 2^32 |
//! | 40 | 8 | CPU time of those of the job, less what the thread had used when it began with the unit: us, modulo 2^64 |
//! | 48 | 8 | job whose units it computed before; 0 if there is none |
//! | 56 | 8 | CPU time of those of its units that have ended in this slot: us |
//!
//! So the CPU time of a process or thread, added to the field at 40, makes that of all units of the job in this slot, be they
//! ever so short. A reader that looks now and then takes differences. The job before has its last words: without them, what its
//! units used after the last look would be lost where a slot goes from one job to another. The field at 36 bounds what a job may
//! have used that a reader sees for the first time, as one does that began late.

use std::collections::VecDeque;

use crate::bytes::{Malformed, Reader};
use crate::ids::{ContentHash, FarmId, JobId};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// The job in the first record.
pub const START: JobId = JobId(u64::MAX);

/// Bits of the number of a process or thread. Linux gives none above 2^22.
const NUMBER_BITS: u32 = 30;
/// Jobs of a slot whose CPU time is remembered; one that comes back later begins anew.
const JOBS_MAX: usize = 16;

/// Where a unit is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// The slot computes no unit at this moment.
    Nothing,
    /// It computes one, which has no process yet, or nobody says where.
    Somewhere,
    /// In the process of this number, from 1, and its descendants.
    Process(u32),
    /// In the worker's thread of this number, from 1.
    Thread(u32),
}

/// What a record says of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The job of the unit that it computes, or computed last.
    pub job: JobId,
    /// That unit; 0 where it computes none.
    pub unit: u128,
    /// Where.
    pub runs: Runs,
    /// CPU time of all units that have ended in this slot, in milliseconds, modulo 2^32.
    pub all_ms: u32,
    /// CPU time of those of the job, in microseconds, less what the thread had used when it began with the unit: it wraps.
    pub ended_us: u64,
    /// The job whose units it computed before, and the CPU time of those that have ended in this slot, in microseconds.
    pub before: Option<(JobId, u64)>,
}

impl Slot {
    /// The first record of the file, which says when the machine has started.
    pub fn of_start(start: u128) -> Self {
        Self { job: START, unit: start, runs: Runs::Somewhere, all_ms: 0, ended_us: 0, before: None }
    }

    /// The unit that it computes, with its job.
    pub fn unit(&self) -> Option<(JobId, u128)> {
        (self.runs != Runs::Nothing).then_some((self.job, self.unit))
    }
}

/// The record of a slot of this farm's worker.
pub fn write(farm: FarmId, slot: &Slot) -> [u8; RECORD_BYTES] {
    let (kind, number) = match slot.runs {
        Runs::Nothing => (0_u32, 0),
        Runs::Somewhere => (1, 0),
        Runs::Process(number) => (2, number),
        Runs::Thread(number) => (3, number),
    };
    let runs = kind << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
    let (before, before_us) = slot.before.unwrap_or_default();
    let mut record = [0; RECORD_BYTES];
    record[8..16].copy_from_slice(&slot.job.0.to_le_bytes());
    record[16..32].copy_from_slice(&slot.unit.to_le_bytes());
    record[32..36].copy_from_slice(&runs.to_le_bytes());
    record[36..40].copy_from_slice(&slot.all_ms.to_le_bytes());
    record[40..48].copy_from_slice(&slot.ended_us.to_le_bytes());
    record[48..56].copy_from_slice(&before.0.to_le_bytes());
    record[56..].copy_from_slice(&before_us.to_le_bytes());
    let mut of = [0; 16 + RECORD_BYTES - 8];
    of[..16].copy_from_slice(&farm.0);
    of[16..].copy_from_slice(&record[8..]);
    record[..8].copy_from_slice(&ContentHash::of(&of).0[..8]);
    record
}

/// Reads a record: none where the slot has computed nothing yet.
///
/// # Errors
/// It is damaged, was read while it was written, or is another farm's: it says nothing.
pub fn read(farm: FarmId, record: &[u8; RECORD_BYTES]) -> Result<Option<Slot>, Malformed> {
    if *record == [0; RECORD_BYTES] {
        return Ok(None);
    }
    let mut fields = Reader(&record[8..]);
    let (job, unit, runs) = (JobId(fields.u64()?), fields.u128()?, fields.u32()?);
    let (all_ms, ended_us) = (fields.u32()?, fields.u64()?);
    let (before, before_us) = (fields.u64()?, fields.u64()?);
    let runs = match (runs >> NUMBER_BITS, runs & ((1 << NUMBER_BITS) - 1)) {
        (0, _) => Runs::Nothing,
        (1, _) => Runs::Somewhere,
        (2, number) => Runs::Process(number),
        (_, number) => Runs::Thread(number),
    };
    let before = (before > 0).then_some((JobId(before), before_us));
    let slot = Slot { job, unit, runs, all_ms, ended_us, before };
    if write(farm, &slot) == *record { Ok(Some(slot)) } else { Err(Malformed) }
}

/// The records of all slots in the file's bytes; a piece of a record at the end is none.
pub fn slots(farm: FarmId, file: &[u8]) -> impl Iterator<Item = Result<Option<Slot>, Malformed>> {
    file.as_chunks().0.iter().skip(1).map(move |record| read(farm, record))
}

/// What a worker keeps of one slot to write its record. It lives as long as the process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The slot's last jobs, the latest first, and the CPU time of their units that have ended here.
    jobs: VecDeque<(JobId, u64)>,
    all_us: u64,
    /// The unit that it computes, where, and what the thread had used before.
    unit: Option<(u128, Runs, u64)>,
}

impl Tally {
    /// The slot begins to compute a unit. Where, it learns next.
    pub fn computes(&mut self, job: JobId, unit: u128) {
        let known = self.jobs.iter().position(|(known, _)| *known == job);
        let known = known.and_then(|at| self.jobs.remove(at));
        self.jobs.push_front(known.unwrap_or((job, 0)));
        self.jobs.truncate(JOBS_MAX);
        self.unit = Some((unit, Runs::Somewhere, 0));
    }

    /// The unit's program runs in a process of this number.
    pub fn in_process(&mut self, number: u32) {
        if let Some((_, runs, used_us)) = &mut self.unit {
            (*runs, *used_us) = (Runs::Process(number), 0);
        }
    }

    /// The unit is computed in a thread of this number, which had used so many microseconds of CPU time when it began.
    pub fn in_thread(&mut self, number: u32, used_us: u64) {
        if let Some((_, runs, before_us)) = &mut self.unit {
            (*runs, *before_us) = (Runs::Thread(number), used_us);
        }
    }

    /// The unit has ended, and has used so many microseconds of CPU time in all.
    pub fn ended(&mut self, cpu_us: u64) {
        let computed = self.unit.take().and(self.jobs.front_mut());
        if let Some((_, ended_us)) = computed {
            *ended_us = ended_us.wrapping_add(cpu_us);
            self.all_us = self.all_us.wrapping_add(cpu_us);
        }
    }

    /// What its record says; none before the first unit.
    pub fn slot(&self) -> Option<Slot> {
        let (job, ended_us) = *self.jobs.front()?;
        let (unit, runs, used_us) = self.unit.unwrap_or((0, Runs::Nothing, 0));
        let (all_ms, ended_us) = ((self.all_us / 1_000) as u32, ended_us.wrapping_sub(used_us));
        Some(Slot { job, unit, runs, all_ms, ended_us, before: self.jobs.get(1).copied() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FARM: FarmId = FarmId([1; 16]);
    const OTHER: FarmId = FarmId([2; 16]);

    fn slot(runs: Runs) -> Slot {
        let (job, unit, before) = (JobId(7), u128::MAX - 1, Some((JobId(6), 0x0102_0304_0506_0708)));
        Slot { job, unit, runs, all_ms: 0xA1A2_A3A4, ended_us: u64::MAX - 4, before }
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let record = write(FARM, &slot(Runs::Process(0x3F_FFFE)));
        assert_eq!(record[8..16], 7_u64.to_le_bytes());
        assert_eq!(record[16..32], (u128::MAX - 1).to_le_bytes());
        assert_eq!(record[32..36], [0xFE, 0xFF, 0x3F, 0x80]);
        assert_eq!(record[36..40], [0xA4, 0xA3, 0xA2, 0xA1]);
        assert_eq!(record[40..48], [0xFB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(record[48..56], 6_u64.to_le_bytes());
        assert_eq!(record[56..], [8, 7, 6, 5, 4, 3, 2, 1]);
        let of = [&[1; 16][..], &record[8..]].concat();
        assert_eq!(record[..8], ContentHash::of(&of).0[..8]);
    }

    #[test]
    fn a_record_comes_back_and_zeros_are_a_slot_that_computed_nothing() {
        let all = [Runs::Nothing, Runs::Somewhere, Runs::Process(1), Runs::Thread(4_194_303)];
        let with_before = all.map(slot);
        let without = all.map(|runs| Slot { before: None, ..slot(runs) });
        for slot in with_before.into_iter().chain(without).chain([Slot::of_start(u128::MAX)]) {
            assert_eq!(read(FARM, &write(FARM, &slot)), Ok(Some(slot)));
            assert_eq!(read(OTHER, &write(FARM, &slot)), Err(Malformed), "another farm's");
        }
        assert_eq!(read(FARM, &[0; RECORD_BYTES]), Ok(None));
        assert_eq!(slot(Runs::Nothing).unit(), None);
        assert_eq!(slot(Runs::Somewhere).unit(), Some((JobId(7), u128::MAX - 1)));
    }

    #[test]
    fn every_bit_that_flips_is_noticed() {
        for whole in
            [write(FARM, &slot(Runs::Thread(5))), write(FARM, &slot(Runs::Nothing)), [0; RECORD_BYTES]]
        {
            for bit in 0..RECORD_BYTES * 8 {
                let mut flipped = whole;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(FARM, &flipped), Err(Malformed), "bit {bit}");
            }
        }
    }

    #[test]
    fn half_of_one_record_and_half_of_the_next_are_none() {
        let (old, new) = (write(FARM, &slot(Runs::Process(8))), write(FARM, &slot(Runs::Process(9))));
        for cut in 1..RECORD_BYTES {
            let torn: Vec<u8> = [&new[..cut], &old[cut..]].concat();
            let torn: [u8; RECORD_BYTES] = torn.try_into().unwrap();
            let is_whole = torn == old || torn == new;
            assert_eq!(read(FARM, &torn).is_ok(), is_whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_first_record_of_a_file_is_of_no_slot() {
        let (start, seven) = (write(FARM, &Slot::of_start(3)), slot(Runs::Process(8)));
        let file = [start, write(FARM, &seven), [0; RECORD_BYTES], [9; RECORD_BYTES]].concat();
        let read: Vec<_> = slots(FARM, &file).collect();
        assert_eq!(read, [Ok(Some(seven)), Ok(None), Err(Malformed)]);
        assert_eq!(slots(FARM, &file[..RECORD_BYTES * 2 - 1]).count(), 0, "a piece of a record");
        assert_eq!(slots(FARM, &[]).count(), 0);
    }

    #[test]
    fn a_tally_adds_up_the_units_of_each_job() {
        let mut tally = Tally::default();
        assert_eq!(tally.slot(), None);
        tally.ended(5);
        for (job, cpu_us) in [(1, 700), (1, 800), (2, 10_000), (1, 500)] {
            tally.computes(JobId(job), 9);
            tally.in_process(77);
            tally.ended(cpu_us);
        }
        tally.computes(JobId(1), 10);
        let (job, before) = (JobId(1), Some((JobId(2), 10_000)));
        let slot = Slot { job, unit: 10, runs: Runs::Somewhere, all_ms: 12, ended_us: 2_000, before };
        assert_eq!(tally.slot(), Some(slot));
        tally.in_process(78);
        assert_eq!(tally.slot(), Some(Slot { runs: Runs::Process(78), ..slot }));
        tally.ended(0);
        assert_eq!(tally.slot(), Some(Slot { unit: 0, runs: Runs::Nothing, ..slot }));
    }

    /// The thread goes on from unit to unit, and its CPU time with it.
    #[test]
    fn what_a_thread_had_used_before_a_unit_is_not_the_units() {
        let mut tally = Tally::default();
        tally.computes(JobId(1), 0);
        tally.in_thread(5, 9_000);
        let begun = tally.slot().unwrap();
        assert_eq!((begun.runs, begun.ended_us.wrapping_add(9_400)), (Runs::Thread(5), 400));
        tally.ended(600);
        assert_eq!(tally.slot().unwrap().ended_us, 600);
        tally.computes(JobId(1), 1);
        tally.in_thread(5, 9_700);
        assert_eq!(tally.slot().unwrap().ended_us.wrapping_add(9_750), 650);
    }

    #[test]
    fn a_tally_remembers_so_many_jobs() {
        let mut tally = Tally::default();
        for job in (0..JOBS_MAX as u64 + 1).chain([1, 0]) {
            tally.computes(JobId(job + 1), 0);
            tally.ended(1_000);
        }
        assert_eq!(tally.slot().unwrap().ended_us, 1_000, "the first job was forgotten");
        assert_eq!(tally.slot().unwrap().before, Some((JobId(2), 2_000)));
        assert_eq!(tally.slot().unwrap().all_ms, JOBS_MAX as u32 + 3);
    }
}
