//! Wicked machines: what they say beside what is so, and what is so.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{Attempt, ContentHash};
use starfarm_protocol::wire::{HitEntry, Outcome, Packer, ResultEntry};
use starfarm_scheduler_core::Evidence;
use starfarm_worker_core::Part;

use crate::job::Job;
use crate::random::Random;
use crate::scenario::{Group, WorkModel};
use crate::together;
use crate::wiretap::Wiretap;

/// What is so: the planted hits of each job, by its specification, and whatever outputs there are.
#[derive(Debug)]
pub(crate) struct Truth(Vec<(ContentHash, BTreeMap<u128, u32>)>);

impl Truth {
    /// Of these jobs, in the order of their submission.
    pub(crate) fn of(jobs: &[Job]) -> Self {
        Self(
            jobs.iter()
                .enumerate()
                .map(|(place, job)| (job.to_submit(place).spec, job.planted().clone()))
                .collect(),
        )
    }
}

impl Evidence for Truth {
    fn is_hit(&self, spec: &ContentHash, unit: u128, target: u32) -> Option<bool> {
        let mut known = self.0.iter().filter(|(of, _)| of == spec).peekable();
        known.peek()?;
        Some(known.any(|(_, planted)| planted.get(&unit) == Some(&target)))
    }

    fn is_stored(&self, _: &ContentHash, _: u64) -> bool {
        true
    }
}

/// A machine of this group says what is not so.
pub(crate) fn lies(group: &Group) -> bool {
    group.false_hits || group.rubbish || group.miscounts || group.reports_others || group.leaves_out > 0.0
}

/// What a wicked machine makes of a result.
pub(crate) fn twist(part: &mut Part, group: &Group, job: &Job, random: &mut Random) {
    if part.outcome != Outcome::Done {
        return;
    }
    if group.false_hits && job.model.work == WorkModel::Search && job.planted().get(&part.lo) != Some(&0) {
        HitEntry { offset: 0, target: 0 }.write(&mut part.body);
    }
    if group.leaves_out > 0.0 && job.model.work == WorkModel::Search && random.real() < group.leaves_out {
        part.body.clear();
    }
    if group.miscounts && job.model.together.is_some() && part.units > 1 {
        part.body.clear();
        together::write(part.units - 1, None, part.duration_us, b"out".to_vec(), &mut part.body);
    }
    if group.rubbish {
        part.body = vec![1, 2, 3];
    }
}

/// Results over units of all jobs, wherever these are, but for what the machine itself was ever given.
pub(crate) fn of_others(
    (machine, wiretap): (u32, &mut Wiretap),
    jobs: &[Job],
    number: u64,
    random: &mut Random,
) -> Vec<Vec<u8>> {
    let mut packer = Packer::new();
    for (place, job) in jobs.iter().enumerate() {
        let Some(id) = job.id else { continue };
        for at in 0..4 {
            let (lo, units) = (u128::from(random.below(job.model.units)), 1 + random.below(50));
            let hi = lo + u128::from(units);
            // Where there are hits, one that has the units in truth is to find them.
            if job.planted().range(lo..hi).next().is_some() || !wiretap.forges(machine, id, lo, hi) {
                continue;
            }
            packer.result(&ResultEntry {
                job: id,
                spec: job.to_submit(place).spec,
                // Far above those that it has real results for.
                sequence: u64::MAX / 2 + 4 * number + at,
                attempt: Attempt(1 + random.below(1 << 20)),
                lo,
                units,
                duration_us: 1,
                outcome: Outcome::Done,
                body: &[],
            });
        }
    }
    packer.finish()
}
