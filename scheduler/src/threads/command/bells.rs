//! Bells of jobs: whoever waits for a job hangs up one, and the dispatcher rings those of the jobs whose state changed
//! in a turn. Nobody else wakes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::Record;
use tokio::sync::watch;

/// The bells of all jobs that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    jobs: Mutex<HashMap<JobId, watch::Sender<()>>>,
}

pub(crate) struct Bell {
    bells: Arc<Bells>,
    job: JobId,
    rung: watch::Receiver<()>,
}

impl Bells {
    /// A bell that is rung when that job is.
    pub(crate) fn hang(self: &Arc<Self>, job: JobId) -> Bell {
        let rung = self.jobs().entry(job).or_insert_with(|| watch::channel(()).0).subscribe();
        Bell { bells: Arc::clone(self), job, rung }
    }

    pub(crate) fn ring(&self, changed: impl IntoIterator<Item = JobId>) {
        let jobs = self.jobs();
        changed.into_iter().filter_map(|job| jobs.get(&job)).for_each(|bell| bell.send_replace(()));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.jobs().len()
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, watch::Sender<()>>> {
        self.jobs.lock().expect("a panic under the lock ends the process")
    }
}

impl Bell {
    /// Returns once the bell was rung after it was hung up, or after the call before.
    pub(crate) async fn rung(&mut self) {
        self.rung.changed().await.expect("the sender lives as long as one who waits");
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut jobs = self.bells.jobs();
        if jobs.get(&self.job).is_some_and(|bell| bell.receiver_count() == 1) {
            jobs.remove(&self.job);
        }
    }
}

/// The job whose bell is rung for a record: it has ended or has another state. Nothing else ends a wait.
pub(crate) fn rings(record: &Record) -> Option<JobId> {
    match record {
        Record::Ended(ended) => Some(ended.job),
        Record::State { job, .. } => Some(*job),
        _ => None,
    }
}
