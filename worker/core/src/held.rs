//! Intervals that the worker holds: an index that knows a task offered twice, and the joined list that
//! goes into a heartbeat.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::Held;

/// Intervals by job and first unit. It is only looked up, never walked, so no order depends on the hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index(HashMap<(u64, u128), u64, BuildHasherDefault<Mix>>);

impl Index {
    pub(crate) fn insert(&mut self, job: JobId, lo: u128, units: u64) {
        self.0.insert((job.0, lo), units);
    }

    /// Takes the interval out, if exactly this one is there.
    pub(crate) fn remove(&mut self, job: JobId, lo: u128, units: u64) {
        if self.contains(job, lo, units) {
            self.0.remove(&(job.0, lo));
        }
    }

    pub(crate) fn contains(&self, job: JobId, lo: u128, units: u64) -> bool {
        self.0.get(&(job.0, lo)) == Some(&units)
    }
}

/// A cheap hash over whole words. The keys come from a scheduler whose key we pinned, so nobody who could
/// choose colliding ones gains anything that he has not already.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u128(&mut self, words: u128) {
        self.write_u64(words as u64);
        self.write_u64((words >> 64) as u64);
    }
}

/// Sorts intervals by job and first unit, and joins those that touch or overlap.
pub(crate) fn join(mut held: Vec<Held>) -> Vec<Held> {
    held.sort_unstable_by_key(|h| (h.job, h.lo));
    held.dedup_by(|next, before| {
        let Some(gap_free) = next.lo.checked_sub(before.lo).filter(|d| *d <= u128::from(before.units)) else {
            return false;
        };
        let reach = gap_free + u128::from(next.units);
        let joined = u64::try_from(reach.max(u128::from(before.units)));
        match joined {
            Ok(units) if next.job == before.job => {
                before.units = units;
                true
            }
            _ => false,
        }
    });
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(job: u64, lo: u128, units: u64) -> Held {
        Held { job: JobId(job), lo, units }
    }

    #[test]
    fn neighbours_and_overlaps_join_within_a_job() {
        let joined = join(vec![
            held(2, 5, 5),
            held(1, 10, 5),
            held(1, 0, 10),
            held(1, 20, 1),
            held(2, 0, 5),
            held(2, 3, 4),
            held(2, 11, 1),
        ]);
        assert_eq!(joined, [held(1, 0, 15), held(1, 20, 1), held(2, 0, 10), held(2, 11, 1)]);
    }

    #[test]
    fn a_sum_beyond_64_bits_stays_apart() {
        let apart = vec![held(1, 0, u64::MAX), held(1, u128::from(u64::MAX), 2)];
        assert_eq!(join(apart.clone()), apart);
        let end = vec![held(1, u128::MAX - 2, 1), held(1, u128::MAX - 1, 1)];
        assert_eq!(join(end), [held(1, u128::MAX - 2, 2)]);
    }

    #[test]
    fn the_index_knows_exact_intervals_only() {
        let mut index = Index::default();
        index.insert(JobId(1), 5, 10);
        assert!(index.contains(JobId(1), 5, 10));
        assert!(!index.contains(JobId(1), 5, 9) && !index.contains(JobId(2), 5, 10));
        index.remove(JobId(1), 5, 9);
        assert!(index.contains(JobId(1), 5, 10));
        index.remove(JobId(1), 5, 10);
        assert!(!index.contains(JobId(1), 5, 10));
    }
}
