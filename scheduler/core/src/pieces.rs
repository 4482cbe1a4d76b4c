//! Pieces: a worker does a task from its first unit to its last, so that what is done of it is one piece, but for a few
//! results that overtake each other. A node that reports every second unit leaves as many pieces as there are units, and
//! each costs memory for as long as the job runs. Here they are counted for each node, of all jobs together, so that it
//! leaves no more than a bound. No record tells of them: a scheduler that starts anew counts from zero.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::interval::Interval;

use crate::queues::Coverage;

/// With fewer pieces nobody looks which of them still lie apart.
const FEW: usize = 64;
/// Of a node that leaves very many that is looked at so seldom: 65 536 take some 20 ms.
const LOOK_AGAIN_US: u64 = 10_000_000;

/// What a node has done in the midst of what it had.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// By job and first unit, in what that the node had each piece was left, with open units before and behind it.
    left: BTreeMap<(JobId, u128), Interval>,
    /// With so many pieces those leave that were joined since with others, or with either end of what the node had ...
    look_at: usize,
    /// ... but not before this.
    look_us: u64,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { left: BTreeMap::new(), look_at: FEW, look_us: 0 }
    }
}

impl Pieces {
    /// The node leaves a piece that begins with `first` in the midst of `had`; false where that is one more than `most`.
    /// `coverage` is that of a job, none where it was deleted.
    pub(crate) fn leave<'a>(
        &mut self,
        first: (JobId, u128),
        had: Interval,
        most: u32,
        coverage: impl Fn(JobId) -> Option<&'a Coverage>,
        now_us: u64,
    ) -> bool {
        let most = most as usize;
        if self.left.len() >= self.look_at.min(most) && now_us >= self.look_us {
            self.look(coverage);
            self.look_at = FEW.max(2 * self.left.len());
            if 2 * self.left.len() > most {
                self.look_us = now_us + LOOK_AGAIN_US;
            }
        }
        let has_room = self.left.len() < most;
        if has_room {
            self.left.insert(first, had);
        }
        has_room
    }

    /// Of pieces with no open unit between them one is left, where it still lies in the midst.
    fn look<'a>(&mut self, coverage: impl Fn(JobId) -> Option<&'a Coverage>) {
        let mut from = (JobId(0), 0);
        self.left.retain(|&(job, first), had| {
            let before = std::mem::replace(&mut from, (job, first));
            let Some(coverage) = coverage(job) else { return false };
            let lo = if before.0 == job { had.lo.max(before.1) } else { had.lo };
            let is_open = |at| coverage.has_open_in(at);
            !coverage.is_open(first)
                && is_open(Interval::new(lo, first))
                && is_open(Interval::new(first, had.hi))
        });
    }

    /// How many are counted.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::Attempt;

    use super::*;
    use crate::queues::{Class, JobUnits, Queues};

    const MOST: u32 = 1_000;
    const JOB: JobId = JobId(1);
    const ALL: Interval = Interval { lo: 0, hi: 1_000_000 };

    fn all_out() -> (Queues, JobUnits) {
        let (mut queues, mut units) = (Queues::new(Attempt(1)), JobUnits::new(JOB, ALL.hi));
        queues.cut_as_before(&mut units, ALL.hi, false);
        (queues, units)
    }

    /// A piece was forgotten once units before it were done, and could be left anew beside it.
    #[test]
    fn pieces_that_grow_are_counted_and_those_that_are_joined_are_not() {
        let (mut queues, mut units) = all_out();
        let (mut known, mut left) = (Pieces::default(), 0);
        for lo in (10..100_000).step_by(4) {
            if known.leave((JOB, lo), ALL, MOST, |_| Some(units.coverage()), 0) {
                queues.decide(&mut units, Interval::new(lo - 1, lo + 1), Class::Done);
                left += 1;
            }
        }
        assert_eq!((left, known.len()), (MOST, MOST as usize));
        // Half of them are joined with each other, by whomever.
        queues.decide(&mut units, Interval::new(9, 10 + 2 * MOST as u128), Class::Done);
        assert!(
            !known.leave((JOB, 200_000), ALL, MOST, |_| Some(units.coverage()), 0),
            "it was looked at just now"
        );
        assert!(known.leave((JOB, 200_000), ALL, MOST, |_| Some(units.coverage()), LOOK_AGAIN_US));
        assert_eq!(known.len(), MOST as usize / 2 + 1);
        // All that was before is one piece with the job's begin.
        queues.decide(&mut units, Interval::new(0, 190_000), Class::Done);
        known.look(|_| Some(units.coverage()));
        assert!(known.left.is_empty(), "nobody did 200 000: {:?}", known.left);
    }

    #[test]
    fn a_node_whose_results_overtake_each_other_is_remembered_for_few() {
        let (mut queues, mut units) = all_out();
        let mut known = Pieces::default();
        // Others have the tasks between its own.
        for lo in (0..100_000).step_by(8) {
            let task = Interval::new(lo, lo + 4);
            assert!(known.leave((JOB, lo + 1), task, MOST, |_| Some(units.coverage()), 0));
            queues.decide(&mut units, Interval::one(lo + 1), Class::Done);
            queues.decide(&mut units, task, Class::Done);
            assert!(known.left.len() <= FEW);
        }
    }
}
