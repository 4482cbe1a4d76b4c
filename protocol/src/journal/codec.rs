//! Records as bytes and back. The layout of each kind is in `docs/journal.md`; changes are new kinds.

use super::record::{Ended, JobTotals, NodeMark, Record};
use crate::bytes::{Malformed, Reader, put, put_intervals, put_near, put_text};
use crate::ids::{Attempt, Boot, ContentHash, Epoch, JobId, NodeId};
use crate::job::{Body, FailedUnit, JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use crate::spec::Stop;
use crate::wire::{CommandUnit, FailReason};

impl Record {
    /// Its kind's number.
    pub fn kind(&self) -> u8 {
        match self {
            Record::Epoch { .. } => 1,
            Record::Submitted(_) => 2,
            Record::State { .. } => 3,
            Record::Moved { .. } => 4,
            Record::Leased { .. } => 5,
            Record::Done { .. } => 6,
            Record::Ran { .. } => 7,
            Record::Tried { .. } => 8,
            Record::Died { .. } => 9,
            Record::Pardoned { .. } => 10,
            Record::Failed { .. } => 11,
            Record::Retried { .. } => 12,
            Record::Ended(_) => 13,
            Record::Deleted { .. } => 14,
            Record::Node { .. } => 15,
            Record::Mark { .. } => 16,
            Record::Conflict { .. } => 17,
            Record::Rating { .. } => 64,
            Record::Rates { .. } => 65,
            Record::Totals { .. } => 66,
            Record::Given { .. } => 67,
            Record::Joined { .. } => 68,
            Record::Periods { .. } => 69,
            Record::FailedAlike { .. } => 70,
        }
    }

    /// The job that it is about; none for one about a node or the farm.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Record::Submitted(facts) => Some(facts.job),
            Record::Ended(ended) => Some(ended.job),
            Record::State { job, .. }
            | Record::Moved { job, .. }
            | Record::Leased { job, .. }
            | Record::Done { job, .. }
            | Record::Ran { job, .. }
            | Record::Tried { job, .. }
            | Record::Died { job, .. }
            | Record::Failed { job, .. }
            | Record::FailedAlike { job, .. }
            | Record::Retried { job, .. }
            | Record::Deleted { job }
            | Record::Conflict { job, .. }
            | Record::Rates { job, .. }
            | Record::Totals { job, .. } => Some(*job),
            Record::Epoch { .. }
            | Record::Pardoned { .. }
            | Record::Node { .. }
            | Record::Mark { .. }
            | Record::Rating { .. }
            | Record::Given { .. }
            | Record::Joined { .. }
            | Record::Periods { .. } => None,
        }
    }

    /// Appends its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Epoch { epoch, at_us } => numbers(out, &[epoch.0, *at_us]),
            Record::Submitted(facts) => encode_facts(facts, out),
            Record::State { job, state, why } => {
                numbers(out, &[job.0, *state as u64]);
                put_text(out, &why.as_ref().map_or_else(String::new, |why| why.to_string()));
            }
            Record::Moved { job, place } => numbers(out, &[job.0, u64::from(*place)]),
            Record::Leased { job, mark } => {
                put(out, job.0.into());
                put(out, *mark);
            }
            Record::Done { job, node, pieces, hits } => {
                numbers(out, &[job.0, u64::from(node.0)]);
                put_intervals(out, pieces);
                put(out, hits.len() as u128);
                let mut near = pieces.first().map_or(0, |piece| piece.0);
                for &(unit, target) in hits {
                    put_near(out, unit, near);
                    put(out, target.into());
                    near = unit;
                }
            }
            Record::Ran { job, attempt, node, units } => encode_ran(*job, *attempt, *node, units, out),
            Record::Tried { job, unit, attempt, node } => {
                numbers(out, &[job.0, attempt.0, u64::from(node.0)]);
                put(out, *unit);
            }
            Record::Died { job, unit, node, boot } => {
                numbers(out, &[job.0, u64::from(node.0), boot.0]);
                put(out, *unit);
            }
            Record::Failed { job, unit, failed } => {
                put(out, job.0.into());
                put(out, *unit);
                encode_failed(failed, out);
            }
            Record::Retried { job, units } => {
                put(out, job.0.into());
                put_intervals(out, units);
            }
            Record::Ended(ended) => {
                numbers(out, &[ended.job.0, ended.state as u64]);
                put(out, ended.done);
                put(out, ended.failed);
                put_intervals(out, &ended.abandoned);
                encode_totals(&ended.totals, out);
            }
            Record::Deleted { job } => put(out, job.0.into()),
            other => other.encode_rest(out),
        }
    }

    /// Bodies of records about nodes, and of those in checkpoints alone.
    fn encode_rest(&self, out: &mut Vec<u8>) {
        match self {
            Record::Node { node, name, boot } => {
                numbers(out, &[u64::from(node.0), boot.0]);
                put_text(out, name);
            }
            Record::Mark { node, mark } => numbers(out, &[u64::from(node.0), *mark as u64]),
            Record::Conflict { job, lo, hi, node } => {
                numbers(out, &[job.0, u64::from(node.0)]);
                put_intervals(out, &[(*lo, *hi)]);
            }
            Record::Pardoned { node, boot } => numbers(out, &[u64::from(node.0), boot.0]),
            Record::Rating { node, started_us, period, periods } => {
                numbers(out, &[u64::from(node.0), *started_us, *period, periods.len() as u64]);
                periods.iter().for_each(|tasks| out.extend_from_slice(&tasks.to_le_bytes()));
            }
            Record::Rates { job, mean, nodes } => {
                put(out, job.0.into());
                out.extend_from_slice(&mean.to_le_bytes());
                put(out, nodes.len() as u128);
                for &(node, units_per_s, largest) in nodes {
                    numbers(out, &[u64::from(node.0), largest]);
                    out.extend_from_slice(&units_per_s.to_le_bytes());
                }
            }
            Record::Totals { job, totals } => {
                put(out, job.0.into());
                encode_totals(totals, out);
            }
            Record::Given { job, node } => numbers(out, &[job.0, u64::from(node.0)]),
            Record::Joined { node, slots, at_us } => {
                numbers(out, &[u64::from(node.0), u64::from(*slots), *at_us]);
            }
            Record::Periods { lost_us, period_us } => numbers(out, &[*lost_us, *period_us]),
            Record::FailedAlike { job, units, failed } => {
                put(out, job.0.into());
                put_intervals(out, units);
                encode_failed(failed, out);
            }
            _ => {}
        }
    }

    /// Reads the body of a record of `kind`, all of it.
    ///
    /// # Errors
    /// No such kind, or a body that is not one.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut body = Reader(body);
        let record = decode(kind, &mut body)?;
        if body.0.is_empty() { Ok(record) } else { Err(Malformed) }
    }
}

fn numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|&number| put(out, number.into()));
}

fn encode_facts(facts: &JobFacts, out: &mut Vec<u8>) {
    put(out, facts.job.0.into());
    out.extend_from_slice(&facts.spec.0);
    put_text(out, &facts.name);
    put_text(out, &facts.user);
    put(out, facts.units);
    match facts.work.body {
        Body::Nothing => out.push(0),
        Body::Hits { stop, targets } => {
            let stop = match stop {
                Stop::Never => 0,
                Stop::FirstHit => 1,
                Stop::AllTargets => 2,
            };
            numbers(out, &[1, stop, u64::from(targets)]);
        }
        Body::Outcomes { retries } => numbers(out, &[2, u64::from(retries)]),
    }
    match facts.sizing {
        Sizing::TargetUs(target_us) => numbers(out, &[0, target_us]),
        Sizing::Units(units) => numbers(out, &[1, units]),
    }
    match facts.max_failures {
        MaxFailures::Usual => out.push(0),
        MaxFailures::Never => out.push(1),
        MaxFailures::Units(units) => numbers(out, &[2, units]),
    }
    numbers(out, &[u64::from(facts.speculative), facts.at_us]);
}

fn encode_ran(job: JobId, attempt: Attempt, node: NodeId, units: &[(u128, CommandUnit)], out: &mut Vec<u8>) {
    numbers(out, &[job.0, attempt.0, u64::from(node.0), units.len() as u64]);
    let (mut near, mut bytes) = (0, Vec::new());
    for (unit, outcome) in units {
        put_near(out, *unit, near);
        near = *unit;
        bytes.clear();
        outcome.write(&mut bytes);
        put(out, bytes.len() as u128);
        out.extend_from_slice(&bytes);
    }
}

fn encode_failed(failed: &FailedUnit, out: &mut Vec<u8>) {
    out.push(failed.reason as u8);
    put(out, failed.code.map_or(0, |code| u128::from(code.cast_unsigned()) + 1));
    put(out, failed.node.map_or(0, |node| u128::from(node.0) + 1));
}

fn encode_totals(totals: &JobTotals, out: &mut Vec<u8>) {
    let time = |at_us: Option<u64>| at_us.map_or(0, |at_us| at_us.saturating_add(1));
    put(out, totals.decomposed_units);
    put(out, totals.duplicate_units);
    numbers(
        out,
        &[
            totals.decomposed,
            totals.dispatched,
            totals.resent,
            totals.copies,
            totals.conflicts,
            totals.submitted_us,
            time(totals.started_us),
            time(totals.ended_us),
        ],
    );
}

fn decode(kind: u8, body: &mut Reader<'_>) -> Result<Record, Malformed> {
    Ok(match kind {
        1 => Record::Epoch { epoch: Epoch(body.small()?), at_us: body.small()? },
        2 => Record::Submitted(facts(body)?),
        3 => {
            let (job, state, why) = (job(body)?, state(body)?, body.text()?);
            Record::State { job, state, why: (!why.is_empty()).then(|| why.into()) }
        }
        4 => Record::Moved { job: job(body)?, place: body.small()? },
        5 => Record::Leased { job: job(body)?, mark: body.number()? },
        6 => done(body)?,
        7 => ran(body)?,
        8 => {
            let (job, attempt, node) = (job(body)?, Attempt(body.small()?), node(body)?);
            Record::Tried { job, unit: body.number()?, attempt, node }
        }
        9 => {
            let (job, node, boot) = (job(body)?, node(body)?, Boot(body.small()?));
            Record::Died { job, unit: body.number()?, node, boot }
        }
        10 => Record::Pardoned { node: node(body)?, boot: Boot(body.small()?) },
        11 => Record::Failed { job: job(body)?, unit: body.number()?, failed: failed(body)? },
        12 => Record::Retried { job: job(body)?, units: body.intervals()? },
        13 => Record::Ended(Ended {
            job: job(body)?,
            state: state(body)?,
            done: body.number()?,
            failed: body.number()?,
            abandoned: body.intervals()?,
            totals: totals(body)?,
        }),
        14 => Record::Deleted { job: job(body)? },
        15 => {
            let (node, boot) = (node(body)?, Boot(body.small()?));
            Record::Node { node, name: body.text()?, boot }
        }
        16 => {
            let (node, mark) = (node(body)?, body.small::<usize>()?);
            Record::Mark { node, mark: *NodeMark::ALL.get(mark).ok_or(Malformed)? }
        }
        17 => {
            let (job, node) = (job(body)?, node(body)?);
            let [(lo, hi)] = body.intervals()?[..] else { return Err(Malformed) };
            Record::Conflict { job, lo, hi, node }
        }
        64 => {
            let (node, started_us, period) = (node(body)?, body.small()?, body.small()?);
            let periods = body.list(|body| Ok(f32::from_le_bytes(body.array()?)))?;
            Record::Rating { node, started_us, period, periods }
        }
        65 => {
            let (job, mean) = (job(body)?, f64::from_le_bytes(body.array()?));
            let nodes = body.list(|body| {
                let (node, largest) = (node(body)?, body.small()?);
                Ok((node, f64::from_le_bytes(body.array()?), largest))
            })?;
            Record::Rates { job, mean, nodes }
        }
        66 => Record::Totals { job: job(body)?, totals: totals(body)? },
        67 => Record::Given { job: job(body)?, node: node(body)? },
        68 => Record::Joined { node: node(body)?, slots: body.small()?, at_us: body.small()? },
        69 => Record::Periods { lost_us: body.small()?, period_us: body.small()? },
        70 => Record::FailedAlike { job: job(body)?, units: body.intervals()?, failed: failed(body)? },
        _ => return Err(Malformed),
    })
}

fn job(body: &mut Reader<'_>) -> Result<JobId, Malformed> {
    body.small().map(JobId)
}

fn node(body: &mut Reader<'_>) -> Result<NodeId, Malformed> {
    body.small().map(NodeId)
}

fn state(body: &mut Reader<'_>) -> Result<JobState, Malformed> {
    JobState::from_number(body.small()?).ok_or(Malformed)
}

fn facts(body: &mut Reader<'_>) -> Result<JobFacts, Malformed> {
    Ok(JobFacts {
        job: job(body)?,
        spec: ContentHash(body.array()?),
        name: body.text()?,
        user: body.text()?,
        units: body.number()?,
        work: match body.small()? {
            0_u8 => WorkFacts::NOTHING,
            1 => {
                let stop = match body.small()? {
                    0_u8 => Stop::Never,
                    1 => Stop::FirstHit,
                    2 => Stop::AllTargets,
                    _ => return Err(Malformed),
                };
                WorkFacts::search(stop, body.small()?)
            }
            2 => WorkFacts::command(body.small()?),
            _ => return Err(Malformed),
        },
        sizing: match body.small()? {
            0_u8 => Sizing::TargetUs(body.small()?),
            1 => Sizing::Units(body.small()?),
            _ => return Err(Malformed),
        },
        max_failures: match body.small()? {
            0_u8 => MaxFailures::Usual,
            1 => MaxFailures::Never,
            2 => MaxFailures::Units(body.small()?),
            _ => return Err(Malformed),
        },
        speculative: body.small::<u8>()? != 0,
        at_us: body.small()?,
    })
}

fn done(body: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (job, node, pieces) = (job(body)?, node(body)?, body.intervals()?);
    let mut near = pieces.first().map_or(0, |piece| piece.0);
    let hits = body.list(|body| {
        near = body.near(near)?;
        Ok((near, body.small()?))
    })?;
    Ok(Record::Done { job, node, pieces, hits })
}

fn ran(body: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (job, attempt, node) = (job(body)?, Attempt(body.small()?), node(body)?);
    let mut near = 0;
    let units = body.list(|body| {
        near = body.near(near)?;
        let length = body.small()?;
        let outcome = CommandUnit::read_all(body.bytes(length)?)?.pop().ok_or(Malformed)?;
        Ok((near, outcome))
    })?;
    Ok(Record::Ran { job, attempt, node, units })
}

fn failed(body: &mut Reader<'_>) -> Result<FailedUnit, Malformed> {
    let reason = FailReason::from_number(body.small()?).ok_or(Malformed)?;
    let one_less = |number: u64| number.checked_sub(1).map(|number| number as u32);
    let code = one_less(body.small()?).map(u32::cast_signed);
    let node = one_less(body.small()?).map(NodeId);
    Ok(FailedUnit { reason, code, node })
}

fn totals(body: &mut Reader<'_>) -> Result<JobTotals, Malformed> {
    let time = |at_us: u64| at_us.checked_sub(1);
    let (decomposed_units, duplicate_units) = (body.number()?, body.number()?);
    Ok(JobTotals {
        decomposed_units,
        duplicate_units,
        decomposed: body.small()?,
        dispatched: body.small()?,
        resent: body.small()?,
        copies: body.small()?,
        conflicts: body.small()?,
        submitted_us: body.small()?,
        started_us: time(body.small()?),
        ended_us: time(body.small()?),
    })
}

#[cfg(test)]
mod tests;
