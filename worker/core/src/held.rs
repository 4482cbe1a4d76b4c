//! Intervals that the worker holds, as the joined list that goes into a heartbeat.

use starfarm_protocol::wire::Held;

/// Sorts intervals by job and first unit, and joins those that touch or overlap.
pub(crate) fn join(mut held: Vec<Held>) -> Vec<Held> {
    held.sort_unstable_by_key(|h| (h.job, h.lo));
    held.dedup_by(|next, before| {
        let touches = next.job == before.job && next.lo - before.lo <= u128::from(before.units);
        let reach = || (next.lo - before.lo + u128::from(next.units)).max(u128::from(before.units));
        let joined = touches.then(|| u64::try_from(reach()).ok()).flatten();
        before.units = joined.unwrap_or(before.units);
        joined.is_some()
    });
    debug_assert!(held.is_sorted_by(|a, b| (a.job, a.lo) < (b.job, b.lo)), "no two begin at one unit");
    held
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::JobId;

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
}
