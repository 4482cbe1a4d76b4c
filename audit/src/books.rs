//! All records of a farm in the order of their sequence, each to the account of its job.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::journal::Record;
use starfarm_protocol::wire::FailReason;

use crate::account::{Account, Place};
use crate::owed::Owed;
use crate::report::{Report, Violations};
use crate::tiling::Class;
use crate::trust::Trust;

/// The books of a farm, kept anew from its records.
#[derive(Debug, Default)]
pub struct Books {
    accounts: BTreeMap<JobId, Account>,
    nodes: BTreeMap<NodeId, String>,
    epochs: Vec<u64>,
    /// Trust checks of the job that is submitted next.
    asked: Option<(JobId, Trust)>,
    /// The job that is submitted next, where it waits for others.
    waits: Option<JobId>,
    /// Jobs that have records and no submission; told once each.
    unknown: BTreeSet<JobId>,
    deleted: u64,
    records: u64,
    /// Where the last record stands. What the ledger has counts as if it ended with its last.
    pub(crate) last: Place,
    /// Where the last record stands that tells of work: a scheduler that just started writes others first.
    last_work: Place,
    violations: Violations,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
}

impl Books {
    /// Enters a record.
    pub fn enter(&mut self, place: Place, record: &Record) {
        self.records += 1;
        self.last = place;
        if tells_of_work(record) {
            self.last_work = place;
        }
        match record {
            Record::Epoch { epoch, .. } => {
                if let Some(&last) = self.epochs.last().filter(|&&last| last >= epoch.0) {
                    let what =
                        format!("epoch {} begins after epoch {last}: two schedulers wrote here", epoch.0);
                    self.violations.add(None, None, what);
                }
                self.epochs.push(epoch.0);
                (self.asked, self.waits) = (None, None);
            }
            Record::Node { node, name, .. } => drop(self.nodes.insert(*node, name.clone())),
            Record::Submitted(facts) => {
                let trust = self.asked.take().filter(|of| of.0 == facts.job).map(|of| of.1);
                let mut account = Account::open(facts.clone(), trust, self.epochs.len(), place);
                if self.waits.take() == Some(facts.job) {
                    account.set_state(JobState::Waiting);
                }
                if let Some(before) = self.accounts.insert(facts.job, account) {
                    self.violations.add(Some(facts.job), None, "it was submitted twice".to_owned());
                    self.violations.join(before.violations);
                }
            }
            Record::Deleted { job } => self.delete(*job),
            Record::Linked { job, terms } => self.waits = Some(*job).filter(|_| terms.waits()),
            Record::Trust { job, check, planted } => self.asked = Some((*job, Trust::new(*check, planted))),
            _ => self.enter_for_job(place, record),
        }
    }

    fn enter_for_job(&mut self, place: Place, record: &Record) {
        let Some(id) = record.job() else { return };
        let Some(account) = self.accounts.get_mut(&id) else {
            if self.unknown.insert(id) {
                let what =
                    format!("record {} is of it, and it was never submitted, or was deleted", place.sequence);
                self.violations.add(Some(id), None, what);
            }
            return;
        };
        match record {
            Record::Done { node, pieces, hits, .. } => {
                for &(lo, hi) in pieces {
                    account.count(lo, hi, Class::Done, Some(*node), place);
                }
                account.add_hits(hits);
            }
            Record::Ran { node, units, .. } => {
                for (unit, outcome) in units {
                    let hi = unit.saturating_add(outcome.units.into());
                    match outcome.failed {
                        None => account.count(*unit, hi, Class::Done, Some(*node), place),
                        Some(_) => account.count(*unit, hi, Class::Failed, None, place),
                    }
                    account.wrote((*unit, hi), &outcome.outputs, place);
                }
            }
            Record::Failed { unit, failed, .. } => {
                account.count(*unit, unit.saturating_add(1), Class::Failed, None, place);
                if failed.reason == FailReason::Poison {
                    account.wrote_nothing(*unit);
                }
            }
            Record::Leased { mark, .. } => account.lease(*mark),
            Record::Grown { chunks, end, .. } => account.grow(chunks, *end),
            Record::Retried { units, .. } => account.retry(units),
            Record::Rerun { units, .. } => account.rerun(units),
            Record::State { state, .. } => account.set_state(*state),
            Record::Conflict { .. } => account.add_conflict(),
            Record::Checked { units, .. } => account.checked(*units),
            Record::Untrue { .. } => account.add_untrue(),
            Record::Doubtful { units, .. } => account.add_doubtful(*units),
            Record::Ended(ended) => account.end(ended, self.epochs.len()),
            _ => {}
        }
    }

    fn delete(&mut self, id: JobId) {
        // The ledger may have dropped what a deleted job once had.
        let Some(mut account) = self.accounts.remove(&id) else { return };
        self.deleted += 1;
        if !account.has_ended() {
            self.violations.add(Some(id), None, "it was deleted before it had ended".to_owned());
        }
        account.close(&self.nodes, Place::default());
        self.violations.join(account.violations);
    }

    /// The searches that have hits, and their specifications.
    pub(crate) fn with_hits(&self) -> Vec<(JobId, ContentHash)> {
        self.accounts.values().filter_map(Account::with_hits).collect()
    }

    /// Each hit of a job must be one.
    pub(crate) fn check_hits(&mut self, job: JobId, is_hit: impl Fn(u128, u32) -> bool) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.check_hits(is_hit);
        }
    }

    /// The outputs that must be on the disk, by job.
    pub(crate) fn owed(&mut self) -> Vec<Owed> {
        self.accounts.values_mut().map(Account::owed).collect()
    }

    /// Something is wrong with the journal itself.
    pub fn wrong(&mut self, what: String) {
        self.violations.add(None, None, what);
    }

    /// The last epoch; 0 without one.
    pub(crate) fn epoch(&self) -> u64 {
        self.epochs.last().copied().unwrap_or(0)
    }

    /// No more records follow: what they come to. `farm` is the farm's identity.
    pub fn close(mut self, farm: &str) -> Report {
        let epoch = self.epoch();
        let mut jobs = Vec::with_capacity(self.accounts.len());
        for (id, mut account) in std::mem::take(&mut self.accounts) {
            account.close(&self.nodes, self.last_work);
            let known = self.violations.told.iter().any(|violation| violation.job == Some(id));
            let broken = known || !account.violations.is_empty();
            jobs.push(account.report(farm, &self.epochs, &self.nodes, broken));
            self.violations.join(account.violations);
        }
        if self.deleted > 0 {
            self.notes.push(format!("{} deleted jobs are in the records and not certified", self.deleted));
        }
        Report {
            farm: farm.to_owned(),
            holds: self.violations.is_empty(),
            records: self.records,
            last_sequence: self.last.sequence,
            epoch,
            jobs,
            violations: self.violations.told,
            violations_left_out: self.violations.untold,
            outputs: None,
            notes: self.notes,
        }
    }
}

fn tells_of_work(record: &Record) -> bool {
    !matches!(
        record,
        Record::Epoch { .. }
            | Record::Node { .. }
            | Record::Joined { .. }
            | Record::Periods { .. }
            | Record::Mark { .. }
            | Record::Pardoned { .. }
    )
}
