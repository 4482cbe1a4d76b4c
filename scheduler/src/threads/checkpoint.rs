//! The checkpoint thread: says what is durable. In this version records are kept in memory alone, so it
//! confirms each batch at once; outputs of commands go to their packed files. A write that fails stops
//! the process: what was promised could not be kept.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender};
use starfarm_scheduler_core::Record;

use super::Input;
use crate::outputs::OutputStore;
use crate::state::StateDir;

/// Runs until the dispatcher is gone.
pub(crate) fn run(
    records: &Receiver<Vec<(u64, Record)>>,
    state: &StateDir,
    outputs: &Arc<Mutex<OutputStore>>,
    dispatcher: &Sender<Input>,
) {
    while let Ok(batch) = records.recv() {
        let Some(&(last, _)) = batch.last() else { continue };
        for (sequence, record) in &batch {
            match record {
                Record::Ran { job, attempt, node, units } => {
                    let mut outputs = outputs.lock().expect("a panic under the lock ends the process");
                    outputs.append(*sequence, *job, *attempt, *node, units).unwrap_or_else(|e| {
                        panic!("outputs of job {} cannot be written: {e}; make room and start again", job.0)
                    });
                }
                Record::Submitted(facts) => {
                    let job = facts.job.0;
                    state.save_last_job(job).unwrap_or_else(|e| panic!("{e}; make room and start again"));
                }
                _ => {}
            }
        }
        // The dispatcher stops by itself; then nobody needs to know.
        let _ = dispatcher.send(Input::Durable(last));
    }
}
