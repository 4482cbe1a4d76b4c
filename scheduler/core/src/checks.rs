//! What a search asks for as trust checks, and what came of them. A share of its units is computed twice, on different
//! nodes: which, nobody can guess. And answers are planted that only the scheduler knows.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::trust::{Share, Untrue};

use crate::limits::{CHECKS_OUT_MAX, CONFLICTS_KEPT};
use crate::runs::Runs;

/// What is checked of a job beyond what always is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// The share of its units that is computed twice.
    pub check: Share,
    /// Units and targets that are hits, and no results. Each target is planted once.
    pub planted: Vec<(u128, u32)>,
}

/// Who computed what is computed a second time, and since when that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    pub(crate) node: NodeId,
    pub(crate) since_us: u64,
}

/// What a job asks for, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) share: Share,
    /// Planted answers: targets by unit.
    pub(crate) planted: BTreeMap<u128, u32>,
    planted_targets: BTreeSet<u32>,
    /// What is computed a second time, and who did so first. Not durable: what a scheduler that died had in it is computed
    /// again, and counts unchecked.
    first: Runs<First>,
    /// Units that a second node computed with the same result.
    pub(crate) units_checked: u128,
    /// The first results that were untrue.
    pub(crate) untrue: Vec<Untrue>,
    /// Nodes that are not trusted since the job ended, and so many units that they computed.
    pub(crate) doubtful: Vec<(NodeId, u128)>,
}

impl Checks {
    /// As a job asks for.
    pub(crate) fn asked(check: Share, planted: &[(u128, u32)]) -> Self {
        Self {
            share: check,
            planted: planted.iter().copied().collect(),
            planted_targets: planted.iter().map(|of| of.1).collect(),
            ..Self::default()
        }
    }

    /// The job asked for any.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.share != Share::default() || !self.planted.is_empty()
    }

    /// Some units are computed a second time.
    pub(crate) fn are_out(&self) -> bool {
        !self.first.is_empty()
    }

    /// The target is a planted answer's.
    pub(crate) fn is_planted(&self, target: u32) -> bool {
        self.planted_targets.contains(&target)
    }

    /// It is a planted answer.
    pub(crate) fn plants(&self, (unit, target): (u128, u32)) -> bool {
        self.planted.get(&unit) == Some(&target)
    }

    /// Which planted answers are among these units.
    pub(crate) fn planted_in(&self, at: Interval) -> impl Iterator<Item = (u128, u32)> + '_ {
        self.planted.range(at.lo..at.hi).map(|(&unit, &target)| (unit, target))
    }

    /// Who was first, where `unit` is computed a second time.
    pub(crate) fn first_of(&self, unit: u128) -> Option<NodeId> {
        self.first.get(unit).map(|first| first.node)
    }

    /// What of `at` is computed a second time, and was first by `id`.
    pub(crate) fn first_by(&self, id: NodeId, at: Interval) -> Vec<Interval> {
        self.within(at).filter(|(_, first)| first.node == id).map(|(at, _)| at).collect()
    }

    /// What of `at` is computed a second time, and who did so first.
    pub(crate) fn within(&self, at: Interval) -> impl Iterator<Item = (Interval, First)> + '_ {
        let first = |piece: &Interval| self.first.get(piece.lo).expect("something is said of what is here");
        self.first.within(at).into_iter().map(move |piece| (piece, first(&piece)))
    }

    /// So many more of node `first` can be. Half of the places are for who comes first, each of so many `nodes` has its share
    /// of the others: one that reports unit by unit leaves room for the rest.
    pub(crate) fn room_for(&self, first: NodeId, nodes: u32) -> usize {
        if let Some(room @ 1..) = (CHECKS_OUT_MAX / 2).checked_sub(self.first.len()) {
            return room;
        }
        let share = 1 + CHECKS_OUT_MAX / 2 / nodes.max(1) as usize;
        let of_it = self.first.iter().filter(|(_, of)| of.node == first).count();
        share.saturating_sub(of_it).min(CHECKS_OUT_MAX.saturating_sub(self.first.len()))
    }

    /// `at` is computed a second time from now on; node `first` was first.
    pub(crate) fn begin(&mut self, at: Interval, first: NodeId, now_us: u64) {
        self.first.insert(at, First { node: first, since_us: now_us });
    }

    /// `at` was computed a second time.
    pub(crate) fn came(&mut self, at: Interval) {
        self.first.remove(at);
    }

    /// A second node computed units with the same result.
    pub(crate) fn add_checked(&mut self, units: u128) {
        self.units_checked = self.units_checked.saturating_add(units);
    }

    /// A result was untrue.
    pub(crate) fn add_untrue(&mut self, untrue: Untrue) {
        if self.untrue.len() < CONFLICTS_KEPT {
            self.untrue.push(untrue);
        }
    }

    /// Node `id`, which computed so many units, is not trusted any more, and the job has ended.
    pub(crate) fn add_doubtful(&mut self, id: NodeId, units: u128) {
        if self.may_doubt(id) {
            self.doubtful.push((id, units));
        }
    }

    /// That is not known of node `id`, and there is room for it.
    pub(crate) fn may_doubt(&self, id: NodeId) -> bool {
        self.doubtful.len() < CONFLICTS_KEPT && self.doubtful.iter().all(|(known, _)| *known != id)
    }

    /// The job has ended: what was computed once, and who did so.
    pub(crate) fn end(&mut self) -> Vec<(Interval, NodeId)> {
        std::mem::take(&mut self.first).iter().map(|(at, first)| (at, first.node)).collect()
    }
}

/// What of `at` is computed again: with the root of the share as its chance a part that is the root of the share, so that
/// each unit has the share as its chance, and who leaves out many hits of one interval is found much sooner than by whole
/// intervals. It begins anywhere and goes on at the front: no unit is safer than another.
pub(crate) fn picked(secret: &[u8; 32], job: JobId, at: Interval, share: Share) -> Vec<Interval> {
    let (share, all) = (share.fraction(), at.units());
    if share == 0.0 {
        return Vec::new();
    }
    let units = ((share.sqrt() * all as f64).round() as u128).clamp(1, all);
    let chance = (share * all as f64 / units as f64).min(1.0);
    let mut text = secret.to_vec();
    text.extend(job.0.to_le_bytes());
    text.extend(at.lo.to_le_bytes());
    text.extend(at.hi.to_le_bytes());
    let ContentHash(drawn) = ContentHash::of(&text);
    let number =
        |from: usize| drawn[from..from + 8].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if number(0) as f64 / 2_f64.powi(64) >= chance {
        return Vec::new();
    }
    let place = u128::from(number(8)) << 64 | u128::from(number(16));
    let lo = at.lo + place % all;
    let hi = lo + units;
    if hi <= at.hi {
        return vec![Interval::new(lo, hi)];
    }
    vec![Interval::new(at.lo, at.lo + (hi - at.hi)), Interval::new(lo, at.hi)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_picked_with_the_same_chance() {
        let share = Share::of_millionths(40_000).unwrap();
        for units in [1_u128, 7, 50, 1_000] {
            let (mut times, mut parts, rounds) = (vec![0_u32; units as usize], 0_u32, 200_000 / units as u32);
            for round in 0..rounds {
                let at = Interval::new(u128::from(round) * units, u128::from(round + 1) * units);
                let picked = picked(&[7; 32], JobId(3), at, share);
                parts += u32::from(!picked.is_empty());
                for piece in picked {
                    assert!(at.lo <= piece.lo && piece.lo < piece.hi && piece.hi <= at.hi, "{piece} in {at}");
                    (piece.lo..piece.hi).for_each(|unit| times[(unit - at.lo) as usize] += 1);
                }
            }
            let all = f64::from(times.iter().sum::<u32>()) / f64::from(rounds) / units as f64;
            assert!((0.035..0.045).contains(&all), "{units} units: {all}");
            let mean = f64::from(rounds) * all;
            let low = times.iter().filter(|times| f64::from(**times) < mean / 2.0 - 4.0).count();
            assert_eq!(low, 0, "{units} units, {times:?}");
            assert!(
                parts > 0 && (units < 50 || f64::from(parts) < 0.25 * f64::from(rounds)),
                "{parts} of {rounds}"
            );
        }
        assert_eq!(picked(&[7; 32], JobId(3), Interval::new(0, 9), Share::default()), []);
        let all = picked(&[7; 32], JobId(3), Interval::new(0, 9), Share::of_millionths(1_000_000).unwrap());
        assert_eq!(all.iter().map(|at| at.units()).sum::<u128>(), 9);
    }

    #[test]
    fn a_node_that_reports_unit_by_unit_leaves_room_for_the_others() {
        let mut checks = Checks::default();
        let mut begin = |first: NodeId, from: u128| {
            let mut many = 0;
            while checks.room_for(first, 8) > 0 {
                checks.begin(Interval::one(from + 2 * many), first, 0);
                many += 1;
            }
            many as usize
        };
        assert_eq!(begin(NodeId(1), 0), CHECKS_OUT_MAX / 2);
        for other in 2..9 {
            assert_eq!(begin(NodeId(other), u128::from(other) << 64), CHECKS_OUT_MAX / 16 + 1, "{other}");
        }
        assert_eq!(begin(NodeId(1), 1 << 70), 0);
    }

    #[test]
    fn another_secret_picks_otherwise() {
        let share = Share::of_millionths(250_000).unwrap();
        let all = |secret: u8| {
            let at = |lo: u128| Interval::new(lo * 100, lo * 100 + 100);
            (0..100).map(|lo| picked(&[secret; 32], JobId(1), at(lo), share)).collect::<Vec<_>>()
        };
        assert!(all(1) == all(1) && all(1) != all(2));
    }
}
