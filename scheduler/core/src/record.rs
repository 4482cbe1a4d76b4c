//! Records: how a change becomes durable, and how the durable changes become a farm again. Live, a stage
//! changes the state and hands the record on; after a restart the same changes are applied from the records
//! alone. What is not in a record (who holds which task, what is in gq) is found out anew.

use starfarm_protocol::ids::{Attempt, JobId};
pub use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{Ended, NodeMark};

use crate::coverage::{Class, Piece};
use crate::deed::{Deed, Deeds};
use crate::farm::{Farm, Noted};
use crate::job::{FailedUnit, Job, JobState};
use crate::limits::CONFLICTS_KEPT;
use crate::node::Node;
use crate::rating::Rating;
use crate::task::NodeId;

/// Done intervals of one message of results: one record.
#[derive(Debug)]
pub(crate) struct Gathered {
    job: JobId,
    node: NodeId,
    pieces: Vec<(u128, u128)>,
    hits: Vec<(u128, u32)>,
}

impl Farm {
    /// Hands a record on; its sequence comes back. What was gathered goes before it.
    pub(crate) fn record(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        self.flush_done(deeds);
        self.push_record(record, deeds)
    }

    fn push_record(&mut self, record: Record, deeds: &mut Deeds) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        deeds.0.push(Deed::Record(sequence, record));
        sequence
    }

    /// Intervals that a result decided and its new hits wait for the next record.
    pub(crate) fn gather_done(
        &mut self,
        (job, node): (JobId, NodeId),
        pieces: &[Piece],
        hits: Vec<(u128, u32)>,
        deeds: &mut Deeds,
    ) {
        if self.gathered.as_ref().is_some_and(|gathered| (gathered.job, gathered.node) != (job, node)) {
            self.flush_done(deeds);
        }
        let empty = || Gathered { job, node, pieces: Vec::new(), hits: Vec::new() };
        let gathered = self.gathered.get_or_insert_with(empty);
        for piece in pieces {
            match gathered.pieces.last_mut() {
                Some((_, hi)) if *hi == piece.lo => *hi = piece.hi,
                _ => gathered.pieces.push((piece.lo, piece.hi)),
            }
        }
        gathered.hits.extend(hits);
    }

    /// What was gathered becomes a record.
    pub(crate) fn flush_done(&mut self, deeds: &mut Deeds) {
        if let Some(Gathered { job, node, pieces, hits }) = self.gathered.take() {
            self.push_record(Record::Done { job, node, pieces, hits }, deeds);
        }
    }

    /// Notes the counters of jobs that run, so that a certificate knows them but for a period's worth.
    pub(crate) fn record_totals(&mut self, deeds: &mut Deeds) {
        let running = |job: &&Job| job.state == JobState::Running && job.totals != job.noted;
        let noted: Vec<_> = self
            .jq
            .iter()
            .filter_map(|id| self.jobs.get(id))
            .filter(running)
            .map(|job| (job.facts.job, job.totals))
            .collect();
        for (job, totals) in noted {
            self.record(Record::Totals { job, totals }, deeds);
            if let Some(job) = self.jobs.get_mut(&job) {
                job.noted = totals;
            }
        }
    }

    /// Applies a record of an earlier scheduler.
    ///
    /// # Errors
    /// It does not fit those before it: it is not of this farm, or a bug wrote it.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Epoch { .. } => {}
            &Record::Periods { lost_us, period_us } => self.noted = Noted { lost_us, period_us },
            Record::Submitted(facts) => {
                let job = facts.job;
                self.next_job = self.next_job.max(job.0 + 1);
                if self.jobs.insert(job, Job::new(facts.clone())).is_some() {
                    return Err(format!("job {} is submitted twice", job.0));
                }
                self.jq.push_back(job);
            }
            Record::State { job, state, why } => self.known(*job)?.take_state(*state, why),
            Record::Moved { job, place } => {
                self.known(*job)?;
                self.jq.retain(|other| other != job);
                self.jq.insert((*place as usize).min(self.jq.len()), *job);
            }
            Record::Leased { job, mark } => {
                let job = self.known(*job)?;
                if *mark > job.facts.units {
                    return Err(format!("units are leased up to {mark} of {}", job.facts.units));
                }
                if *mark > job.coverage.cursor() {
                    job.coverage.cut(*mark, Class::Pending);
                }
                job.lease.mark = job.lease.mark.max(*mark);
                job.lease.durable = job.lease.mark;
            }
            Record::Done { .. } | Record::Ran { .. } | Record::Failed { .. } | Record::FailedAlike { .. } => {
                self.apply_decided(record)?
            }
            Record::Tried { job, unit, attempt, node } => {
                let job = self.known(*job)?;
                job.deaths.remove(*unit, unit + 1);
                job.failures.insert(*unit, (*attempt, *node));
            }
            Record::Died { job, unit, node, boot } => {
                self.known(*job)?.deaths.insert(*unit, (*node, *boot));
                if let Some(node) = self.nodes.get_mut(node) {
                    node.charged.push((*job, *unit, *boot));
                }
            }
            Record::Pardoned { node, boot } => self.pardon(*node, *boot),
            Record::Retried { job, units } => self.apply_retried(*job, units)?,
            Record::Ended(Ended { job, state, totals, .. }) => {
                self.known(*job)?.take_end(*state, *totals);
                self.jq.retain(|other| other != job);
            }
            Record::Deleted { job } => {
                self.known(*job)?;
                self.jobs.remove(job);
            }
            Record::Conflict { job, lo, hi, node } => {
                let job = self.known(*job)?;
                job.totals.conflicts += 1;
                if job.conflicts.len() < CONFLICTS_KEPT {
                    job.conflicts.push((*lo, *hi, *node));
                }
            }
            Record::Node { .. } | Record::Joined { .. } | Record::Mark { .. } | Record::Rating { .. } => {
                self.apply_node(record)?
            }
            Record::Rates { .. } | Record::Totals { .. } | Record::Given { .. } => {
                self.apply_known(record)?
            }
        }
        Ok(())
    }

    /// Units are done, or failed for good.
    fn apply_decided(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Done { job, pieces, hits, .. } => {
                let job = self.known(*job)?;
                for &(lo, hi) in pieces {
                    decide(job, lo, hi, Class::Done)?;
                }
                for &(unit, target) in hits {
                    job.add_hit(unit, target);
                }
            }
            Record::Ran { job, node, units, .. } => {
                let job = self.known(*job)?;
                for (unit, outcome) in units {
                    match outcome.failed {
                        None => decide(job, *unit, unit + 1, Class::Done)?,
                        Some(reason) => {
                            decide(job, *unit, unit + 1, Class::Failed)?;
                            let (code, node) = (Some(outcome.code), Some(*node));
                            job.failed.insert(*unit, unit + 1, FailedUnit { reason, code, node });
                        }
                    }
                }
            }
            Record::Failed { job, unit, failed } => {
                let job = self.known(*job)?;
                decide(job, *unit, unit + 1, Class::Failed)?;
                job.failed.insert(*unit, unit + 1, *failed);
            }
            Record::FailedAlike { job, units, failed } => {
                let job = self.known(*job)?;
                for &(lo, hi) in units {
                    decide(job, lo, hi, Class::Failed)?;
                    job.failed.insert(lo, hi, *failed);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What only checkpoints say.
    fn apply_known(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Rates { job, mean, nodes } => {
                let job = self.known(*job)?;
                job.mean_rate = *mean;
                for &(node, units_per_s, largest) in nodes {
                    job.rates.insert(node, crate::job::Rate { units_per_s, largest });
                }
            }
            Record::Totals { job, totals } => self.known(*job)?.totals = *totals,
            Record::Given { job, node } => {
                self.next_job = self.next_job.max(job.0 + 1);
                self.next_node = self.next_node.max(node.0.wrapping_add(1));
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_retried(&mut self, id: JobId, units: &[(u128, u128)]) -> Result<(), String> {
        // What was given out by an earlier scheduler may have failed before these units were wanted again.
        let before = Attempt(self.next_attempt);
        let job = self.known(id)?;
        let had_ended = job.state.ended();
        job.reopen(units, &mut Vec::new());
        units.iter().for_each(|&(lo, hi)| job.reopened.insert(lo, hi, before));
        if had_ended {
            self.jq.push_back(id);
        }
        Ok(())
    }

    fn apply_node(&mut self, record: &Record) -> Result<(), String> {
        let period_us = self.noted.period_us;
        let (Record::Node { node: id, .. }
        | Record::Joined { node: id, .. }
        | Record::Mark { node: id, .. }
        | Record::Rating { node: id, .. }) = record
        else {
            return Ok(());
        };
        if let Record::Node { name, boot, .. } = record {
            self.next_node = self.next_node.max(id.0.wrapping_add(1));
            let node = self.nodes.entry(*id).or_insert_with(|| Node::new(name.as_str().into(), 0));
            node.boot = Some(*boot);
            (node.lost, node.revoked) = (false, false);
            self.forget_acquitted(*id);
            return Ok(());
        }
        // A node that was forgotten may be heard once more before it notices.
        let Some(node) = self.nodes.get_mut(id) else { return Ok(()) };
        match record {
            Record::Mark { mark, .. } => match mark {
                NodeMark::Gone => node.lost = true,
                NodeMark::Left | NodeMark::Revoked => {
                    node.lost = true;
                    node.left = node.boot.take().or(node.left);
                    node.revoked = *mark == NodeMark::Revoked;
                }
                NodeMark::Back => node.lost = false,
                NodeMark::Drained => node.drained = true,
                NodeMark::Resumed => {
                    (node.drained, node.distrusted) = (false, None);
                    node.rise();
                }
                NodeMark::Distrusted => node.distrust("its results differ from those of others"),
                NodeMark::Forgotten => drop(self.nodes.remove(id)),
            },
            Record::Joined { slots, at_us, .. } => (node.slots, node.joined_us) = (*slots, *at_us),
            Record::Rating { started_us, period, periods, .. } => {
                node.rating = Rating::restore(*started_us, (*period, period_us), periods);
            }
            _ => {}
        }
        Ok(())
    }

    fn known(&mut self, job: JobId) -> Result<&mut Job, String> {
        self.jobs.get_mut(&job).ok_or_else(|| format!("job {} was never submitted", job.0))
    }
}

/// Units that no record decided before are decided.
fn decide(job: &mut Job, lo: u128, hi: u128, to: Class) -> Result<(), String> {
    let mut pieces = Vec::new();
    job.decide(lo, hi, to, &mut pieces);
    let changed: u128 = pieces.iter().map(|piece| piece.hi - piece.lo).sum();
    if changed != hi - lo {
        return Err(format!("[{lo}, {hi}) of job {} is decided twice, or was never leased", job.facts.job.0));
    }
    job.acquit(lo, hi);
    Ok(())
}
