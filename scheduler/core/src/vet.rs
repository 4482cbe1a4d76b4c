//! Records from the disk, looked at before they are applied: numbers that no scheduler ever wrote are refused in words.
//! A record was whole when it was read, so one that fails here was written by a bug, or is of another farm.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::{Body, JobFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{GrownChunk, NOBODY};

use crate::farm::Farm;
use crate::job::Job;
use crate::limits::{NODE_NUMBERS_SKIPPED_MAX, RATING_PERIODS};

impl Farm {
    /// Whether a record of an earlier scheduler speaks of units, targets, nodes and times that can be.
    ///
    /// # Errors
    /// It does not; the sentence says what stands there.
    pub(crate) fn vet(&self, record: &Record) -> Result<(), String> {
        match record {
            Record::Submitted(facts) if self.plants_too_much(facts) => {
                Err(format!("job {} is submitted with planted answers that cannot be its own", facts.job.0))
            }
            Record::Node { node, .. } => self.vet_number(*node),
            // Of no node.
            Record::Given { node: NOBODY, .. } => Ok(()),
            Record::Given { node, .. } => self.vet_number(*node),
            Record::Periods { lost_us, period_us } if *lost_us == 0 || *period_us == 0 => {
                Err(format!("settings of {lost_us} and {period_us} us, and none can be 0"))
            }
            Record::Rating { node, started_us, period, periods } => {
                self.vet_rating(*node, *started_us, *period, periods)
            }
            _ => match record.job().and_then(|id| self.jobs.get(id)) {
                Some(job) => vet_units(job, record),
                None => Ok(()),
            },
        }
    }

    /// What was planted before this job cannot be in it.
    fn plants_too_much(&self, facts: &JobFacts) -> bool {
        let Some((_, checks)) = self.jobs.asked.as_ref().filter(|(id, _)| *id == facts.job) else {
            return false;
        };
        let is_beyond = |(unit, target): (&u128, &u32)| *unit >= facts.units || *target >= targets_of(facts);
        checks.planted.iter().any(is_beyond)
    }

    /// Numbers of nodes are given one after another; some are given to nodes that never say hello.
    fn vet_number(&self, node: NodeId) -> Result<(), String> {
        let next = self.nodes.next();
        if node.0 >= next.saturating_add(NODE_NUMBERS_SKIPPED_MAX) {
            return Err(format!("node {} cannot be: the next number is {next}", node.0));
        }
        Ok(())
    }

    fn vet_rating(&self, node: NodeId, started_us: u64, period: u64, periods: &[f32]) -> Result<(), String> {
        let ends_us = period.checked_mul(self.reconnect.noted.period_us);
        if ends_us.and_then(|us| us.checked_add(started_us)).is_none() {
            return Err(format!("node {} is rated in period {period}, which no clock reaches", node.0));
        }
        let is_none = |tasks: &f32| !tasks.is_finite() || *tasks < 0.0;
        if periods.len() > RATING_PERIODS || periods.iter().any(is_none) {
            return Err(format!("node {} has a rating that is none", node.0));
        }
        Ok(())
    }
}

/// Whether the units and targets that a record names are of its job.
fn vet_units(job: &Job, record: &Record) -> Result<(), String> {
    let (id, units) = (job.facts.job.0, job.facts.units);
    let one = |unit: u128| match unit < units {
        true => Ok(()),
        false => Err(format!("unit {unit} of job {id}, which ends at {units}")),
    };
    let all = |pieces: &[(u128, u128)]| match pieces.iter().find(|(_, hi)| *hi > units) {
        None => Ok(()),
        Some(&(lo, hi)) => Err(format!("{} of job {id}, which ends at {units}", Interval::new(lo, hi))),
    };
    match record {
        Record::Done { pieces, hits, .. } => {
            all(pieces)?;
            match hits.iter().find(|hit| job.checks.is_planted(hit.1)) {
                Some((_, target)) => Err(format!("a hit of target {target} of job {id}, which is planted")),
                None => hits.iter().try_for_each(|&hit| vet_hit(job, hit)),
            }
        }
        Record::HitsPaged { floor, targets, again, .. } => {
            vet_hit(job, *floor)?;
            all(again)?;
            match targets.iter().find(|(_, hi)| *hi > u128::from(targets_of(&job.facts))) {
                None => Ok(()),
                Some((lo, hi)) => {
                    Err(format!("targets {lo} to {hi} of job {id}, which has {}", targets_of(&job.facts)))
                }
            }
        }
        Record::TargetsHit { from, bits, .. } => {
            let from = u64::from(*from);
            let end = |last: usize| 8 * (from + last as u64 + 1) - u64::from(bits[last].leading_zeros());
            match bits.iter().rposition(|byte| *byte != 0).map_or(8 * from, end) {
                hi if hi <= u64::from(targets_of(&job.facts)) => Ok(()),
                hi => Err(format!("targets up to {hi} of job {id}, which has {}", targets_of(&job.facts))),
            }
        }
        Record::Ran { units, .. } => units.iter().try_for_each(|(unit, outcome)| match outcome.units {
            1 => one(*unit),
            // Those that fail together are run again in smaller tasks.
            _ if outcome.failed.is_some() => Err(format!("units from {unit} on of job {id} failed together")),
            units => all(&[(*unit, unit.saturating_add(units.into()))]),
        }),
        Record::Tried { unit, .. } | Record::Died { unit, .. } | Record::Failed { unit, .. } => one(*unit),
        Record::FailedAlike { units, .. } | Record::Retried { units, .. } | Record::Rerun { units, .. } => {
            all(units)
        }
        Record::Untrue { untrue, .. } => one(untrue.unit),
        Record::Doubtful { units, .. } => all(&[(0, *units)]),
        Record::Grown { chunks, .. } => {
            let is_one = |chunk: &GrownChunk| chunk.units > 0 && chunk.cost > 0;
            match chunks.iter().all(is_one) {
                true => Ok(()),
                false => {
                    Err(format!("job {id} grows by a content without units, or of units that cost nothing"))
                }
            }
        }
        Record::Ended(ended) => all(&ended.abandoned),
        Record::Conflict { lo, hi, .. } => all(&[(*lo, *hi)]),
        _ => Ok(()),
    }
}

fn vet_hit(job: &Job, (unit, target): (u128, u32)) -> Result<(), String> {
    let (id, units, targets) = (job.facts.job.0, job.facts.units, targets_of(&job.facts));
    if unit >= units {
        return Err(format!("a hit of unit {unit} of job {id}, which ends at {units}"));
    }
    match target < targets {
        true => Ok(()),
        false => Err(format!("a hit of target {target} of job {id}, which has {targets}")),
    }
}

fn targets_of(facts: &JobFacts) -> u32 {
    match facts.work.body {
        Body::Hits { targets, .. } => targets,
        _ => 0,
    }
}
