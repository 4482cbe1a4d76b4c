//! The checkpoint thread: saves the farm's state now and then, so that a restart need not read the whole
//! journal, and lets go of journal segments that are no longer needed for that. It may take its time: nobody
//! waits for it, and the journal has everything.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use starfarm_events::Event;
use starfarm_net::say;
use starfarm_scheduler_core::{Record, Trace, Traced};

use super::{House, Input, stop_if_gone, stop_with};
use crate::error::SchedulerError;
use crate::restart;
use crate::store::Trouble;
use crate::store::checkpoint::Checkpoint;
use crate::store::journal::Retirer;
use crate::store::outputs::{DueNote, OutputStore};
use crate::store::state::StateDir;

/// What the records are asked, all that were handed on before.
pub(crate) enum LookUp {
    /// Who computed what?
    Trace(Trace),
    /// The number and the hash of all hits that the job of this certificate had by its end are to stand in it.
    Certify(Box<Event>),
}

pub(crate) struct Snapshot {
    pub(crate) sequence: u64,
    pub(crate) records: Vec<Record>,
}

/// Runs until nobody can send a snapshot any more. Records are read again here, since no segment may be rewritten meanwhile.
pub(crate) fn run(
    snapshots: &Receiver<Snapshot>,
    lookups: &Receiver<LookUp>,
    mut checkpoint: Checkpoint,
    retirer: &Retirer,
    house: &House,
    dispatcher: &Sender<Input>,
) {
    loop {
        let Snapshot { sequence, records } = crossbeam_channel::select! {
            recv(snapshots) -> snapshot => match snapshot {
                Ok(snapshot) => snapshot,
                Err(_) => return,
            },
            recv(lookups) -> first => {
                let (mut traces, mut certificates) = (Vec::new(), Vec::new());
                for lookup in first.into_iter().chain(lookups.try_iter()) {
                    match lookup {
                        LookUp::Trace(asked) => traces.push(asked),
                        LookUp::Certify(event) => certificates.push(event),
                    }
                }
                if !traces.is_empty() {
                    trace(&traces, retirer, dispatcher);
                }
                certificates.into_iter().for_each(|event| certify(event, retirer, dispatcher));
                continue;
            }
        };
        let begun = Instant::now();
        let state = restart::encode_state(&records);
        drop(records);
        // Outputs up to here are not given again by a replay.
        let synced = sync(&house.outputs, |file| file.sync_all());
        synced.unwrap_or_else(|e| stop(&house.state, &e.to_string()));
        house
            .outputs
            .lock()
            .expect("a panic under the lock ends the process")
            .take_notes()
            .iter()
            .for_each(|note| say(note));
        let noted = note(&house.outputs, DueNote::save);
        let is_saved = is_done(&house.state, noted.and_then(|()| checkpoint.save(sequence, &state)));
        if is_saved {
            let (bytes, took_us) = (state.len() as u64, begun.elapsed().as_micros() as u64);
            // Where the dispatcher is gone nobody watches any more.
            let saved = Event::Checkpointed { record: sequence, bytes, took_us };
            let _ = dispatcher.send(Input::Event(Box::new(saved)));
            is_done(
                &house.state,
                retirer.retire(sequence).map_err(|trouble| {
                    let words = format!("old segments of the journal cannot be rewritten: {}", trouble.words);
                    Trouble { words, ..trouble }
                }),
            );
        }
    }
}

/// Tells the dispatcher who computed what. Where nobody can say that any more, what was counted stays.
fn trace(asked: &[Trace], retirer: &Retirer, dispatcher: &Sender<Input>) {
    let answers = retirer.trace(asked).unwrap_or_else(|why| {
        say(&format!("nobody can say what nodes that are not trusted computed, so it still counts: {why}"));
        let nodes = asked.iter().filter_map(|trace| match trace {
            Trace::Missed { .. } => None,
            Trace::Node(node) => Some(Traced::Node(*node, Vec::new())),
        });
        nodes.collect()
    });
    for traced in answers {
        let _ = dispatcher.send(Input::Traced(traced));
    }
}

/// Tells of a certificate once it has the number and the hash of all hits.
fn certify(mut certificate: Box<Event>, retirer: &Retirer, dispatcher: &Sender<Input>) {
    let Event::Certificate { job, hits, hits_hash, .. } = &mut *certificate else {
        unreachable!("it is a certificate")
    };
    let known = retirer.hits_at_end(*job).and_then(|listing| {
        let unreadable = |e| SchedulerError::State(format!("the list of hits cannot be read: {e}"));
        Ok((listing.hits(), listing.hash().map_err(unreadable)?))
    });
    match known {
        Ok(known) => {
            (*hits, *hits_hash) = known;
            let _ = dispatcher.send(Input::Event(certificate));
        }
        Err(why) => say(&format!("the log lacks the certificate of job {}: {why}", job.0)),
    }
}

/// Whether it was done. Where it could not be just now, what is there stays and a restart reads more: that is all.
fn is_done(state_dir: &StateDir, outcome: Result<(), Trouble>) -> bool {
    match outcome {
        Err(trouble) if trouble.passing => {
            say(&format!("{}; the farm goes on, the next one is due by and by", trouble.words));
            false
        }
        Err(trouble) => stop(state_dir, &trouble.words),
        Ok(()) => true,
    }
}

fn stop(state_dir: &StateDir, why: &str) -> ! {
    stop_if_gone(state_dir);
    stop_with(&format!(
        "the checkpoint or the ledger cannot be written: {why}. Nothing that was acknowledged is lost. Make room, or \
         repair the disk, then start the scheduler again with the same --state"
    ))
}

/// Syncs the outputs. The lock, which acknowledgements wait for, is held for as long as it takes to say what is due.
fn sync(outputs: &Mutex<OutputStore>, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let files = outputs.lock().expect("a panic under the lock ends the process").unsynced()?;
    files.iter().try_for_each(|file| sync(file))
}

/// Saves the note on outputs, where it has changed; without holding the lock.
fn note(outputs: &Mutex<OutputStore>, save: impl Fn(&DueNote) -> Result<(), Trouble>) -> Result<(), Trouble> {
    let due = outputs.lock().expect("a panic under the lock ends the process").due_note();
    let Some(due) = due else { return Ok(()) };
    save(&due)?;
    outputs.lock().expect("a panic under the lock ends the process").is_saved(&due);
    Ok(())
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, JobId};
    use starfarm_scheduler_core::NodeId;

    use super::*;
    use crate::store::outputs::tests::{Scratch, units};

    #[test]
    fn acknowledgements_do_not_wait_for_a_checkpoint_that_syncs_the_outputs() {
        let scratch = Scratch::new("lock");
        let outputs = Mutex::new(scratch.open(0));
        outputs.lock().unwrap().append(1, JobId(1), (Attempt(1), NodeId(1)), &units(1)).unwrap();
        let synced = std::cell::Cell::new(0);
        let look = |_: &File| {
            synced.set(synced.get() + 1);
            drop(outputs.try_lock().expect("nobody holds it while the disk is busy"));
            Ok(())
        };
        sync(&outputs, look).unwrap();
        assert_eq!(synced.take(), 2, "the job's file and the directory");
        sync(&outputs, look).unwrap();
        assert_eq!(synced.take(), 0, "nothing was written since");
    }

    #[test]
    fn the_note_on_outputs_is_saved_when_it_has_changed_and_nobody_waits_for_it() {
        let scratch = Scratch::new("note");
        let outputs = Mutex::new(scratch.open(0));
        let saved = std::cell::Cell::new(0);
        let save = |due: &DueNote| {
            saved.set(saved.get() + 1);
            drop(outputs.try_lock().expect("nobody holds it while the disk is busy"));
            due.save()
        };
        note(&outputs, save).unwrap();
        assert_eq!(saved.take(), 1, "there was none");
        let again = Record::Retried { job: JobId(1), units: vec![(4, 6)] };
        outputs.lock().unwrap().take(1, &again).unwrap();
        note(&outputs, save).unwrap();
        assert_eq!(saved.take(), 0, "that job has no outputs");
        outputs.lock().unwrap().append(2, JobId(1), (Attempt(1), NodeId(1)), &units(1)).unwrap();
        let full = |_: &DueNote| Err(Trouble::passing("no room".into()));
        note(&outputs, full).unwrap_err();
        note(&outputs, save).unwrap();
        note(&outputs, save).unwrap();
        assert_eq!(saved.take(), 1, "once it can be");
        outputs.lock().unwrap().take(3, &again).unwrap();
        note(&outputs, save).unwrap();
        assert_eq!(saved.take(), 1);
        outputs.lock().unwrap().delete(JobId(1)).unwrap();
        note(&outputs, save).unwrap();
        assert_eq!(saved.take(), 1);
    }
}
