//! Jobs whose units a program names while they run: when more are wanted, and what becomes of those that came.

use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::GrownChunk;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::wire::Cancel;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Job, JobState, Sizing};
use crate::limits::{BACKLOG_TASKS, BACKLOG_UNITS_MAX, BACKLOG_UNITS_MIN, BACKLOG_US, BATCH_UNITS_MAX};

impl Job {
    /// More units may follow: its program has not come to its end.
    pub(crate) fn grows(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.is_open)
    }

    /// Each unit is done or has failed, and no more follow.
    pub(crate) fn is_decided(&self) -> bool {
        !self.grows() && self.units.coverage().is_decided()
    }

    /// How many times faster the next units go than those that were measured lately, as their program says.
    pub(crate) fn ease(&self) -> f64 {
        match &self.growth {
            Some(growth) if growth.measured_cost > 0.0 => {
                growth.measured_cost / growth.cost(self.units.coverage().cursor())
            }
            _ => 1.0,
        }
    }

    /// Its units become more, as a record says.
    pub(crate) fn grow(&mut self, chunks: &[GrownChunk], state: &str, end: bool) -> Result<(), String> {
        let id = self.facts.job.0;
        let Some(growth) = self.growth.as_mut().filter(|growth| growth.is_open) else {
            return Err(format!("job {id} grows, and all of its units are known"));
        };
        let units =
            growth.units_with(chunks).ok_or_else(|| format!("job {id} has more units than can be"))?;
        growth.take(chunks, state, end);
        self.units.grow(units);
        self.facts.units = units;
        Ok(())
    }
}

/// What a job's program is to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The job's specification.
    pub spec: ContentHash,
    /// So many units, at most.
    pub next: u32,
    /// What the program said last, as JSON.
    pub state: String,
    /// Units that it has named.
    pub units: u128,
}

impl Farm {
    /// Jobs that want more units of their programs now, in the order of jq.
    pub fn wishing(&self) -> Vec<JobId> {
        self.jobs.queued().filter(|job| self.wants(job).is_some()).map(|job| job.facts.job).collect()
    }

    /// There is such a job, whether it wants any now or not.
    pub fn has_growing(&self) -> bool {
        self.jobs.queued().any(Job::grows)
    }

    /// Job `id` is given out, and more units of it may follow.
    pub fn is_growing(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| job.active() && job.grows())
    }

    /// What the program of job `id` is to be asked now; none where its units do for a while, or nobody wants them.
    pub fn wish(&self, id: JobId) -> Option<Wish> {
        let job = self.jobs.get(id)?;
        let next = self.wants(job)?;
        let state = job.growth.as_ref().expect("what grows has a growth").state.clone();
        Some(Wish { spec: job.facts.spec, next, state, units: job.facts.units })
    }

    /// How many units more `job` should have: few enough to be forgotten, and enough for the nodes to hold ahead what they
    /// hold of any job.
    fn wants(&self, job: &Job) -> Option<u32> {
        if !job.active() || !job.grows() {
            return None;
        }
        let slots = self.nodes.live_slots() as f64;
        let ahead = match job.facts.sizing {
            Sizing::Units(units) => (units as f64) * slots * BACKLOG_TASKS as f64,
            Sizing::TargetUs(target_us) => {
                let us = BACKLOG_US.max(target_us.saturating_mul(BACKLOG_TASKS));
                job.rates.standard() * job.ease() * slots * us as f64 / 1e6
            }
        };
        let backlog = (ahead as u128).clamp(BACKLOG_UNITS_MIN, BACKLOG_UNITS_MAX);
        let has = job.pending();
        let lacks = backlog.saturating_sub(has).max(BACKLOG_UNITS_MIN).min(BATCH_UNITS_MAX.into());
        (has < backlog / 2).then_some(lacks as u32)
    }

    /// The program of a job has named units behind the first `from`; false where the job does not want them, or not there
    /// any more: then they do not count.
    pub fn grow(
        &mut self,
        id: JobId,
        from: u128,
        (chunks, state, end): (Vec<GrownChunk>, String, bool),
        now_us: u64,
        deeds: &mut Deeds,
    ) -> bool {
        let grows = |job: &&Job| job.grows() && job.facts.units == from;
        let Some(job) = self.jobs.unfinished(id).filter(grows) else { return false };
        let growth = job.growth.as_ref().expect("what grows has a growth");
        if growth.units_with(&chunks).is_none() {
            return false;
        }
        if chunks.is_empty() && !end && growth.state == state {
            // It may say so every second.
            return true;
        }
        self.commit(Record::Grown { job: id, chunks, state, end }, deeds);
        self.work_came();
        self.end_if_over(id, now_us, deeds);
        true
    }

    /// The program of a job did what it must not, in words as of [`HoldReason::Decomposer`]: the job waits for a person.
    pub fn stop_growing(&mut self, id: JobId, why: String, deeds: &mut Deeds) {
        if self.is_growing(id) {
            self.set_state(id, JobState::Paused, Some(HoldReason::Decomposer(why)), deeds);
            self.revoke(id, Cancel::Graceful);
        }
    }

    /// The content that has the value of a unit; none where no program named it.
    pub fn locate(&self, id: JobId, unit: u128) -> Option<Located> {
        let growth = self.jobs.get(id)?.growth.as_ref()?;
        let at = growth.chunk_of(unit)?;
        let GrownChunk { hash, units, .. } = growth.chunks[at];
        Some(Located { hash, first: growth.ends[at] - u128::from(units), units })
    }

    /// The contents that have the values of units which programs named.
    pub fn grown_contents(&self) -> impl Iterator<Item = ContentHash> + '_ {
        let chunks = self.jobs.iter().filter_map(|job| job.growth.as_ref()).flat_map(|growth| &growth.chunks);
        chunks.map(|chunk| chunk.hash)
    }
}
