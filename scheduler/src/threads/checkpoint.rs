//! The checkpoint thread: saves the farm's state now and then, so that a restart need not read the whole
//! journal, and lets go of journal segments that are no longer needed for that. It may take its time: nobody
//! waits for it, and the journal has everything.

use std::sync::{Arc, Mutex};

use crossbeam_channel::Receiver;
use starfarm_scheduler_core::Record;

use super::stop_with;
use crate::checkpoint::Checkpoint;
use crate::journal::Retirer;
use crate::outputs::OutputStore;
use crate::restart;

/// A state of the farm.
pub(crate) struct Snapshot {
    /// The last record in it.
    pub(crate) sequence: u64,
    /// What gives it again.
    pub(crate) records: Vec<Record>,
}

/// Runs until nobody can send a snapshot any more.
pub(crate) fn run(
    snapshots: &Receiver<Snapshot>,
    mut checkpoint: Checkpoint,
    retirer: &mut Retirer,
    outputs: &Arc<Mutex<OutputStore>>,
) {
    while let Ok(Snapshot { sequence, records }) = snapshots.recv() {
        let state = restart::encode_state(&records);
        // Outputs up to here are not given again by a replay.
        let synced = outputs.lock().expect("a panic under the lock ends the process").sync_all();
        let saved = synced
            .map_err(|e| e.to_string())
            .and_then(|()| checkpoint.save(sequence, &state).map_err(|e| e.to_string()))
            .and_then(|()| retirer.retire(sequence).map_err(|e| e.to_string()));
        if let Err(why) = saved {
            stop_with(&format!(
                "the checkpoint or the ledger cannot be written: {why}. Nothing that was acknowledged is lost. Make room, or \
                 repair the disk, then start the scheduler again with the same --state"
            ));
        }
    }
}
