//! The journal thread: makes records durable and says so. Whatever has come in while the disk was busy is one
//! commit: one write, one sync. Contents that a record names are durable before it, outputs of commands are
//! written after it, for a replay gives them again. A write or sync that fails stops the process: what was
//! promised could not be kept, and going on would be to lie.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use starfarm_net::say;
use starfarm_scheduler_core::{Record, Trace};

use super::checkpoint::{LookUp, Snapshot};
use super::{House, Input, stop_gone, stop_if_gone, stop_with};
use crate::store::arrivals;
use crate::store::blobs::Blobs;
use crate::store::disk::Ballast;
use crate::store::journal::Journal;
use crate::store::outputs::OutputStore;
use crate::store::unnamed::UNNAMED_KEPT;

/// Records of one commit at most: a commit stays short.
const COMMIT_RECORDS: usize = 65_536;
/// Under load commits begin at least this far apart: more would only cost more.
const COMMIT_PERIOD: Duration = Duration::from_millis(2);

/// Units of which it is asked who computed them, at most at one time.
const TRACES_MAX: usize = 1_024;

/// How often the disk's free room is looked at.
const TEND_PERIOD: Duration = Duration::from_secs(1);

/// What the thread is given, in this order.
pub(crate) enum ToJournal {
    Records(Vec<(u64, Record)>),
    /// A state that holds all records before it.
    Snapshot(Snapshot),
    /// To be answered by the records before it.
    LookUp(LookUp),
}

/// What is done in one commit, and behind it.
#[derive(Default)]
struct Taken {
    batches: Vec<Vec<(u64, Record)>>,
    /// Records in these.
    count: usize,
    snapshot: Option<Snapshot>,
    lookups: Vec<LookUp>,
}

pub(crate) struct JournalThread {
    pub(crate) journal: Journal,
    pub(crate) ballast: Ballast,
    pub(crate) house: Arc<House>,
    pub(crate) inputs: Receiver<ToJournal>,
    pub(crate) dispatcher: Sender<Input>,
    pub(crate) snapshots: Sender<Snapshot>,
    pub(crate) lookups: Sender<LookUp>,
}

impl JournalThread {
    /// Runs until the dispatcher is gone.
    pub(crate) fn run(mut self) {
        // Off for measuring: then everything counts as durable at once.
        let keeps = !self.house.options.no_journal;
        // A checkpoint is due after so many records, or so much time with any.
        let checkpoint_records = self.house.options.checkpoint_records;
        let checkpoint_period = Duration::from_secs(self.house.options.checkpoint_seconds);
        let mut body = Vec::new();
        let (mut since, mut asked, mut last_asked) = (0, false, Instant::now());
        let (mut marked, mut tend) = (true, Instant::now() + TEND_PERIOD);
        loop {
            let first = match self.inputs.recv_timeout(checkpoint_period.min(TEND_PERIOD)) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.has_blobs(),
            };
            let begun = Instant::now();
            if keeps && begun >= tend {
                tend = begun + TEND_PERIOD;
                self.tend();
            }
            let Taken { batches, count, snapshot, lookups } = self.take(first);
            if count > 0 && keeps {
                self.commit(&batches, &mut body);
                (since, marked) = (since + count as u64, false);
            } else if let Some((last, _)) = batches.last().and_then(|batch| batch.last()) {
                self.confirm(*last);
            }
            for lookup in lookups {
                // Hits of which it is asked who left them out may be too many: then the next start asks again. All else is
                // waited for.
                let may_wait = matches!(lookup, LookUp::Trace(Trace::Missed { .. }));
                if !may_wait || self.lookups.len() < TRACES_MAX {
                    let _ = self.lookups.send(lookup);
                }
            }
            if let Some(snapshot) = snapshot {
                (asked, since) = (false, 0);
                // Where the last one is still being saved, this one is not needed.
                drop(self.snapshots.try_send(snapshot));
            }
            let due = since >= checkpoint_records || (since > 0 && last_asked.elapsed() >= checkpoint_period);
            if due && !asked {
                // Not waited for: a dispatcher that waits for room here would never take it. Where there is no
                // room, it is asked again after the next commit.
                asked = self.dispatcher.try_send(Input::Snapshot).is_ok();
                if asked {
                    last_asked = Instant::now();
                }
            }
            if self.inputs.is_empty() {
                if !marked {
                    marked = true;
                    let outcome = self.journal.mark();
                    self.done(outcome);
                }
            } else {
                std::thread::sleep(COMMIT_PERIOD.saturating_sub(begun.elapsed()));
            }
        }
    }

    /// What has come in, up to what one commit may hold. Nothing behind a snapshot is taken.
    fn take(&self, first: Option<ToJournal>) -> Taken {
        let (mut taken, mut next) = (Taken::default(), first);
        while let Some(input) = next {
            match input {
                ToJournal::Records(records) => {
                    taken.count += records.len();
                    taken.batches.push(records);
                }
                ToJournal::Snapshot(snapshot) => {
                    taken.snapshot = Some(snapshot);
                    break;
                }
                ToJournal::LookUp(lookup) => taken.lookups.push(lookup),
            }
            next = if taken.count < COMMIT_RECORDS { self.inputs.try_recv().ok() } else { None };
        }
        taken
    }

    fn tend(&self) {
        stop_if_gone(&self.house.state);
        if !self.journal.is_there() {
            stop_gone("the journal in", &self.house.state);
        }
        self.has_blobs();
        self.remove_unnamed();
        self.house.count_stored();
        // A disk that cannot even be asked will fail the next commit, and that is said.
        let _ = self.ballast.tend();
        let lack = self.house.low_water.lack_of_all();
        if self.house.shared.no_room.swap(lack.is_some(), Ordering::Relaxed) != lack.is_some() {
            say(&match lack {
                Some(lack) => format!("{lack}; searches go on"),
                None => "the disk has room again: programs are started".to_owned(),
            });
        }
    }

    /// Contents go where the next start finds them, or the process ends: the journal has only their hashes.
    fn has_blobs(&self) {
        let blobs = self.house.blobs.lock().expect("a panic under the lock ends the process");
        if let Err(why) = blobs.is_in_place() {
            stop_if_gone(&self.house.state);
            stop_with(&why.to_string());
        }
    }

    fn commit(&mut self, batches: &[Vec<(u64, Record)>], body: &mut Vec<u8>) {
        let mut names_contents = false;
        for (sequence, record) in batches.iter().flatten() {
            body.clear();
            record.encode(body);
            names_contents |= match record {
                Record::Submitted(_) | Record::Grown { .. } => true,
                Record::Ran { units, .. } => {
                    units.iter().any(|(_, unit)| unit.outputs.uploaded().next().is_some())
                }
                _ => false,
            };
            let outcome = self.journal.append(self.house.state.farm.epoch.0, *sequence, record.kind(), body);
            self.done(outcome);
        }
        if names_contents {
            self.name(batches);
            self.has_blobs();
            let file = self.house.blobs.lock().expect("a panic under the lock ends the process").unsynced();
            self.done(file.map_or(Ok(()), |file| file.sync_data()));
        }
        let committed = self.journal.commit();
        let durable = self.done(committed);
        for (sequence, record) in batches.iter().flatten() {
            if OutputStore::heeds(record) {
                let mut outputs = self.house.outputs.lock().expect("a panic under the lock ends the process");
                let written = outputs.take(*sequence, record);
                drop(outputs);
                self.done(written);
            }
        }
        self.tell_stored(batches);
        self.confirm(durable);
    }

    /// Jobs whose results came store more.
    fn tell_stored(&self, batches: &[Vec<(u64, Record)>]) {
        let ran = |(_, record): &(u64, Record)| match record {
            Record::Ran { job, .. } => Some(*job),
            _ => None,
        };
        let jobs: BTreeSet<_> = batches.iter().flatten().filter_map(ran).collect();
        if !jobs.is_empty() {
            self.house.tell_stored(jobs);
            self.house.count_stored();
        }
    }

    /// What results name belongs to something from now on.
    fn name(&self, batches: &[Vec<(u64, Record)>]) {
        let mut unnamed = self.house.unnamed.lock().expect("a panic under the lock ends the process");
        let mut blobs = self.house.blobs.lock().expect("a panic under the lock ends the process");
        for (_, record) in batches.iter().flatten() {
            let Record::Ran { job, node, units, .. } = record else { continue };
            for (hash, _) in units.iter().flat_map(|(_, unit)| unit.outputs.uploaded()) {
                unnamed.forget(&hash);
                self.done(blobs.name(*job, &hash));
                blobs.names.follow(hash, *node);
            }
        }
    }

    /// Contents that no result has named for long give their room back.
    fn remove_unnamed(&self) {
        let now = Instant::now();
        self.house.transfers.lock().expect("a panic under the lock ends the process").drop_old(now);
        self.house.blobs.lock().expect("a panic under the lock ends the process").names.drop_old(now);
        if self.done(arrivals::remove_old(self.house.arrivals(), (now, UNNAMED_KEPT))) {
            self.done(Blobs::give_room_back(&self.house.blobs));
        }
    }

    /// Tells the dispatcher. It is not waited for: one whose channel is full looks by itself.
    fn confirm(&self, durable: u64) {
        self.house.shared.set_durable(durable);
        let _ = self.dispatcher.try_send(Input::Durable);
    }

    /// The value, or the end of the process.
    fn done<T>(&self, outcome: std::io::Result<T>) -> T {
        outcome.unwrap_or_else(|error| {
            let _ = self.ballast.throw_off();
            stop_if_gone(&self.house.state);
            stop_with(&format!(
                "the state directory cannot be written: {error}. Nothing that was acknowledged is lost. Make room, \
                 or repair the disk, then start the scheduler again with the same --state"
            ))
        })
    }
}
