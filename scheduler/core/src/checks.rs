//! Trust checks of a search. A share of its units is computed twice, on different nodes: the first result counts as any
//! does, and then a part of it, which nobody can guess, is wanted again. And answers are planted that only the scheduler
//! knows: a result that leaves one out is untrue.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::trust::{Share, Untrue};
use starfarm_protocol::wire::HitEntry;

use crate::command::Conflict;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Body, Job, NewJob};
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

/// What a job asks for, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) share: Share,
    /// Planted answers: targets by unit.
    pub(crate) planted: BTreeMap<u128, u32>,
    planted_targets: BTreeSet<u32>,
    /// What is computed a second time, and who did so first. Not durable: what a scheduler that died had in it is computed
    /// again, and counts unchecked.
    first: Runs<NodeId>,
    /// Units that a second node computed with the same result.
    pub(crate) units_checked: u128,
    /// The first results that were untrue.
    pub(crate) untrue: Vec<Untrue>,
}

impl Checks {
    /// As the job asks for.
    pub(crate) fn ask(&mut self, check: Share, planted: &[(u128, u32)]) {
        self.share = check;
        self.planted = planted.iter().copied().collect();
        self.planted_targets = planted.iter().map(|of| of.1).collect();
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

    /// Which planted answers are among these units.
    pub(crate) fn planted_in(&self, at: Interval) -> impl Iterator<Item = (u128, u32)> + '_ {
        self.planted.range(at.lo..at.hi).map(|(&unit, &target)| (unit, target))
    }

    /// What of `at` is computed a second time, and was first by `id`.
    pub(crate) fn first_by(&self, id: NodeId, at: Interval) -> Vec<Interval> {
        self.within(at).filter(|(_, first)| *first == id).map(|(at, _)| at).collect()
    }

    /// What of `at` is computed a second time, and who did so first.
    fn within(&self, at: Interval) -> impl Iterator<Item = (Interval, NodeId)> + '_ {
        let first = |piece: &Interval| self.first.get(piece.lo).expect("something is said of what is here");
        self.first.within(at).into_iter().map(move |piece| (piece, first(&piece)))
    }

    /// A result was untrue.
    pub(crate) fn add_untrue(&mut self, untrue: Untrue) {
        if self.untrue.len() < CONFLICTS_KEPT {
            self.untrue.push(untrue);
        }
    }

    /// The job has ended.
    pub(crate) fn end(&mut self) {
        self.first = Runs::default();
    }
}

impl Farm {
    /// Whether the trust checks of a job can be.
    pub(crate) fn can_trust(&self, new: &NewJob) -> Result<(), Conflict> {
        let Trust { check: _, planted } = &new.trust;
        let Body::Hits { targets, .. } = new.work.body else {
            return if new.trust == Trust::default() { Ok(()) } else { Err(Conflict::NoSearch) };
        };
        let units: BTreeSet<u128> = planted.iter().map(|of| of.0).collect();
        let all: BTreeSet<u32> = planted.iter().map(|of| of.1).collect();
        let is_hit = |&(unit, target): &(u128, u32)| {
            let evidence = self.config.evidence.as_ref();
            unit < new.units
                && target < targets
                && evidence.is_none_or(|evidence| evidence.is_hit(&new.spec, unit, target) == Some(true))
        };
        let is_each_once = units.len() == planted.len() && all.len() == planted.len();
        let leaves_some = planted.is_empty() || (planted.len() as u64) < u64::from(targets);
        match is_each_once && leaves_some && planted.iter().all(is_hit) {
            true => Ok(()),
            false => Err(Conflict::Planted),
        }
    }

    /// Units of a result are decided, `before` of which were computed by another node before. Whether its hits are theirs,
    /// and what of it is computed again.
    pub(crate) fn on_checked(
        &mut self,
        id: NodeId,
        job_id: JobId,
        decided: &[Interval],
        hits: &[(u128, u32)],
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let checks = &self.jobs.at(job_id).checks;
        let second: Vec<_> = decided.iter().flat_map(|at| checks.within(*at)).collect();
        let mut same = 0;
        for &(at, first) in &second {
            self.jobs.at_mut(job_id).checks.first.remove(at);
            let is_new = |(unit, _): &&(u128, u32)| at.contains(*unit);
            match hits.iter().find(is_new) {
                _ if first == id => {}
                None => same += at.units(),
                // It was shown to be one, so the first node left it out.
                Some(&(unit, _)) => {
                    let untrue = Untrue { unit, node: first, why: Distrust::MissedHit, against: Some(id) };
                    self.distrust(job_id, untrue, deeds);
                }
            }
        }
        if same > 0 {
            self.commit(Record::Checked { job: job_id, units: same }, deeds);
        }
        let is_second = |at: &Interval| second.iter().any(|(other, _)| other.overlaps(*at));
        if self.nodes.at(id).health().is_distrusted() {
            return;
        }
        for at in decided.iter().filter(|at| !is_second(at)) {
            self.pick(id, job_id, *at, now_us, deeds);
        }
    }

    /// A part of what node `id` computed is computed again by another, now and then.
    fn pick(&mut self, id: NodeId, job_id: JobId, at: Interval, now_us: u64, deeds: &mut Deeds) {
        let job = self.jobs.at(job_id);
        if job.state.ended() || job.checks.first.len() >= CHECKS_OUT_MAX || !self.others_could(id, job) {
            return;
        }
        let secret = &self.config.secret;
        let units: Vec<(u128, u128)> =
            picked(secret, job_id, at, job.checks.share).iter().map(|at| (at.lo, at.hi)).collect();
        if units.is_empty() {
            return;
        }
        self.commit(Record::Rerun { job: job_id, units: units.clone() }, deeds);
        for (lo, hi) in units {
            let at = Interval::new(lo, hi);
            self.jobs.at_mut(job_id).checks.first.insert(at, id);
            self.queues.set_apart(job_id, at, id, now_us);
        }
        self.work_came();
    }

    /// Other nodes than `id` could run the job.
    fn others_could(&self, id: NodeId, job: &Job) -> bool {
        let could = |other: &NodeId| self.nodes.is_live(*other) && !job.refused_by.contains_key(other);
        let refused = job.refused_by.keys().filter(|other| self.nodes.is_live(**other)).count();
        (self.nodes.live_nodes() as usize).saturating_sub(refused + usize::from(could(&id))) > 0
    }

    /// What node `id` computed first and another was to compute again waits for anybody: none of its results counts.
    pub(crate) fn check_no_more(&mut self, id: NodeId) {
        for job in self.jobs.iter_mut().filter(|job| !job.checks.first.is_empty()) {
            let all = Interval::new(0, job.facts.units);
            let its = job.checks.first_by(id, all);
            its.into_iter().for_each(|at| job.checks.first.remove(at));
            self.queues.end_apart(job.facts.job, id);
        }
    }

    /// The first planted answer in `at` that is not among these hits.
    pub(crate) fn missed_planted(&self, job_id: JobId, at: Interval, hits: &[HitEntry]) -> Option<u128> {
        let planted = self.jobs.at(job_id).checks.planted_in(at);
        let is_said =
            |of: (u128, u32)| hits.iter().any(|hit| (at.lo + u128::from(hit.offset), hit.target) == of);
        let mut missed = planted.filter(|of| !is_said(*of) && self.shown(job_id, *of) == Some(true));
        missed.next().map(|of| of.0)
    }
}

/// What of `at` is computed again: with the root of the share as its chance a part that is the root of the share, so that
/// each unit has the share as its chance, and who leaves out many hits of one interval is found much sooner than by whole
/// intervals. It begins anywhere and goes on at the front: no unit is safer than another.
fn picked(secret: &[u8; 32], job: JobId, at: Interval, share: Share) -> Vec<Interval> {
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
    fn another_secret_picks_otherwise() {
        let share = Share::of_millionths(250_000).unwrap();
        let all = |secret: u8| {
            let at = |lo: u128| Interval::new(lo * 100, lo * 100 + 100);
            (0..100).map(|lo| picked(&[secret; 32], JobId(1), at(lo), share)).collect::<Vec<_>>()
        };
        assert!(all(1) == all(1) && all(1) != all(2));
    }
}
