//! The file `again` beside the files of outputs: which jobs have such a file, and when their units were last wanted again.
//! It tells what a job's file alone cannot: that its end was cut off, or that an older copy took its place. Runs from before
//! a unit was last wanted again do not count, whatever the file says.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `starfarm` |
//! | 4 | format version, 1 |
//! | 16 | farm |
//! | | count of jobs; of each, ascending: its number, and a count of records; of each, ascending: its sequence, and as intervals the units that it was the last to want again |
//! | 32 | BLAKE3 of all bytes before |
//!
//! Numbers and intervals are as in the journal's records.

use std::collections::BTreeMap;

use crate::bytes::{Malformed, Reader, put, put_intervals};
use crate::ids::{FarmId, JobId};
use crate::unit_set::UnitSet;

const MAGIC: &[u8; 8] = b"starfarm";
const FORMAT_VERSION: u32 = 1;
const HASH_BYTES: usize = 32;

/// When units of a job were last wanted again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Again {
    /// End, exclusive, and the sequence of the record, by first unit. None overlaps another.
    runs: BTreeMap<u128, (u128, u64)>,
}

impl Again {
    /// The record `sequence` wants [lo, hi) again. Returns whether that is news; what later records say stays.
    pub fn want(&mut self, sequence: u64, (lo, hi): (u128, u128)) -> bool {
        let mut news: UnitSet = [(lo, hi)].into_iter().collect();
        let start = self.runs.range(..=lo).next_back().map_or(lo, |(&first, _)| first);
        let near = self.runs.range(start..hi.max(start)).map(|(&first, &(end, at))| (first, end, at));
        let there: Vec<_> = near.filter(|&(_, end, _)| end > lo).collect();
        for (first, end, at) in there {
            if at >= sequence {
                news.remove(first, end);
                continue;
            }
            self.runs.remove(&first);
            if first < lo {
                self.runs.insert(first, (lo, at));
            }
            if end > hi {
                self.runs.insert(hi, (end, at));
            }
        }
        self.runs.extend(news.iter().map(|(lo, hi)| (lo, (hi, sequence))));
        !news.is_empty()
    }

    /// The sequence of the record that last wanted `unit` again; 0: none did.
    pub fn last(&self, unit: u128) -> u64 {
        let before = self.runs.range(..=unit).next_back();
        before.filter(|(_, (hi, _))| unit < *hi).map_or(0, |(_, (_, sequence))| *sequence)
    }

    /// The units by the sequence of the record that was the last to want them again.
    pub fn records(&self) -> BTreeMap<u64, Vec<(u128, u128)>> {
        let mut records = BTreeMap::<u64, Vec<_>>::new();
        for (&lo, &(hi, sequence)) in &self.runs {
            records.entry(sequence).or_default().push((lo, hi));
        }
        records
    }

    /// Forgets what records after `last` say. Returns whether there was any.
    pub fn forget_after(&mut self, last: u64) -> bool {
        let before = self.runs.len();
        self.runs.retain(|_, (_, sequence)| *sequence <= last);
        self.runs.len() < before
    }
}

/// The bytes that say so of the jobs of a farm.
pub fn to_bytes(farm: FarmId, jobs: &BTreeMap<JobId, Again>) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &farm.0].concat();
    put(&mut bytes, jobs.len() as u128);
    for (job, again) in jobs {
        let records = again.records();
        put(&mut bytes, job.0.into());
        put(&mut bytes, records.len() as u128);
        for (sequence, units) in records {
            put(&mut bytes, sequence.into());
            put_intervals(&mut bytes, &units);
        }
    }
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// What the file's bytes say; `None` where they are damaged, of another version or of another farm.
pub fn read(bytes: &[u8], farm: FarmId) -> Option<BTreeMap<JobId, Again>> {
    let (bytes, hash) = bytes.split_last_chunk::<HASH_BYTES>()?;
    let mut rest = Reader(bytes);
    let ours = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &farm.0].concat();
    if blake3::hash(bytes) != *hash || rest.bytes(ours.len()) != Ok(&ours) {
        return None;
    }
    let jobs = jobs(&mut rest).ok()?;
    rest.0.is_empty().then_some(jobs)
}

fn jobs(rest: &mut Reader<'_>) -> Result<BTreeMap<JobId, Again>, Malformed> {
    let jobs = rest.list(|rest| {
        let (job, mut again) = (JobId(rest.small()?), Again::default());
        let records = rest.list(|rest| Ok((rest.small()?, rest.intervals()?)))?;
        for (sequence, units) in records {
            for units in units {
                again.want(sequence, units);
            }
        }
        Ok((job, again))
    })?;
    Ok(jobs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(wanted: &[(u64, (u128, u128))]) -> Again {
        let mut again = Again::default();
        for &(sequence, units) in wanted {
            again.want(sequence, units);
        }
        again
    }

    #[test]
    fn the_last_record_that_wants_a_unit_again_is_known_in_whatever_order_they_come() {
        let wanted = [(3, (0, 10)), (5, (4, 6)), (4, (5, 12)), (9, (20, 21)), (7, (11, 30)), (8, (2, 2))];
        let last = |unit: u128| {
            let of = wanted.iter().filter(|(_, (lo, hi))| (*lo..*hi).contains(&unit));
            of.map(|(sequence, _)| *sequence).max().unwrap_or(0)
        };
        for turn in 0..wanted.len() {
            let mut turned = wanted;
            turned.rotate_left(turn);
            for _ in 0..2 {
                turned.reverse();
                let again = again(&turned);
                (0..40).for_each(|unit| assert_eq!(again.last(unit), last(unit), "{turned:?}: {unit}"));
                let records = again.records();
                let units = records.values().flatten().map(|(lo, hi)| hi - lo).sum::<u128>();
                assert_eq!(units, 30, "each unit once");
            }
        }
    }

    #[test]
    fn it_says_whether_that_is_news() {
        let mut again = again(&[(3, (0, 4))]);
        assert!(!again.want(3, (0, 4)) && !again.want(2, (1, 3)) && !again.want(9, (7, 7)));
        assert!(again.want(2, (1, 5)) && again.want(4, (1, 2)));
        assert!(again.forget_after(3) && !again.forget_after(3));
        assert_eq!([0, 1, 2, 4].map(|unit| again.last(unit)), [3, 0, 3, 2]);
    }

    #[test]
    fn it_comes_back_and_what_is_not_whole_is_told() {
        let (farm, other) = (FarmId([7; 16]), FarmId([8; 16]));
        let far = again(&[(u64::MAX, (u128::MAX - 1, u128::MAX)), (2, (0, 9)), (3, (4, 5))]);
        let jobs = BTreeMap::from([(JobId(1), Again::default()), (JobId(300), far)]);
        let bytes = to_bytes(farm, &jobs);
        assert_eq!((read(&bytes, farm), read(&bytes, other)), (Some(jobs), None));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped, farm), None, "bit {bit}");
        }
        assert!((0..bytes.len()).all(|end| read(&bytes[..end], farm).is_none()));
    }

    #[test]
    fn its_bytes_are_as_the_document_has_them() {
        let jobs = BTreeMap::from([(JobId(1), again(&[(12, (0, 3)), (300, (1, 2))]))]);
        let bytes = to_bytes(FarmId([0x66; 16]), &jobs);
        let (body, hash) = bytes.split_last_chunk::<HASH_BYTES>().unwrap();
        let said = [1, 1, 2, 12, 2, 0, 1, 2, 1, 0xAC, 2, 1, 2, 1];
        assert_eq!(body, [b"starfarm", &[1, 0, 0, 0][..], &[0x66; 16], &said].concat());
        assert_eq!(*hash, *blake3::hash(body).as_bytes());
    }
}
