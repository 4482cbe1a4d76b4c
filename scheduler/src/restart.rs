//! A start: the checkpoint, then what the journal has beyond it, become the farm again; the epoch is raised
//! durably. Nothing is listened to before that.

use std::collections::HashSet;
use std::io;
use std::time::Instant;

use starfarm_protocol::bytes::{Malformed, Reader};
use starfarm_protocol::ids::{Epoch, JobId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::Frame;
use starfarm_scheduler_core::{Config, Farm, Restoring};

use crate::error::SchedulerError;
use crate::store::checkpoint::{Checkpoint, Opened, Saved};
use crate::store::journal::{self, Journal};
use crate::store::outputs::OutputStore;
use crate::store::state::StateDir;

pub(crate) struct Restarted {
    pub(crate) farm: Farm,
    pub(crate) journal: Journal,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) outputs: OutputStore,
}

/// What a person decided.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Decisions {
    /// Cut a damaged journal where it can still be read, and give up what lies behind; nothing is deleted
    #[arg(long)]
    pub salvage: bool,
    /// Go on from this directory although workers know a later epoch: it is a copy, and the newer one is gone
    #[arg(long)]
    pub take_over: bool,
}

/// Opens what is durable and puts the farm together.
pub(crate) fn restart(
    state: &mut StateDir,
    (decisions, segment_bytes): (Decisions, u64),
    config: impl FnOnce(Epoch) -> Config,
    at_us: u64,
) -> Result<Restarted, SchedulerError> {
    if let (Some(later), false) = (state.farm.superseded, decisions.take_over) {
        return Err(SchedulerError::superseded(later, state.farm.epoch, state.path()));
    }
    let begun = Instant::now();
    let options = journal::Options {
        salvage: decisions.salvage,
        expected_epoch: state.farm.epoch.0,
        segment_bytes,
        ..Default::default()
    };
    let (mut journal, notes) = Journal::open(state.path(), state.farm.id, &options)?;
    state.notes.extend(notes);
    let (mut checkpoint, saved) = open_checkpoint(state, &journal, decisions)?;
    let known = state.farm.superseded.map_or(0, |later| later.0);
    let epoch = Epoch(state.farm.epoch.0.max(journal.last_epoch()).max(known) + 1);
    let config = config(epoch);
    let mut restoring = Restoring::new(config.clone(), at_us);
    let mut after = 0;
    if let Some(saved) = saved {
        match apply_state(&mut restoring, &saved.state) {
            Ok(()) => after = saved.sequence,
            Err(why) => {
                let opened = checkpoint.discard(&why)?;
                state.notes.extend(opened.notes);
                checkpoint = opened.checkpoint;
                restoring = Restoring::new(config, at_us);
            }
        }
    }
    let folder = state.file("outputs");
    let outputs_error = |e| SchedulerError::State(format!("{} cannot be used: {e}", folder.display()));
    // The ledger gives no outputs again: what lies before it was synced.
    let retired = journal.retired();
    let mut outputs =
        OutputStore::open(&folder, state.farm.id, retired, journal.last_sequence()).map_err(outputs_error)?;
    let (replayed, written) = replay(&journal, after, &mut restoring, &mut outputs)?;
    written.map_err(outputs_error)?;
    // Before anything is sent: a scheduler of this epoch exists.
    let sequence = journal.last_sequence() + 1;
    let mut body = Vec::new();
    let record = Record::Epoch { epoch, at_us };
    record.encode(&mut body);
    let raised = journal.append(epoch.0, sequence, record.kind(), &body).and_then(|()| journal.commit());
    raised.map_err(|e| SchedulerError::State(format!("the journal cannot be written: {e}; make room")))?;
    state.raise_epoch(epoch)?;
    let farm = restoring.finish(sequence, at_us);
    let jobs = farm.jobs(at_us).iter().map(|job| job.id).collect::<HashSet<JobId>>();
    if epoch.0 > 1 {
        state.notes.push(format!(
            "epoch {}: {} jobs, {replayed} records after the checkpoint, in {:.3} s",
            epoch.0,
            jobs.len(),
            begun.elapsed().as_secs_f64()
        ));
    }
    outputs.retain_only(&jobs).map_err(outputs_error)?;
    state.notes.extend(outputs.take_notes());
    Ok(Restarted { farm, journal, checkpoint, outputs })
}

/// Gives the farm the records after `after`, and the outputs all that the journal has: files may have been lost since the
/// checkpoint. Says how many the farm got, and whether the outputs could be written.
fn replay(
    journal: &Journal,
    after: u64,
    restoring: &mut Restoring,
    outputs: &mut OutputStore,
) -> Result<(u64, io::Result<()>), SchedulerError> {
    let (mut replayed, mut unwritten) = (0, None);
    let done = journal.replay(after.min(journal.retired()), &mut |framed| {
        let record = if framed.sequence > after {
            replayed += 1;
            apply(framed, restoring)?
        } else {
            decode(framed)?
        };
        outputs.take(framed.sequence, &record).map_err(|e| unwritten.insert(e).to_string())
    });
    if let Some(e) = unwritten {
        return Ok((replayed, Err(e)));
    }
    outputs.is_replayed();
    done.map(|()| (replayed, Ok(())))
}

/// The checkpoint, if it fits the journal.
fn open_checkpoint(
    state: &mut StateDir,
    journal: &Journal,
    decisions: Decisions,
) -> Result<(Checkpoint, Option<Saved>), SchedulerError> {
    let Opened { checkpoint, saved, notes } = Checkpoint::open(&state.file("checkpoint"), journal.retired())?;
    state.notes.extend(notes);
    let (last, seen) = (journal.last_sequence(), saved.as_ref().map_or(0, |saved| saved.sequence));
    if seen <= last {
        return Ok((checkpoint, saved));
    }
    if !decisions.salvage {
        return Err(SchedulerError::State(format!(
            "{}: the journal ends at record {last}, and the checkpoint has seen record {seen}: acknowledged records \
             are gone. Restore the directory from a copy, or give up what is missing with --salvage",
            state.path().display(),
        )));
    }
    let opened = checkpoint.discard("it is ahead of the journal")?;
    state.notes.extend(opened.notes);
    Ok((opened.checkpoint, None))
}

/// Applies a record of the journal to the farm, and returns it.
pub(crate) fn apply(framed: &Frame<'_>, restoring: &mut Restoring) -> Result<Record, String> {
    let record = decode(framed)?;
    restoring.apply(&record).map_err(|why| format!("record {}: {why}", framed.sequence))?;
    Ok(record)
}

fn decode(&Frame { sequence, kind, body, .. }: &Frame<'_>) -> Result<Record, String> {
    Record::decode(kind, body)
        .map_err(|_| format!("record {sequence} of kind {kind} cannot be read: a newer starfarm wrote it"))
}

/// The records of a checkpoint as bytes: length u32, kind u8, body, one after another.
pub(crate) fn encode_state(records: &[Record]) -> Vec<u8> {
    let mut state = Vec::new();
    for record in records {
        let head = state.len();
        state.extend_from_slice(&[0; 4]);
        state.push(record.kind());
        record.encode(&mut state);
        let length = (state.len() - head - 4) as u32;
        state[head..head + 4].copy_from_slice(&length.to_le_bytes());
    }
    state
}

fn apply_state(restoring: &mut Restoring, state: &[u8]) -> Result<(), String> {
    let mut rest = Reader(state);
    while !rest.0.is_empty() {
        let record = next_record(&mut rest).map_err(|_| "its records cannot be read")?;
        restoring.apply(&record)?;
    }
    Ok(())
}

fn next_record(rest: &mut Reader<'_>) -> Result<Record, Malformed> {
    let length = rest.u32()? as usize;
    let mut body = Reader(rest.bytes(length)?);
    Record::decode(body.u8()?, body.0)
}
