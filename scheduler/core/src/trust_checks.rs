//! Trust checks of a search. A result counts as any does, and then a part of it is wanted again, now and then; what another
//! node finds there says whether the first one left anything out. A result that leaves out a planted answer is untrue.

use std::collections::BTreeSet;

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::trust::Untrue;

use crate::checks::picked;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::NewJob;
use crate::runs::Runs;

impl Farm {
    /// What is planted in a search of that many targets is answers of it, and leaves it something to look for.
    pub(crate) fn is_planted_well(&self, new: &NewJob, targets: u32) -> bool {
        let planted = &new.trust.planted;
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
        is_each_once && leaves_some && planted.iter().all(is_hit)
    }

    /// Units of a result are decided, and these hits of it are new. Whether others left them out, and what of it is computed
    /// again.
    pub(crate) fn on_checked(
        &mut self,
        id: NodeId,
        job_id: JobId,
        decided: &[Interval],
        hits: &[(u128, u32)],
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        for &hit in hits {
            // Nobody has named it so far, and whoever computed its unit was to name all of that.
            let first = self.jobs.at(job_id).checks.first_of(hit.0).filter(|first| *first != id);
            if let Some(node) = first
                && self.shown(job_id, hit) == Some(true)
            {
                let untrue = Untrue { unit: hit.0, node, why: Distrust::MissedHit, against: Some(id) };
                self.distrust(job_id, untrue, deeds);
            }
        }
        let checks = &self.jobs.at(job_id).checks;
        let second = decided.iter().flat_map(|at| checks.within(*at));
        let second: Vec<_> = second.map(|(at, first)| (at, first.node)).collect();
        let mut same = 0;
        for &(at, first) in &second {
            self.jobs.at_mut(job_id).checks.came(at);
            // Where nobody can tell what is a hit, nothing was checked.
            if first != id && self.shown(job_id, (at.lo, 0)).is_some() {
                same += at.units();
            }
        }
        if same > 0 {
            self.commit(Record::Checked { job: job_id, units: same }, deeds);
        }
        if self.nodes.at(id).health().is_distrusted() {
            return;
        }
        let mut once = Runs::default();
        decided.iter().for_each(|at| once.insert(*at, ()));
        second.iter().for_each(|(at, _)| once.remove(*at));
        let mut room = None;
        for at in once.intervals() {
            self.pick(id, job_id, at, &mut room, now_us, deeds);
        }
    }

    /// A part of what node `id` computed is computed again by another, now and then, while there is room.
    fn pick(
        &mut self,
        id: NodeId,
        job_id: JobId,
        at: Interval,
        room: &mut Option<usize>,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let job = self.jobs.at(job_id);
        // Of units below the highest hit that is in the journal alone nobody here knows what was found.
        let is_full = !job.hits.tell_of(at.lo) || job.hits.are_crowded(at);
        if job.state.ended() || job.satisfied() || is_full || !self.others_could(id, job) {
            return;
        }
        let secret = &self.config.secret;
        let units: Vec<(u128, u128)> =
            picked(secret, job_id, at, job.checks.share).iter().map(|at| (at.lo, at.hi)).collect();
        if units.is_empty() {
            return;
        }
        let room = room.get_or_insert_with(|| job.checks.room_for(id, self.nodes.live_nodes()));
        if *room == 0 {
            return;
        }
        *room = room.saturating_sub(units.len());
        self.commit(Record::Rerun { job: job_id, units: units.clone() }, deeds);
        for (lo, hi) in units {
            let at = Interval::new(lo, hi);
            self.jobs.at_mut(job_id).checks.begin(at, id, now_us);
            self.wait_for_others(job_id, at, now_us);
        }
        self.work_came();
    }
}
