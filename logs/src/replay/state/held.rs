//! Units that nodes hold: those of a snapshot, less what came back since.

use std::collections::BTreeMap;

use starfarm_events::{Held, Name};
use starfarm_protocol::ids::JobId;

/// Where a run of units stands: its node, its job, its first unit.
type Place = (Option<Name>, JobId, u128);

/// Runs of units that nodes hold. No two of a node and a job overlap.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct HeldRuns(BTreeMap<Place, Held>);

impl HeldRuns {
    /// What a snapshot lists.
    pub(super) fn of(held: &[Held]) -> Self {
        let mut runs = Self::default();
        for held in held.iter().filter(|held| held.lo < held.hi) {
            // A run that is told twice counts once.
            runs.came_back(held.node.as_ref(), held.job, held.lo, held.hi);
            runs.put(held.clone());
        }
        runs
    }

    /// Units of a job that a node held are its no longer.
    pub(super) fn came_back(&mut self, node: Option<&Name>, job: JobId, lo: u128, hi: u128) {
        if lo >= hi {
            return;
        }
        let below = |unit| (node.cloned(), job, unit);
        while let Some((_, held)) = self.0.range(below(0)..below(hi)).next_back()
            && held.hi > lo
        {
            let held = held.clone();
            self.0.remove(&below(held.lo));
            if hi < held.hi {
                self.put(part(&held, hi, held.hi));
            }
            if held.lo < lo {
                self.put(part(&held, held.lo, lo));
            }
        }
    }

    /// A node holds nothing any more.
    pub(super) fn lost(&mut self, node: &Name) {
        let first = (Some(node.clone()), JobId(0), 0);
        while let Some((place, _)) = self.0.range(first.clone()..).next()
            && place.0.as_ref() == Some(node)
        {
            let place = place.clone();
            self.0.remove(&place);
        }
    }

    /// All of them, by node, job and first unit.
    pub(super) fn into_list(self) -> Vec<Held> {
        self.0.into_values().collect()
    }

    fn put(&mut self, held: Held) {
        self.0.insert((held.node.clone(), held.job, held.lo), held);
    }
}

/// A part of what is held; how many tasks that is can only be said in proportion.
fn part(held: &Held, lo: u128, hi: u128) -> Held {
    let share = (hi - lo) as f64 / (held.hi - held.lo).max(1) as f64;
    let count = |tasks: u64| (tasks as f64 * share).ceil() as u64;
    Held { lo, hi, tasks: count(held.tasks), offered: count(held.offered).min(held.offered), ..held.clone() }
}
